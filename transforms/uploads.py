"""Accepted uploads as columns, and the bytes that they travel in to the shard of their id.

An upload is one report, or one batch that counts as a whole.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hushgram._arrays import BoolArray, IntArray, UIntArray
from hushgram._native import NUMBER, POINTER, address, function
from hushgram.schemas.columns import ID_BYTES

SHARDS = 32
"""Uploads of one shard are held in memory at once; more shards mean less memory, and more and smaller pieces."""

NUMBERS = "collection", "revision", "group", "event_time", "sizes", "cells"
HEADER = struct.Struct("<QQq")
COLUMN = struct.Struct("<qB")

_order = function("hushgram_order", POINTER, NUMBER, ctypes.c_uint16, POINTER, POINTER)
_spread = function("hushgram_spread", *(POINTER,) * 3, ctypes.c_uint64, ctypes.c_int, POINTER, POINTER, NUMBER, POINTER)
_spread_ids = function("hushgram_spread_ids", POINTER, POINTER, POINTER, NUMBER, POINTER)


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

    @cached_property
    def is_single(self) -> bool:
        """Whether each is one report."""
        return bool((self.sizes == 1).all())

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

    @property
    def by_id(self) -> tuple[Uploads, Uploads]:
        """Those with an id, and those without."""
        if self.has_id.all():  # as a rule
            return self, self.between(0, 0)
        return self.take(self.has_id), self.take(~self.has_id)

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


def pieces(parts: Sequence[Uploads], received: int, count: int = SHARDS) -> Iterator[tuple[int, bytes]]:
    """Uploads that all have an id, as bytes for the way to their shards; and when they were received.

    Ids are random, so their last bits spread them evenly. A column is its least number and how far each is above it, in
    as few bytes as that takes, and in none where all are equal: engines copy these bytes many times.
    """
    sharded = [_Sharded.of(part, count) for part in parts]
    rows, cells = (np.sum([getattr(part, name) for part in sharded], axis=0) for name in ("rows", "cells"))
    bounds = {name: _bounds([getattr(part, name) for part in parts]) for name in NUMBERS}
    sizes = {name: width * (cells if name == "cells" else rows) for name, (_, width) in bounds.items()}
    lengths = HEADER.size + ID_BYTES * rows + sum(COLUMN.size + size for size in sizes.values())
    ends, filled = np.cumsum(np.where(rows, lengths, 0)), np.flatnonzero(rows).tolist()
    data = np.empty(int(ends[-1]), np.uint8)
    at = ends - lengths
    for shard in filled:
        HEADER.pack_into(data.data, at[shard], rows[shard], cells[shard], received)
    at += HEADER.size
    places = address(data, np.uint8) + at
    for part in sharded:
        part.spread_ids(address(places))
    at += ID_BYTES * rows
    for name, (least, width) in bounds.items():
        for shard in filled:
            COLUMN.pack_into(data.data, at[shard], least, width)
        at += COLUMN.size
        places = address(data, np.uint8) + at
        for part in sharded if width else ():
            part.spread(name, least, width, address(places))
        at += sizes[name]
    for shard in filled:
        yield shard, data[ends[shard] - lengths[shard] : ends[shard]].tobytes()


def _bounds(columns: Sequence[IntArray]) -> tuple[int, int]:
    """The least of all numbers, and how many bytes it takes to say how far each is above it: none if all are equal."""
    bounds = [(int(column.min()), int(column.max())) for column in columns if column.size]
    if not bounds:
        return 0, 0
    least, greatest = min(low for low, _ in bounds), max(high for _, high in bounds)
    return least, np.min_scalar_type(greatest - least).itemsize if greatest > least else 0


@dataclass(frozen=True)
class _Sharded:
    """Uploads, and how to put them in the order of their shards."""

    uploads: Uploads
    order: npt.NDArray[np.uint32]
    ends: IntArray
    """Where in this order each shard ends."""

    @classmethod
    def of(cls, uploads: Uploads, shards: int) -> _Sharded:
        if uploads.cells.size != uploads.reports or (not uploads.is_single and (uploads.sizes < 0).any()):
            raise ValueError("sizes that are not those of the cells")
        order, ends = np.empty(len(uploads), np.uint32), np.empty(shards, np.int64)
        _order(address(uploads.id, np.uint64), len(uploads), shards, address(order, np.uint32), address(ends))
        return cls(uploads, order, ends)

    @cached_property
    def rows(self) -> IntArray:
        """How many uploads each shard has."""
        return np.diff(self.ends, prepend=0)

    @property
    def cells(self) -> IntArray:
        """How many cells each shard has."""
        if self.uploads.is_single:
            return self.rows
        return np.diff(np.append(0, np.cumsum(self.uploads.sizes[self.order]))[self.ends], prepend=0)

    @cached_property
    def _in_order(self) -> tuple[int, int, int]:
        """The order, the ends and the number of shards, as C takes them."""
        return address(self.order, np.uint32), address(self.ends), self.ends.size

    def spread_ids(self, places: int) -> None:
        """Writes ids to the places of their shards, which move behind them."""
        _spread_ids(address(self.uploads.id, np.uint64), *self._in_order, places)

    def spread(self, name: str, least: int, width: int, places: int) -> None:
        """Writes a column: how far each number is above the least, in some bytes."""
        numbers, sizes = address(getattr(self.uploads, name)), self.uploads.sizes
        if name == "cells" and not self.uploads.is_single:
            starts = np.cumsum(sizes) - sizes
            _spread(numbers, address(starts), address(sizes), least, width, *self._in_order, places)
        else:
            _spread(numbers, None, None, least, width, *self._in_order, places)


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
