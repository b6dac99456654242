"""Where the records of a block begin and end, found from the bytes alone, many records at once.

polars panics where a damaged record reaches beyond the end of its block, and a panic writes to the terminal whatever is
done about it. So it is given only blocks whose records have been followed from field to field, each from its start to
where the next one begins. Blocks that cannot be followed quickly need not be damaged: they are for a slower decoder.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from hushgram._arrays import IntArray

Octets = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

PADDING = 8
"""Behind the last record there must be this many bytes more, which are looked at and mean nothing."""
STEPS, ROUNDS = 64, 8
"""Lanes are split again after this many steps, and abandoned after this many rounds: records of very many collections
are followed faster one by one."""
NEAR = 2000
"""Searching in fewer bytes than about 2500 costs Python no preparation."""
REVISION, ID = 8, 16
LAST = np.uint64(0x8080808080808080)
"""The bits of eight bytes that are not set in the last byte of a number."""
ONE, BEYOND = np.uint64(1), np.int64(1 << 40)
SEVENS = [
    (1, np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00)),
    (2, np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000)),
    (4, np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000)),
]
"""How the low seven bits of eight bytes are moved together: by how many bits, what stays and what moves."""


def can_be_followed(
    data: bytes, size: int, count: int, fields: Collection[str], lengths: IntArray | None = None
) -> bool:
    """Whether the first `size` bytes are `count` records with these fields, of reports or of batches, end to end.

    Where the lengths of the records are known, each must have its own. `data` goes on for
    `PADDING` bytes at least, and they are zeros.
    """
    block = _Block(data, size, packed="cells" in fields, ids="ids" in fields)
    if lengths is not None:
        ends = np.cumsum(lengths)
        return bool(lengths.size == count and ends[-1] == size and np.array_equal(block.ends(ends - lengths), ends))
    return block.count() == count


class _Block:
    def __init__(self, data: bytes, size: int, packed: bool, ids: bool) -> None:
        self.data, self.size, self.packed, self.ids = data, size, packed, ids
        self.octets: Octets = np.frombuffer(data, dtype=np.uint8)
        self.words: Words = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))

    def ends(self, starts: IntArray) -> IntArray:
        """Where records that begin here end; where one is none, a place behind the block's end."""
        at = self._behind_bytes(starts) + REVISION
        at = self._behind_longs(self._behind_bytes(at), 1) if self.packed else self._behind_longs(at, 2)
        group, at = self._behind_nullable(at)
        identified = self._octets(at)
        at = at + 1 + (ID >> 1) * identified.astype(np.int64)
        branches = group | identified
        if self.ids:
            ids, at = self._behind_nullable(at)
            branches |= ids
        wrong = (branches & 0xFD).astype(bool) | (at > self.size)
        return np.where(wrong, self.size + 1, at)

    def count(self) -> int:
        """How many records the block is, end to end; -1 if that cannot be found quickly.

        The block is cut into lanes at places where a record seems to begin, and all lanes are followed in step, record
        by record. Each must arrive where the next begins: so it does not matter how the places were found.
        """
        at, goals = np.zeros(1, dtype=np.int64), np.array([self.size])
        records = 0
        for _ in range(ROUNDS):
            at, goals = self._split(at, goals)
            for _ in range(STEPS):
                records += at.size
                at = self.ends(at)
                if (at > goals).any():
                    return -1
                left = at < goals
                if not left.any():
                    return records
                at, goals = at[left], goals[left]
        return -1

    def _split(self, at: IntArray, goals: IntArray) -> tuple[IntArray, IntArray]:
        """Lanes cut into shorter ones, where a record of the same collection and revision as their first one begins."""
        starts, ends = list[int](), list[int]()
        kinds_end = self._behind_bytes(at) + REVISION
        # Each lane has its price, and so has each step of them all: this balances the two for records of 40 bytes.
        distance = max(40, int(np.sqrt(np.sum(goals - at) / 2)))
        for start, kind_end, goal in zip(at.tolist(), kinds_end.tolist(), goals.tolist(), strict=True):
            kind, found = self.data[start:kind_end], start
            while found >= 0:
                starts.append(found)
                after = found + distance
                found = self.data.find(kind, after, min(goal, after + NEAR))
                if found < 0:
                    found = self.data.find(kind, after, goal)
                ends.append(found if found >= 0 else goal)
        return np.array(starts), np.array(ends)

    def _octets(self, at: IntArray) -> Octets:
        return self.octets[np.minimum(at, self.size)]

    def _behind_longs(self, at: IntArray, count: int) -> IntArray:
        """Behind one number or two; two are found at once where both fit into eight bytes, as they mostly do."""
        at = np.minimum(at, self.size)
        last = ~self.words[at] & LAST
        if count == 2:
            both = last & (last - ONE)
            if not both.all():
                return self._behind_longs(self._behind_longs(at, 1), 1)
            last = both
        return at + _sizes(last)

    def _behind_nullable(self, at: IntArray) -> tuple[Octets, IntArray]:
        """The byte that says whether bytes follow, and the place behind it and them."""
        branch = self._octets(at)
        return branch, np.where(branch, self._behind_bytes(at + 1), at + 1)

    def _behind_bytes(self, at: IntArray) -> IntArray:
        """Behind a length and that many bytes."""
        at = np.minimum(at, self.size)
        first = self.octets[at]
        if not (first & 0x81).any():
            return at + ((first >> 1) + 1)
        words = self.words[at]
        sizes = _sizes(~words & LAST)
        zigzag = _long_values(words, sizes)
        # Lengths below zero, which are odd here, lead behind the end, as those do that are too large.
        return at + sizes + np.where(zigzag & 1, self.size + 1, np.minimum(zigzag >> 1, self.size + 1))


def _sizes(last: Words) -> IntArray:
    """How many bytes a number takes, from the mark of its last byte, the lowest that is set; without one, too many."""
    below = (last & (~last + ONE)) - ONE
    return np.where(last == 0, BEYOND, (np.bitwise_count(below) >> 3) + 1)


def _long_values(words: Words, sizes: IntArray) -> IntArray:
    """The numbers themselves, of up to eight bytes, as they are written: zigzag."""
    bits = (8 * np.minimum(sizes, 8)).astype(np.uint64)
    value = words & (~np.uint64(0) >> (np.uint64(64) - bits)) & ~LAST
    for shift, stays, moves in SEVENS:
        value = (value & stays) | ((value & moves) >> np.uint64(shift))
    return value.astype(np.int64)
