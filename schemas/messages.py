"""Single messages, as they travel on a topic, one at a time or a whole poll at once.

They are in Avro's single-object encoding, which names the schema by its fingerprint, or name it by an id that a
registry knows.
"""

from __future__ import annotations

import io
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import numpy as np

from hushgram._arrays import IntArray
from hushgram.schemas.avro_schemas import BY_FINGERPRINT, REPORT, REPORT_BATCH, Definition
from hushgram.schemas.columns import ReportColumns, decode_each, decode_one_by_one, resolve_each
from hushgram.schemas.container import DamagedError
from hushgram.schemas.framing import FRAME, frame, id_of_frame
from hushgram.schemas.records import Reason
from hushgram.schemas.resolution import Writer

MARKER = b"\xc3\x01"
PREFIX = len(MARKER) + 8
FIRST_BATCH = next(iter(REPORT_BATCH.versions))
"""The fingerprint of version 1 of a batch."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST_MESSAGE = 1 << 22
"""A message of more bytes is refused unread. By default brokers take a quarter of this."""


Decoded = tuple[IntArray, ReportColumns]


@dataclass(frozen=True)
class RefusedMessage:
    """A message that is none of ours: its place in the poll, the reason, what exactly is wrong, and how many reports it
    stands for, where that can be known."""

    index: int
    reason: Reason
    detail: str
    reports: int | None = None


@dataclass(frozen=True)
class Unusable:
    """Why messages that name a schema are refused: nobody knows it, or it is none of a report."""

    reason: Reason
    detail: str


Lookup = Callable[[bytes], Writer | Unusable]
"""What a registry has under an id, with the byte that an id begins with."""


def encode_message(
    definition: Definition, record: Mapping[str, Any], version: bytes | None = None, schema_id: int | None = None
) -> bytes:
    """One record as a message: two marker bytes, the schema's fingerprint, the record.

    Given the fingerprint of an earlier version, as that has it: without the fields that came later. Given the id of the
    schema in a registry, framed by that instead.
    """
    fingerprint = definition.fingerprint if version is None else version
    stream = io.BytesIO()
    stream.write(MARKER + fingerprint if schema_id is None else frame(schema_id))
    fastavro.schemaless_writer(stream, definition.versions[fingerprint], dict(record))
    return stream.getvalue()


def reframe(message: bytes, frames: Mapping[bytes, bytes]) -> bytes:
    """A message in the single-object encoding with another beginning, by the one that it has.

    >>> reframe(MARKER + REPORT.fingerprint + b"record", {MARKER + REPORT.fingerprint: frame(7)}).hex(" ", 1)
    '00 00 00 00 07 72 65 63 6f 72 64'
    """
    return frames[message[:PREFIX]] + message[PREFIX:]


def encode_report(record: Mapping[str, Any]) -> bytes:
    """A Report or ReportBatch, given as a dict, as a message; `DamagedError` if it is neither.

    `revision`, `id`, `cells` and `ids` may be hexadecimal text, and `event_time` a time with a zone. Numbers may be
    numpy's. Other entries are left out. A batch without `ids` is of version 1, as devices write it.

    >>> message = encode_report({"collection": "c", "revision": "bee7fcbcb7cce993", "cell": 3, "event_time": 0})
    >>> decode_message(message)[1]["cell"]
    3
    """
    try:
        batch = "cells" in record
        if batch == ("cell" in record):
            raise DamagedError("a record with both cell and cells, or neither, allowed: one of them")
        plain = {
            "collection": _text("collection", record.get("collection")),
            "revision": _octets("revision", record.get("revision"), 8),
            "event_time": _time("event_time", record.get("event_time")),
            "group": None if record.get("group") is None else _text("group", record["group"]),
            "id": None if record.get("id") is None else _octets("id", record["id"], 16),
        }
        if batch:
            plain["cells"] = _octets("cells", record["cells"])
            if record.get("ids") is None:
                return encode_message(REPORT_BATCH, plain, FIRST_BATCH)
            return encode_message(REPORT_BATCH, {**plain, "ids": _octets("ids", record["ids"])})
        return encode_message(REPORT, {**plain, "cell": _integer("cell", record["cell"])})
    except (DamagedError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as error:  # a record may hold anything, such as text that is no Unicode
        raise DamagedError(f"a record that cannot be encoded: {type(error).__name__} {error}"[:200]) from None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise DamagedError(f"{name}: got {_shown(value)}, allowed: text")
    return str(value)


def _octets(name: str, value: object, size: int | None = None) -> bytes:
    try:
        octets = bytes.fromhex(value) if isinstance(value, str) else value
    except ValueError:
        octets = None
    octets = bytes(octets) if isinstance(octets, bytes | bytearray | memoryview) else None
    if octets is None or size not in (None, len(octets)):
        number = "" if size is None else f"{size} "
        raise DamagedError(f"{name}: got {_shown(value)}, allowed: {number}bytes, or their hexadecimal digits")
    return octets


def _integer(name: str, value: Any, allowed: str = "an integer of 64 bits") -> int:
    """An integer of Python or of numpy, as one of Python; true and false are none."""
    try:
        number = None if isinstance(value, bool | np.bool_) else int(operator.index(value))
    except TypeError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise DamagedError(f"{name}: got {_shown(value)}, allowed: {allowed}")
    return number


def _time(name: str, value: object) -> int:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - EPOCH) // timedelta(milliseconds=1)
    return _integer(name, value, "a time with a zone, or milliseconds since 1970")


def _shown(value: object) -> str:
    """Only the type of what a record holds: the value itself may be a person's, and dead letters are kept."""
    return "none" if value is None else f"a value of type {type(value).__name__}"


def decode_message(message: bytes) -> tuple[Definition, dict[str, Any]]:
    """The record in a message, of whichever of our schemas."""
    definition = _definition_of(message)
    writer = definition.versions[message[len(MARKER) : PREFIX]]
    return definition, decode_one_by_one(definition, writer, 1, message[PREFIX:])[0]


def decode_reports(
    messages: Sequence[bytes | None], schemas: Lookup | None = None, ids: Sequence[bytes | None] | None = None
) -> tuple[list[Decoded], list[RefusedMessage]]:
    """The reports of a whole poll as columns, by schema, each with its messages' places; and what cannot be used.

    `schemas` is asked once for each id that messages name; without it only those in the single-object encoding are
    read. `ids` are those in the headers of messages.
    """
    refused: list[RefusedMessage] = []
    kinds = _Kinds(schemas)
    alike, alike_by_name = kinds.by_beginning, kinds.by_name
    for index, message in enumerate(messages):
        named, same = None if ids is None else ids[index], None
        if message is not None:
            same = alike.get(message[:PREFIX]) if named is None else alike_by_name.get(named)
        if same is None and message is not None and len(message) <= LARGEST_MESSAGE:
            same = kinds.find(message, named)
        if message is None or same is None or len(message) > LARGEST_MESSAGE:
            refused.append(_unusable(index, message, kinds.unusable, named))
        else:
            same.append(index)
    decoded: list[Decoded] = []
    for writer, size, indices in kinds.all:
        if not indices:
            continue
        bodies = [messages[index][size:] for index in indices]  # type: ignore[index]  # None is of no kind
        columns, damaged = (
            decode_each(writer.schema, bodies)
            if writer.is_ours
            else resolve_each(writer.definition, writer.schema, bodies)
        )
        reports = 1 if writer.definition.counts_reports else None
        refused += [RefusedMessage(indices[place], "undecodable", detail, reports) for place, detail in damaged.items()]
        if len(columns):
            decoded.append((np.delete(np.array(indices, dtype=np.int64), list(damaged)), columns))
    return decoded, refused


class _Kinds:
    """The places of a poll's messages by the schema that they were written with, and how many bytes name it."""

    def __init__(self, schemas: Lookup | None) -> None:
        self.schemas = schemas
        self.all: list[tuple[Writer, int, list[int]]] = [(writer, PREFIX, []) for writer in BY_PREFIX.values()]
        self.by_beginning = {prefix: kind[2] for prefix, kind in zip(BY_PREFIX, self.all, strict=True)}
        self.by_name: dict[bytes, list[int]] = {}
        self.by_id: dict[tuple[bytes, int], list[int] | None] = {}
        self.unusable: dict[bytes, Unusable] = {}

    def find(self, message: bytes, named: bytes | None) -> list[int] | None:
        """The places of messages like this one, whose beginning is new, or whose header names an id."""
        schema_id, size = (id_of_frame(message), FRAME) if named is None else (named, 0)
        if schema_id is None or self.schemas is None:
            return None
        if (schema_id, size) not in self.by_id:
            found, places = self.schemas(schema_id), list[int]()
            if isinstance(found, Writer):
                self.all.append((found, size, places))
                self.by_id[schema_id, size] = places
            else:
                self.by_id[schema_id, size], self.unusable[schema_id] = None, found
        same = self.by_id[schema_id, size]
        if same is not None and named is not None:
            self.by_name[named] = same
        elif same is not None:
            # Records of one collection begin alike, so that few beginnings come here, and all others are found at once.
            self.by_beginning[message[:PREFIX]] = same
        return same


def _unusable(
    index: int, message: bytes | None, unusable: Mapping[bytes, Unusable], named: bytes | None
) -> RefusedMessage:
    if message is None:
        return RefusedMessage(index, "undecodable", "a message without a value")
    if len(message) > LARGEST_MESSAGE:
        return RefusedMessage(index, "too_large", f"{len(message)} bytes, allowed: {LARGEST_MESSAGE}")
    found = unusable.get(message[:FRAME] if named is None else named)
    if found is not None:
        return RefusedMessage(index, found.reason, found.detail)
    try:
        return RefusedMessage(index, "unknown_schema", f"a {_definition_of(message).name} is no report")
    except DamagedError as error:
        return RefusedMessage(index, "undecodable", str(error))


def _definition_of(message: bytes) -> Definition:
    if message[: len(MARKER)] != MARKER or len(message) < PREFIX:
        if id_of_frame(message) is not None:
            number = int.from_bytes(message[1:FRAME], "big")
            raise DamagedError(f"schema id {number} of a registry, or damaged; --schema-registry was not given")
        raise DamagedError("no single-object message: it does not begin with C3 01 and a fingerprint")
    definition = BY_FINGERPRINT.get(message[len(MARKER) : PREFIX])
    if definition is None:
        raise DamagedError(f"unknown schema fingerprint {message[len(MARKER) : PREFIX].hex()}")
    return definition


BY_PREFIX = {
    MARKER + fingerprint: Writer(definition, version, is_ours=True)
    for definition in (REPORT, REPORT_BATCH)
    for fingerprint, version in definition.versions.items()
}
"""Reports, and the version of their schema, by the bytes that their messages begin with."""
