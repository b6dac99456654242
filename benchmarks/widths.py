"""Square Waves of several widths beside one width: `python -m benchmarks.widths [--runs N] [--buckets D]`.

For each ε and set of factors of the bandwidth, both estimators on simulated tallies of four data sets, at 10⁵ and 10⁶
reports. A row has the geometric means, over data sets and reports, of the ratios to one width of the average errors,
Wasserstein (W1) and Kolmogorov-Smirnov (KS), each with its standard error over the runs, and the greatest ratios.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.coverage import table
from benchmarks.datasets import SMOOTH, bundled
from hushgram import Collection
from hushgram._arrays import FloatArray

DATA = ("beta(5, 2)", "taxi", "retirement", "income")
REPORTS = (100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
ESTIMATORS = ("ems", "log_spline")
SETS: tuple[tuple[float, ...], ...] = (
    (0.5, 1.0),
    (0.75, 1.25),
    (0.5, 0.75, 1.0, 1.25),
    (0.25, 0.5, 0.75, 1.0),
    (0.5, 1.0, 1.5, 2.0),
)
HEADER = ["estimator", "ε", "widths", "W1", "KS", "greatest W1", "greatest KS"]

Setting = tuple[str, float, str, int, int, int]


def measure(setting: Setting) -> FloatArray:
    """W1 and KS of each run, for one width and for each set: sets × runs × 2."""
    estimator, epsilon, name, reports, buckets, runs = setting
    truth = SMOOTH[name](buckets) if name in SMOOTH else bundled(name, buckets)
    results = []
    for widths in (None, *SETS):
        collection = Collection(
            name="c", low=0, high=1, buckets=buckets, epsilon=epsilon, estimator=estimator, widths=widths
        )
        cells = collection.mechanism.forward(truth)
        rng = np.random.default_rng([reports, int(10 * epsilon), *name.encode()])
        estimates = collection.estimate_many(list(rng.multinomial(reports, cells / cells.sum(), size=runs)))
        gaps = np.abs(np.cumsum([np.asarray(estimate.probabilities) - truth for estimate in estimates], axis=1))
        results.append(np.column_stack([gaps.mean(axis=1), gaps.max(axis=1)]))
    return np.array(results)


def ratios(errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ratios of the sets' average errors to those of one width, and their relative standard errors."""
    means = errors.mean(axis=1)
    relative = errors.std(axis=1, ddof=1) / means / np.sqrt(errors.shape[1])
    return means[1:] / means[0], np.hypot(relative[1:], relative[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="simulated windows for each setting (default: 100)")
    parser.add_argument("--buckets", type=int, default=1024)
    options = parser.parse_args()
    print(table([HEADER, ["---"] * len(HEADER)]), flush=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for estimator, epsilon in product(ESTIMATORS, EPSILONS):
            settings: list[Setting] = [
                (estimator, epsilon, name, reports, options.buckets, options.runs)
                for name, reports in product(DATA, REPORTS)
            ]
            measured = [ratios(errors) for errors in pool.map(measure, settings)]
            ratio, error = (np.array(part) for part in zip(*measured, strict=True))
            means = np.exp(np.log(ratio).mean(axis=0))
            deviations = means * np.sqrt((error**2).sum(axis=0)) / len(settings)
            for index, widths in enumerate(SETS):
                figures = [f"{means[index, k]:.3f} ± {deviations[index, k]:.3f}" for k in (0, 1)]
                greatest = [f"{ratio[:, index, k].max():.2f}" for k in (0, 1)]
                print(table([[estimator, str(epsilon), str(list(widths)), *figures, *greatest]]), flush=True)


if __name__ == "__main__":
    main()
