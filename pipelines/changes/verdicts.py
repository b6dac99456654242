"""Windows of results, judged: which of them differ from those before, by how much, and a sentence for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hushgram import Collection, Estimate
from hushgram.changes import FALSE_ALARM_RATE, REFERENCES, Against, TimedTally, WindowComparison, find_changes
from hushgram.pipelines.changes.definitions import recognise_collection
from hushgram.pipelines.formatting import clocks_of, number, shown, span
from hushgram.schemas.records import Histogram, Key, Snapshot


@dataclass(frozen=True)
class Difference:
    """By how much a number of the window is greater than that of its reference, with its 95 % interval."""

    value: float
    low: float
    high: float

    def in_words(self, unit: str) -> str:
        """In the direction of the difference.

        >>> Difference(-3.25, -4.5, -2.0).in_words("minutes")
        '3.25 minutes lower (95 % interval 2.00 to 4.50)'
        """
        sign, direction = (1, "higher") if self.value >= 0 else (-1, "lower")
        least, most = sorted((sign * self.low, sign * self.high))
        unit = f" {shown(unit)}" if unit else ""
        interval = f"{number(least, 3)} to {number(most, 3)}"
        return f"{number(sign * self.value, 3)}{unit} {direction} (95 % interval {interval})"


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
    def _estimates(self) -> tuple[Estimate, Estimate]:
        window, reference = self.collection.estimate_many([self.change.window.tallies, self.change.reference.tallies])
        return window, reference

    @cached_property
    def reports(self) -> tuple[int, int]:
        """Of the window, and of its reference."""
        window, reference = self._estimates
        return window.reports, reference.reports

    @cached_property
    def mean(self) -> Difference:
        return _difference(self._estimates, "mean")

    @cached_property
    def median(self) -> Difference | None:
        """None where the mechanism estimates a mean only."""
        return None if self.collection.mechanism.mean_only else _difference(self._estimates, "quantile", 0.5)

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
        numbers = [("mean", self.mean)] if self.median is None else [("median", self.median), ("mean", self.mean)]
        moved = " and ".join(
            f"the {name} is {difference.in_words(self.collection.unit)}" for name, difference in numbers
        )
        where = "" if self.key.group is None else f" in {shown(self.key.group)}"
        return f"The distribution{where} differs from {self.reference} (p = {self.change.pvalue:.1g}): {moved}."

    def to_json(self) -> dict[str, Any]:
        change = self.change
        window_reports, reference_reports = self.reports
        return {
            **vars(self.key),
            "against": change.against,
            "reference_start": change.reference.start,
            "reference_end": change.reference.end,
            "reference_windows": change.reference.windows,
            "reports": window_reports,
            "reference_reports": reference_reports,
            "pvalue": change.pvalue,
            "level": change.level,
            "mean": vars(self.mean),
            "median": None if self.median is None else vars(self.median),
            "sentence": self.sentence,
        }


def verdicts_on(
    histograms: Sequence[Histogram],
    snapshots: Sequence[Snapshot],
    *,
    against: Sequence[Against] = REFERENCES,
    false_alarm_rate: float = FALSE_ALARM_RATE,
) -> list[Verdict]:
    """The changes in the results of one collection, of each window the best; none if its mechanism is not recognised.

    `verdict.key` says when and in which group, `verdict.sentence` what.
    """
    collection = recognise_collection(snapshots)
    if collection is None:
        return []
    changes = find_changes(
        collection,
        timed_tallies(histograms),
        against=against,
        false_alarm_rate=false_alarm_rate,
    )
    return [Verdict(collection, change) for change in changes.found]


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


def _difference(estimates: tuple[Estimate, Estimate], *of: Any) -> Difference:
    """Of independent estimates: each end is as far away as the distances of both intervals' ends make together.

    The method of variance estimates recovery (Zou, Donner: Construction of confidence limits about effect measures,
    Statistics in Medicine 27, 2008), for intervals that need not be symmetric.
    """
    (first, (low, high)), (second, (other_low, other_high)) = (
        (estimate.quantile(0.5) if of[0] == "quantile" else estimate.mean, estimate.interval(*of))
        for estimate in estimates
    )
    value = float(first - second)
    return Difference(
        value,
        value - math.hypot(float(first - low), float(other_high - second)),
        value + math.hypot(float(high - first), float(second - other_low)),
    )
