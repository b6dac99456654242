"""Schemas that are not ours: older and newer ones, and records that were written with them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from hushgram.schemas.avro_schemas import REPORT


def with_field(text: str, field: dict[str, Any]) -> str:
    """A schema with a field more, at the end."""
    schema = json.loads(text)
    return json.dumps({**schema, "fields": [*schema["fields"], field]})


def older_report() -> str:
    """A Report as it would be, had groups been added later."""
    schema = json.loads(REPORT.text)
    return json.dumps({**schema, "fields": [part for part in schema["fields"] if part["name"] != "group"]})


def encode_foreign(text: str, record: dict[str, Any]) -> bytes:
    """The bytes of a record, by the schema that a producer has."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, json.loads(text), record)
    return stream.getvalue()
