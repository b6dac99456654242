"""The uploads that were sent, and so the counts and refusals to expect of a stream: the other side of the books."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hushgram import Collection
from hushgram._arrays import IntArray

WindowKey = tuple[str, str | None, int, str]
"""Collection, group (None: all together), window start in milliseconds, revision."""
Tallies = dict[WindowKey, IntArray]
UNKNOWN_NUMBER = "of unknown number"
"""Reasons of dead letters that do not know how many reports they stand for."""
MINUTE_MS = 60_000


@dataclass(frozen=True)
class Reports:
    """Reports that count, all of one upload."""

    collection: str
    revision: str
    group: str | None
    event_time: int
    cells: tuple[int, ...]


def add_tallies(tallies: Tallies, collections: Mapping[str, Collection], reports: Reports) -> None:
    """Counts an upload in each of its windows, in its group's tally and in that of all groups together."""
    collection = collections[reports.collection]
    counts = collection.revisions[reports.revision].tally(np.array(reports.cells, dtype=np.int64))
    for start in window_starts(reports.event_time, collection.windows.size, collection.windows.every):
        for group in {reports.group, None}:
            key = (reports.collection, group, start, reports.revision)
            tallies[key] = tallies[key] + counts if key in tallies else counts


def window_starts(event_time: int, size: int, every: int) -> Sequence[int]:
    """The windows that hold a time: each begins at a multiple of `every`.

    >>> list(window_starts(125, size=20, every=10)), list(window_starts(120, size=20, every=10))
    ([120, 110], [120, 110])
    """
    last = event_time // every * every
    return range(last, event_time - size, -every)


@dataclass
class Books:
    """Tallies of what must be counted, and reports that must be refused, by reason."""

    tallies: Tallies = field(default_factory=dict)
    letters: Counter[str] = field(default_factory=Counter)
    reports: int = 0
    """How many must be counted."""


class Ledger:
    """The sender writes it while others read it. An upload is entered before it is sent, so that none counts sooner."""

    def __init__(self, collections: Mapping[str, Collection]) -> None:
        self._collections, self._lock, self._books = collections, threading.Lock(), Books()
        self._by_minute: dict[int, Counter[str]] = {}

    def accept(self, reports: Reports) -> None:
        with self._lock:
            add_tallies(self._books.tallies, self._collections, reports)
            self._books.reports += len(reports.cells)

    def refuse(self, reason: str, reports: int) -> None:
        with self._lock:
            self._books.letters[reason] += reports

    def refusal_received(self, reason: str, reports: int, received_ms: int) -> None:
        """The broker has a message that must be refused: its letter is due when the minute is over."""
        with self._lock:
            self._by_minute.setdefault(received_ms // MINUTE_MS, Counter())[reason] += reports

    def books(self) -> Books:
        """As they stand; the vectors in them are never changed."""
        with self._lock:
            return Books(dict(self._books.tallies), Counter(self._books.letters), self._books.reports)

    def letters_due(self, now_ms: int) -> Counter[str]:
        """Of the messages that were received in minutes which are over."""
        with self._lock:
            finished = (letters for minute, letters in self._by_minute.items() if minute < now_ms // MINUTE_MS)
            return sum(finished, Counter())
