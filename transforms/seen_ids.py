"""Ids that have come before, in sorted arrays: exact, and twenty bytes an id.

Devices choose their ids, so a table of hashes would be as slow as the worst of them want it. The order of the ids
themselves has no such case: every search is a bisection.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import compress
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, IntArray, UIntArray
from hushgram.schemas.columns import ID_BYTES

SlotArray = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]

CHUNK_IDS = 1 << 16
EXPIRY = struct.Struct("<q")
RATIO = 8
"""Each array is longer than the next by at least this factor: few are searched, and an id is seldom copied."""
LEAST = 1024
"""Shorter arrays are not kept apart: a search in one takes longer than copying it."""
FEW = 128
"""So few ids are looked up faster one by one."""
RECENT = 1024
"""So many ids at most are held as objects, each of which takes the memory of several in an array."""


def sort_ids(ids: UIntArray) -> IntArray:
    """The order in which ids rise; equal ones stay in theirs."""
    high, low = ids[:, 0], ids[:, 1]
    order = np.argsort(high)
    if (np.diff(high[order]) == 0).any():  # seldom, and sorting by both takes several times as long
        order = np.lexsort((low, high))
    return order


@dataclass(frozen=True)
class SortedIds:
    """Ids in rising order, by their first half and then by their second; and a number that each carries along."""

    high: UIntArray
    low: UIntArray
    slot: SlotArray

    @classmethod
    def of_sorted(cls, ids: UIntArray, slots: SlotArray) -> SortedIds:
        return cls(np.ascontiguousarray(ids[:, 0]), np.ascontiguousarray(ids[:, 1]), slots)

    @classmethod
    def of(cls, ids: UIntArray, slots: SlotArray) -> SortedIds:
        order = sort_ids(ids)
        return cls.of_sorted(ids.take(order, axis=0), slots[order])

    def __len__(self) -> int:
        return self.high.size

    @property
    def ids(self) -> UIntArray:
        return np.stack([self.high, self.low], axis=1)

    def take(self, rows: BoolArray) -> SortedIds:
        return SortedIds(self.high[rows], self.low[rows], self.slot[rows])

    def find(self, high: UIntArray, low: UIntArray) -> tuple[IntArray, BoolArray]:
        """Where some ids stand in the order, or would stand, and which of them are here."""
        places = self.high.searchsorted(high)
        found = self.high.take(places, mode="clip") == high
        if np.count_nonzero(found):
            rows = np.flatnonzero(found)
            places[rows] = at = self._bisect(places[rows], high[rows], low[rows])
            at = at.clip(max=len(self) - 1)
            found[rows] = (self.high[at] == high[rows]) & (self.low[at] == low[rows])
        return places, found

    def _bisect(self, start: IntArray, high: UIntArray, low: UIntArray) -> IntArray:
        """The places of ids among those with the same first half, which begin at `start`."""
        end = self.high.searchsorted(high, side="right")
        while (is_open := start < end).any():
            middle = (start + end) // 2
            is_above = is_open & (self.low.take(middle, mode="clip") < low)
            start, end = np.where(is_above, middle + 1, start), np.where(is_open & ~is_above, middle, end)
        return start

    def merge(self, others: SortedIds) -> SortedIds:
        """These ids and some others, which are best the fewer."""
        places = self.find(others.high, others.low)[0] + np.arange(len(others))
        is_own = np.ones(len(self) + len(others), dtype=bool)
        is_own[places] = False

        def column(own: Any, other: Any) -> Any:
            merged = np.empty(is_own.size, dtype=own.dtype)
            merged[is_own], merged[places] = own, other
            return merged

        return SortedIds(column(self.high, others.high), column(self.low, others.low), column(self.slot, others.slot))


class SeenIds:
    """Ids by the time, in milliseconds, from which a duplicate would be too old to be counted anyway.

    These times are rounded up to a multiple of `grain`, so that there are few of them. As bytes, ids are chunks: an
    expiry and the ids that share it, in any number of chunks and any order.
    """

    def __init__(self, grain: int, chunks: Iterable[bytes] = ()) -> None:
        self.grain = grain
        self._slots: dict[int, int] = {}
        """A number for each expiry."""
        self._arrays: list[SortedIds] = []
        self._recent: dict[bytes, int] = {}
        """The last ids that came a few at a time, and their slots."""
        parts, slots = list[UIntArray](), list[SlotArray]()
        for chunk in chunks:
            parts.append(_pairs(chunk[EXPIRY.size :]))
            slots.append(np.full(len(parts[-1]), self._slot(*EXPIRY.unpack_from(chunk)), dtype=np.uint32))
        if parts:
            self._keep(SortedIds.of(np.concatenate(parts), np.concatenate(slots)))

    def __len__(self) -> int:
        return sum(map(len, self._arrays)) + len(self._recent)

    @property
    def next_expiry(self) -> int | None:
        return min(self._slots, default=None)

    def add(self, ids: UIntArray, expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        """Which of some uploads' ids, two numbers each, come for the first time, and the chunks to keep them in."""
        return self._add_few(ids, expiries) if len(ids) <= FEW else self._add_many(ids, expiries)

    def _add_few(self, ids: UIntArray, expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        is_known = np.zeros(len(ids), dtype=bool)
        for array in self._arrays:
            is_known |= array.find(ids[:, 0], ids[:, 1])[1]
        is_new, new_by_expiry = list[bool](), dict[int, list[bytes]]()
        rounded = (-(-expiries // self.grain) * self.grain).tolist()
        for one, expiry, known in zip(_objects(ids), rounded, is_known.tolist(), strict=True):
            is_new.append(not known and one not in self._recent)
            if is_new[-1]:
                self._recent[one] = self._slot(expiry)
                new_by_expiry.setdefault(expiry, []).append(one)
        if len(self._recent) > RECENT:
            self._settle()
        chunks = [chunk for expiry, new in new_by_expiry.items() for chunk in _chunks(expiry, b"".join(new))]
        return np.array(is_new, dtype=bool), chunks

    def _add_many(self, ids: UIntArray, expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        self._settle()
        order = sort_ids(ids)  # stable: of equal ids the first stays first
        ordered = SortedIds.of_sorted(ids.take(order, axis=0), np.empty(order.size, dtype=np.uint32))
        is_new = np.ones(order.size, dtype=bool)
        is_new[1:] = (ordered.high[1:] != ordered.high[:-1]) | (ordered.low[1:] != ordered.low[:-1])
        for array in self._arrays:
            is_new &= ~array.find(ordered.high, ordered.low)[1]
        rounded, chunks = (-(-expiries // self.grain) * self.grain)[order], list[bytes]()
        for expiry in np.unique(rounded[is_new]).tolist():
            rows = is_new & (rounded == expiry)
            ordered.slot[rows] = self._slot(expiry)
            chunks += _chunks(expiry, _bytes(ordered.take(rows).ids))
        if chunks:
            self._keep(ordered.take(is_new))
        came_new = np.empty_like(is_new)
        came_new[order] = is_new
        return came_new, chunks

    def _slot(self, expiry: int) -> int:
        return self._slots.setdefault(expiry, len(self._slots))

    def _settle(self) -> None:
        """Recent ids become an array."""
        if self._recent:
            ids, slots = _pairs(b"".join(self._recent)), np.fromiter(self._recent.values(), dtype=np.uint32)
            self._recent = {}
            self._keep(SortedIds.of(ids, slots))

    def _keep(self, new: SortedIds) -> None:
        while self._arrays and len(self._arrays[-1]) < RATIO * max(len(new), LEAST):
            new = self._arrays.pop().merge(new)
        self._arrays.append(new)

    def forget(self, now: int) -> None:
        """Drop what has expired by a time."""
        is_kept = np.array([expiry > now for expiry in self._slots], dtype=bool)
        if is_kept.all():
            return
        self._settle()
        kept = [array.take(is_kept[array.slot]) for array in self._arrays]
        self._slots = {expiry: slot for slot, expiry in enumerate(compress(self._slots, is_kept))}
        self._arrays = []
        if self._slots:
            all_kept = reduce(SortedIds.merge, sorted(kept, key=len, reverse=True))
            slots = (np.cumsum(is_kept) - 1).astype(np.uint32)[all_kept.slot]
            self._arrays.append(replace(all_kept, slot=slots))

    def chunks(self) -> Iterator[bytes]:
        """All of it, in as few chunks as may be."""
        self._settle()
        for expiry, slot in self._slots.items():
            ids = [array.take(array.slot == slot).ids for array in self._arrays]
            yield from _chunks(expiry, _bytes(np.concatenate(ids)))


def _chunks(expiry: int, joined: bytes) -> Iterator[bytes]:
    size = ID_BYTES * CHUNK_IDS
    for start in range(0, len(joined), size):
        yield EXPIRY.pack(expiry) + joined[start : start + size]


def _bytes(ids: UIntArray) -> bytes:
    return ids.astype("<u8", copy=False).tobytes()


def _objects(ids: UIntArray) -> list[bytes]:
    return np.frombuffer(_bytes(ids), dtype=f"V{ID_BYTES}").tolist()


def _pairs(joined: bytes) -> UIntArray:
    return np.frombuffer(joined, dtype="<u8").astype(np.uint64, copy=False).reshape(-1, 2)
