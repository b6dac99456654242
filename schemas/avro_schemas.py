"""The schemas themselves: one text for each record, parsed once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import chain
from typing import Any

import fastavro.schema

from hushgram.schemas.records import LATER_FIELDS
from hushgram.schemas.window_key import EVENT_FIELDS


@dataclass(frozen=True)
class Definition:
    """A record's schema, as it is written in its .avsc file."""

    file: str
    counts_reports: bool = False
    """Whether each record is one report."""
    additions: tuple[tuple[str, ...], ...] = ()
    """The fields that each version since the first has added."""

    @property
    def added(self) -> tuple[str, ...]:
        """The fields that version 1 did not have."""
        return tuple(chain.from_iterable(self.additions))

    @cached_property
    def text(self) -> str:
        return resources.files("hushgram.schemas").joinpath(self.file).read_text(encoding="utf-8")

    @cached_property
    def parsed(self) -> dict[str, Any]:
        parsed = fastavro.schema.parse_schema(json.loads(self.text))
        assert isinstance(parsed, dict)
        return parsed

    def text_of(self, version: dict[str, Any] | None = None) -> str:
        """The text of one of the `versions`, by default the last, as it is registered: with the documentation.

        Registries compare texts, and serializers take no white space at their ends along.
        """
        if version is None or version is self.parsed:
            return self.text.strip()
        names, schema = field_names(version), json.loads(self.text)
        fields = [part for part in schema["fields"] if part["name"] in names]
        return json.dumps({**schema, "fields": fields}, indent=2)

    @cached_property
    def undated(self) -> dict[str, Any]:
        """The same without dates: a time is the number it is, and may lie outside the calendar."""
        return without_dates(self.parsed)

    @cached_property
    def name(self) -> str:
        return str(self.parsed["name"])

    @cached_property
    def canonical(self) -> str:
        """Avro's parsing canonical form: equal where the bytes mean the same."""
        return fastavro.schema.to_parsing_canonical_form(self.parsed)

    @cached_property
    def fingerprint(self) -> bytes:
        """The eight bytes by which a message names its schema (CRC-64-AVRO, little-endian)."""
        return _fingerprint(self.canonical)

    @cached_property
    def versions(self) -> dict[bytes, dict[str, Any]]:
        """By fingerprint, the schemas that messages of this kind were ever written with."""
        return {_fingerprint(canonical): schema for canonical, schema in self.canonical_versions.items()}

    @cached_property
    def canonical_versions(self) -> dict[str, dict[str, Any]]:
        """The same by canonical form, the first version first."""
        versions = {}
        for version in range(len(self.additions) + 1):
            later = set(chain.from_iterable(self.additions[version:]))
            fields = [part for part in self.parsed["fields"] if part["name"] not in later]
            schema = {**self.parsed, "fields": fields} if later else self.parsed
            versions[fastavro.schema.to_parsing_canonical_form(schema)] = schema
        return versions


def _fingerprint(canonical: str) -> bytes:
    return bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


def field_names(schema: dict[str, Any]) -> tuple[str, ...]:
    """The names of a record's fields, in their order."""
    return tuple(field["name"] for field in schema["fields"])


def without_dates(schema: Any) -> Any:
    """A schema without its logical types."""
    if isinstance(schema, dict):
        return {key: without_dates(part) for key, part in schema.items() if key != "logicalType"}
    return [without_dates(part) for part in schema] if isinstance(schema, list) else schema


REPORT = Definition("report.avsc", counts_reports=True)
REPORT_BATCH = Definition("report_batch.avsc", additions=(("ids",),))
HISTOGRAM = Definition("histogram.avsc", additions=(EVENT_FIELDS, ("key",)))
SNAPSHOT = Definition("snapshot.avsc", additions=((*EVENT_FIELDS, *LATER_FIELDS[0]), *LATER_FIELDS[1:]))
DEAD_LETTER = Definition("dead_letter.avsc")

REPORT_KINDS = {definition.name: definition for definition in (REPORT, REPORT_BATCH)}
BY_FINGERPRINT = {
    fingerprint: definition
    for definition in (REPORT, REPORT_BATCH, HISTOGRAM, SNAPSHOT, DEAD_LETTER)
    for fingerprint in definition.versions
}
