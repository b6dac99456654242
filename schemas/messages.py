"""Single messages, as they travel on a topic: Avro's single-object encoding, one at a time or a whole poll at once."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np

from hushgram.arrays import IntArray
from schemas.columns import ReportColumns, decode, decode_one_by_one
from schemas.container import DamagedError
from schemas.definitions import BY_FINGERPRINT, REPORT, REPORT_BATCH, Definition

MARKER = b"\xc3\x01"
PREFIX = len(MARKER) + 8


@dataclass(frozen=True)
class Refused:
    """A message that is none of ours: its place in the poll, the reason, and what exactly is wrong."""

    index: int
    reason: str
    detail: str


def encode_message(definition: Definition, record: Mapping[str, Any]) -> bytes:
    """One record as a message: two marker bytes, the schema's fingerprint, the record."""
    stream = io.BytesIO()
    stream.write(MARKER + definition.fingerprint)
    fastavro.schemaless_writer(stream, definition.parsed, dict(record))
    return stream.getvalue()


def decode_message(message: bytes) -> tuple[Definition, dict[str, Any]]:
    """The record in a message, of whichever of our schemas."""
    definition = _definition_of(message)
    return definition, decode_one_by_one(definition, definition.parsed, 1, message[PREFIX:])[0]


def decode_reports(
    messages: Sequence[bytes],
) -> tuple[list[tuple[Definition, IntArray, ReportColumns]], list[Refused]]:
    """The reports of a whole poll as columns, by schema, each with its messages' places; and what cannot be used.

    The bodies of one schema's messages, joined, are one Avro block. Every record must end where its message does; if
    one does not, a damaged body has shifted those after it, and the poll is decoded message by message.
    """
    refused: list[Refused] = []
    places: dict[Definition, list[int]] = {REPORT: [], REPORT_BATCH: []}
    for index, message in enumerate(messages):
        try:
            definition = _definition_of(message)
        except DamagedError as error:
            refused.append(Refused(index, "undecodable", str(error)))
            continue
        if definition in places:
            places[definition].append(index)
        else:
            refused.append(Refused(index, "unknown_schema", f"a {definition.name} is no report"))
    decoded = []
    for definition, indices in places.items():
        if indices:
            columns, kept = _decode_bodies(definition, messages, indices, refused)
            if kept:
                decoded.append((definition, np.array(kept, dtype=np.int64), columns))
    return decoded, refused


def _decode_bodies(
    definition: Definition, messages: Sequence[bytes], indices: list[int], refused: list[Refused]
) -> tuple[ReportColumns, list[int]]:
    bodies = [messages[index][PREFIX:] for index in indices]
    lengths = np.array([len(body) for body in bodies], dtype=np.int64)
    try:
        return decode(definition, definition.parsed, len(bodies), b"".join(bodies), lengths), indices
    except DamagedError:
        kept, good = [], []
        for index, body in zip(indices, bodies, strict=True):
            try:
                decode_one_by_one(definition, definition.parsed, 1, body)
            except DamagedError as error:
                refused.append(Refused(index, "undecodable", str(error)))
            else:
                kept.append(index)
                good.append(body)
        return decode(definition, definition.parsed, len(good), b"".join(good)), kept


def _definition_of(message: bytes) -> Definition:
    if message[: len(MARKER)] != MARKER or len(message) < PREFIX:
        raise DamagedError("no single-object message: it does not begin with C3 01 and a fingerprint")
    definition = BY_FINGERPRINT.get(message[len(MARKER) : PREFIX])
    if definition is None:
        raise DamagedError(f"unknown schema fingerprint {message[len(MARKER) : PREFIX].hex()}")
    return definition
