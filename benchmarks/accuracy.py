"""How close the log-spline comes to the truth, beside EMS: `python -m benchmarks.accuracy [--runs N]`.

For each shape, number of reports and ε, both estimate the same simulated tallies on 1024 buckets with a Square Wave. A
row has the ratios of their average errors, log-spline over EMS: the Wasserstein distance W1, the Kolmogorov-Smirnov
distance KS, and the total variation TV of the mass of 64 bins, which is the error of the density. The last rows sum up.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.coverage import table
from benchmarks.datasets import HARD, SMOOTH, SPIKY
from hushgram import Collection
from hushgram._arrays import FloatArray

SHAPES = {**SMOOTH, **SPIKY, **HARD}
REPORTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
BUCKETS, BINS = 1024, 64
HEADER = ["shape", "reports", "ε", "W1", "KS", "TV", "EMS in place"]
LIMITS = (1.05, 1.1)

Setting = tuple[str, int, float, int]


def measure(setting: Setting) -> tuple[FloatArray, int]:
    """The three ratios of a row, and the number of windows that the log-spline left to EMS."""
    shape, reports, epsilon, runs = setting
    truth = SHAPES[shape](BUCKETS)
    collections = [
        Collection(name="c", low=0, high=1, buckets=BUCKETS, epsilon=epsilon, estimator=estimator)
        for estimator in ("log_spline", "ems")
    ]
    cells = collections[0].mechanism.forward(truth)
    rng = np.random.default_rng([reports, int(10 * epsilon), *shape.encode()])
    tallies = list(rng.multinomial(reports, cells / cells.sum(), size=runs))
    results = [collection.estimate_many(tallies) for collection in collections]
    errors = [np.mean([distances(e.probabilities, truth) for e in estimates], axis=0) for estimates in results]
    return errors[0] / errors[1], sum(estimate.solution.estimator is not None for estimate in results[0])


def distances(x: FloatArray | None, truth: FloatArray) -> list[float]:
    """W1, KS and TV."""
    assert x is not None
    gap = np.abs(np.cumsum(x - truth))
    return [gap.mean(), gap.max(), np.abs((x - truth).reshape(BINS, -1).sum(axis=1)).sum() / 2]


def summarise(name: str, ratios: FloatArray) -> list[str]:
    """A row with the geometric means, the greatest, and how many exceed each limit."""
    means, greatest = np.exp(np.log(ratios).mean(axis=0)), ratios.max(axis=0)
    above = [" / ".join(str(int((column > limit).sum())) for limit in LIMITS) for column in ratios.T]
    figures = [f"{mean:.2f} (at most {most:.2f})" for mean, most in zip(means, greatest, strict=True)]
    return [name, *figures, *above, str(len(ratios))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="simulated windows for each row (default: 20)")
    options = parser.parse_args()
    settings: list[Setting] = [(*each, options.runs) for each in product(SHAPES, REPORTS, EPSILONS)]
    print(table([HEADER, ["---"] * len(HEADER)]), flush=True)
    rows: dict[str, list[FloatArray]] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for (shape, reports, epsilon, _), (ratios, left) in zip(settings, pool.map(measure, settings), strict=True):
            rows.setdefault(shape, []).append(ratios)
            figures = [f"{ratio:.2f}" for ratio in ratios]
            print(table([[shape, f"{reports:,}".replace(",", " "), str(epsilon), *figures, str(left)]]), flush=True)
    limits = " / ".join(f"{limit:g}" for limit in LIMITS)
    above = [f"{name} above {limits}" for name in ("W1", "KS", "TV")]
    print(table([["shape", "W1", "KS", "TV", *above, "settings"], ["---"] * 8]))
    for shape, ratios_of_shape in rows.items():
        print(table([summarise(shape, np.array(ratios_of_shape))]))
    print(table([summarise("all", np.concatenate([np.array(each) for each in rows.values()]))]))


if __name__ == "__main__":
    main()
