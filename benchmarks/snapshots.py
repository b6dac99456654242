"""How long whole snapshots take: estimate, intervals, quantiles, band and test of fit.

`python -m benchmarks.snapshots` compares `log_spline` with `ems`, on one core. With `--before FOLDER`, a checkout of an
earlier commit, it also times the snapshots of that commit, in a process of their own and on the same windows:

    git worktree add ../before 990fff4 && python -m benchmarks.snapshots --before ../before
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.datasets import bundled
from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.schemas.records import Key, Pane
from hushgram.transforms import estimation
from hushgram.transforms.tallies import Tallies

BUCKETS = 1024
SETTINGS = tuple((data, reports) for data in ("taxi", "income") for reports in (10**4, 10**5, 10**6))
WINDOWS = 7
"""Of each setting; its time is the median of theirs."""
PANE_SHARE = 0.9
"""Of the reports of a pane, these were in the pane before."""
TOGETHER = 256

SnapshotRow = tuple[str, str, str]
Window = tuple[Key, Pane, Tallies]
COLLECTIONS = {
    estimator: Collection(name=estimator, low=0, high=1, buckets=BUCKETS, epsilon=1.0, estimator=estimator)
    for estimator in ("ems", "log_spline")
}


def time_best(work: Callable[[], object], repeats: int = 5) -> float:
    """The least of several times, in seconds of the processor: others may be at work on the machine."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def draw_panes(collection: Collection, data: str, reports: int, seed: int) -> tuple[Window, Window]:
    """A pane of a window with most of its reports, and the next one with all."""
    cells = collection.mechanism.forward(bundled(data, BUCKETS))
    rng = np.random.default_rng(seed)
    most = rng.multinomial(round(PANE_SHARE * reports), cells / cells.sum())
    rest = rng.multinomial(reports - most.sum(), cells / cells.sum())
    key = Key(collection.name, None, 0, 3_600_000)
    first, second = (
        (key, Pane(), Tallies({collection.revision: (int(counts.sum()), counts)})) for counts in (most, most + rest)
    )
    return first, second


def time_snapshots(collection: Collection) -> list[float]:
    """Seconds for a window of each setting, from scratch."""
    return [
        float(
            np.median(
                [
                    time_best(partial(estimation.snapshots, collection, [draw_panes(collection, *setting, seed)[1]]), 3)
                    for seed in range(WINDOWS)
                ]
            )
        )
        for setting in SETTINGS
    ]


def time_next_panes() -> tuple[list[float], list[float], float]:
    """Seconds for a pane of each setting by `log_spline` after the one before, the part of them that goes into readable
    bins, and the share of panes that start warm."""
    collection = COLLECTIONS["log_spline"]
    seconds, bins, began_warm = [], [], []
    for setting in SETTINGS:
        times, of_bins = [], []
        for seed in range(WINDOWS):
            before, (key, pane, tallies) = draw_panes(collection, *setting, seed)
            _, start = estimation.early_snapshot(collection, *before, None)
            work = partial(estimation.early_snapshot, collection, key, pane, tallies, start)
            times.append(time_best(work, 3))
            estimate = collection.estimate({collection.revision: tallies.parts[collection.revision][1]}, start)
            estimate.band()  # which bins share the law of the error with
            of_bins.append(time_best(estimate.readable_bins, 3))
            [scratch] = estimation.snapshots(collection, [(key, pane, tallies)])
            began_warm.append(work()[0].iterations < scratch.iterations)
        seconds.append(float(np.median(times)))
        bins.append(float(np.median(of_bins)))
    return seconds, bins, float(np.mean(began_warm))


def time_together() -> tuple[float, float]:
    """Seconds for many windows of one collection by `log_spline`, together and one by one."""
    collection = COLLECTIONS["log_spline"]
    windows = [draw_panes(collection, "taxi", 100_000, seed)[1] for seed in range(TOGETHER)]
    ways = (
        lambda: estimation.snapshots(collection, windows),
        lambda: [estimation.snapshots(collection, [window]) for window in windows],
    )
    times = [[time_best(way, 1) for way in ways] for _ in range(3)]
    together, alone = (min(of_way) for of_way in zip(*times, strict=True))
    return together, alone


def time_before(folder: str) -> dict[str, list[float]]:
    """The times of a checkout of another commit."""
    environment = {**os.environ, "PYTHONPATH": folder}
    command = [sys.executable, "-P", __file__, "--times"]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)


def measure(before: str | None = None) -> list[SnapshotRow]:
    ems, spline = map(time_snapshots, COLLECTIONS.values())
    any_shape = time_snapshots(replace(COLLECTIONS["ems"], intervals="any_shape"))
    warm, bins, began_warm = time_next_panes()
    together, alone = time_together()
    where = f"d = {BUCKETS}, median of taxi and income with 10⁴, 10⁵ and 10⁶ reports"
    rows = [
        (f"a whole snapshot by `log_spline` against `ems`, {where}", _faster(ems, spline), ""),
        (
            "a whole snapshot with `intervals: any_shape` against smooth ones, both by `ems`",
            _slower(any_shape, ems),
            "",
        ),
        (f"a window's next pane by `log_spline`, against `ems`; {began_warm:.0%} start warm", _faster(ems, warm), ""),
    ]
    if before is not None:
        earlier = time_before(before)["ems"]
        rows += [
            ("a whole snapshot by `log_spline`, against `ems` before", _faster(earlier, spline), "≥ 6×"),
            ("a window's next pane by `log_spline`, against `ems` before", _faster(earlier, warm), "≥ 12×"),
            (
                "the same without its readable bins, which snapshots did not hold before",
                _faster(earlier, np.array(warm) - bins),
                "",
            ),
            ("a whole snapshot by `ems`, against itself before", _faster(earlier, ems), "≥ 1×"),
            ("(a whole snapshot by `ems` before)", _milliseconds(earlier), ""),
        ]
    return [
        *rows,
        (
            f"{TOGETHER} windows of one collection by `log_spline` together, against one by one",
            f"{together / alone:.2f}× the time",
            "≤ 1×",
        ),
        (
            "(a whole snapshot: `ems`, `log_spline`, its next pane, `ems` for any shape)",
            "; ".join(_milliseconds(times) for times in (ems, spline, warm, any_shape)),
            "",
        ),
    ]


def _faster(slow: Sequence[float], fast: Sequence[float] | FloatArray) -> str:
    ratios = np.array(slow) / np.array(fast)
    return f"{np.median(ratios):.1f}× faster ({ratios.min():.1f}× to {ratios.max():.1f}×)"


def _slower(slow: Sequence[float], fast: Sequence[float]) -> str:
    ratios = np.array(slow) / np.array(fast)
    return f"{np.median(ratios):.1f}× the time ({ratios.min():.1f}× to {ratios.max():.1f}×)"


def _milliseconds(times: Sequence[float]) -> str:
    return f"{1000 * np.median(times):.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshots", description=__doc__.partition("\n")[0])
    parser.add_argument("--before", metavar="FOLDER", help="a checkout of an earlier commit, to be timed as well")
    parser.add_argument("--times", action="store_true", help="print seconds by estimator as JSON, and nothing else")
    options = parser.parse_args()
    if options.times:
        print(json.dumps({estimator: time_snapshots(collection) for estimator, collection in COLLECTIONS.items()}))
        return
    print("| what | measured | target |\n|---|---|---|")
    for row in measure(options.before):
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
