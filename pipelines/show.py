"""`hushgram show`: snapshots as a table in the terminal, with a small picture of each distribution."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from hushgram.arrays import FloatArray
from pipelines.console import UsageError, say
from pipelines.cut_windows import WHOLE, Cut, cut_windows
from pipelines.results import read_records, read_results, result_files
from pipelines.words import clocks_of, notes, number, shown, span
from schemas.records import Key, Snapshot

EXAMPLE = "hushgram show results"
BARS = " ▁▂▃▄▅▆▇█"
PICTURE_WIDTH = 32
FOLLOW_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="what `hushgram aggregate` wrote")
    parser.add_argument("--truth", action="append", default=[], metavar="FILE", help="truth.jsonl of a simulation")
    parser.add_argument("--groups", action="store_true", help="each group too, not only all together")
    parser.add_argument("--fewest", type=int, default=0, metavar="N", help="leave out windows with fewer reports")
    parser.add_argument("--follow", action="store_true", help="a line for every pane, as `hushgram stream` writes it")


def run(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="hushgram show", description=__doc__, epilog=f"example: {EXAMPLE}")
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    if options.follow:
        follow(options.directory)
    snapshots = read_results(options.directory, "snapshots", Snapshot.from_avro)
    cuts = _cuts(snapshots)
    snapshots = [s for s in snapshots if s.reports >= options.fewest]
    known = {window: true for path in options.truth for window, true in _truth(path).items()}
    for name in dict.fromkeys(snapshot.key.collection for snapshot in snapshots):
        mine = [s for s in snapshots if s.key.collection == name and (options.groups or s.key.group is None)]
        say("")
        first = mine[0]
        unit = shown(first.unit) or "no unit"
        say(f"{shown(name)} ({unit}, {first.low:g} to {first.high:g}, {first.estimator})")
        for line in _table(mine, known, cuts):
            say(line)
    return 0


def _cuts(snapshots: Sequence[Snapshot]) -> dict[Key, Cut]:
    """The windows that the log covers in part, of every group."""
    by_collection: dict[str, list[Snapshot]] = {}
    for s in snapshots:
        by_collection.setdefault(s.key.collection, []).append(s)
    found = {name: cut_windows(mine) for name, mine in by_collection.items()}
    windows = ((s.key, found[s.key.collection].get((s.key.window_start, s.key.window_end))) for s in snapshots)
    return {key: cut for key, cut in windows if cut is not None}


def follow(directory: str) -> NoReturn:
    """Until interrupted."""
    panes = Follower(directory)
    while True:
        for line in panes.lines():
            say(line)
        time.sleep(FOLLOW_SECONDS)


class Follower:
    """The panes in a directory, each told once; a directory that is not there yet has none."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.seen: set[str] = set()

    def lines(self) -> Iterator[str]:
        new = [path for path in result_files(self.directory, "snapshots") if path not in self.seen]
        self.seen.update(new)
        snapshots = []
        for path in new:
            with suppress(FileNotFoundError):  # a better one has taken its place, and is listed next time
                snapshots += [Snapshot.from_avro(record) for record in read_records(path)]
        for s in sorted(snapshots, key=lambda s: (s.key.window_start, s.key.group or "", s.reports)):
            yield pane_line(s)


def pane_line(s: Snapshot) -> str:
    """One pane in one line."""
    clocks = clocks_of(s.time_zone)
    start, end = (
        datetime.fromtimestamp(t / 1000, UTC).astimezone(clocks) for t in (s.key.window_start, s.key.window_end)
    )
    picture = "" if s.probabilities is None else f"  {bars(s.probabilities)}"
    told = f"{s.reports:>9,} reports  mean {number(s.mean)} ± {number((s.mean_high - s.mean_low) / 2, 2)}"
    said = "".join(f"  ({note})" for note in notes(s))
    where = f"{shown(s.key.collection)} {shown(s.key.group or 'all')}"
    return f"{start:%H:%M:%S}–{end:%H:%M:%S}  {s.pane.timing:7}  {where:24}  {told}{picture}{said}"


def _table(snapshots: Sequence[Snapshot], known: dict[Any, dict[str, Any]], cuts: Mapping[Key, Cut]) -> list[str]:
    clocks = clocks_of(snapshots[-1].time_zone)  # of the newest window
    rows = [[f"window ({clocks})", "group", "reports", "mean", "median", "5 % … 95 %", "distribution", "note"]]
    for s in snapshots:
        key = s.key
        true = known.get((key.collection, key.group, key.window_start, key.window_end))
        quantiles = {q.share: q for q in s.quantiles or ()}
        mean = f"{number(s.mean)} ± {number((s.mean_high - s.mean_low) / 2, 2)}"
        median = spread = "-"
        if 0.5 in quantiles:
            middle = quantiles[0.5]
            median = f"{number(middle.value)} [{number(middle.low)}, {number(middle.high)}]"
        if 0.05 in quantiles and 0.95 in quantiles:
            spread = f"{number(quantiles[0.05].value)} … {number(quantiles[0.95].value)}"
        if true:
            known_quantiles = {share: number(value) for share, value in true["quantiles"].items()}
            mean += f" (true {number(true['mean'])})"
            median += f" (true {known_quantiles['0.5']})"
            spread += f" (true {known_quantiles['0.05']} … {known_quantiles['0.95']})"
        picture = "" if s.probabilities is None else bars(s.probabilities)
        said = "; ".join(notes(s, cuts.get(key, WHOLE)))
        rows.append(
            [span(key, clocks), shown(key.group or "all"), f"{s.reports:,}", mean, median, spread, picture, said]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return ["  " + "  ".join(row).rstrip() for row in padded]


def bars(probabilities: FloatArray) -> str:
    """A distribution in one line of block characters."""
    bounds = np.linspace(0, probabilities.size, min(PICTURE_WIDTH, probabilities.size) + 1).round().astype(int)
    sums = np.maximum(np.add.reduceat(probabilities, bounds[:-1]) / np.diff(bounds), 0)
    return "".join(BARS[round(8 * height)] for height in sums / max(float(sums.max()), 1e-300))


def _truth(path: str) -> dict[Any, dict[str, Any]]:
    try:
        lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        return {(t["collection"], t["group"], t["window_start"], t["window_end"]): t for t in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--truth {path}: cannot be read: {error}") from None
