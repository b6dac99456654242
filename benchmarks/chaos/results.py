"""The results of the stream so far, read as they come: each file once, and again if it was replaced."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.chaos.ledger import UNKNOWN_NUMBER, Tallies
from benchmarks.chaos.verdict import find_overcounted
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.results import read_records
from hushgram.schemas.records import DeadLetter, Histogram, Key, Snapshot

CLOCK_SECONDS = 1.0
"""A kernel's file times may lag behind the clock a little."""


class Results:
    """The best histogram and snapshot of each window, and the refused reports by reason."""

    def __init__(self, output: Path, sent_tallies: Callable[[], Tallies]) -> None:
        self._output, self._sent_tallies = output, sent_tallies
        self._stamps: dict[str, tuple[int, int]] = {}
        self._histograms: dict[Key, Histogram] = {}
        self._snapshots: dict[Key, Snapshot] = {}
        self._letters: dict[str, Counter[str]] = {}
        self.problems: list[str] = []
        """Panes that hold more than was sent, and unreadable files: neither may ever happen."""

    def refresh(self) -> None:
        """Reads what is new. While the directory is away, nothing is."""
        histograms: list[Histogram] = []
        for path, stamp in list(_files(self._output)):
            if self._stamps.get(path) == stamp:
                continue
            try:
                self._read(path, histograms)
            except FileNotFoundError:
                continue
            except UsageError as error:
                self.problems.append(str(error))
            self._stamps[path] = stamp
        sent_tallies = self._sent_tallies()  # after the reading: all that was read had been sent by now
        for pane in histograms:
            self.problems += find_overcounted(_tallies([pane]), sent_tallies)

    def tallies(self) -> Tallies:
        return _tallies(list(self._histograms.values()))

    def letters(self) -> Counter[str]:
        return sum(self._letters.values(), Counter())

    def snapshots(self) -> list[Snapshot]:
        return list(self._snapshots.values())

    def hidden_since_before(self, moment: float) -> list[str]:
        """Hidden files that were last written to before a moment of the clock: nobody will rename these any more."""
        hidden = (path for path in self._output.rglob(".*") if path.is_file())
        return [str(path) for path in hidden if path.stat().st_mtime < moment - CLOCK_SECONDS]

    def _read(self, path: str, histograms: list[Histogram]) -> None:
        kind, records = Path(path).relative_to(self._output).parts[0], read_records(path)
        if kind == "dead_letters":
            self._letters[path] = _count_refused([DeadLetter.from_avro(record) for record in records])
        elif kind == "histograms":
            for histogram in map(Histogram.from_avro, records):
                histograms.append(histogram)
                if histogram.key not in self._histograms or histogram.rank > self._histograms[histogram.key].rank:
                    self._histograms[histogram.key] = histogram
        elif kind == "snapshots":
            for snapshot in map(Snapshot.from_avro, records):
                if snapshot.key not in self._snapshots or snapshot.rank > self._snapshots[snapshot.key].rank:
                    self._snapshots[snapshot.key] = snapshot


def _files(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Paths of results below a folder, with what changes when one is replaced: when it was written, and its inode."""
    for directory, _, names in os.walk(folder):
        for name in names:
            if not name.startswith("."):
                path = os.path.join(directory, name)
                try:
                    stats = os.stat(path)
                except FileNotFoundError:
                    continue
                yield path, (stats.st_mtime_ns, stats.st_ino)


def _tallies(histograms: list[Histogram]) -> Tallies:
    return {
        (part.key.collection, part.key.group, part.key.window_start, revision): counts
        for part in histograms
        for revision, (_, counts) in part.tallies.items()
    }


def _count_refused(letters: list[DeadLetter]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for letter in letters:
        reason, reports = (UNKNOWN_NUMBER, 1) if letter.reports is None else (letter.reason, letter.reports)
        counts[reason] += reports
    return counts


def now_ms() -> int:
    return time.time_ns() // 1_000_000
