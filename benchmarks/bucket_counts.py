"""Whether the number of buckets matters to the log-spline: `python -m benchmarks.bucket_counts`.

Each shape is estimated with 64, 256, 1024 and 4096 buckets from the reports that are expected, so that no chance is in
it. A cell has the greatest W1 distance between these answers, over the noise: the average W1 distance, with 256
buckets, of answers to simulated reports from the answer to the expected ones. In parentheses, the same without 64
buckets.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.accuracy import SHAPES
from benchmarks.coverage import table
from hushgram import metrics
from hushgram._arrays import FloatArray
from hushgram.estimators.log_spline import log_spline
from hushgram.estimators.types import Method
from hushgram.mechanisms import SquareWave

FINEST, COARSEST = 4096, 64
BUCKETS = (COARSEST, 256, 1024, FINEST)
DRAWS = 20
REPORTS = (10_000, 100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0)

Setting = tuple[str, int, float]


def coarsened(x: FloatArray, buckets: int) -> FloatArray:
    return x.reshape(buckets, -1).sum(axis=1)


def estimate(mechanism: SquareWave, cells: FloatArray) -> FloatArray:
    """The answer of the product, on the coarsest buckets."""
    method = Method("log_spline", mechanism.epsilon, mechanism.buckets)
    tally: Any = cells  # the numbers that are expected are not whole
    [solution] = log_spline([[(mechanism, tally)]], method)
    assert solution.probabilities is not None
    return coarsened(solution.probabilities, COARSEST)


def compare(setting: Setting) -> tuple[float, float]:
    """The greatest distance between answers, over the noise: of all numbers of buckets, and without the coarsest."""
    shape, reports, epsilon = setting
    x = SHAPES[shape](FINEST)
    answers = {}
    for buckets in BUCKETS:
        mechanism = SquareWave(buckets, epsilon)
        answers[buckets] = estimate(mechanism, reports * mechanism.forward(coarsened(x, buckets)))
    mechanism = SquareWave(256, epsilon)
    cells = mechanism.forward(coarsened(x, 256))
    rng = np.random.default_rng([reports, int(10 * epsilon), *shape.encode()])
    draws = rng.multinomial(reports, cells / cells.sum(), size=DRAWS)
    noise = np.mean([metrics.wasserstein(estimate(mechanism, draw), answers[256]) for draw in draws])

    def greatest(some: Sequence[int]) -> float:
        return max(metrics.wasserstein(answers[one], answers[other]) for one, other in product(some, repeat=2))

    return float(greatest(BUCKETS) / noise), float(greatest(BUCKETS[1:]) / noise)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="SHAPE", help="only these")
    shapes = parser.parse_args().shapes
    columns = list(product(REPORTS, EPSILONS))
    header = ["shape", *(f"{reports:,}".replace(",", " ") + f", ε = {epsilon:g}" for reports, epsilon in columns)]
    print(table([header, ["---"] * len(header)]), flush=True)
    found = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for shape in shapes:
            row = list(pool.map(compare, [(shape, *column) for column in columns]))
            found += row
            print(table([[shape, *(f"{whole:.2f} ({fine:.2f})" for whole, fine in row)]]), flush=True)
    whole, fine = np.array(found).T
    shares = ", ".join(f"{np.mean(values < 0.1):.0%} are below a tenth" for values in (whole, fine))
    print(f"\nOf {len(found)} settings {shares} without {COARSEST} buckets.")


if __name__ == "__main__":
    main()
