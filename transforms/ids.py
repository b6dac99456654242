"""Ids as arrays of two numbers each: which come for the first time, and where they stand among others in rising order.

Devices choose their ids, and must not be able to choose slow ones: hashes are secret, and a search takes at most twice
the steps of a bisection. Both are C, in ids.c.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, UIntArray
from hushgram._native import NUMBER, POINTER, SECRET, function

SlotArray = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]

MOST = 2**32 - 2
"""Ids at once that a hash table can name."""


class _Sorted(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_void_p) for name in ("high", "low", "number")), ("size", ctypes.c_int64)]


SORTED = ctypes.POINTER(_Sorted)
_first_of_each = function("hushgram_first_of_each", POINTER, NUMBER, POINTER, POINTER, NUMBER, POINTER)
_merge = function("hushgram_merge", SORTED, SORTED, SORTED)
_unmark = function("hushgram_unmark", SORTED, NUMBER, ctypes.c_char_p, NUMBER, POINTER)


def are_first(ids: UIntArray) -> BoolArray:
    """Which of some ids are the first with their numbers.

    >>> are_first(np.array([[1, 2], [1, 3], [1, 2]], dtype=np.uint64)).tolist()
    [True, True, False]
    """
    ids, count = np.ascontiguousarray(ids, dtype=np.uint64), len(ids)
    if count > MOST:
        raise ValueError(f"{count} ids at once, at most {MOST} are allowed")
    is_first = np.empty(count, dtype=bool)
    slots = np.zeros(1 << (2 * count).bit_length(), dtype=np.uint32)
    _first_of_each(ids.ctypes.data, count, SECRET.ctypes.data, slots.ctypes.data, slots.size - 1, is_first.ctypes.data)
    return is_first


def _address(array: np.ndarray[Any, Any]) -> int:
    """Where an array's data stand; `array.ctypes.data` takes longer than the search for a few ids."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data)) if array.size else 0


@dataclass(frozen=True)
class SortedIds:
    """Ids in rising order, by their first half and then by their second; and a number that each carries along.

    >>> ids = np.array([[4, 0], [1, 3], [1, 2]], dtype=np.uint64)
    >>> SortedIds.of(ids, np.arange(3, dtype=np.uint32)).slot.tolist()
    [2, 1, 0]
    """

    high: UIntArray
    low: UIntArray
    slot: SlotArray

    @classmethod
    def of(cls, ids: UIntArray, slots: SlotArray) -> SortedIds:
        high, low = ids[:, 0], ids[:, 1]
        order = np.argsort(high)
        if (np.diff(high[order]) == 0).any():  # seldom, and sorting by both takes several times as long
            order = np.lexsort((low, high))
        return cls(high[order], low[order], slots[order])

    def __len__(self) -> int:
        return self.high.size

    @property
    def ids(self) -> UIntArray:
        return np.stack([self.high, self.low], axis=1)

    def take(self, rows: BoolArray) -> SortedIds:
        return SortedIds(self.high[rows], self.low[rows], self.slot[rows])

    def merge(self, others: SortedIds) -> SortedIds:
        """These ids and some others, none of which is here."""
        size = len(self) + len(others)
        merged = SortedIds(np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.uint32))
        _merge(self.structure, others.structure, merged.structure)
        return merged

    @cached_property
    def structure(self) -> _Sorted:
        return _Sorted(_address(self.high), _address(self.low), _address(self.slot), len(self))


class SeveralSortedIds:
    """Sorted ids in several arrays, searched together."""

    def __init__(self, arrays: Sequence[SortedIds]) -> None:
        self.arrays = tuple(arrays)
        self.structures = (_Sorted * len(arrays))(*(array.structure for array in arrays))

    def unmark(self, ids: UIntArray, is_new: BoolArray) -> None:
        """Take the mark from those ids that are here."""
        _unmark(self.structures, len(self.arrays), ids.tobytes(), len(ids), _address(is_new))
