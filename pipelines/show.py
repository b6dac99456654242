"""`hushgram show`: prints snapshots as a table, with a small picture of each distribution."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.pipelines.cli.console import UsageError, command_parser, say
from hushgram.pipelines.cli.tables import GAP, table_lines, table_width, terminal_width
from hushgram.pipelines.formatting import clocks_of, notes, number, shown, span
from hushgram.pipelines.partial_windows import WHOLE, Cut, cut_windows
from hushgram.pipelines.results import NewResults, read_results
from hushgram.pipelines.trust_words import trust_words
from hushgram.schemas.records import Key, Quantile, Snapshot

EXAMPLE = "hushgram show results"
BARS = " ▁▂▃▄▅▆▇█"
LEAST_PICTURE, MOST_PICTURE = 12, 32
"""Characters that a distribution is drawn with."""
FOLLOW_SECONDS = 0.5

Window = tuple[str, str | None, int, int]
"""Collection, group, beginning and end."""
Truth = Mapping[str, Any]
"""What a simulation knows of a window: a line of its truth.jsonl."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a folder of results")
    parser.add_argument(
        "--truth",
        action="append",
        default=[],
        metavar="FILE",
        help="the truth.jsonl of a simulation, to show beside the estimates",
    )
    parser.add_argument("--groups", action="store_true", help="show each group too, not only all together")
    parser.add_argument("--fewest", type=int, default=0, metavar="N", help="leave out windows with fewer reports")
    parser.add_argument(
        "--follow", action="store_true", help="print every pane as a line, as `hushgram stream` writes it"
    )


def run(argv: Sequence[str]) -> int:
    parser = command_parser("show", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    if options.follow:
        follow(options.directory)
    snapshots = read_results(options.directory, "snapshots", Snapshot.from_avro)
    truths = {window: truth for path in options.truth for window, truth in read_truth(path).items()}
    for line in tables(snapshots, truths, options.groups, options.fewest):
        say(line)
    return 0


def tables(
    snapshots: Sequence[Snapshot], truths: Mapping[Window, Truth], groups: bool = False, fewest: int = 0
) -> Iterator[str]:
    """A table for each collection, its rows beside the truth where that is known."""
    cuts = _cuts(snapshots)
    chosen = [s for s in snapshots if s.reports >= fewest and (groups or s.key.group is None)]
    intervals = missed = 0
    for name in dict.fromkeys(snapshot.key.collection for snapshot in chosen):
        rows = [
            Row.of(s, truths.get(astuple(s.key)), cuts.get(s.key, WHOLE)) for s in chosen if s.key.collection == name
        ]
        intervals, missed = intervals + sum(row.intervals for row in rows), missed + sum(row.missed for row in rows)
        first = rows[0].snapshot
        yield ""
        yield f"{shown(name)} ({shown(first.unit) or 'no unit'}, {first.low:g} to {first.high:g}, {first.estimator})"
        yield from _table(rows, groups)
        words = trust_words([s for s in snapshots if s.key.collection == name])  # with groups that are not shown
        if words:
            yield "  How far can I trust this?"
            yield from table_lines(["", ""], [[f"{topic}:", sentence] for topic, sentence in words], indent=4)
    if intervals:
        yield ""
        yield f"{intervals - missed} of {intervals} intervals hold the truth" + (
            "; * marks the others." if missed else "."
        )
        yield "Of 95 % intervals 1 in 20 misses it, of spiky values more."


def _cuts(snapshots: Sequence[Snapshot]) -> dict[Key, Cut]:
    """The windows that the log covers in part, of every group."""
    by_collection: dict[str, list[Snapshot]] = {}
    for s in snapshots:
        by_collection.setdefault(s.key.collection, []).append(s)
    cuts = {name: cut_windows(members) for name, members in by_collection.items()}
    windows = ((s.key, cuts[s.key.collection].get((s.key.window_start, s.key.window_end))) for s in snapshots)
    return {key: cut for key, cut in windows if cut is not None}


def follow(directory: str) -> NoReturn:
    """Until interrupted."""
    panes = Follower(directory)
    while True:
        for line in panes.lines():
            say(line)
        time.sleep(FOLLOW_SECONDS)


class Follower:
    """Lists each pane in a directory once; a directory that does not exist yet has none."""

    def __init__(self, directory: str) -> None:
        self.panes = NewResults(directory, "snapshots", Snapshot.from_avro)

    def lines(self) -> Iterator[str]:
        for s in sorted(self.panes.read(_fail), key=lambda s: (s.key.window_start, s.key.group or "", s.rank)):
            yield pane_line(s)


def _fail(error: UsageError) -> NoReturn:
    raise error


def pane_line(s: Snapshot) -> str:
    """One pane in one line."""
    clocks = clocks_of(s.time_zone)
    start, end = (
        datetime.fromtimestamp(t / 1000, UTC).astimezone(clocks) for t in (s.key.window_start, s.key.window_end)
    )
    picture = "" if s.supported is None else f"  {bars(s.supported)}"
    estimate = f"{s.reports:>9,} reports  mean {number(s.mean)} ± {number((s.mean_high - s.mean_low) / 2, 2)}"
    warnings = "".join(f"  ({note})" for note in notes(s))
    where = f"{shown(s.key.collection)} {shown(s.key.group or 'all')}"
    return f"{start:%H:%M:%S}–{end:%H:%M:%S}  {s.pane.timing:7}  {where:24}  {estimate}{picture}{warnings}"


@dataclass(frozen=True)
class Row:
    """A snapshot as cells of a table, and what the simulation knows of it."""

    snapshot: Snapshot
    mean: str
    median: str
    spread: str
    notes: tuple[str, ...]
    truth: tuple[str, str, str] | None = None
    intervals: int = 0
    missed: int = 0

    @classmethod
    def of(cls, s: Snapshot, truth: Truth | None, cut: Cut) -> Row:
        quantiles = {q.share: q for q in s.quantiles or ()}
        mean = f"{number(s.mean)} ± {number((s.mean_high - s.mean_low) / 2, 2)}"
        median = spread = "-"
        if 0.5 in quantiles:
            middle = quantiles[0.5]
            median = f"{number(middle.value)} [{number(middle.low)}, {number(middle.high)}]"
        if 0.05 in quantiles and 0.95 in quantiles:
            spread = f"{number(quantiles[0.05].value)} … {number(quantiles[0.95].value)}"
        row = cls(s, mean, median, spread, tuple(notes(s, cut)))
        return row if truth is None else row._beside(truth, quantiles.get(0.5))

    def _beside(self, truth: Truth, median: Quantile | None) -> Row:
        known = {float(share): value for share, value in truth["quantiles"].items()}
        s, middle = self.snapshot, known[0.5]
        mean_missed = not s.mean_low <= truth["mean"] <= s.mean_high
        median_missed = median is not None and not median.low <= middle <= median.high
        return replace(
            self,
            truth=(
                number(truth["mean"]) + " *" * mean_missed,
                number(middle) + " *" * median_missed,
                f"{number(known[0.05])} … {number(known[0.95])}",
            ),
            intervals=1 + (median is not None),
            missed=mean_missed + median_missed,
        )


def _table(rows: Sequence[Row], groups: bool) -> Iterator[str]:
    """With as many columns as the terminal has room for; elsewhere with all of them. Notes stand below their row."""
    clocks = clocks_of(rows[-1].snapshot.time_zone)  # of the newest window
    heading = [f"window ({clocks})", *(["group"] if groups else []), "reports", "mean", "median", "5 % … 95 %"]
    cells, pictures, below = list[list[str]](), list[FloatArray | None](), list[tuple[str, ...]]()
    for row in rows:
        s = row.snapshot
        group = [shown(s.key.group or "all")] if groups else []
        cells.append([span(s.key, clocks), *group, f"{s.reports:,}", row.mean, row.median, row.spread])
        pictures.append(s.supported)
        if row.truth is not None:
            below.append(())
            cells.append(["  in truth", *([""] if groups else []), "", *row.truth])
            pictures.append(None)
        below.append(row.notes)
    width = terminal_width()
    if width is not None and table_width(heading, cells) > width:
        heading, cells = heading[:-1], [line[:-1] for line in cells]
    room = MOST_PICTURE if width is None else min(width - table_width(heading, cells) - GAP, MOST_PICTURE)
    if room >= LEAST_PICTURE:
        heading.append("distribution")
        for line, probabilities in zip(cells, pictures, strict=True):
            line.append("" if probabilities is None else bars(probabilities, room))
    for text, remarks in zip(table_lines(heading, cells), [(), *below], strict=True):
        yield text
        yield from (f"    {remark}" for remark in remarks)


def bars(probabilities: FloatArray, width: int = MOST_PICTURE) -> str:
    """A distribution in one line of block characters."""
    bounds = np.linspace(0, probabilities.size, min(width, probabilities.size) + 1).round().astype(int)
    sums = np.maximum(np.add.reduceat(probabilities, bounds[:-1]) / np.diff(bounds), 0)
    return "".join(BARS[round(8 * height)] for height in sums / max(float(sums.max()), 1e-300))


def read_truth(path: str) -> dict[Window, Truth]:
    try:
        lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        return {(t["collection"], t["group"], t["window_start"], t["window_end"]): t for t in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--truth {path}: cannot be read: {error}") from None
