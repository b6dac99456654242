"""How often 95 % intervals hold the truth: `python -m benchmarks.coverage [--intervals KIND] [--hard] [--runs N] …`.

For each shape, number of reports and ε, many collections are simulated; a row tells the share of runs in which the
interval of the mean, of the median and of the distribution function at the points where 0.05 < F < 0.95 (the deciles;
the average and the worst of them) held the true value, how often the band held the whole true curve, and the same of
the density of 64 bins: the average over the bins of the share of runs in which each held, and how often all of them
held at once, by simultaneous bounds. With an estimator other than EMS, the last columns have the widths of its
intervals over those of EMS on the same reports; with intervals for any shape, over those of smooth ones. Any shape is
tried on all shapes: smooth, spiky, hard and extreme ones.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.datasets import EXTREME, HARD, KEPT_ASIDE, SMOOTH, SPIKY
from hushgram import Collection
from hushgram._arrays import BoolArray, FloatArray, IntArray
from hushgram.estimate import Estimate
from hushgram.intervals import INTERVAL_KINDS
from hushgram.mechanisms import MECHANISMS, SeededHashing, SquareWave

REPORTS = (10_000, 100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0)
HEADER = ["shape", "reports", "ε", "mean", "median", "cdf", "worst cdf point", "band", "bins", "all bins"]
WIDTHS_HEADER = [f"width of {part}" for part in ("mean", "median", "cdf", "band", "bins")]
WIDTH_RUNS = 10
"""Collections that widths are compared on: they vary little."""

TALLIED = [name for name, kind in MECHANISMS.items() if not kind.mean_only and kind is not SeededHashing]
"""Mechanisms of distributions whose tallies count cells, so that one draw of a multinomial simulates a collection."""
ALL = {**SMOOTH, **SPIKY, **HARD, **EXTREME}
"""What intervals for any shape are tried on."""
SHAPES = {**ALL, **KEPT_ASIDE}


@dataclass(frozen=True)
class Setting:
    """A row of the table."""

    shape: str
    reports: int
    epsilon: float
    buckets: int
    runs: int
    method: dict[str, Any]
    """The estimator, the kind of intervals and the mechanism with its options."""

    @property
    def plain(self) -> dict[str, Any]:
        """The method that widths are compared with: smooth intervals, or else those of EMS."""
        if self.method["intervals"] == "any_shape":
            return {**self.method, "intervals": "smooth"}
        return {**self.method, "estimator": choose_estimator(self.method["mechanism"], None)}

    def collection(self, method: dict[str, Any]) -> Collection:
        buckets = self.buckets
        return Collection(name="c", low=0, high=buckets, buckets=buckets, epsilon=self.epsilon, **method)


def choose_estimator(mechanism: str, asked: str | None) -> str:
    """The one that was asked for, or else EMS where the mechanism has it."""
    estimators = MECHANISMS[mechanism].estimators
    return asked or ("ems" if "ems" in estimators else estimators[0])


def draw(setting: Setting) -> tuple[FloatArray, list[IntArray]]:
    """The true distribution and simulated tallies of a row, the same for every estimator."""
    truth = SHAPES[setting.shape](setting.buckets)
    rng = np.random.default_rng([setting.buckets, setting.reports, int(10 * setting.epsilon), *setting.shape.encode()])
    cells = setting.collection(setting.method).mechanism.forward(truth)
    return truth, list(rng.multinomial(setting.reports, cells / cells.sum(), size=setting.runs))


def measure(setting: Setting) -> tuple[list[float], list[float]]:
    """The shares of one row, and the widths over those of the plain method, over simulated collections."""
    truth, tallies = draw(setting)
    estimates = setting.collection(setting.method).estimate_many(tallies)
    together, *single = bins_held(estimates, truth).mean(axis=0)
    held = [*shares_held(estimates, truth), float(np.mean(single)), float(together)]
    if setting.plain == setting.method:
        return held, []
    others = setting.collection(setting.plain).estimate_many(tallies[:WIDTH_RUNS])
    ours, theirs = (
        np.mean([widths(each, truth) for each in some], axis=0) for some in (estimates[:WIDTH_RUNS], others)
    )
    return held, (ours / theirs).tolist()


def decile_points(curve: FloatArray) -> list[int]:
    """The edges of buckets nearest to the deciles of a distribution function."""
    nearest = [int(np.argmin(np.abs(curve - share))) for share in np.arange(1, 10) / 10]
    return sorted({point for point in nearest if 0.05 < curve[point] < 0.95})


def shares_held(estimates: Sequence[Estimate], truth: FloatArray) -> list[float]:
    """How often intervals held a known distribution: its mean, median, cdf on average and at worst, and the band."""
    share = curve_held(estimates, truth).mean(axis=0)
    return [float(figure) for figure in (share[0], share[1], share[3:].mean(), share[3:].min(), share[2])]


def curve_held(estimates: Sequence[Estimate], truth: FloatArray) -> BoolArray:
    """Whether each estimate held the mean, the median, the curve by its band, and the distribution function at each
    decile: estimates × (3 + deciles)."""
    bucket_edges = estimates[0].edges
    curve = np.concatenate([[0.0], np.cumsum(truth)])
    points = decile_points(curve)
    mean = float(truth @ (bucket_edges[1:] + bucket_edges[:-1]) / 2)
    median = float(np.interp(0.5, curve, bucket_edges))
    held = []
    for estimate in estimates:
        edges, lower, upper = estimate.band()
        true_curve = np.interp(edges, bucket_edges, curve)
        held.append(
            [
                _holds(estimate.interval("mean"), mean),
                _holds(estimate.interval("quantile", 0.5), median),
                bool(((lower - 1e-9 <= true_curve) & (true_curve <= upper + 1e-9)).all()),
                *(_holds(estimate.interval("cdf", float(bucket_edges[at])), float(curve[at])) for at in points),
            ]
        )
    return np.array(held)


def bins_held(estimates: Sequence[Estimate], truth: FloatArray) -> BoolArray:
    """Whether simultaneous bounds of the bins' density held all at once, and whether each bin's own bounds held it:
    estimates × (1 + bins)."""
    bucket_edges = estimates[0].edges
    curve = np.concatenate([[0.0], np.cumsum(truth)])
    held = []
    for estimate in estimates:
        found = []
        for simultaneous in (True, False):
            edges, low, high = estimate.density_band(simultaneous=simultaneous)
            true = np.diff(np.interp(edges, bucket_edges, curve)) / np.diff(edges)
            found.append((low - 1e-9 <= true) & (true <= high + 1e-9))
        held.append([found[0].all(), *found[1]])
    return np.array(held)


def widths(estimate: Estimate, truth: FloatArray) -> list[float]:
    """Of the intervals of the mean, of the median, of the cdf at deciles on average, of the band and of bins."""
    points = estimate.edges[decile_points(np.concatenate([[0.0], np.cumsum(truth)]))]
    low, high = estimate.interval("cdf", points)
    _, band_low, band_high = estimate.band()
    _, bins_low, bins_high = estimate.density_band()
    single = [end - start for start, end in (estimate.interval("mean"), estimate.interval("median"))]
    several = [float(np.mean(part)) for part in (high - low, band_high - band_low, bins_high - bins_low)]
    return single + several


def _holds(interval: tuple[float, float], value: float) -> bool:
    # A rounding error must not decide where the interval ends exactly at the edge of the domain.
    return interval[0] - 1e-9 <= value <= interval[1] + 1e-9


def table(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="simulated collections for each row")
    parser.add_argument("--buckets", type=int, default=1024)
    parser.add_argument("--estimator", choices=SquareWave.estimators, help="of waves; ems, if left out")
    parser.add_argument("--mechanism", choices=TALLIED, default="square_wave")
    parser.add_argument("--widths", nargs="+", type=float, metavar="WIDTH", help="of square waves with several")
    parser.add_argument("--intervals", choices=INTERVAL_KINDS, default="smooth")
    parser.add_argument(
        "--hard", action="store_true", help="shapes with point masses, steep ends, jumps and narrow peaks"
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, metavar="SHAPE", help="only these")
    parser.add_argument("--reports", nargs="+", type=int, default=REPORTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    options = parser.parse_args()
    kind = ALL if options.intervals == "any_shape" else HARD if options.hard else (*SMOOTH, *SPIKY)
    estimator = choose_estimator(options.mechanism, options.estimator)
    method = {"estimator": estimator, "intervals": options.intervals, "mechanism": options.mechanism}
    if options.widths:
        method["widths"] = tuple(options.widths)
    settings = [
        Setting(shape, reports, epsilon, options.buckets, options.runs, method)
        for shape, reports, epsilon in product(options.shapes or kind, options.reports, options.epsilons)
    ]
    header = HEADER if settings[0].plain == method else HEADER + WIDTHS_HEADER
    print(table([header, ["---"] * len(header)]), flush=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for setting, (shares, ratios) in zip(settings, pool.map(measure, settings), strict=True):
            figures = [*(f"{100 * share:.0f} %" for share in shares), *(f"{ratio:.2f}" for ratio in ratios)]
            reports = f"{setting.reports:,}".replace(",", " ")
            print(table([[setting.shape, reports, str(setting.epsilon), *figures]]), flush=True)


if __name__ == "__main__":
    main()
