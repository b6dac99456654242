"""How far early panes that start warm are from those fitted from scratch: `python -m benchmarks.warm_starts`.

Windows of the shapes of `make accuracy`, but for those kept aside, grow in ten panes. Each pane starts from the one
before it, and is compared with a fit from scratch of the same tally. No time is measured.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.datasets import HARD, SMOOTH, SPIKY
from hushgram import Collection

SHAPES = {**SMOOTH, **SPIKY, **HARD}
PANES = 10
EPSILONS = (0.5, 1.0, 2.0, 4.0)
REPORTS = (20_000, 100_000, 1_000_000)
NEAR = 3e-3


@dataclass(frozen=True)
class Comparison:
    """Of one pane: whether it began warm, and the greatest difference of the distribution functions."""

    warm: bool
    distance: float


def compare_panes(collection: Collection, shape: str, reports: int, seed: int) -> Iterator[Comparison]:
    cells = collection.mechanism.forward(SHAPES[shape](collection.buckets))
    rng = np.random.default_rng(seed)
    tally, start = np.zeros(cells.size, dtype=np.int64), None
    for pane in range(PANES):
        tally = tally + rng.multinomial(reports // PANES, cells / cells.sum())
        estimate, scratch = collection.estimate(tally, start), collection.estimate(tally)
        start = estimate.warm_start
        if pane:
            assert estimate.probabilities is not None
            assert scratch.probabilities is not None
            difference = np.abs(np.cumsum(estimate.probabilities - scratch.probabilities)).max()
            yield Comparison(bool(difference > 0), float(difference))


def main() -> None:
    print(f"| ε | reports | panes | start warm | over {NEAR} apart | greatest distance |\n|---|---|---|---|---|---|")
    for epsilon in EPSILONS:
        collection = Collection(name="c", low=0, high=1, buckets=1024, epsilon=epsilon, estimator="log_spline")
        for reports in REPORTS:
            panes = [
                comparison
                for seed, shape in enumerate(SHAPES)
                for comparison in compare_panes(collection, shape, reports, seed)
            ]
            warm, apart = (sum(counted) for counted in ([p.warm for p in panes], [p.distance > NEAR for p in panes]))
            greatest = max(pane.distance for pane in panes)
            print(f"| {epsilon} | {reports:,} | {len(panes)} | {warm / len(panes):.0%} | {apart} | {greatest:.4f} |")


if __name__ == "__main__":
    main()
