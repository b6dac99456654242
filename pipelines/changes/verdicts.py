"""Windows of results, and those of them that differ: by how much, and in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hushgram import Collection
from hushgram.changes import TimedTally, WindowComparison
from hushgram.comparison import Comparison, Difference
from hushgram.pipelines.formatting import clocks_of, number, shown, span
from hushgram.schemas.records import Histogram, Key


@dataclass(frozen=True, eq=False)
class Verdict:
    """A window that differs, and by how much."""

    collection: Collection
    change: WindowComparison

    @property
    def key(self) -> Key:
        window = self.change.window
        return Key(self.collection.name, window.group, window.start, window.end)

    @cached_property
    def comparison(self) -> Comparison:
        """The window beside its reference."""
        tallies = [self.change.window.tallies, self.change.reference.tallies]
        window, reference = self.collection.estimate_many(tallies)
        return window.compare(reference)

    @property
    def mean(self) -> Difference[float]:
        return self.comparison.mean

    @property
    def median(self) -> Difference[float] | None:
        """None where the mechanism estimates a mean only."""
        return None if self.collection.mechanism.mean_only else self.comparison.median

    @cached_property
    def window(self) -> str:
        """When it was, by the collection's clocks."""
        return span(self.key, clocks_of(self.collection.windows.time_zone))

    @cached_property
    def reference(self) -> str:
        """What it was compared with."""
        change = self.change
        if change.against == "week_before":
            return "the same time a week before"
        if change.against == "changed":
            return "the window before it, which had changed"
        windows = change.reference.windows
        return "the window before it" if windows == 1 else f"the {windows:,} windows before it"

    @cached_property
    def sentence(self) -> str:
        window = "this window" if self.key.group is None else f"this window in {shown(self.key.group)}"
        return self.comparison.sentence(window, self.reference, pvalue=self.change.pvalue, threshold=1.0)

    def to_json(self) -> dict[str, Any]:
        change = self.change
        return {
            **vars(self.key),
            "against": change.against,
            "reference_start": change.reference.start,
            "reference_end": change.reference.end,
            "reference_windows": change.reference.windows,
            "reports": self.comparison.first.reports,
            "reference_reports": self.comparison.second.reports,
            "pvalue": change.pvalue,
            "level": change.level,
            "mean": self.mean._asdict(),
            "median": None if self.median is None else self.median._asdict(),
            "sentence": self.sentence,
        }


def timed_tallies(histograms: Iterable[Histogram]) -> list[TimedTally]:
    """Those that are not early: of an open window, further reports are to come."""
    return [
        TimedTally(
            histogram.key.group,
            histogram.key.window_start,
            histogram.key.window_end,
            {revision: counts for revision, (_, counts) in histogram.tallies.items()},
        )
        for histogram in histograms
        if histogram.pane.timing != "early"
    ]


def signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{number(abs(value), 3)}"
