"""Single messages, as they travel on a topic: Avro's single-object encoding, one at a time or a whole poll at once."""

from __future__ import annotations

import io
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import numpy as np

from hushgram._arrays import IntArray
from hushgram.schemas.avro_schemas import BY_FINGERPRINT, REPORT, REPORT_BATCH, Definition
from hushgram.schemas.columns import ReportColumns, decode_each, decode_one_by_one
from hushgram.schemas.container import DamagedError
from hushgram.schemas.records import Reason

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


def encode_message(definition: Definition, record: Mapping[str, Any], version: bytes | None = None) -> bytes:
    """One record as a message: two marker bytes, the schema's fingerprint, the record.

    Given the fingerprint of an earlier version, as that has it: without the fields that came later.
    """
    fingerprint = definition.fingerprint if version is None else version
    stream = io.BytesIO()
    stream.write(MARKER + fingerprint)
    fastavro.schemaless_writer(stream, definition.versions[fingerprint], dict(record))
    return stream.getvalue()


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
    messages: Sequence[bytes | None],
) -> tuple[list[Decoded], list[RefusedMessage]]:
    """The reports of a whole poll as columns, by schema, each with its messages' places; and what cannot be used."""
    refused: list[RefusedMessage] = []
    places: dict[bytes, list[int]] = {prefix: [] for prefix in BY_PREFIX}
    for index, message in enumerate(messages):
        same = places.get(message[:PREFIX]) if message is not None else None
        if message is None or same is None or len(message) > LARGEST_MESSAGE:
            refused.append(_unusable(index, message))
        else:
            same.append(index)
    decoded: list[Decoded] = []
    for prefix, indices in places.items():
        if not indices:
            continue
        definition, writer = BY_PREFIX[prefix]
        bodies = [messages[index][PREFIX:] for index in indices]  # type: ignore[index]  # None has no definition
        columns, damaged = decode_each(writer, bodies)
        for place, detail in damaged.items():
            refused.append(
                RefusedMessage(indices[place], "undecodable", detail, 1 if definition.counts_reports else None)
            )
        if len(columns):
            decoded.append((np.delete(np.array(indices, dtype=np.int64), list(damaged)), columns))
    return decoded, refused


def _unusable(index: int, message: bytes | None) -> RefusedMessage:
    if message is None:
        return RefusedMessage(index, "undecodable", "a message without a value")
    if len(message) > LARGEST_MESSAGE:
        return RefusedMessage(index, "too_large", f"{len(message)} bytes, allowed: {LARGEST_MESSAGE}")
    try:
        return RefusedMessage(index, "unknown_schema", f"a {_definition_of(message).name} is no report")
    except DamagedError as error:
        return RefusedMessage(index, "undecodable", str(error))


def _definition_of(message: bytes) -> Definition:
    if message[: len(MARKER)] != MARKER or len(message) < PREFIX:
        raise DamagedError("no single-object message: it does not begin with C3 01 and a fingerprint")
    definition = BY_FINGERPRINT.get(message[len(MARKER) : PREFIX])
    if definition is None:
        raise DamagedError(f"unknown schema fingerprint {message[len(MARKER) : PREFIX].hex()}")
    return definition


BY_PREFIX = {
    MARKER + fingerprint: (definition, version)
    for definition in (REPORT, REPORT_BATCH)
    for fingerprint, version in definition.versions.items()
}
"""Reports, and the version of their schema, by the bytes that their messages begin with."""
