"""How often 95 % intervals hold the truth: `python -m benchmarks.coverage [--estimator NAME] [--hard] [--runs N]`.

For each shape, number of reports and ε, many collections are simulated; a row tells the share of runs in which the
interval of the mean, of the median and of the distribution function at the points where 0.05 < F < 0.95 (the deciles;
the average and the worst of them) held the true value, and how often the band held the whole true curve.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
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
HEADER = ["shape", "reports", "ε", "mean", "median", "cdf", "worst cdf point", "band"]

Setting = tuple[str, int, float, int, int, str]


def measure(setting: Setting) -> list[float]:
    """The shares of one row, over simulated collections of values in the middle of their buckets."""
    shape, reports, epsilon, buckets, runs, estimator = setting
    truth = {**SMOOTH, **SPIKY, **HARD}[shape](buckets)
    collection = Collection(name="c", low=0, high=buckets, buckets=buckets, epsilon=epsilon, estimator=estimator)
    rng = np.random.default_rng([buckets, reports, int(10 * epsilon), *shape.encode()])
    values = [np.repeat(np.arange(buckets) + 0.5, rng.multinomial(reports, truth)) for _ in range(runs)]
    tallies = [collection.tally(collection.simulate(sample, rng)) for sample in values]
    return shares_held(collection.estimate_many(tallies), truth)


def shares_held(estimates: Sequence[Estimate], truth: FloatArray) -> list[float]:
    """How often intervals held a known distribution: its mean, median, cdf on average and at worst, and the band."""
    bucket_edges = estimates[0].edges
    curve = np.concatenate([[0.0], np.cumsum(truth)])
    deciles = [int(np.argmin(np.abs(curve - share))) for share in np.arange(1, 10) / 10]
    points = sorted({point for point in deciles if 0.05 < curve[point] < 0.95})
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
    print(table([HEADER, ["---"] * len(HEADER)]), flush=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for (shape, reports, epsilon, *_), shares in zip(settings, pool.map(measure, settings), strict=True):
            figures = [f"{100 * share:.0f} %" for share in shares]
            print(table([[shape, f"{reports:,}".replace(",", " "), str(epsilon), *figures]]), flush=True)


if __name__ == "__main__":
    main()
