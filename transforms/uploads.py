"""Accepted uploads as columns, and the bytes that they travel in to the shard of their id.

An upload is one report, or one batch that counts as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, IntArray, UIntArray

SHARDS = 32
"""Uploads of one shard are held in memory at once; more shards mean less memory, and more and smaller pieces."""

NUMBERS = "collection", "revision", "group", "event_time", "sizes", "cells"
LARGE_UPLOAD = 100
"""In cells, on average: larger uploads are moved one by one, smaller ones cell by cell."""
HEADER = struct.Struct("<QQq")
COLUMN = struct.Struct("<qB")


@dataclass(frozen=True)
class Uploads:
    """Accepted uploads: numbers in the plan's order, -1 for no group, and the cells of all uploads end to end."""

    collection: IntArray
    revision: IntArray
    group: IntArray
    event_time: IntArray
    has_id: BoolArray
    id: UIntArray
    sizes: IntArray
    cells: IntArray

    @property
    def reports(self) -> int:
        return int(self.sizes.sum())

    def __len__(self) -> int:
        return self.sizes.size

    @property
    def weight(self) -> int:
        """What bounds their memory: cells, or uploads where those are more, since a batch may have no cell."""
        return max(self.reports, len(self))

    @classmethod
    def together(cls, parts: Sequence[Uploads]) -> Uploads:
        """All uploads of several parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def take(self, rows: BoolArray) -> Uploads:
        """The uploads of some rows."""
        if rows.all():
            return self
        return Uploads(**self._rows(np.flatnonzero(rows)), cells=self.cells[np.repeat(rows, self.sizes)])

    def take_apart(self, rows: BoolArray, ids: UIntArray) -> Uploads:
        """Each report of some rows as an upload of its own, with its id; `ids` has those of all these rows in order."""
        counts = np.where(rows, self.sizes, 1)
        columns = self._rows(np.repeat(np.arange(len(self)), counts))
        of_rows = np.repeat(rows, counts)
        columns["id"][of_rows] = ids
        columns["has_id"] |= of_rows
        columns["sizes"][of_rows] = 1
        return Uploads(**columns, cells=self.cells)

    def cells_of(self, rows: IntArray, cells: IntArray) -> IntArray:
        """The cells of some rows, one row after the other; `cells` are those of all, in whatever type."""
        if (self.sizes == 1).all():  # single reports: each row is its cell
            return cells.take(rows)
        ends = np.cumsum(self.sizes)
        if len(cells) < LARGE_UPLOAD * len(self):
            sizes = self.sizes[rows]
            within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            return cells.take(np.repeat((ends - self.sizes)[rows], sizes) + within)
        parts = np.split(cells, ends[:-1])  # views; of many cells each, copied as one
        return np.concatenate([parts[row] for row in rows.tolist()])

    def between(self, start: int, end: int) -> Uploads:
        """The uploads of consecutive rows, without copying."""
        first = int(self.sizes[:start].sum())
        rows = {name: column[start:end] for name, column in self._columns()}
        return Uploads(**rows, cells=self.cells[first : first + int(rows["sizes"].sum())])

    def _rows(self, places: IntArray) -> dict[str, Any]:
        # `take` copies an id as a whole; an index would go number by number.
        return {name: column.take(places, axis=0) for name, column in self._columns()}

    def _columns(self) -> Iterator[tuple[str, Any]]:
        """All but the cells, of which an upload may have any number."""
        return ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "cells")


def pieces(uploads: Uploads, received: int, count: int = SHARDS) -> Iterator[tuple[int, bytes]]:
    """Uploads that all have an id, as bytes for the way to their shards; and when they were received.

    Ids are random, so their last bits spread them evenly. A column is its least number and how far each is above it, in
    as few bytes as that takes, and in none where all are equal: engines copy these bytes many times.
    """
    # Sixteen bits, since numpy sorts these in a time that does not grow faster than their number.
    shard = uploads.id[:, 1].astype(np.uint16) % np.uint16(count)
    order = np.argsort(shard, kind="stable")
    # `take` copies an id as a whole; an index would go number by number.
    ids = uploads.id.astype("<u8", copy=False).take(order, axis=0)
    # Narrowed first, since fewer bytes are put in order sooner.
    columns = {name: _narrowed(getattr(uploads, name)) for name in NUMBERS}
    in_order = {name: offsets.take(order) for name, (_, width, offsets) in columns.items() if width and name != "cells"}
    if columns["cells"][1]:
        in_order["cells"] = uploads.cells_of(order, columns["cells"][2])
    row_ends = np.cumsum(np.bincount(shard, minlength=count))
    least, width, _ = columns["sizes"]
    cell_ends = np.append(0, np.cumsum(uploads.sizes[order]))[row_ends] if width else least * row_ends
    row = cell = 0
    for number, row_end, cell_end in zip(range(count), row_ends.tolist(), cell_ends.tolist(), strict=True):
        if row == row_end:
            continue
        packed: list[bytes | memoryview] = [
            HEADER.pack(row_end - row, cell_end - cell, received),
            ids[row:row_end].data,
        ]
        for name, (least, width, _) in columns.items():
            part = slice(cell, cell_end) if name == "cells" else slice(row, row_end)
            packed += COLUMN.pack(least, width), in_order[name][part].data if width else b""
        yield number, b"".join(packed)
        row, cell = row_end, cell_end


def _narrowed(column: IntArray) -> tuple[int, int, IntArray]:
    """A column's least number, and the offsets from it, in `width` bytes each, which are none if all are zero."""
    least, greatest = (int(column.min()), int(column.max())) if column.size else (0, 0)
    width = np.min_scalar_type(greatest - least).itemsize if greatest > least else 0
    return least, width, (column - least).astype(f"<u{width}") if width else column


def ids_of(data: bytes) -> UIntArray:
    """The ids of a piece, without unpacking it."""
    rows, _, _ = HEADER.unpack_from(data)
    return np.frombuffer(data, "<u8", 2 * rows, HEADER.size).reshape(-1, 2)


def unpack(data: bytes) -> tuple[Uploads, int]:
    """The uploads of a piece, and when they were received."""
    rows, cells, received = HEADER.unpack_from(data)
    ids = ids_of(data)
    at = HEADER.size + ids.nbytes
    columns: dict[str, Any] = {}
    for name in NUMBERS:
        least, width = COLUMN.unpack_from(data, at)
        at += COLUMN.size
        size = cells if name == "cells" else rows
        if width:
            columns[name] = np.frombuffer(data, f"<u{width}", size, at).astype(np.int64)
            if least:
                columns[name] += least
            at += width * size
        else:
            columns[name] = np.full(size, least, dtype=np.int64)
    return Uploads(**columns, id=ids, has_id=np.ones(rows, dtype=bool)), received
