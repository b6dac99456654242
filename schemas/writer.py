"""Reports written as columns: the bytes that a record-by-record writer would make, a hundred thousand at a time."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hushgram._arrays import IntArray
from hushgram.schemas.avro_schemas import REPORT, Definition
from hushgram.schemas.columns import Labels
from hushgram.schemas.container import SYNC_SIZE, write_header, write_long
from hushgram.schemas.messages import MARKER

Octets = npt.NDArray[np.uint8]
SEVENS = 2 ** np.arange(7, 64, 7, dtype=np.uint64)


def encode_reports(
    collection: str, revision: str, cells: IntArray, event_times: IntArray, group: Labels, ids: Octets | None = None
) -> bytes:
    """The body of a block of Reports of one collection and revision; `ids` has sixteen bytes for each."""
    return _encode(collection, revision, cells, event_times, group, ids)[0]


def encode_report_messages(
    collection: str, revision: str, cells: IntArray, event_times: IntArray, group: Labels, ids: Octets | None = None
) -> list[bytes]:
    """The same Reports, each as a message."""
    body, lengths = _encode(collection, revision, cells, event_times, group, ids)
    prefix, ends = MARKER + REPORT.fingerprint, np.cumsum(lengths).tolist()
    return [prefix + body[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def pack_batch(
    collection: str,
    revision: str,
    cells: IntArray,
    width: int,
    event_time: int,
    group: str | None = None,
    ids: Octets | None = None,
) -> dict[str, Any]:
    """A ReportBatch of cells that take `width` bytes each, as the record that `encode_message` takes.

    `ids` has a row of sixteen bytes for each cell; a batch whose reports have none may be given one `id` for all.

    >>> ids = np.arange(32, dtype=np.uint8).reshape(2, 16)
    >>> batch = pack_batch("commute", "bee7fcbcb7cce993", np.array([3, 500]), 2, 1_767_225_600_000, "DE", ids)
    >>> batch["cells"], batch["ids"].hex()
    (b'\\x03\\x00\\xf4\\x01', '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f')
    """
    if cells.size and not 0 <= int(cells.min()) <= int(cells.max()) < 256**width:
        raise ValueError(f"cells: got {int(cells.min())} to {int(cells.max())}, allowed: what {width} bytes hold")
    if ids is not None and ids.shape != (cells.size, 16):
        raise ValueError(f"ids: got an array of shape {ids.shape}, allowed: ({cells.size}, 16), a row for each cell")
    return {
        "collection": collection,
        "revision": bytes.fromhex(revision),
        "cells": cells.astype(f"<u{width}").tobytes(),
        "event_time": event_time,
        "group": group,
        "id": None,
        "ids": None if ids is None else ids.astype(np.uint8, copy=False).tobytes(),
    }


def _encode(
    collection: str, revision: str, cells: IntArray, event_times: IntArray, group: Labels, ids: Octets | None
) -> tuple[bytes, IntArray]:
    """The records end to end, and how long each is."""
    name = collection.encode()
    start = np.frombuffer(write_long(len(name)) + name + bytes.fromhex(revision), dtype=np.uint8)
    labels = [_nullable(label) for label in group.names]
    group_lengths = np.array([label.size for label in labels], dtype=np.int64)[group.codes]
    cell_lengths, time_lengths = long_lengths(cells), long_lengths(event_times)
    lengths = start.size + cell_lengths + time_lengths + group_lengths + (1 if ids is None else 17)

    at = np.cumsum(lengths) - lengths
    body = np.empty(int(lengths.sum()), dtype=np.uint8)
    body[at[:, None] + np.arange(start.size)] = start
    at = at + start.size
    _put_longs(body, at, cells, cell_lengths)
    at = at + cell_lengths
    _put_longs(body, at, event_times, time_lengths)
    at = at + time_lengths
    for code, label in enumerate(labels):
        body[at[group.codes == code][:, None] + np.arange(label.size)] = label
    at = at + group_lengths
    if ids is None:
        body[at] = 0
    else:
        body[at] = 2
        body[at[:, None] + 1 + np.arange(16)] = ids
    return body.tobytes(), lengths


def _nullable(label: str | None) -> Octets:
    """The branch of the union, and the text if there is one."""
    text = b"" if label is None else label.encode()
    return np.frombuffer(b"\x00" if label is None else b"\x02" + write_long(len(text)) + text, dtype=np.uint8)


def long_lengths(values: IntArray) -> IntArray:
    """How many bytes Avro takes for each number."""
    if values.size == 0:
        return np.zeros(0, dtype=np.int64)
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    # Lengths in a column differ little, so a comparison for each that occurs is faster than a search for each number.
    shortest, longest = np.searchsorted(SEVENS, [zigzag.min(), zigzag.max()], side="right")
    lengths = np.full(values.size, shortest + 1)
    for least in SEVENS[shortest:longest]:
        lengths += zigzag >= least
    return lengths


def _put_longs(body: Octets, at: IntArray, values: IntArray, lengths: IntArray) -> None:
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    for place in range(int(lengths.max(initial=0))):
        rows = lengths > place
        more = (lengths[rows] > place + 1) * np.uint8(0x80)
        seven = (zigzag[rows] >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        body[at[rows] + place] = seven | more


def write_container(
    stream: BinaryIO, definition: Definition, blocks: Iterable[tuple[int, bytes]], compressed: bool = True
) -> None:
    """A file of blocks (records, body), compressed with deflate or not at all."""
    sync = secrets.token_bytes(SYNC_SIZE)
    stream.write(write_header(definition.text, "deflate" if compressed else "null", sync))
    for count, body in blocks:
        data = _deflate(body) if compressed else body
        stream.write(write_long(count) + write_long(len(data)) + data + sync)


def _deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()
