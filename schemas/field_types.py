"""The fields of our schemas as typed values: tables and files of every kind take their columns from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushgram.schemas.avro_schemas import Definition

TIMESTAMP = "timestamp"
"""Milliseconds since 1970, as Avro's timestamp-millis has them."""


@dataclass(frozen=True)
class FieldType:
    """One of Avro's types, or `timestamp`. An array has `items`, a record `fields`, and a fixed its `size`."""

    kind: str
    nullable: bool = False
    items: FieldType | None = None
    fields: tuple[Field, ...] = ()
    size: int | None = None


@dataclass(frozen=True)
class Field:
    name: str
    type: FieldType
    doc: str = ""


def fields_of(definition: Definition) -> tuple[Field, ...]:
    """The fields of a record, in their order.

    >>> from hushgram.schemas.avro_schemas import SNAPSHOT
    >>> [(field.name, field.type.kind, field.type.nullable) for field in fields_of(SNAPSHOT)[:3]]
    [('collection', 'string', False), ('group', 'string', True), ('window_start', 'timestamp', False)]
    """
    return _fields(definition.parsed)


def _fields(record: dict[str, Any]) -> tuple[Field, ...]:
    return tuple(Field(field["name"], _type(field["type"]), field.get("doc", "")) for field in record["fields"])


def _type(avro: Any, nullable: bool = False) -> FieldType:
    if isinstance(avro, list):  # all our unions are of null and something else
        return _type(avro[1], nullable=True)
    if isinstance(avro, str):
        return FieldType(avro, nullable)
    if avro.get("logicalType") == "timestamp-millis":
        return FieldType(TIMESTAMP, nullable)
    if avro["type"] == "array":
        return FieldType("array", nullable, items=_type(avro["items"]))
    if avro["type"] == "record":
        return FieldType("record", nullable, fields=_fields(avro))
    return FieldType(avro["type"], nullable, size=avro.get("size"))
