"""Uploads counted where they are read: a few partial tallies for thousands of reports, before anything is shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.metrics.execution import MetricsEnvironment
from apache_beam.metrics.metric import Metrics
from apache_beam.metrics.metricbase import MetricName
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from hushgram import Collection, Windows
from hushgram._arrays import IntArray
from hushgram._native import NUMBER, POINTER, address, function
from hushgram.mechanisms import Mechanism
from hushgram.schemas.records import DeadLetter, Events, Series
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.dead_messages import DeadMessage
from hushgram.transforms.memory import keep_freed_memory
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sources.message_batch import LETTER_MINUTE, Read
from hushgram.transforms.tallies import Tallies
from hushgram.transforms.uploads import Uploads, pieces

DEAD_LETTERS, IDENTIFIED, DEAD_MESSAGES = "dead_letters", "identified", "dead_messages"
MAX_BUFFERED_COUNTS = 1 << 22
"""Partial tallies with more counts are sent on before their bundle ends: 32 MB."""
MAX_UNCOUNTED_CELLS = 1 << 16
"""Reports that wait to be counted with others: few enough to stay in the processor's cache."""
MAX_BUFFERED_CELLS = 1 << 18
"""Reports with an id are sent on when there are more, or when their bundle ends."""
DENSE_KEYS = 1 << 16
DENSE_COUNTS = 1 << 22
"""Keys, and counts, up to which a table of all possible ones is faster than sorting."""
READ_IN_PROCESS = MetricName("reports", "read_in_process")
"""The reports that this process has read, for a person who waits; no count rests on it."""

_count_by_key = function(
    "hushgram_count", *(POINTER,) * 3, NUMBER, POINTER, *(NUMBER,) * 3, POINTER, POINTER, result=NUMBER
)


class Slice(NamedTuple):
    """Reports of one collection, group and slice of time. A slice lies in a window wholly or not at all."""

    collection: str
    group: str | None
    start: int


def tally(index: CollectionIndex, uploads: Uploads) -> Iterator[tuple[Slice, Tallies]]:
    """The partial tallies of uploads, each of one revision; they add up to the same, however uploads are divided."""
    most = max((len(revisions) for revisions in index.revisions), default=1)
    kinds, kind_of = _distinct(uploads.collection * most + uploads.revision)
    for number, kind in enumerate(kinds.tolist()):
        same_kind = uploads if kinds.size == 1 else uploads.take(kind_of == number)
        place, revision = divmod(kind, most)
        yield from _tally_kind(index.collections[place], index.revisions[place][revision], same_kind)


def _tally_kind(collection: Collection, revision: Collection, uploads: Uploads) -> Iterator[tuple[Slice, Tallies]]:
    """Uploads of one collection and one revision, by slice and group."""
    windows, labels = collection.windows, len(collection.groups) + 1
    keys, key_of = _distinct(windows.slice_numbers(uploads.event_time) * labels + uploads.group + 1)
    by_key, totals = _count(revision.mechanism, key_of, uploads, keys.size)
    for key, counts, (reports, count, first, last) in zip(keys.tolist(), by_key, totals.tolist(), strict=True):
        if reports:
            slice_number, group = divmod(key, labels)
            label = collection.groups[group - 1] if group else None
            start = windows.slice_start(slice_number)
            tallies = Tallies({revision.revision: (reports, counts)}, Events(first, last, count))
            yield Slice(collection.name, label, start), tallies


def _distinct(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct keys, rising, and where among them each key stands."""
    if keys.size == 0:
        return keys, keys
    low, high = int(keys.min()), int(keys.max())
    if low == high:
        return keys[:1], np.zeros_like(keys)
    if high - low >= DENSE_KEYS:
        distinct, place = np.unique(keys, return_inverse=True)
        return distinct, place
    present = np.zeros(high - low + 1, dtype=bool)
    present[keys - low] = True
    return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[keys - low]


def _count(mechanism: Mechanism, key_of: IntArray, uploads: Uploads, keys: int) -> tuple[Iterable[IntArray], IntArray]:
    """The tally of each key's cells, and the totals of each key, as `count_by_key` has them."""
    if mechanism.tally_length == mechanism.cells and keys * mechanism.cells <= DENSE_COUNTS:
        return count_by_key(key_of, uploads, keys, mechanism.cells)
    _, totals = count_by_key(key_of, uploads, keys)
    key_of_cell = np.repeat(key_of, uploads.sizes)
    order = np.argsort(key_of_cell, kind="stable")
    ends = np.cumsum(totals[:, 0])[:-1]
    return (mechanism.tally(part) for part in np.split(uploads.cells[order], ends)), totals


def count_by_key(key_of: IntArray, uploads: Uploads, keys: int, width: int = 0) -> tuple[IntArray, IntArray]:
    """How often each of `width` cells came, by key; and of each key the reports, the uploads that hold any, and the
    times of the first and the last of these.

    It is C, in counting.c: in numpy each of these takes several passes.
    """
    counts, totals = np.zeros((keys, width), np.int64), np.empty((keys, 4), np.int64)
    arrays = key_of, uploads.event_time, uploads.sizes, uploads.cells, counts, totals
    of_key, times, sizes, cells, *results = map(address, arrays)
    counted = _count_by_key(of_key, times, sizes, len(uploads), cells, uploads.cells.size, keys, width, *results)
    if counted < len(uploads):
        raise ValueError(f"upload {counted} has a key, a size or a cell that is out of range")
    return counts, totals


class TallyBuffer:
    """Partial tallies added up until they are taken, so that many blocks or messages become few of them."""

    def __init__(self) -> None:
        self.counts = 0
        self._groups: dict[tuple[str, int], dict[str | None, Tallies]] = {}

    def add(self, slice_: Slice, tallies: Tallies) -> None:
        groups = self._groups.setdefault((slice_.collection, slice_.start), {})
        if slice_.group not in groups:
            groups[slice_.group] = Tallies()
            self.counts += sum(counts.size for _, counts in tallies.parts.values())
        groups[slice_.group].add(tallies)

    def take(self) -> Iterator[tuple[Slice, Tallies]]:
        """All that was added, by slice; and of all groups together, as group None."""
        slices, self._groups, self.counts = self._groups, {}, 0
        for (collection, start), groups in slices.items():
            yield Slice(collection, None, start), Tallies.merge(groups.values())
            for group, tallies in groups.items():
                if group is not None:
                    yield Slice(collection, group, start), tallies


def branches(index: CollectionIndex) -> dict[str, Windows]:
    """Collections with equal windows share a branch of the pipeline.

    A branch is named after its windows, whatever else there is: after an upgrade, engines find state by such names.
    """
    return {str(collection.windows): collection.windows for collection in index.collections}


def in_branch(index: CollectionIndex, name: str) -> CollectionIndex:
    """The collections of one branch."""
    return CollectionIndex.of(collection for collection in index.collections if str(collection.windows) == name)


def reports_read_in_process() -> int:
    """How many reports this process has read so far."""
    return int(MetricsEnvironment.process_wide_container().get_counter(READ_IN_PROCESS).get_cumulative())


class TallyUploads(beam.DoFn):
    """Counts uploads, and sends their tallies to the branch of their windows at the end of the bundle, or earlier."""

    def __init__(self, index: CollectionIndex) -> None:
        self.index = index
        self.branch_of = {collection.name: str(collection.windows) for collection in index.collections}

    def setup(self) -> None:
        keep_freed_memory()

    def start_bundle(self) -> None:
        self.buffer = TallyBuffer()
        self.uncounted: list[Uploads] = []
        self.uncounted_cells = 0

    def finish_bundle(self) -> Iterator[Any]:
        self._count_all()
        for branch, element, timestamp in self._take():
            yield TaggedOutput(branch, WindowedValue(element, timestamp, (GlobalWindow(),)))

    def count(self, uploads: Uploads) -> Iterator[Any]:
        """Many small parts are counted together, since each count has a fixed cost."""
        Metrics.counter("reports", "accepted").inc(uploads.reports)
        self.uncounted.append(uploads)
        self.uncounted_cells += uploads.weight
        if self.uncounted_cells > MAX_UNCOUNTED_CELLS:
            self._count_all()
        if self.buffer.counts > MAX_BUFFERED_COUNTS:
            for branch, element, timestamp in self._take():
                yield TaggedOutput(branch, TimestampedValue(element, timestamp))

    def _count_all(self) -> None:
        if self.uncounted:
            uploads, self.uncounted, self.uncounted_cells = Uploads.together(self.uncounted), [], 0
            for slice_, tallies in tally(self.index, uploads):
                self.buffer.add(slice_, tallies)

    def refuse(self, dead_letter: DeadLetter) -> Any:
        Metrics.counter("reports", f"refused_{dead_letter.reason}").inc(dead_letter.reports or 0)
        if dead_letter.reports is None:
            Metrics.counter("reports", "unreadable_places").inc()
        timestamp = Timestamp(micros=1000 * dead_letter.received_at)
        return TaggedOutput(DEAD_LETTERS, TimestampedValue(dead_letter, timestamp))

    def _take(self) -> Iterator[tuple[str, tuple[Series, Tallies], Timestamp]]:
        for slice_, tallies in self.buffer.take():
            element = Series(slice_.collection, slice_.group), tallies
            yield self.branch_of[slice_.collection], element, Timestamp(micros=1000 * slice_.start)


class ParseAndTally(TallyUploads):
    """Reports without an id are tallied where they are read; those with one travel on, as columns, to their shard.

    Those of a bundle travel together, since each call to a shard has a fixed cost. But only those of one minute of
    receipt do, so that the dead letter of a duplicate is of that minute however messages were batched.
    """

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser.index)
        self.parser = parser

    def start_bundle(self) -> None:
        super().start_bundle()
        self.identified: dict[int, list[tuple[Uploads, int]]] = {}
        self.cells = 0

    def process(self, element: Read) -> Iterator[Any]:
        received = self.parser.received(element)
        for outcome in self.parser.parse(element):
            if isinstance(outcome, DeadMessage):  # its dead letter came out before it
                yield TaggedOutput(DEAD_MESSAGES, tuple(outcome))
                continue
            Metrics.counter("reports", "read").inc(outcome.reports or 0)
            Metrics.DelegatingCounter(READ_IN_PROCESS, process_wide=True).inc(outcome.reports or 0)
            if isinstance(outcome, DeadLetter):
                yield self.refuse(outcome)
                continue
            identified, anonymous = outcome.by_id
            if len(identified):
                self.identified.setdefault(received // LETTER_MINUTE, []).append((identified, received))
                self.cells += identified.weight
            if len(anonymous):
                yield from self.count(anonymous)
        if self.cells > MAX_BUFFERED_CELLS:
            for piece, timestamp in self._take_identified():
                yield TaggedOutput(IDENTIFIED, TimestampedValue(piece, timestamp))

    def finish_bundle(self) -> Iterator[Any]:
        yield from super().finish_bundle()
        for piece, timestamp in self._take_identified():
            yield TaggedOutput(IDENTIFIED, WindowedValue(piece, timestamp, (GlobalWindow(),)))

    def _take_identified(self) -> Iterator[tuple[tuple[int, bytes], Timestamp]]:
        by_minute, self.identified, self.cells = self.identified, {}, 0
        for parts in by_minute.values():
            received = [time for _, time in parts]
            for piece in pieces([uploads for uploads, _ in parts], max(received)):
                yield piece, Timestamp(micros=1000 * min(received))
