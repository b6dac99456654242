"""The cost of each step of a stream on this machine: seconds of one core, from the product's own code.

Processor time, not the clock's, and the least of several readings: others may be at work on the machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.sizing import source
from benchmarks.sizing.load import Load
from benchmarks.sizing.sizes import CELLS, SEED, START, tally_of, uploads_of
from hushgram import Collection
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.schemas.avro_schemas import HISTOGRAM, SNAPSHOT
from hushgram.schemas.records import Histogram, Key, Pane, Snapshot
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.deduplication import DeduplicateStream
from hushgram.transforms.estimation import early_snapshot, histogram, snapshots
from hushgram.transforms.folding import HISTOGRAMS, MERGED_AT, SNAPSHOTS, write_panes
from hushgram.transforms.sinks.files import FORMATS
from hushgram.transforms.tallies import Tallies, decode, encode
from hushgram.transforms.uploads import pieces
from hushgram.transforms.windowing import AccumulatePanes

TOGETHER = 16
"""Windows that are estimated as one problem, where there are as many: how many a bundle has, the engine decides."""
PANE_SHARE = 0.9
"""Of the reports of an early pane, these were in the pane before."""
IDS_BEFORE = 1 << 16
"""Ids that a shard knows already when it is asked."""


@dataclass(frozen=True)
class Costs:
    """Seconds of one core for one of each, and the bytes that only a run can tell."""

    call: float
    held: float
    """The same by the clock: during this time a slot does nothing else."""
    message: float
    piece: float
    """A block of uploads, in its shard of ids: looked up, kept, and tallied."""
    merge: float
    """A partial tally, added to one window."""
    pane: float
    """A pane: added to the whole, and written as two files."""
    estimate_alone: float
    estimate_together: float
    """For each of some windows that are estimated as one problem."""
    pane_files: tuple[tuple[str, int, int], ...]
    """Of each format, bytes of the snapshot's file and of the histogram's."""


def measure(loads: Sequence[Load], say: Callable[[str], None] = lambda _: None) -> list[Costs]:
    """The costs of each load. What loads share is measured once."""
    kinds = list(dict.fromkeys((load.collection, load.batch, load.ids) for load in loads))
    example = {kind: next(load for load in loads if (load.collection, load.batch, load.ids) == kind) for kind in kinds}
    say("reading from a broker")
    source_costs = source.measure(list(example.values()))
    by_kind = dict(zip(kinds, source_costs.messages, strict=True))
    answers_by_reports: dict[int, Answers] = {}
    costs = []
    for load in loads:
        reports = round(load.window_reports(of_group=False))
        if reports not in answers_by_reports:
            say(f"estimating windows of {reports:,} reports")
            answers_by_reports[reports] = answers(load)
        answer = answers_by_reports[reports]
        costs.append(
            Costs(
                call=source_costs.call,
                held=source_costs.held,
                message=by_kind[load.collection, load.batch, load.ids],
                piece=piece(load) if load.ids else 0.0,
                merge=merge(load),
                pane=pane(load, answer.snapshot, answer.histogram),
                estimate_alone=answer.alone,
                estimate_together=answer.together,
                pane_files=answer.files,
            )
        )
    return costs


def time_best(work: Callable[[], object], repeats: int = 5, times: int = 1) -> float:
    """The least processor time per unit of work, of several readings."""
    readings = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(times):
            work()
        readings.append((time.process_time() - start) / times)
    return min(readings)


@dataclass(frozen=True)
class Answers:
    """A window estimated alone, and for each of some together; and what is written of it."""

    alone: float
    together: float
    snapshot: Snapshot
    histogram: Histogram

    @property
    def files(self) -> tuple[tuple[str, int, int], ...]:
        return tuple(
            (name, len(make(SNAPSHOT, [self.snapshot])), len(make(HISTOGRAM, [self.histogram])))
            for name, make in FORMATS.items()
        )


def answers(load: Load) -> Answers:
    """Of windows of all groups together, alone; and of as many groups as there are, up to some, together."""
    rng, collection = np.random.default_rng(SEED), load.collection

    def window(group: str | None) -> tuple[Key, Pane, Tallies]:
        reports = round(load.window_reports(of_group=group is not None))
        key = Key(collection.name, group, START, START + load.windows.size)
        return key, Pane(), tally_of(collection, reports, rng)

    all_groups = window(None)
    windows = [all_groups, *(window(group) for group in collection.groups[: TOGETHER - 1])]
    results: list[Snapshot] = []
    alone = time_best(lambda: results.extend(snapshots(collection, [all_groups])), 2)
    together = time_best(lambda: snapshots(collection, windows), 1) / len(windows)
    return Answers(alone, min(alone, together), results[0], histogram(*all_groups))


def estimates(collection: Collection, buckets: int, reports: int) -> Iterator[tuple[str, float]]:
    """The estimators of a wave, or else the collection's own, and the seconds that each takes for one window alone."""
    waves: list[str] = [name for name in ("ems", "log_spline") if name in collection.mechanism.estimators]
    for name in waves or [collection.estimator]:
        other: dict[str, Any] = {"estimator": name, **dict.fromkeys(METHOD_OPTIONS)}
        finer = replace(collection, buckets=buckets, **({} if name == collection.estimator else other))
        key, rng = Key(collection.name, None, START, START + collection.windows.size), np.random.default_rng(SEED)
        most = tally_of(finer, round(PANE_SHARE * reports), rng)
        window = key, Pane(), Tallies.merge([most, tally_of(finer, reports - most.reports, rng)])
        yield name, time_best(partial(snapshots, finer, [window]), 2)
        if finer.has_warm_starts:
            _, start = early_snapshot(finer, key, Pane(), most, None)
            yield f"{name}, an early pane", time_best(partial(early_snapshot, finer, *window, start), 2)


def merge(load: Load) -> float:
    """A partial of the key that has all groups together, from its bytes into a sum."""
    reports = max(load.batch, round(load.batch * load.uploads_in_partial(late=False, of_group=False)))
    tallies = tally_of(load.collection, reports, np.random.default_rng(SEED))
    encoded, total = encode(tallies), Tallies.merge([tallies])
    return time_best(lambda: total.add(decode(encoded)), times=100)


def pane(load: Load, snapshot: Snapshot, stored: Histogram) -> float:
    """The new counts of a pane added to the whole, and the answer written."""
    encoded = encode(Tallies(dict(stored.tallies), stored.events))
    key = Key(load.collection.name, None, START, START + load.windows.size)
    whole, total = AccumulatePanes(0), FakeTallyState(encoded)

    def add() -> None:
        for _ in whole.process((key, (0, "early", decode(encoded))), total, FakeState(None), FakeTimer()):
            pass

    with tempfile.TemporaryDirectory() as folder:

        def write() -> None:
            for kind, answer in ((SNAPSHOTS, snapshot), (HISTOGRAMS, stored)):
                write_panes(kind, f"{folder}/{kind.name}", "avro", [answer])

        write()
        return time_best(add, times=20) + time_best(write, times=MERGED_AT)


def piece(load: Load) -> float:
    """A block of uploads in a shard, which knows many ids already."""
    rng, plan, readings = np.random.default_rng(SEED), CollectionIndex.of([load.collection]), []
    [(_, before)] = pieces([uploads_of(replace(load, batch=1), IDS_BEFORE, rng)], START, 1)
    count = max(1, round(load.ids_in_piece))
    times = min(100, max(3, CELLS // (count * load.batch)))
    blocks = [block for _ in range(times) for _, block in pieces([uploads_of(load, count, rng)], START, 1)]
    for _ in range(3):
        counting, state = DeduplicateStream(plan), (FakeState(b""), FakeBag(), FakeTimer())
        counting.start_bundle()
        list(counting.process((0, before), *state))
        list(counting.finish_bundle())
        start = time.process_time()
        for block in blocks:  # each a bundle of its own, as in a slow stream: in a busy one, some are counted together
            counting.start_bundle()
            for _ in counting.process((0, block), *state):
                pass
            list(counting.finish_bundle())
        readings.append((time.process_time() - start) / len(blocks))
    return min(readings)


# Stand-ins for an engine's state, while only our own code is measured ----------------------------------------------


class FakeState:
    def __init__(self, value: bytes | None) -> None:
        self.value = value

    def read(self) -> bytes | None:
        return self.value

    def write(self, value: bytes) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None


class FakeTallyState:
    """Tallies that are bytes in the state, and stay as they are."""

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded

    def read(self) -> Tallies:
        return decode(self.encoded)

    def write(self, value: Tallies) -> None:
        encode(value)


class FakeBag:
    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        self.chunks.append(chunk)

    def read(self) -> list[bytes]:
        return self.chunks


class FakeTimer:
    def set(self, time_: Any) -> None:
        pass
