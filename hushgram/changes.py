"""Change over time: which windows of a collection differ from those before them, and from the same hour a week before.

A window is compared with all windows since the last change taken together: the more there are, the smaller a difference
is found, and a slow drift shows in the end. A window that differs is reported. The one right after it is compared with
it alone, so that a return is reported, too. From the second on, the reference begins anew with the window after the
change: a window that was chosen for being different would be a biased reference.

The false-alarm rate is that of a collection: the chance that any window of any group is ever reported whose reports
have the same distribution as those that it was compared with. It is spent over windows (`alpha_spending`), in equal
parts on the groups and on the three references that a window may have. So the verdict on a window does not depend on
later ones, and holds however long the collection goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from hushgram._arrays import IntArray
from hushgram._validation import check_share
from hushgram.alpha_spending import share_of_test
from hushgram.collection import Collection
from hushgram.comparison import same_distribution
from hushgram.intervals import NotEstimableError
from hushgram.mechanisms import Mechanism

FALSE_ALARM_RATE = 0.05
"""Of a collection, over all its windows and groups, unless another is asked for."""
WEEK = timedelta(weeks=1)
WEEK_MS = WEEK // timedelta(milliseconds=1)

Against = Literal["preceding", "changed", "week_before"]
"""All windows since the last change together; the changed window just before this one; the same hour a week before."""
REFERENCES: tuple[Against, ...] = get_args(Against)
Reason = Literal["overlapping", "no_reports", "too_few", "unknown_revision", "damaged", "not_comparable"]
"""Why a window is not compared with any."""

Reports = tuple[tuple[Mechanism, IntArray], ...]
"""The tallies of a span of time with the mechanisms they came from, as `Estimate.tallies` has them."""
Test = Callable[[Reports, Reports], float]
"""The p-value of the test that both have the same distribution of values; a `NotEstimableError` if there is none."""


@dataclass(frozen=True, eq=False)
class TimedTally:
    """The tallies of a window by revision, of one group or, if that is None, of all groups together.

    Times are in milliseconds since 1970. Several windows add up to one of `windows` windows.
    """

    group: str | None
    start: int
    end: int
    tallies: Mapping[str, IntArray] = field(repr=False)
    windows: int = 1

    def __add__(self, later: TimedTally) -> TimedTally:
        """Both together, as one span; the group is that of the first."""
        merged = dict(self.tallies)
        for revision, counts in later.tallies.items():
            merged[revision] = merged[revision] + counts if revision in merged else counts
        return TimedTally(self.group, self.start, later.end, merged, self.windows + later.windows)


@dataclass(frozen=True, eq=False)
class WindowComparison:
    """A window beside its reference: they differ if the p-value is at most the level of this comparison."""

    window: TimedTally
    against: Against
    reference: TimedTally
    pvalue: float
    level: float

    @property
    def differs(self) -> bool:
        return self.pvalue <= self.level


@dataclass(frozen=True)
class PassedOver:
    """A window that could not be compared, and why."""

    group: str | None
    start: int
    end: int
    reason: Reason


@dataclass(frozen=True)
class Changes:
    """All comparisons of some windows, in the order of time, and the windows that could not be compared."""

    comparisons: tuple[WindowComparison, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()

    @cached_property
    def found(self) -> tuple[WindowComparison, ...]:
        """The windows that differ, each beside what it differs from."""
        return tuple(comparison for comparison in self.comparisons if comparison.differs)

    def __add__(self, other: Changes) -> Changes:
        return Changes(self.comparisons + other.comparisons, self.passed_over + other.passed_over)


def find_changes(
    collection: Collection,
    windows: Iterable[TimedTally],
    *,
    against: Sequence[Against] = REFERENCES,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    test: Test = same_distribution,
) -> Changes:
    """The comparisons of all windows with those before them; `found` has those that differ.

    Each window of each group comes once, with its best pane; those that are still open should be left out. Of sliding
    windows, those are compared that share no time with one before.

    >>> import numpy as np
    >>> commute = Collection(name="commute", low=0, high=180, buckets=32, epsilon=1.0)
    >>> rng = np.random.default_rng(1)
    >>> hours = [rng.gamma(4, 15 if hour == 5 else 9, 5_000) for hour in range(8)]
    >>> windows = [
    ...     TimedTally(None, hour, hour + 1, {commute.revision: commute.tally(commute.simulate(minutes, seed=hour))})
    ...     for hour, minutes in enumerate(hours)
    ... ]
    >>> for change in find_changes(commute, windows).found:
    ...     print(change.window.start, change.against, change.reference.windows)
    5 preceding 5
    6 changed 1
    """
    return ChangeDetector(collection, against, false_alarm_rate, test).judge(windows)


class ChangeDetector:
    """Judges the windows of a collection as they come: each once, in the order of time, all groups of one together."""

    def __init__(
        self,
        collection: Collection,
        against: Sequence[Against] = REFERENCES,
        false_alarm_rate: float = FALSE_ALARM_RATE,
        test: Test = same_distribution,
    ) -> None:
        self.collection = collection
        self.test = test
        self.against = frozenset(against)
        self.false_alarm_rate = check_share("false_alarm_rate", false_alarm_rate)
        self.judged = 0
        """Windows so far, whatever their groups."""
        self.judged_until: int | None = None
        """The end of the last of them."""
        self._courses: dict[str | None, _Course] = {}

    def judge(self, windows: Iterable[TimedTally]) -> Changes:
        """What is new in windows that begin no earlier than those that were judged before have ended."""
        ordered = sorted(windows, key=lambda window: (window.start, window.end, window.group or ""))
        changes = Changes()
        for span, groups in groupby(ordered, key=lambda window: (window.start, window.end)):
            changes += self._judge_span(span, list(groups))
        return changes

    def _judge_span(self, span: tuple[int, int], groups: list[TimedTally]) -> Changes:
        start, end = span
        for window in groups:
            self._courses.setdefault(window.group, _Course(self._time_zone))
        if self.judged_until is not None and start < self.judged_until:
            for window in groups:
                if self._reason_to_pass_over(window) is None:
                    self._courses[window.group].remember(window)
            return Changes(passed_over=tuple(_passed_over(window, "overlapping") for window in groups))
        self.judged += 1
        self.judged_until = end
        level = self.false_alarm_rate * share_of_test(self.judged) / (len(self._courses) * len(REFERENCES))
        return sum((self._judge_window(window, level) for window in groups), Changes())

    def _judge_window(self, window: TimedTally, level: float) -> Changes:
        reason = self._reason_to_pass_over(window)
        if reason is not None:
            return Changes(passed_over=(_passed_over(window, reason),))
        course, comparisons = self._courses[window.group], list[WindowComparison]()
        for against, reference in course.references(window):
            if against in self.against:
                try:
                    pvalue = self.test(self._reports(window), self._reports(reference))
                except NotEstimableError:
                    return Changes(passed_over=(_passed_over(window, "not_comparable"),))
                comparisons.append(WindowComparison(window, against, reference, pvalue, level))
        course.go_on(window, changed=any(one.differs and one.against != "week_before" for one in comparisons))
        return Changes(tuple(comparisons))

    def _reason_to_pass_over(self, window: TimedTally) -> Reason | None:
        if any(revision not in self.collection.revisions for revision in window.tallies):
            return "unknown_revision"
        try:
            reports = sum(mechanism.reports(counts) for mechanism, counts in self._reports(window))
        except ValueError:
            return "damaged"
        return "no_reports" if not reports else "too_few" if reports < self.collection.minimum_reports else None

    def _reports(self, window: TimedTally) -> Reports:
        mechanisms = {revision: known.mechanism for revision, known in self.collection.revisions.items()}
        return tuple(
            (mechanisms[revision], mechanisms[revision].check_tally(counts))
            for revision, counts in window.tallies.items()
        )

    @cached_property
    def _time_zone(self) -> ZoneInfo | None:
        zone = self.collection.windows.time_zone
        return None if zone is None else ZoneInfo(zone)


class _Course:
    """What a window of one group is compared with."""

    def __init__(self, time_zone: ZoneInfo | None) -> None:
        self.time_zone = time_zone
        self.changed = False
        """Whether the last window differed from those before it."""
        self.since: TimedTally | None = None
        """That window, or all since."""
        self.of_a_week: dict[int, TimedTally] = {}
        """The windows of the last eight days, by their beginning."""

    def references(self, window: TimedTally) -> Iterator[tuple[Against, TimedTally]]:
        if self.since is not None:
            yield ("changed" if self.changed else "preceding"), self.since
        before = self.of_a_week.get(week_before(window.start, self.time_zone))
        # A week-long window has had that one as the window just before it.
        if before is not None and before.end <= window.start and window.end - window.start < WEEK_MS:
            yield "week_before", before

    def go_on(self, window: TimedTally, changed: bool) -> None:
        begins_anew = self.since is None or changed or self.changed
        self.since = window if begins_anew or self.since is None else self.since + window
        self.changed = changed
        self.remember(window)

    def remember(self, window: TimedTally) -> None:
        """For the week to come."""
        oldest = window.start - WEEK_MS - WEEK_MS // 7
        self.of_a_week = {start: kept for start, kept in self.of_a_week.items() if start >= oldest}
        self.of_a_week[window.start] = window


def week_before(time: int, time_zone: ZoneInfo | None) -> int:
    """The same time of the week before, on the clocks of the zone, which may have been changed since.

    >>> monday = 1_774_857_600_000  # 2026-03-30T08:00Z, the day after clocks in Berlin went forward
    >>> [(monday - week_before(monday, zone)) // 3_600_000 for zone in (None, ZoneInfo("Europe/Berlin"))]
    [168, 167]
    """
    if time_zone is None:
        return time - WEEK_MS
    seconds, rest = divmod(time, 1000)
    try:
        return int((datetime.fromtimestamp(seconds, time_zone) - WEEK).timestamp()) * 1000 + rest
    except (OverflowError, OSError, ValueError):  # beyond what a calendar has
        return time - WEEK_MS


def _passed_over(window: TimedTally, reason: Reason) -> PassedOver:
    return PassedOver(window.group, window.start, window.end, reason)
