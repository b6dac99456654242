"""Windows that a log covers in part, because it begins or ends inside them: their counts are lower than their time's.

Only the log as a whole begins and ends: a quiet night in its middle cuts no window. A gap at an end of the log is more
than chance if uploads that come evenly over the window leave one as long in fewer than one window of 10⁸.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from hushgram.schemas.records import Events, Snapshot

Window = tuple[int, int]

CHANCE = 20.0
"""The negative logarithm of the odds of a gap, e^-20 = 2·10⁻⁹, below which it is not chance."""
LEAST_GAP = 0.01
"""As a share of the window: a shorter gap changes nothing that a person would see."""


@dataclass(frozen=True)
class Cut:
    """When the log begins, or ends, inside a window; in milliseconds since 1970."""

    begins: int | None = None
    ends: int | None = None


WHOLE = Cut()


@dataclass(frozen=True)
class _Span:
    """A window and its events, on an axis on which the log begins at the side that is judged."""

    window: Window
    first: int
    uploads: int

    @property
    def gap(self) -> float:
        """From the window's edge to its first event, as a share of the window."""
        return (self.first - self.window[0]) / (self.window[1] - self.window[0])

    def is_cut(self, usual: float) -> bool:
        """Whether the gap is longer than the usual one by more than chance explains."""
        more = min(self.gap, 1.0) - usual
        return more > LEAST_GAP and (more >= 1 or -self.uploads * math.log1p(-more) > CHANCE)


def cut_windows(snapshots: Iterable[Snapshot]) -> dict[Window, Cut]:
    """The windows of one collection that the log covers in part; of each window the fullest snapshot is asked.

    Snapshots of an earlier version lack events, and count as covered. The end of a window of which there is
    an early pane only is not judged: it is still open.
    """
    fullest: dict[Window, Snapshot] = {}
    for snapshot in snapshots:
        window = snapshot.key.window_start, snapshot.key.window_end
        if snapshot.reports and (window not in fullest or snapshot.rank > fullest[window].rank):
            fullest[window] = snapshot
    known = {window: snapshot.events for window, snapshot in fullest.items() if snapshot.events is not None}
    grain = _grain(known)
    covered = {window: known.get(window, Events(*window, 0)) for window in fullest}
    # Backwards in time, the end of the log is its beginning; an event lasts as long as times are exact.
    begins = _cut_at_the_beginning([_Span(window, e.first, e.uploads) for window, e in covered.items()])
    ends = _cut_at_the_beginning(
        [_Span((-end, -start), -min(e.last + grain, end), e.uploads) for (start, end), e in covered.items()]
    )
    cuts = {window: Cut(begins=known[window].first) for window in begins}
    for start, end in ends:
        window = -end, -start
        if fullest[window].pane.timing != "early":
            cuts[window] = replace(cuts.get(window, WHOLE), ends=known[window].last + grain)
    return cuts


def _grain(known: dict[Window, Events]) -> int:
    """How exact event times are: they may have been cut to whole seconds or hours, or to the beginning of a window."""
    distances = [
        distance
        for (start, end), events in known.items()
        for distance in (end - start, events.first - start, events.last - start)
    ]
    return math.gcd(*distances)


def _cut_at_the_beginning(spans: Sequence[_Span]) -> list[Window]:
    """Windows that the log begins inside of: with sliding windows these may be several."""
    begin = min((span.first for span in spans), default=0)
    # What is usual in the others is no sign of a log's beginning, such as nights in windows of a day.
    others = [span.gap if span.is_cut(0.0) else 0.0 for span in spans if span.window[0] >= begin]
    usual = median(others) if others else 0.0
    return [span.window for span in spans if span.window[0] < begin < span.window[1] and span.is_cut(usual)]
