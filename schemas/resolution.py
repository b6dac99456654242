"""The schema that a producer wrote with, as a registry gives it: one of ours, or one that is resolved into ours.

Whoever may register a schema may register any. So it is taken only if what it describes can be read in time and memory
that the size of a message bounds: a type that contains itself could be nested as deep as a message is long, and an
array of what takes no bytes could have any number of items.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import fastavro

from hushgram.schemas.avro_schemas import REPORT_KINDS, Definition, without_dates
from hushgram.schemas.columns import canonical_form

LARGEST_SCHEMA = 1 << 16
"""Characters. Ours have fewer than a tenth."""
MOST_PARTS = 1000
"""Fields, and fields of fields, however often a named type is repeated."""
PRIMITIVE_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class Writer(NamedTuple):
    """One of our records, and the schema that it was written with."""

    definition: Definition
    schema: dict[str, Any]
    """Without dates, unless it is one of ours."""
    is_ours: bool = False
    """Whether the schema is one of ours, so that a whole poll is decoded at once."""


class UnusableSchemaError(Exception):
    """Why no report can have been written with a schema, or why it is not tried."""


def parse_writer(text: str) -> Writer:
    """The schema of a report or of a batch of them, from its text.

    >>> from hushgram.schemas.avro_schemas import REPORT
    >>> parse_writer(REPORT.text).definition.name
    'hushgram.Report'
    >>> parse_writer('"long"')
    Traceback (most recent call last):
    hushgram.schemas.resolution.UnusableSchemaError: no record
    """
    if len(text) > LARGEST_SCHEMA:
        raise UnusableSchemaError(f"a schema of {len(text):,} characters, allowed: {LARGEST_SCHEMA:,}")
    try:
        return _writer(fastavro.parse_schema(json.loads(text)))
    except (KeyboardInterrupt, SystemExit, MemoryError, UnusableSchemaError):
        raise
    except Exception as error:  # fastavro raises what its parts happen to raise, and nesting ends in a RecursionError
        raise UnusableSchemaError(f"no Avro schema: {type(error).__name__} {error}"[:200]) from None


def _writer(parsed: Any) -> Writer:
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise UnusableSchemaError("no record")
    definition = REPORT_KINDS.get(str(parsed["name"]))
    if definition is None:
        raise UnusableSchemaError(f"records of {str(parsed['name'])[:80]!r}")
    for field in parsed["fields"]:
        if field["name"] == "event_time":
            _check_time(field["type"])
    ours = definition.canonical_versions.get(canonical_form(parsed))
    if ours is not None:
        return Writer(definition, ours, is_ours=True)
    _weigh(parsed, {}, 0)
    return Writer(definition, without_dates(parsed))


def _check_time(kind: Any) -> None:
    """That a time is in milliseconds, or does not say: resolution takes any other number for these."""
    for part in kind if isinstance(kind, list) else [kind]:
        unit = part.get("logicalType") if isinstance(part, dict) else None
        if unit not in (None, "timestamp-millis"):
            raise UnusableSchemaError(f"an event_time of {str(unit)[:80]!r}, allowed: 'timestamp-millis'")


class _Weight(NamedTuple):
    """Of a type: the least bytes of a value, and how many parts it has at most."""

    least: int
    parts: int


OPEN = _Weight(-1, -1)
"""The weight of a type that is being weighed: whoever asks for it is inside."""


def _weigh(schema: Any, named: dict[str, _Weight], depth: int) -> _Weight:
    """The weight of a parsed schema; `named` has those of the types that have a name."""
    if depth > MOST_PARTS // 10:
        raise UnusableSchemaError("types that are nested too deep")
    if isinstance(schema, str):
        return _weight_of_name(schema, named)
    if isinstance(schema, list):
        parts = [_weigh(part, named, depth + 1) for part in schema]
        return _bounded(1 + min((part.least for part in parts), default=0), 1 + sum(part.parts for part in parts))
    kind = schema["type"]
    if kind in ("array", "map"):
        item = _weigh(schema["items" if kind == "array" else "values"], named, depth + 1)
        if item.least < 1 or item.parts > 1:
            raise UnusableSchemaError(f"a field of type {kind} whose items are no plain values")
        return _Weight(1, 2)
    if kind in ("record", "error"):
        named[schema["name"]] = OPEN
        parts = [_weigh(field["type"], named, depth + 1) for field in schema["fields"]]
        weight = _bounded(sum(part.least for part in parts), 1 + sum(part.parts for part in parts))
    elif kind == "fixed":
        size = schema["size"]
        if type(size) is not int or size < 0:
            raise UnusableSchemaError(f"a fixed type of size {str(size)[:80]!r}")
        weight = _Weight(size, 1)
    elif kind == "enum":
        weight = _Weight(1, 1)
    else:  # a primitive type with properties, such as a logical type
        return _weigh(kind, named, depth + 1)
    named[schema["name"]] = weight
    return weight


def _weight_of_name(name: str, named: dict[str, _Weight]) -> _Weight:
    if name in PRIMITIVE_BYTES:
        return _Weight(PRIMITIVE_BYTES[name], 1)
    weight = named.get(name)
    if weight is None or weight is OPEN:
        raise UnusableSchemaError(f"a type {name[:80]!r} that contains itself")
    return weight


def _bounded(least: int, parts: int) -> _Weight:
    if parts > MOST_PARTS:
        raise UnusableSchemaError(f"more than {MOST_PARTS} fields")
    return _Weight(least, parts)
