"""Schemas that are not ours: older and newer ones, and records that were written with them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.framing import frame
from hushgram.schemas.messages import MARKER
from hushgram.transforms.schema_registry import RegistryClient


def with_field(text: str, field: dict[str, Any]) -> str:
    """A schema with a field more, at the end."""
    schema = json.loads(text)
    return json.dumps({**schema, "fields": [*schema["fields"], field]})


NEWER = with_field(REPORT.text, {"name": "battery", "type": ["null", "int"], "default": None})
"""A Report as it may be one day."""


def older_report() -> str:
    """A Report as it would be, had groups been added later."""
    schema = json.loads(REPORT.text)
    return json.dumps({**schema, "fields": [part for part in schema["fields"] if part["name"] != "group"]})


def encode_foreign(text: str, record: dict[str, Any]) -> bytes:
    """The bytes of a record, by the schema that a producer has."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, json.loads(text), record)
    return stream.getvalue()


def frames_of(client: RegistryClient) -> dict[bytes, bytes]:
    """By the beginning of a message in the single-object encoding, the one that names the same schema by its id."""
    return {
        MARKER + fingerprint: frame(client.id_of(definition, version))
        for definition in (REPORT, REPORT_BATCH)
        for fingerprint, version in definition.versions.items()
    }
