"""Ids that have come before, in sorted arrays: exact, and twenty bytes an id."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import compress

import numpy as np

from hushgram._arrays import BoolArray, IntArray, UIntArray
from hushgram.schemas.columns import ID_BYTES
from hushgram.transforms.ids import SeveralSortedIds, SlotArray, SortedIds, are_first

CHUNK_IDS = 1 << 16
EXPIRY = struct.Struct("<q")
RATIO = 8
"""Each array is longer than the next by at least this factor: few are searched, and an id is seldom copied."""
LEAST = 1024
"""Shorter arrays are not kept apart: a search in one takes longer than copying it."""
FEW = 128
"""Up to this many ids at once are kept as objects first: merging an array for each few of them would take longer."""
RECENT = 1024
"""At most this many ids are held as objects, since an object takes the memory of several ids in an array."""


class SeenIds:
    """Ids by the time, in milliseconds, from which a duplicate would be too old to be counted anyway.

    These times are rounded up to a multiple of `grain`, so that there are few of them. As bytes, ids are chunks: an
    expiry and the ids that share it, in any number of chunks and any order.
    """

    def __init__(self, grain: int, chunks: Iterable[bytes] = ()) -> None:
        self.grain = grain
        self._slots: dict[int, int] = {}
        """A number for each expiry."""
        self._settled = SeveralSortedIds(())
        self._recent: dict[bytes, int] = {}
        """The last ids that came a few at a time, and when they expire."""
        parts, slots = list[UIntArray](), list[SlotArray]()
        for chunk in chunks:
            parts.append(_pairs(chunk[EXPIRY.size :]))
            slots.append(np.full(len(parts[-1]), self._slot(*EXPIRY.unpack_from(chunk)), dtype=np.uint32))
        if parts:
            self._keep(SortedIds.of(np.concatenate(parts), np.concatenate(slots)))

    def __len__(self) -> int:
        return sum(map(len, self._settled.arrays)) + len(self._recent)

    @property
    def next_expiry(self) -> int | None:
        return min(self._slots, default=None)

    def add(self, ids: UIntArray, expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        """Which of some uploads' ids, two numbers each, come for the first time, and the chunks to keep them in."""
        rounded = -(-expiries // self.grain) * self.grain
        return self._add_few(ids, rounded) if len(ids) <= FEW else self._add_many(ids, rounded)

    def _add_few(self, ids: UIntArray, expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        is_new = np.ones(len(ids), dtype=bool)
        self._settled.unmark(ids, is_new)
        recent, new_by_expiry = self._recent, dict[int, list[bytes]]()
        for row, (one, expiry, unsettled) in enumerate(
            zip(_objects(ids), expiries.tolist(), is_new.tolist(), strict=True)
        ):
            if unsettled and one not in recent:
                recent[one] = expiry
                new_by_expiry.setdefault(expiry, []).append(one)
            else:
                is_new[row] = False
        for expiry in new_by_expiry:
            self._slot(expiry)
        if len(recent) > RECENT:
            self._settle()
        return is_new, [chunk for expiry, new in new_by_expiry.items() for chunk in _chunks(expiry, b"".join(new))]

    def _add_many(self, ids: UIntArray, expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        self._settle()
        is_new = are_first(ids)
        self._settled.unmark(ids, is_new)
        slots, chunks = np.empty(len(ids), dtype=np.uint32), list[bytes]()
        for expiry in np.unique(expiries[is_new]).tolist():
            rows = is_new & (expiries == expiry)
            slots[rows] = self._slot(expiry)
            chunks += _chunks(expiry, _bytes(ids[rows]))
        if chunks:
            self._keep(SortedIds.of(ids[is_new], slots[is_new]))
        return is_new, chunks

    def _slot(self, expiry: int) -> int:
        return self._slots.setdefault(expiry, len(self._slots))

    def _settle(self) -> None:
        """Recent ids become an array."""
        if self._recent:
            slots = np.fromiter(map(self._slots.__getitem__, self._recent.values()), dtype=np.uint32)
            ids, self._recent = _pairs(b"".join(self._recent)), {}
            self._keep(SortedIds.of(ids, slots))

    def _keep(self, new: SortedIds) -> None:
        arrays = list(self._settled.arrays)
        while arrays and len(arrays[-1]) < RATIO * max(len(new), LEAST):
            new = arrays.pop().merge(new)
        self._settled = SeveralSortedIds((*arrays, new))

    def forget(self, now: int) -> None:
        """Drop what has expired by a time."""
        is_kept = np.array([expiry > now for expiry in self._slots], dtype=bool)
        if is_kept.all():
            return
        self._settle()
        kept = [array.take(is_kept[array.slot]) for array in self._settled.arrays]
        self._slots = {expiry: slot for slot, expiry in enumerate(compress(self._slots, is_kept))}
        self._settled = SeveralSortedIds(())
        if self._slots:
            all_kept = reduce(SortedIds.merge, sorted(kept, key=len, reverse=True))
            slots = (np.cumsum(is_kept) - 1).astype(np.uint32)[all_kept.slot]
            self._settled = SeveralSortedIds([replace(all_kept, slot=slots)])

    def chunks(self) -> Iterator[bytes]:
        """All of it, in as few chunks as may be."""
        self._settle()
        for expiry, slot in self._slots.items():
            ids = [array.take(array.slot == slot).ids for array in self._settled.arrays]
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
