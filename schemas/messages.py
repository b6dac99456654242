"""Single messages, as they travel on a topic: Avro's single-object encoding, one at a time or a whole poll at once."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np

from hushgram.arrays import IntArray
from schemas.columns import ReportColumns, decode, decode_one_by_one, from_records
from schemas.container import DamagedError
from schemas.definitions import BY_FINGERPRINT, REPORT, REPORT_BATCH, Definition
from schemas.records import Reason

MARKER = b"\xc3\x01"
PREFIX = len(MARKER) + 8


LARGEST_MESSAGE = 1 << 22
"""A message of more bytes is refused unread. Brokers take a quarter of this unless told otherwise."""


@dataclass(frozen=True)
class Refused:
    """A message that is none of ours: its place in the poll, the reason, what exactly is wrong, and how many reports it
    stands for, where that can be known."""

    index: int
    reason: Reason
    detail: str
    reports: int | None = None


def encode_message(definition: Definition, record: Mapping[str, Any]) -> bytes:
    """One record as a message: two marker bytes, the schema's fingerprint, the record."""
    stream = io.BytesIO()
    stream.write(MARKER + definition.fingerprint)
    fastavro.schemaless_writer(stream, definition.parsed, dict(record))
    return stream.getvalue()


def decode_message(message: bytes) -> tuple[Definition, dict[str, Any]]:
    """The record in a message, of whichever of our schemas."""
    definition = _definition_of(message)
    writer = definition.versions[message[len(MARKER) : PREFIX]]
    return definition, decode_one_by_one(definition, writer, 1, message[PREFIX:])[0]


def decode_reports(messages: Sequence[bytes | None]) -> tuple[list[tuple[IntArray, ReportColumns]], list[Refused]]:
    """The reports of a whole poll as columns, by schema, each with its messages' places; and what cannot be used.

    The bodies of one schema's messages, joined, are one Avro block. Every record must end where its message does; if
    one does not, a damaged body has shifted those after it, and the poll is decoded message by message.
    """
    refused: list[Refused] = []
    places: dict[bytes, list[int]] = {prefix: [] for prefix in BY_PREFIX}
    for index, message in enumerate(messages):
        same = places.get(message[:PREFIX]) if message is not None else None
        if message is None or same is None or len(message) > LARGEST_MESSAGE:
            refused.append(_unusable(index, message))
        else:
            same.append(index)
    decoded = []
    for prefix, indices in places.items():
        if not indices:
            continue
        definition = BY_PREFIX[prefix]
        bodies = [messages[index][PREFIX:] for index in indices]  # type: ignore[index]  # None has no definition
        columns, kept = _decode_bodies(definition, bodies, indices, refused)
        if kept:
            decoded.append((np.array(kept, dtype=np.int64), columns))
    return decoded, refused


def _decode_bodies(
    definition: Definition, bodies: Sequence[bytes], indices: list[int], refused: list[Refused]
) -> tuple[ReportColumns, list[int]]:
    lengths = np.array([len(body) for body in bodies], dtype=np.int64)
    try:
        return decode(definition, definition.parsed, len(bodies), b"".join(bodies), lengths), indices
    except DamagedError:
        kept, records = [], []
        for index, body in zip(indices, bodies, strict=True):
            try:
                [record] = decode_one_by_one(definition, definition.parsed, 1, body)
                from_records(definition, [record])
            except DamagedError as error:
                refused.append(Refused(index, "undecodable", str(error), 1 if definition.counts_reports else None))
            else:
                kept.append(index)
                records.append(record)
        return from_records(definition, records), kept


def _unusable(index: int, message: bytes | None) -> Refused:
    if message is None:
        return Refused(index, "undecodable", "a message without a value")
    if len(message) > LARGEST_MESSAGE:
        return Refused(index, "too_large", f"{len(message)} bytes, allowed: {LARGEST_MESSAGE}")
    try:
        return Refused(index, "unknown_schema", f"a {_definition_of(message).name} is no report")
    except DamagedError as error:
        return Refused(index, "undecodable", str(error))


def _definition_of(message: bytes) -> Definition:
    if message[: len(MARKER)] != MARKER or len(message) < PREFIX:
        raise DamagedError("no single-object message: it does not begin with C3 01 and a fingerprint")
    definition = BY_FINGERPRINT.get(message[len(MARKER) : PREFIX])
    if definition is None:
        raise DamagedError(f"unknown schema fingerprint {message[len(MARKER) : PREFIX].hex()}")
    return definition


BY_PREFIX = {MARKER + definition.fingerprint: definition for definition in (REPORT, REPORT_BATCH)}
"""Reports by the bytes that their messages begin with."""
