"""What was found in a collection, as a table with a sentence for each change, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hushgram import Collection
from hushgram.changes import Changes, Reason
from hushgram.comparison import Difference
from hushgram.pipelines.changes.verdicts import Verdict, signed
from hushgram.pipelines.cli.tables import table_lines
from hushgram.pipelines.formatting import clocks_of, count, share, shown

REASONS: dict[Reason, str] = {
    "overlapping": "it shares time with one before, or came after a later one",
    "no_reports": "no reports",
    "too_few": "too few reports; `hushgram rollup` merges windows into longer ones",
    "unknown_revision": "reports of parameters that the collection neither has nor lists under `previous`, such as "
    "another domain",
    "damaged": "a tally that no reports add up to",
    "not_comparable": "reports that no test can compare",
}
"""Why windows were passed over."""


@dataclass(frozen=True)
class Summary:
    """All that was found in the windows of a collection."""

    collection: Collection
    changes: Changes
    open: int
    """Windows of groups that are still open, and were left out."""
    false_alarm_rate: float

    @property
    def verdicts(self) -> list[Verdict]:
        return [Verdict(self.collection, change) for change in self.changes.found]


def summary_lines(summary: Summary) -> Iterator[str]:
    """The table, and below it what was compared and what was not."""
    collection, changes = summary.collection, summary.changes
    verdicts = summary.verdicts
    yield f"{shown(collection.name)} ({shown(collection.unit) or 'no unit'}, {collection.low:g} to {collection.high:g})"
    if verdicts:
        yield from _table(verdicts)
    compared = count(len(changes.comparisons), "comparison")
    yield f"  {count(len(verdicts), 'change') if verdicts else 'no change'} found in {compared}"
    for reason, times in Counter(passed.reason for passed in changes.passed_over).items():
        yield f"  not compared: {count(times, 'window')}: {REASONS[reason]}"
    if summary.open:
        yield f"  not compared: {count(summary.open, 'window')}: still open"
    rate = share(summary.false_alarm_rate)
    yield f"  false alarms: at most {rate} of collections ever have one, over all their windows and groups"


def summary_json(summary: Summary) -> dict[str, Any]:
    changes = summary.changes
    return {
        "collection": summary.collection.name,
        "false_alarm_rate": summary.false_alarm_rate,
        "comparisons": len(changes.comparisons),
        "changes": [verdict.to_json() for verdict in summary.verdicts],
        "passed_over": [vars(passed) for passed in changes.passed_over],
        "open": summary.open,
    }


def verdict_line(verdict: Verdict) -> str:
    """A change in one line, as it is found."""
    return f"{verdict.window}  {shown(verdict.collection.name)}: {verdict.sentence}"


def _table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    clocks = clocks_of(verdicts[0].collection.windows.time_zone)
    runs = _runs(verdicts)
    heading = [f"window ({clocks})", "group", "against", "reports", "median", "mean", "p"]
    rows = [
        [
            verdict.window,
            shown(verdict.key.group or "all"),
            verdict.change.against.replace("_", " "),
            f"{verdict.comparison.first.reports:,}",
            "-" if verdict.median is None else _moved(verdict.median),
            _moved(verdict.mean),
            f"{verdict.change.pvalue:.1g}",
        ]
        for verdict, _ in runs
    ]
    heading_line, *lines = table_lines(heading, rows)
    yield heading_line
    for line, (verdict, further) in zip(lines, runs, strict=True):
        yield line
        yield f"    {verdict.sentence}"
        if further:
            yield f"    So {'does the window' if further == 1 else f'do the {further:,} windows'} right after it."


def _runs(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, int]]:
    """Each verdict, and how many windows right after it say the same: a change that stays shows a week long.

    Only verdicts against the week before repeat one another; against what precedes it, a window differs anew.
    """
    runs = list[tuple[Verdict, int]]()
    last: dict[str | None, tuple[int | None, int]] = {}
    for verdict in verdicts:
        group, window = verdict.key.group, verdict.change.window
        if verdict.change.against == "week_before":
            end, run = last.get(group, (None, 0))
            if end == window.start:
                runs[run] = runs[run][0], runs[run][1] + 1
                last[group] = window.end, run
                continue
            last[group] = window.end, len(runs)
        runs.append((verdict, 0))
    return runs


def _moved(difference: Difference[float]) -> str:
    return f"{signed(difference.value)} [{signed(difference.low)}, {signed(difference.high)}]"
