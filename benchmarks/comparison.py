"""Whether comparisons keep their promises: `python -m benchmarks.comparison [size power intervals looks] [--runs N]`.

- `size`: how often the test tells one distribution apart from itself, at 5 %. It should be 5 %.
- `power`: how often it tells two distributions apart, beside χ² on 64 pools of cells, and beside the oracle that sees
  the values themselves, all of them or one in a hundred (the test of Kolmogorov and Smirnov).
- `intervals`: how often 95 % intervals of differences hold the true one: of mean, median, the deciles on average, the
  distribution function at deciles (the average and the worst point), and the band of the whole curve.
- `looks`: how often a comparison at 20 times, while reports arrive, is wrong at any of them: the ordinary p-value
  below 5 %, that for growing windows, the ordinary interval of the mean, that for growing windows.

Figures are shares of runs in percent, each with its standard error.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from benchmarks.coverage import decile_points, table
from benchmarks.datasets import HARD, SMOOTH, SPIKY
from hushgram import Collection
from hushgram._arrays import BoolArray, FloatArray, IntArray
from hushgram.comparison import Comparison, Difference, same_distribution

BUCKETS = 1024
SHAPES = {**SMOOTH, **SPIKY, **HARD}
RUNS = {"size": 4000, "power": 400, "intervals": 200, "looks": 1000}
LEVEL = 0.05
POOLS = 64
LOOKS = 20

Tallies = list[tuple[Any, IntArray]]


@dataclass(frozen=True)
class Sample:
    """Reports of one side: how many, through which collection."""

    reports: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def collection(self) -> Collection:
        return Collection(name="c", low=0, high=1, **{"buckets": BUCKETS, "epsilon": 1.0, **self.options})

    def draw(self, x: FloatArray, runs: int, rng: np.random.Generator) -> tuple[Any, IntArray]:
        mechanism = self.collection.mechanism
        cells = mechanism.forward(x.reshape(mechanism.buckets, -1).sum(axis=1))
        return mechanism, rng.multinomial(self.reports, cells / cells.sum(), size=runs)


def draw(samples: Sequence[Sample], x: FloatArray, runs: int, rng: np.random.Generator) -> list[Tallies]:
    """The tallies of one side, for each run."""
    drawn = [sample.draw(x, runs, rng) for sample in samples]
    return [[(mechanism, tallies[run]) for mechanism, tallies in drawn] for run in range(runs)]


SIZES: dict[str, tuple[str, list[Sample], list[Sample]]] = {
    "few reports": ("beta(5, 2)", [Sample(1000)], [Sample(1000)]),
    "unequal numbers": ("income", [Sample(1000, {"epsilon": 2})], [Sample(100_000, {"epsilon": 2})]),
    "small ε": ("taxi", [Sample(100_000, {"epsilon": 0.5})], [Sample(100_000, {"epsilon": 0.5})]),
    "ε 1 and 2": ("income", [Sample(10**6)], [Sample(10**6, {"epsilon": 2})]),
    "two revisions": (
        "taxi",
        [Sample(80_000), Sample(20_000, {"epsilon": 2})],
        [Sample(5_000), Sample(40_000, {"epsilon": 2})],
    ),
    "other waves": (
        "two spikes",
        [Sample(10**6, {"widths": (0.5, 0.75, 1, 1.25)})],
        [Sample(10**6, {"mechanism": "general_wave"})],
    ),
    "a tree and a wave": (
        "30 % zeros",
        [Sample(10**5, {"mechanism": "hierarchy", "buckets": 64, "epsilon": 2})],
        [Sample(10**5, {"buckets": 64})],
    ),
    "Haar": ("needle", [Sample(10**5, {"mechanism": "haar"})], [Sample(30_000, {"mechanism": "haar"})]),
    "hashing": (
        "income",
        [Sample(10**4, {"mechanism": "local_hashing", "buckets": 64, "epsilon": 2})],
        [Sample(3_000, {"mechanism": "local_hashing", "buckets": 64, "epsilon": 2})],
    ),
    "means only": (
        "Pareto",
        [Sample(10**4, {"mechanism": "stochastic_rounding"})],
        [Sample(10**4, {"mechanism": "piecewise", "epsilon": 2})],
    ),
}


def size(name: str, runs: int) -> list[str]:
    shape, first, second = SIZES[name]
    rng = np.random.default_rng([*name.encode()])
    sides = (draw(samples, SHAPES[shape](BUCKETS), runs, rng) for samples in (first, second))
    pvalues = np.array([same_distribution(one, other) for one, other in zip(*sides, strict=True)])
    return [name, shape, *(share(pvalues < level) for level in (0.2, LEVEL, 0.01))]


def shifted(x: FloatArray, by: int) -> FloatArray:
    """All values greater by some buckets; those beyond the high end clipped to it."""
    moved = np.concatenate([np.zeros(by), x[: x.size - by]])
    moved[-1] += x[x.size - by :].sum()
    return moved


def bump(x: FloatArray, mass: float) -> FloatArray:
    """A share of all values moved to a hill in the middle of the domain."""
    hill = np.diff(stats.norm.cdf(np.linspace(0, 1, x.size + 1), 0.5, 0.05))
    return (1 - mass) * x + mass * hill / hill.sum()


CHANGES: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "shift": lambda x, epsilon: shifted(x, round(10 / epsilon)),
    "bump": lambda x, epsilon: bump(x, 0.04 / epsilon),
}


def power(setting: tuple[str, str, float], runs: int) -> list[str]:
    """100,000 reports on either side."""
    shape, change, epsilon = setting
    rng = np.random.default_rng([int(10 * epsilon), *shape.encode(), *change.encode()])
    x = SHAPES[shape](BUCKETS)
    sides = x, CHANGES[change](x, epsilon)
    sample = Sample(100_000, {"epsilon": epsilon})
    reports = [draw([sample], side, runs, rng) for side in sides]
    ours = [same_distribution(one, other) < LEVEL for one, other in zip(*reports, strict=True)]
    cells = [chi_square(one[0][1], other[0][1]) < LEVEL for one, other in zip(*reports, strict=True)]
    values = [rng.multinomial(sample.reports, side, size=runs) for side in sides]
    oracle = [kolmogorov_smirnov(one, other) < LEVEL for one, other in zip(*values, strict=True)]
    few = [rng.multinomial(sample.reports // 100, side, size=runs) for side in sides]
    poor = [kolmogorov_smirnov(one, other) < LEVEL for one, other in zip(*few, strict=True)]
    return [shape, change, f"{epsilon:g}", *map(share, (ours, cells, oracle, poor))]


def chi_square(first: IntArray, second: IntArray) -> float:
    """Pearson's test of homogeneity on pools of cells, the best-known rival."""
    starts = np.linspace(0, first.size, POOLS + 1).astype(np.int64)[:-1]
    counts = np.stack([np.add.reduceat(side, starts) for side in (first, second)])
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), POOLS - 1))


def kolmogorov_smirnov(first: IntArray, second: IntArray) -> float:
    gap = np.abs(np.cumsum(first) / first.sum() - np.cumsum(second) / second.sum()).max()
    return float(stats.kstwobign.sf(gap * np.sqrt(1 / (1 / first.sum() + 1 / second.sum()))))


DECILES = np.arange(1, 10) / 10
EDGES = np.linspace(0, 1, BUCKETS + 1)


def intervals(setting: tuple[str, str, float, int, str], runs: int) -> list[str]:
    """As many reports on the first side, and a third of them on the second."""
    shape, change, epsilon, reports, estimator = setting
    rng = np.random.default_rng([reports, int(10 * epsilon), *shape.encode(), *change.encode()])
    x = SHAPES[shape](BUCKETS)
    sides = x, CHANGES[change](x, epsilon) if change in CHANGES else x
    collection = Collection(name="c", low=0, high=1, buckets=BUCKETS, epsilon=epsilon, estimator=estimator)
    estimates = []
    for side, count in zip(sides, (reports, reports // 3), strict=True):
        cells = collection.mechanism.forward(side)
        estimates.append(collection.estimate_many(list(rng.multinomial(count, cells / cells.sum(), size=runs))))
    truth = Truth(*sides)
    comparisons = [one.compare(other) for one, other in zip(*estimates, strict=True)]
    held = [truth.held(comparison) for comparison in comparisons]
    mean, median, deciles, cdf, band = (np.array(column) for column in zip(*held, strict=True))
    worst = cdf[:, cdf.mean(axis=0).argmin()]
    figures = [share(column) for column in (mean, median, deciles.mean(axis=1), cdf.mean(axis=1), worst, band)]
    widths = np.mean([[high - low for _, low, high in (each.mean, each.median)] for each in comparisons], axis=0)
    return [shape, change, f"{epsilon:g}", str(reports), *figures, *(f"{width:.4f}" for width in widths)]


class Truth:
    """The differences between two known distributions."""

    def __init__(self, first: FloatArray, second: FloatArray) -> None:
        curves = [np.concatenate([[0.0], np.cumsum(side)]) for side in (first, second)]
        self.curve = curves[0] - curves[1]
        self.points = decile_points(curves[0])
        self.mean = float((first - second) @ (EDGES[1:] + EDGES[:-1]) / 2)
        self.quantiles = np.subtract(*(np.interp(DECILES, curve, EDGES) for curve in curves))

    def held(self, comparison: Comparison) -> tuple[Any, Any, BoolArray, BoolArray, Any]:
        """Whether intervals hold the mean, the median, each decile, the curve at points, and the band all of it."""
        curve = comparison.curve()
        deciles = _holds(comparison.quantile(DECILES), self.quantiles)
        at_points = _holds(comparison.cdf(EDGES[self.points]), self.curve[self.points])
        whole = _holds(Difference(*curve[1:]), np.interp(curve.points, EDGES, self.curve)).all()
        return _holds(comparison.mean, self.mean), deciles[4], deciles, at_points, whole


def _holds(difference: Difference[Any], truth: Any) -> Any:
    # A rounding error must not decide where an interval ends exactly at zero.
    return (difference.low - 1e-9 <= truth) & (truth <= difference.high + 1e-9)


def looks(setting: tuple[str, float], runs: int) -> list[str]:
    """Two groups of one distribution, from 500 reports each to 50,000."""
    shape, epsilon = setting
    rng = np.random.default_rng([int(10 * epsilon), *shape.encode()])
    x = SHAPES[shape](256)
    collection = Collection(name="c", low=0, high=1, buckets=256, epsilon=epsilon, estimator="log_spline")
    cells = collection.mechanism.forward(x)
    times = np.unique(np.geomspace(500, 50_000, LOOKS).astype(int))
    wrong = []
    for _ in range(runs):
        sides = [
            np.cumsum([rng.multinomial(more, cells / cells.sum()) for more in np.diff(times, prepend=0)], axis=0)
            for _ in range(2)
        ]
        starts: list[bytes | None] = [None, None]
        ever = np.zeros(4, dtype=bool)
        for tallies in zip(*sides, strict=True):
            pair = [collection.estimate(tally, start) for tally, start in zip(tallies, starts, strict=True)]
            starts = [estimate.warm_start for estimate in pair]
            once, always = pair[0].compare(pair[1]), pair[0].compare(pair[1], growing=True)
            assert once.pvalue is not None
            assert always.pvalue is not None
            ever |= [once.pvalue < LEVEL, always.pvalue < LEVEL, once.mean.is_clear, always.mean.is_clear]
        wrong.append(ever)
    return [shape, f"{epsilon:g}", *(share(column) for column in np.transpose(wrong))]


def share(hits: Any) -> str:
    """The average in percent with its standard error."""
    average = float(np.mean(hits))
    error = float(np.std(hits) / np.sqrt(len(hits)))
    return f"{100 * average:.1f} ± {100 * error:.1f}"


def parts(estimator: str) -> Iterator[tuple[str, list[str], Callable[..., list[str]], list[Any]]]:
    yield "size", ["setting", "shape", "p < 0.2", "p < 0.05", "p < 0.01"], size, list(SIZES)
    changes = [
        (shape, change, epsilon)
        for epsilon in (0.5, 1.0, 2.0)
        for shape in ("beta(5, 2)", "taxi", "income")
        for change in CHANGES
    ]
    yield "power", ["shape", "change", "ε", "score test", "χ² on cells", "values seen", "1 of 100 seen"], power, changes
    rows = [
        (shape, change, epsilon, reports, estimator)
        for reports in (10_000, 100_000, 1_000_000)
        for epsilon in (1.0, 2.0)
        for shape in ("beta(5, 2)", "taxi", "income")
        for change in ("none", "shift", "bump")
    ]
    figures = ["mean", "median", "deciles", "cdf", "worst cdf point", "band", "width of mean", "width of median"]
    yield "intervals", ["shape", "change", "ε", "reports", *figures], intervals, rows
    rows_of_looks = [(shape, epsilon) for epsilon in (1.0, 2.0) for shape in ("beta(5, 2)", "income")]
    yield "looks", ["shape", "ε", "p", "p, growing", "mean", "mean, growing"], looks, rows_of_looks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="size, power, intervals, looks (default: all)")
    parser.add_argument("--runs", type=int, help=f"for each row (default: {RUNS})")
    parser.add_argument("--estimator", default="ems", help="that the intervals are of (default: ems)")
    parser.add_argument("--rows", type=int, help="only the first rows of each part")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    unknown = set(options.parts) - set(RUNS)
    if unknown:
        parser.error(f"no part {sorted(unknown)[0]!r}, allowed: {', '.join(RUNS)}")
    with ProcessPoolExecutor(options.processes) as pool:
        for name, heading, measure, settings in parts(options.estimator):
            if options.parts and name not in options.parts:
                continue
            runs = options.runs or RUNS[name]
            print(f"\n{name}, {runs} runs each, percent\n")
            print(table([heading, ["---"] * len(heading)]), flush=True)
            for row in pool.map(partial(measure, runs=runs), settings[: options.rows]):
                print(table([row]), flush=True)


if __name__ == "__main__":
    main()
