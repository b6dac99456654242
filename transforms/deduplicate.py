"""Uploads with an id, counted once: columns to the shard of their id, and there the first of each."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from schemas.records import DeadLetter
from transforms.uploads import Uploads

SHARDS = 32
"""Uploads of one shard are held in memory at once; more shards mean less memory, and more and smaller pieces."""

LAYOUT = {
    "collection": "<u2",
    "revision": "<u2",
    "group": "<i2",
    "event_time": "<i8",
    "id": "<u8",
    "sizes": "<u4",
    "cells": "<i8",
}
HEADER = struct.Struct("<QQq")


def shards(uploads: Uploads, count: int = SHARDS) -> Iterator[tuple[int, Uploads]]:
    """The uploads of each shard that has any. Ids are random, so their last bits spread them evenly."""
    shard = (uploads.id[:, 1] % np.uint64(count)).astype(np.int64)
    ordered = uploads.reordered(np.argsort(shard, kind="stable"))
    ends = np.cumsum(np.bincount(shard, minlength=count))
    for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        yield number, ordered.between(int(ends[number - 1]) if number else 0, int(ends[number]))


def first_of_each_id(parts: Sequence[Uploads]) -> tuple[Uploads, Uploads]:
    """The uploads whose id comes for the first time, and the others.

    Which of several uploads with one id comes first is not promised; that one of them counts is.
    """
    together = _concatenate(parts)
    high, low = together.id[:, 0], together.id[:, 1]
    ordered = np.sort(low)
    if not (ordered[1:] == ordered[:-1]).any():  # most shards have no duplicate, and sorting one column is cheap
        return together, together.between(0, 0)
    order = np.lexsort((high, low))
    same = (np.diff(low[order]) == 0) & (np.diff(high[order]) == 0)
    is_first = np.ones(len(together), dtype=bool)
    is_first[order[1:]] = ~same
    return together.take(is_first), together.take(~is_first)


def duplicates(repeated: Uploads, received: int) -> DeadLetter:
    """The letter about uploads that have come before."""
    detail = f"{len(repeated)} uploads with an id that had come before"
    return DeadLetter("duplicate", repeated.reports, detail, "deduplication", None, received)


def _concatenate(parts: Sequence[Uploads]) -> Uploads:
    columns = {field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Uploads)}
    return Uploads(**columns)


def pack(uploads: Uploads, received: int) -> bytes:
    """Columns of uploads that all have an id, as bytes for the way to their shard; and when they were received."""
    columns = [getattr(uploads, name).astype(kind).tobytes() for name, kind in LAYOUT.items()]
    return b"".join([HEADER.pack(len(uploads), uploads.cells.size, received), *columns])


def unpack(data: bytes) -> tuple[Uploads, int]:
    """The uploads that `pack` packed, and when they were received."""
    rows, cells, received = HEADER.unpack_from(data)
    at = HEADER.size
    columns: dict[str, Any] = {}
    for name, kind in LAYOUT.items():
        count = {"cells": cells, "id": 2 * rows}.get(name, rows)
        column = np.frombuffer(data, kind, count, at)
        at += column.nbytes
        columns[name] = column.reshape(-1, 2) if name == "id" else column.astype(np.int64)
    return Uploads(**columns, has_id=np.ones(rows, dtype=bool)), received
