"""The ids of a stream's uploads that have come already: what a duplicate is told by, and forgotten in time."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hushgram.arrays import BoolArray, IntArray

ID_BYTES = 16
CHUNK_IDS = 1 << 16
EXPIRY = struct.Struct("<q")


class SeenIds:
    """Ids by the time, in milliseconds, from which a duplicate would be too old to be counted anyway.

    These times are rounded up to a multiple of `grain`, so that there are few of them. As bytes, ids are chunks: an
    expiry and the ids that share it, in any number of chunks and any order.
    """

    def __init__(self, grain: int, chunks: Iterable[bytes] = ()) -> None:
        self.grain = grain
        self._by_expiry: dict[int, set[bytes]] = {}
        for chunk in chunks:
            [expiry] = EXPIRY.unpack_from(chunk)
            self._by_expiry.setdefault(expiry, set()).update(_split(chunk[EXPIRY.size :]))

    def __len__(self) -> int:
        return sum(map(len, self._by_expiry.values()))

    @property
    def next_expiry(self) -> int | None:
        return min(self._by_expiry, default=None)

    def add(self, ids: Sequence[bytes], expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        """Which of some uploads' ids come for the first time, and the chunks to keep them in."""
        known: set[bytes] = set()
        for kept in self._by_expiry.values():
            known.update(kept.intersection(ids))
        is_new = np.ones(len(ids), dtype=bool)
        added: dict[int, list[bytes]] = {}
        rounded = (-(-expiries // self.grain) * self.grain).tolist()
        for row, (one, expiry) in enumerate(zip(ids, rounded, strict=True)):
            if one in known:
                is_new[row] = False
            else:
                known.add(one)
                added.setdefault(expiry, []).append(one)
        for expiry, new in added.items():
            self._by_expiry.setdefault(expiry, set()).update(new)
        return is_new, [chunk for expiry, new in added.items() for chunk in _chunks(expiry, new)]

    def forget(self, now: int) -> None:
        """Drop what has expired by a time."""
        self._by_expiry = {expiry: kept for expiry, kept in self._by_expiry.items() if expiry > now}

    def chunks(self) -> Iterator[bytes]:
        """All of it, in as few chunks as may be."""
        for expiry, kept in self._by_expiry.items():
            yield from _chunks(expiry, list(kept))


def _chunks(expiry: int, ids: Sequence[bytes]) -> Iterator[bytes]:
    for start in range(0, len(ids), CHUNK_IDS):
        yield EXPIRY.pack(expiry) + b"".join(ids[start : start + CHUNK_IDS])


def _split(joined: bytes) -> list[bytes]:
    return [joined[at : at + ID_BYTES] for at in range(0, len(joined), ID_BYTES)]


def ids_of(pairs: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> list[bytes]:
    """Ids as columns hold them, two numbers each, as bytes."""
    return _split(np.ascontiguousarray(pairs).tobytes())
