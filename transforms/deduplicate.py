"""Uploads with an id, counted once: columns to the shard of their id, and there the first of each."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hushgram.arrays import IntArray
from schemas.columns import UIntArray
from schemas.records import DeadLetter
from transforms.uploads import Uploads

SHARDS = 32
"""Uploads of one shard are held in memory at once; more shards mean less memory, and more and smaller pieces."""

NUMBERS = "collection", "revision", "group", "event_time", "sizes", "cells"
HEADER = struct.Struct("<QQq")
COLUMN = struct.Struct("<qB")


def pieces(uploads: Uploads, received: int, count: int = SHARDS) -> Iterator[tuple[int, bytes]]:
    """Uploads that all have an id, as bytes for the way to their shards; and when they were received.

    Ids are random, so their last bits spread them evenly. A column is its least number and how far each is above it, in
    as few bytes as that takes, and in none where all are equal: engines copy these bytes many times.
    """
    # Of sixteen bits, since numpy sorts these in a time that does not grow faster than their number.
    shard = (uploads.id[:, 1] % np.uint64(count)).astype(np.uint16)
    order = np.argsort(shard, kind="stable")
    # `take` copies an id as a whole; an index would go number by number.
    ids = uploads.id.astype("<u8", copy=False).take(order, axis=0)
    columns = {
        name: _narrowed(getattr(uploads, name), uploads.cells_of(order) if name == "cells" else order)
        for name in NUMBERS
    }
    row_ends = np.cumsum(np.bincount(shard, minlength=count))
    cell_ends = np.append(0, np.cumsum(uploads.sizes[order]))[row_ends]
    row = cell = 0
    for number, row_end, cell_end in zip(range(count), row_ends.tolist(), cell_ends.tolist(), strict=True):
        if row == row_end:
            continue
        packed = [HEADER.pack(row_end - row, cell_end - cell, received), ids[row:row_end].tobytes()]
        for name, (least, width, offsets) in columns.items():
            mine = slice(cell, cell_end) if name == "cells" else slice(row, row_end)
            packed += COLUMN.pack(least, width), offsets[mine].tobytes()
        yield number, b"".join(packed)
        row, cell = row_end, cell_end


def _narrowed(column: IntArray, order: IntArray) -> tuple[int, int, IntArray]:
    """A column's least number, and in `order` the offsets from it in so many bytes each; none where all would be zero.

    Narrowed first, since fewer bytes are put in order sooner.
    """
    least, greatest = (int(column.min()), int(column.max())) if column.size else (0, 0)
    if least == greatest:
        return least, 0, column[:0]
    width = np.min_scalar_type(greatest - least).itemsize
    return least, width, (column - least).astype(f"<u{width}")[order]


NO_IDS: UIntArray = np.empty((0, 2), dtype=np.uint64)


def first_of_each_id(parts: Sequence[Uploads], known: UIntArray = NO_IDS) -> tuple[Uploads, Uploads]:
    """The uploads whose id comes for the first time, and the others; `known` ids have come before.

    Which of several uploads with one id comes first is not promised; that one of them counts is.
    """
    together = Uploads.together(parts)
    ids = np.concatenate([known, together.id]) if len(known) else together.id
    high, low = ids[:, 0], ids[:, 1]
    ordered = np.sort(low)
    if not (ordered[1:] == ordered[:-1]).any():  # most shards have no duplicate, and sorting one column is cheap
        return together, together.between(0, 0)
    order = np.lexsort((high, low))  # stable: of equal ids the known ones stay first
    same = (np.diff(low[order]) == 0) & (np.diff(high[order]) == 0)
    is_first = np.ones(len(ids), dtype=bool)
    is_first[order[1:]] = ~same
    is_first = is_first[len(known) :]
    return together.take(is_first), together.take(~is_first)


def duplicates(repeated: Uploads, received: int) -> DeadLetter:
    """The letter about uploads that have come before."""
    detail = f"{len(repeated)} uploads with an id that had come before"
    return DeadLetter("duplicate", repeated.reports, detail, "deduplication", None, received)


def unpack(data: bytes) -> tuple[Uploads, int]:
    """The uploads of a piece, and when they were received."""
    rows, cells, received = HEADER.unpack_from(data)
    ids = np.frombuffer(data, "<u8", 2 * rows, HEADER.size).reshape(-1, 2)
    at = HEADER.size + ids.nbytes
    columns: dict[str, Any] = {}
    for name in NUMBERS:
        least, width = COLUMN.unpack_from(data, at)
        at += COLUMN.size
        columns[name] = np.full(cells if name == "cells" else rows, least, dtype=np.int64)
        if width:
            columns[name] += np.frombuffer(data, f"<u{width}", columns[name].size, at).astype(np.int64)
            at += width * columns[name].size
    return Uploads(**columns, id=ids, has_id=np.ones(rows, dtype=bool)), received
