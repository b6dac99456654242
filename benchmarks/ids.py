"""What an id costs in a worker that removes duplicates: `python -m benchmarks.ids`.

Memory as the interpreter counts it, and processor time for a call with some new ids, where a shard knows many. The
reference is a set of bytes for each time at which ids expire. Both sides see the same ids and take turns; of each the
fastest turn counts.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, IntArray, UIntArray
from hushgram.schemas.columns import ID_BYTES
from hushgram.transforms.deduplication import GRAINS
from hushgram.transforms.seen_ids import EXPIRY, SeenIds

KNOWN = 1_000_000
FILLED_BY = 10_000
BATCHES = 1, 30, 300, 3_000, 30_000
ADDED = 60_000
"""Ids that each turn adds at most, so that what is known hardly grows meanwhile."""
CALLS = 500
TURNS = 3
GRAIN = 1000


class SetsOfIds:
    """The same as `SeenIds`, of Python's own objects."""

    def __init__(self, grain: int) -> None:
        self.grain = grain
        self.by_expiry: dict[int, set[bytes]] = {}

    def add(self, ids: UIntArray, expiries: IntArray) -> tuple[BoolArray, list[bytes]]:
        objects: list[bytes] = np.frombuffer(ids.tobytes(), dtype=f"V{ID_BYTES}").tolist()
        is_new, chunks = self._are_new(objects), list[bytes]()
        rounded = -(-expiries // self.grain) * self.grain
        for expiry in np.unique(rounded[is_new]).tolist():
            new = list(compress(objects, is_new & (rounded == expiry)))
            self.by_expiry.setdefault(expiry, set()).update(new)
            chunks.append(EXPIRY.pack(expiry) + b"".join(new))
        return is_new, chunks

    def _are_new(self, ids: list[bytes]) -> BoolArray:
        distinct, is_new = set(ids), np.ones(len(ids), dtype=bool)
        known = set().union(*(kept & distinct for kept in self.by_expiry.values()))
        if known or len(distinct) < len(ids):
            for row, one in enumerate(ids):
                is_new[row] = one not in known
                known.add(one)
        return is_new


def random_ids(count: int, rng: np.random.Generator) -> UIntArray:
    return np.frombuffer(rng.bytes(ID_BYTES * count), dtype=np.uint64).reshape(-1, 2)


def fill(kind: Callable[[int], Any], known: int) -> tuple[Any, float]:
    """Something that knows as many ids, which expire at as many times as in a stream; and its bytes for each."""
    rng = np.random.default_rng(1)
    gc.collect()
    tracemalloc.start()
    seen = kind(GRAIN)
    for start in range(0, known, FILLED_BY):
        count = min(FILLED_BY, known - start)
        seen.add(random_ids(count, rng), np.full(count, GRAIN * (1 + start * (GRAINS + 1) // known)))
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seen, size / known


def time_batches(seen: Any, batches: list[tuple[UIntArray, IntArray]]) -> float:
    """Seconds for each id of some batches, none of which is known."""
    start = time.process_time()
    for ids, expiries in batches:
        is_new, _ = seen.add(ids, expiries)
        assert is_new.all()
    return (time.process_time() - start) / sum(len(ids) for ids, _ in batches)


def batches_of(count: int, rng: np.random.Generator) -> Iterator[tuple[UIntArray, IntArray]]:
    for _ in range(min(CALLS, max(1, ADDED // count))):
        yield random_ids(count, rng), np.full(count, GRAIN * (GRAINS + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--known", type=int, default=KNOWN, help=f"ids that a shard knows (default: {KNOWN:,})")
    known = parser.parse_args().known
    (before, before_bytes), (seen, seen_bytes) = fill(SetsOfIds, known), fill(SeenIds, known)
    print("| what | measured | target |\n|---|---|---|")
    print(f"| an id in memory, of {known:,} | {seen_bytes:.1f} bytes (in sets: {before_bytes:.0f}) | ≤ 24 |")
    rng = np.random.default_rng(2)
    for count in BATCHES:
        seconds: dict[Any, list[float]] = {before: [], seen: []}
        for _ in range(TURNS):
            batches = list(batches_of(count, rng))
            for side, times in seconds.items():
                times.append(time_batches(side, batches))
        old, new = (min(times) for times in seconds.values())
        each = f"{old / new:.2f}× ({1e9 * new:,.0f} ns an id against {1e9 * old:,.0f})"
        print(f"| {count:,} new ids looked up and kept at once, against sets | {each} | ≥ 1× |")


if __name__ == "__main__":
    main()
