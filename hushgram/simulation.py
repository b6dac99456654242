"""Simulated collections of values with a known distribution, to measure how far estimates are from it.

The reproduction of the paper and the planner both use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hushgram import metrics
from hushgram._arrays import FloatArray, IntArray
from hushgram.collection import Collection

METRICS: dict[str, Callable[[FloatArray, FloatArray], float]] = {
    "w1": metrics.wasserstein,
    "ks": metrics.kolmogorov_smirnov,
    "range_0.1": partial(metrics.range_query_error, share=0.1),
    "range_0.4": partial(metrics.range_query_error, share=0.4),
    "mean": metrics.mean_error,
    "variance": metrics.variance_error,
    "quantiles": metrics.quantile_error,
}
"""The paper's metrics (section 3) by name: true and estimated distribution in, error on the unit domain out."""


@dataclass(frozen=True)
class Summary:
    """A figure over independent runs: its mean, and the standard error of that mean."""

    mean: float
    error: float
    runs: int

    @classmethod
    def of(cls, figures: Sequence[float]) -> Summary:
        """The summary of independent runs; one run has no standard error.

        >>> Summary.of([1.0, 2.0, 3.0])
        Summary(mean=2.0, error=0.5773502691896258, runs=3)
        """
        spread = float(np.std(figures, ddof=1)) if len(figures) > 1 else math.nan
        return cls(float(np.mean(figures)), spread / math.sqrt(len(figures)), len(figures))


def draw_tally(collection: Collection, truth: FloatArray, reports: int, rng: np.random.Generator) -> IntArray:
    """The tally of devices whose values are drawn from `truth`, the probabilities of the collection's buckets.

    Reports are independent, so that their tally is one multinomial draw: its cost does not grow with their number.
    """
    mechanism = collection.mechanism
    if mechanism.tally_length != mechanism.cells:
        raise ValueError(f"{mechanism.name} keeps no histogram of cells to draw from")
    cells = np.maximum(mechanism.forward(regroup(truth, mechanism.buckets)), 0.0)
    return rng.multinomial(reports, cells / cells.sum())


def simulate_tally(collection: Collection, population: IntArray, rng: np.random.Generator) -> IntArray:
    """The tally of devices with `population` values in each of the collection's buckets, spread evenly within each."""
    buckets = np.repeat(np.arange(population.size), population)
    units = (buckets + rng.random(buckets.size)) / population.size
    return collection.tally(collection.simulate(collection.domain.from_unit(units), rng))


def regroup(distribution: FloatArray, buckets: int) -> FloatArray:
    """The same distribution over another number of equal buckets, taken as even within each.

    >>> regroup(np.array([0.5, 0.3, 0.2]), 2).tolist()
    [0.65, 0.35]
    """
    if distribution.size == buckets:
        return distribution
    curve = np.concatenate([[0.0], np.cumsum(distribution)])
    points = np.linspace(0, 1, buckets + 1)
    return np.diff(np.interp(points, np.linspace(0, 1, curve.size), curve))
