"""How often 95 % intervals hold the truth: `python -m benchmarks.coverage [--estimator NAME] [--hard] [--runs N]`.

For each shape, number of reports and ε, many collections are simulated; a row tells the share of runs in which the
interval of the mean, of the median and of the distribution function at the points where 0.05 < F < 0.95 (the deciles;
the average and the worst of them) held the true value, how often the band held the whole true curve, and the same of
the density of 64 bins: the average over the bins of the share of runs in which each held, and how often all of them
held at once, by simultaneous bounds. With an estimator other than EMS, the last columns have the widths of its
intervals over those of EMS on the same reports.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.datasets import HARD, SMOOTH, SPIKY
from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.estimate import Estimate
from hushgram.mechanisms import SquareWave

REPORTS = (10_000, 100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0)
HEADER = ["shape", "reports", "ε", "mean", "median", "cdf", "worst cdf point", "band", "bins", "all bins"]
WIDTHS_HEADER = [f"width of {part}" for part in ("mean", "median", "cdf", "band", "bins")]
WIDTH_RUNS = 10
"""Collections that widths are compared on: they vary little."""

Setting = tuple[str, int, float, int, int, str]


def measure(setting: Setting) -> tuple[list[float], list[float]]:
    """The shares of one row, and the widths over those of EMS, over simulated collections."""
    shape, reports, epsilon, buckets, runs, estimator = setting
    truth = {**SMOOTH, **SPIKY, **HARD}[shape](buckets)
    collection = Collection(name="c", low=0, high=buckets, buckets=buckets, epsilon=epsilon, estimator=estimator)
    rng = np.random.default_rng([buckets, reports, int(10 * epsilon), *shape.encode()])
    cells = collection.mechanism.forward(truth)
    tallies = list(rng.multinomial(reports, cells / cells.sum(), size=runs))
    estimates = collection.estimate_many(tallies)
    held = [*shares_held(estimates, truth), *bins_held(estimates, truth)]
    if estimator == "ems":
        return held, []
    others = replace(collection, estimator="ems").estimate_many(tallies[:WIDTH_RUNS])
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
    bucket_edges = estimates[0].edges
    curve = np.concatenate([[0.0], np.cumsum(truth)])
    points = decile_points(curve)
    mean = float(truth @ (bucket_edges[1:] + bucket_edges[:-1]) / 2)
    median = float(np.interp(0.5, curve, bucket_edges))
    hits = np.zeros(3 + len(points))
    for estimate in estimates:
        edges, lower, upper = estimate.band()
        true_curve = np.interp(edges, bucket_edges, curve)
        hits += [
            _holds(estimate.interval("mean"), mean),
            _holds(estimate.interval("quantile", 0.5), median),
            bool(((lower - 1e-9 <= true_curve) & (true_curve <= upper + 1e-9)).all()),
            *(_holds(estimate.interval("cdf", float(bucket_edges[point])), float(curve[point])) for point in points),
        ]
    share = hits / len(estimates)
    return [float(figure) for figure in (share[0], share[1], share[3:].mean(), share[3:].min(), share[2])]


def bins_held(estimates: Sequence[Estimate], truth: FloatArray) -> list[float]:
    """How often the bounds of a bin's density held it, on average over bins, and simultaneous ones all at once."""
    bucket_edges = estimates[0].edges
    curve = np.concatenate([[0.0], np.cumsum(truth)])
    single: list[float] = []
    together: list[float] = []
    for estimate in estimates:
        for simultaneous, shares in ((False, single), (True, together)):
            edges, low, high = estimate.density_band(simultaneous=simultaneous)
            true = np.diff(np.interp(edges, bucket_edges, curve)) / np.diff(edges)
            held = (low - 1e-9 <= true) & (true <= high + 1e-9)
            shares.append(bool(held.all()) if simultaneous else float(held.mean()))
    return [float(np.mean(single)), float(np.mean(together))]


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
    parser.add_argument("--estimator", choices=SquareWave.estimators, default="ems")
    parser.add_argument(
        "--hard", action="store_true", help="shapes with point masses, steep ends, jumps and narrow peaks"
    )
    options = parser.parse_args()
    settings: list[Setting] = [
        (shape, reports, epsilon, options.buckets, options.runs, options.estimator)
        for shape, reports, epsilon in product(HARD if options.hard else (*SMOOTH, *SPIKY), REPORTS, EPSILONS)
    ]
    header = HEADER if options.estimator == "ems" else HEADER + WIDTHS_HEADER
    print(table([header, ["---"] * len(header)]), flush=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for (shape, reports, epsilon, *_), (shares, ratios) in zip(settings, pool.map(measure, settings), strict=True):
            figures = [*(f"{100 * share:.0f} %" for share in shares), *(f"{ratio:.2f}" for ratio in ratios)]
            print(table([[shape, f"{reports:,}".replace(",", " "), str(epsilon), *figures]]), flush=True)


if __name__ == "__main__":
    main()
