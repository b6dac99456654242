"""Uploads counted where they are read: a few partial tallies for thousands of reports, before anything is shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hushgram import Collection
from hushgram.arrays import IntArray
from hushgram.mechanisms import Mechanism
from schemas.records import Events
from transforms.plan import Plan
from transforms.tallies import Tallies
from transforms.uploads import Uploads


@dataclass(frozen=True, eq=False)
class Partial:
    """Reports of one collection, revision, group and slice of time; a slice lies in a window wholly or not at all."""

    collection: str
    revision: str
    group: str | None
    slice_start: int
    reports: int
    counts: IntArray
    events: Events


DENSE_KEYS = 1 << 16
DENSE_COUNTS = 1 << 22
"""Keys, and counts, up to which a table of all possible ones is faster than sorting."""


def tally(plan: Plan, uploads: Uploads) -> Iterator[Partial]:
    """The partial tallies of all uploads; they add up to the same counts, whichever way uploads are cut."""
    most = max((len(revisions) for revisions in plan.revisions), default=1)
    kinds, kind_of = _distinct(uploads.collection * most + uploads.revision)
    for index, kind in enumerate(kinds.tolist()):
        mine = uploads if kinds.size == 1 else uploads.take(kind_of == index)
        place, revision = divmod(kind, most)
        yield from _tally_kind(plan.collections[place], plan.revisions[place][revision], mine)


def _tally_kind(collection: Collection, revision: Collection, uploads: Uploads) -> Iterator[Partial]:
    """Uploads of one collection and one revision, by slice and group."""
    windows, labels = collection.windows, len(collection.groups) + 1
    keys, key_of = _distinct(windows.slice_numbers(uploads.event_time) * labels + uploads.group + 1)
    by_key = _count(revision.randomizer, key_of, uploads, keys.size)
    reports = np.bincount(key_of, weights=uploads.sizes, minlength=keys.size).astype(np.int64)
    events = _events(key_of, uploads, keys.size)
    for key, count, counts, when in zip(keys.tolist(), reports.tolist(), by_key, events, strict=True):
        if count:
            slice_number, group = divmod(key, labels)
            label = collection.groups[group - 1] if group else None
            start = windows.slice_start(slice_number)
            yield Partial(collection.name, revision.revision, label, start, count, counts, when)


def _events(key_of: IntArray, uploads: Uploads, keys: int) -> Iterator[Events]:
    """Of each key; an upload without reports is none."""
    times, bounds = uploads.event_time, np.iinfo(np.int64)
    if not uploads.sizes.all():
        key_of, times = key_of[uploads.sizes > 0], times[uploads.sizes > 0]
    first, last = np.full(keys, bounds.max), np.full(keys, bounds.min)
    np.minimum.at(first, key_of, times)
    np.maximum.at(last, key_of, times)
    return map(Events, first.tolist(), last.tolist(), np.bincount(key_of, minlength=keys).tolist())


def _distinct(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct keys, rising, and where among them each key stands."""
    if keys.size == 0:
        return keys, keys
    low, high = int(keys.min()), int(keys.max())
    if high - low >= DENSE_KEYS:
        distinct, place = np.unique(keys, return_inverse=True)
        return distinct, place
    present = np.zeros(high - low + 1, dtype=bool)
    present[keys - low] = True
    return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[keys - low]


def _count(randomizer: Mechanism, key_of: IntArray, uploads: Uploads, keys: int) -> Iterable[IntArray]:
    """The tally of each key's cells."""
    if keys == 1:
        return [randomizer.tally(uploads.cells)]
    if randomizer.tally_length == randomizer.cells and keys * randomizer.cells <= DENSE_COUNTS:
        places = np.repeat(key_of * randomizer.cells, uploads.sizes)
        places += uploads.cells
        return np.bincount(places, minlength=keys * randomizer.cells).reshape(keys, randomizer.cells)
    key_of_cell = np.repeat(key_of, uploads.sizes)
    order = np.argsort(key_of_cell, kind="stable")
    ends = np.cumsum(np.bincount(key_of_cell, minlength=keys))[:-1]
    return (randomizer.tally(part) for part in np.split(uploads.cells[order], ends))


class Held:
    """Partial tallies added up until they are taken: so that many blocks or polls become a few of them."""

    def __init__(self) -> None:
        self.counts = 0
        self._parts: dict[tuple[str, int], dict[str | None, Tallies]] = {}

    def add(self, partial: Partial) -> None:
        groups = self._parts.setdefault((partial.collection, partial.slice_start), {})
        if partial.group not in groups:
            groups[partial.group] = Tallies()
            self.counts += partial.counts.size
        groups[partial.group].add(Tallies({partial.revision: (partial.reports, partial.counts)}, partial.events))

    def take(self) -> Iterator[tuple[str, str | None, int, Tallies]]:
        """Collection, group, start of the slice and tallies; of all groups together too, as group None."""
        parts, self._parts, self.counts = self._parts, {}, 0
        for (collection, start), groups in parts.items():
            yield collection, None, start, Tallies.merge(groups.values())
            yield from ((collection, group, start, tallies) for group, tallies in groups.items() if group is not None)
