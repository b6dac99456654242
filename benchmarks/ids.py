"""What an id costs in a worker that removes duplicates: `python -m benchmarks.ids`.

Memory as the interpreter counts it, at rest and at the most while ids came; and processor time where a shard knows
many: for a call with some ids, none, all or half of which are known, and for forgetting those that expire. The
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
from typing import Any, NamedTuple

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
KINDS = {0.0: "new ids looked up and kept", 1.0: "known ids looked up", 0.5: "ids looked up, half of them known,"}
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

    def forget(self, now: int) -> None:
        self.by_expiry = {expiry: kept for expiry, kept in self.by_expiry.items() if expiry > now}

    def chunks(self) -> Iterator[bytes]:
        for expiry, kept in self.by_expiry.items():
            yield EXPIRY.pack(expiry) + b"".join(kept)

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


class Filled(NamedTuple):
    """Something that knows ids, and its bytes for each: at rest, and at the most while they came."""

    seen: Any
    size: float
    most: float


def ids_to_know(known: int) -> Iterator[UIntArray]:
    rng = np.random.default_rng(1)
    for start in range(0, known, FILLED_BY):
        yield random_ids(min(FILLED_BY, known - start), rng)


def fill(kind: Callable[[int], Any], known: int) -> Filled:
    """Something that knows as many ids, which expire at as many times as in a stream."""
    gc.collect()
    tracemalloc.start()
    seen = kind(GRAIN)
    for number, ids in enumerate(ids_to_know(known)):
        seen.add(ids, np.full(len(ids), GRAIN * (1 + number * FILLED_BY * (GRAINS + 1) // known)))
        del ids  # the last ones would count
    gc.collect()
    size, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Filled(seen, size / known, most / known)


class Batch(NamedTuple):
    """Ids for a call, and how many of them are new."""

    ids: UIntArray
    expiries: IntArray
    new: int


def time_batches(seen: Any, batches: list[Batch]) -> float:
    """Processor seconds for each id of some batches."""
    start = time.process_time()
    for ids, expiries, new in batches:
        is_new, _ = seen.add(ids, expiries)
        assert np.count_nonzero(is_new) == new
    return (time.process_time() - start) / sum(len(batch.ids) for batch in batches)


def batches_of(count: int, share: float, known: UIntArray, rng: np.random.Generator) -> Iterator[Batch]:
    """As many ids to a batch, of which this share is known."""
    of_known = round(share * count)
    for _ in range(min(CALLS, max(1, ADDED // count))):
        rows = rng.choice(len(known), of_known, replace=False, shuffle=False)
        ids = np.concatenate([random_ids(count - of_known, rng), known[rows]])
        yield Batch(rng.permutation(ids), np.full(count, GRAIN * (GRAINS + 1)), count - of_known)


def time_forgetting(seen: Any, now: int) -> tuple[float, float]:
    """Processor seconds to forget what has expired by a time, and to write down what stays, as the state wants it."""
    start = time.process_time()
    seen.forget(now)
    forgot = time.process_time()
    for _ in seen.chunks():
        pass
    return forgot - start, time.process_time() - forgot


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--known", type=int, default=KNOWN, help=f"ids that a shard knows (default: {KNOWN:,})")
    known = parser.parse_args().known
    sets, arrays = fill(SetsOfIds, known), fill(SeenIds, known)
    print("| what | measured | target |\n|---|---|---|")
    print(f"| an id in memory, of {known:,} | {arrays.size:.1f} bytes (in sets: {sets.size:.0f}) | ≤ 24 |")
    print(f"| the same at the most, while they come | {arrays.most:.1f} bytes (in sets: {sets.most:.0f}) | |")
    rng, ids = np.random.default_rng(2), np.concatenate(list(ids_to_know(known)))
    for share, name in KINDS.items():
        for count in BATCHES[1:] if 0 < share < 1 else BATCHES:
            seconds: tuple[list[float], list[float]] = [], []
            for _ in range(TURNS):
                batches = list(batches_of(count, share, ids, rng))
                for side, times in zip((sets, arrays), seconds, strict=True):
                    times.append(time_batches(side.seen, batches))
            old, new = map(min, seconds)
            each = f"{old / new:.2f}× ({1e9 * new:,.0f} ns an id against {1e9 * old:,.0f})"
            print(f"| {count:,} {name} at once, against sets | {each} | ≥ 1× |")
    # Each turn forgets a ninth of what was there at first.
    turns = [[time_forgetting(side.seen, GRAIN * (turn + 1)) for side in (sets, arrays)] for turn in range(TURNS)]
    old, new = (min(forget for forget, _ in times) for times in zip(*turns, strict=True))
    print(f"| forgetting a ninth of them, against sets | {1e3 * new:.0f} ms against {1e3 * old:.0f} | |")
    old, new = (min(sum(both) for both in times) for times in zip(*turns, strict=True))
    both = f"{old / new:.2f}× ({1e3 * new:.0f} ms against {1e3 * old:.0f})"
    print(f"| the same, and writing the others down again | {both} | |")


if __name__ == "__main__":
    main()
