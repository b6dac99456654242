"""What pictures of readable bins show, and whether it is true: `python -m benchmarks.readable_bins [--runs N]`.

For each estimator, shape and number of reports, many collections are simulated at ε = 1. An entry tells in how many of
them the bounds of all bins of the picture held the true density, and how many bins it had, on average.
"""

from __future__ import annotations

import argparse
import os
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.coverage import table
from benchmarks.datasets import SMOOTH, SPIKY
from hushgram import Collection

REPORTS = (1000, 10_000, 100_000, 1_000_000)


def measure(estimator: str, shape: str, reports: int, buckets: int, runs: int) -> tuple[float, float]:
    """The share of pictures that are true in all their bins, and the average number of bins."""
    truth = {**SMOOTH, **SPIKY}[shape](buckets)
    curve = np.concatenate([[0.0], np.cumsum(truth)])
    collection = Collection(name="c", low=0, high=1, buckets=buckets, epsilon=1.0, estimator=estimator)
    cells = collection.mechanism.forward(truth)
    rng = np.random.default_rng([buckets, reports, *shape.encode()])
    held, bins = [], []
    for estimate in collection.estimate_many(list(rng.multinomial(reports, cells / cells.sum(), size=runs))):
        edges, low, high = estimate.readable_bins()
        density = np.diff(np.interp(edges, estimate.edges, curve)) / np.diff(edges)
        held.append(bool(((low - 1e-9 <= density) & (density <= high + 1e-9)).all()))
        bins.append(low.size)
    return float(np.mean(held)), float(np.mean(bins))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="simulated collections for each entry")
    parser.add_argument("--buckets", type=int, default=1024)
    options = parser.parse_args()
    header = ["estimator", "shape", *(f"{reports:,} reports".replace(",", " ") for reports in REPORTS)]
    print(table([header, ["---"] * len(header)]), flush=True)
    for estimator, shape in product(("ems", "log_spline"), (*SMOOTH, *SPIKY)):
        found = [measure(estimator, shape, reports, options.buckets, options.runs) for reports in REPORTS]
        print(table([[estimator, shape, *(f"{100 * held:.0f} %, {bins:.0f}" for held, bins in found)]]), flush=True)


if __name__ == "__main__":
    main()
