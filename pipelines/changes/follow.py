"""Changes as results come: each window is judged once, when it is no longer open and its groups are all there.

So the false-alarm rate holds however long this goes on. Reports that come after a window's verdict do not alter it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import takewhile

from apache_beam.io.filesystem import BeamIOError

from hushgram import Collection
from hushgram.changes import Against, ChangeDetector, Changes, PassedOver
from hushgram.pipelines.changes.definitions import Definitions
from hushgram.pipelines.changes.text import REASONS
from hushgram.pipelines.changes.verdicts import timed_tallies
from hushgram.pipelines.cli.console import complain
from hushgram.pipelines.formatting import clocks_of, shown, span
from hushgram.pipelines.results import NewResults, best
from hushgram.schemas.records import Histogram, Key

FOLLOW_SECONDS = 1.0
"""Between two looks into the folder."""
QUIET_SECONDS = 5.0
"""A window is judged when nothing new of it has come for so long: its groups may be written by several workers."""


class Follower:
    """Watches the histograms of a folder, which need not exist yet."""

    def __init__(
        self,
        definitions: Definitions,
        against: Sequence[Against],
        false_alarm_rate: float,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self.definitions = definitions
        self.against = against
        self.false_alarm_rate = false_alarm_rate
        self.quiet_seconds = quiet_seconds
        self._results = NewResults(definitions.directory, "histograms", Histogram.from_avro)
        self._complaints: set[str] = set()
        self._waiting: dict[Key, Histogram] = {}
        self._arrived: dict[tuple[str, int, int], float] = {}
        self._detectors: dict[str, ChangeDetector] = {}

    def news(self) -> list[tuple[Collection, Changes]]:
        """What was found since the last call, by collection."""
        now = time.monotonic()
        for histogram in self._new_histograms():
            key = histogram.key
            [self._waiting[key]] = best([histogram, self._waiting.get(key, histogram)])
            self._arrived[_window(key)] = now
        # In the order of time: a window that is not yet quiet holds up those after it.
        waiting = sorted(self._arrived, key=lambda window: window[1:])
        judged = [
            self._judge(name, [w for w in waiting if w[0] == name], now) for name in sorted({w[0] for w in waiting})
        ]
        return [news for news in judged if news is not None]

    def _new_histograms(self) -> list[Histogram]:
        try:
            histograms = self._results.read(lambda error: complain(f"left out: {error}"))
        except (OSError, BeamIOError) as error:  # a file system that is away may come back
            self._complain_once(f"{self.definitions.directory}: cannot be listed: {error}")
            return []
        return [found for found in histograms if found.pane.timing != "early" and not self._is_judged(found)]

    def _is_judged(self, histogram: Histogram) -> bool:
        """Whether later reports of a window come after its verdict."""
        detector = self._detectors.get(histogram.key.collection)
        ended = None if detector is None else detector.judged_until
        return ended is not None and histogram.key.window_end <= ended and histogram.pane.timing == "late"

    def _judge(
        self, name: str, waiting: Sequence[tuple[str, int, int]], now: float
    ) -> tuple[Collection, Changes] | None:
        quiet = set(takewhile(lambda window: now - self._arrived[window] >= self.quiet_seconds, waiting))
        detector = self._detector(name)
        if detector is None or not quiet:
            return None
        keys = [key for key in self._waiting if _window(key) in quiet]
        changes = detector.judge(timed_tallies([self._waiting.pop(key) for key in keys]))
        for window in quiet:
            del self._arrived[window]
        for passed in changes.passed_over:
            self._complain_of(detector.collection, passed)
        return detector.collection, changes

    def _detector(self, name: str) -> ChangeDetector | None:
        """None until there is a snapshot that tells what the collection is."""
        if name not in self._detectors:
            collection = self.definitions.find(
                name, [waiting for key, waiting in self._waiting.items() if key.collection == name]
            )
            if collection is None:
                return None
            detector = ChangeDetector(collection, self.against, self.false_alarm_rate)
            self._detectors[name] = detector
        return self._detectors[name]

    def _complain_of(self, collection: Collection, passed: PassedOver) -> None:
        """Once for each collection and reason: windows with too few reports may come by the thousand."""
        key = Key(collection.name, passed.group, passed.start, passed.end)
        first = span(key, clocks_of(collection.windows.time_zone))
        what = f"{shown(collection.name)}: not compared: {REASONS[passed.reason]}"
        self._complain_once(what, f"{what} (the first: {first})")

    def _complain_once(self, what: str, line: str = "") -> None:
        if what not in self._complaints:
            self._complaints.add(what)
            complain(line or what)


def _window(key: Key) -> tuple[str, int, int]:
    """A window of all groups."""
    return key.collection, key.window_start, key.window_end
