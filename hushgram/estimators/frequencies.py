"""Unbiased frequencies from one or several oracles over the same values, with their covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.goodness_of_fit import pearson
from hushgram.estimators.types import Method, Solution, Uncertainty, Window, part_bounds
from hushgram.mechanisms.base import FrequencyOracle

Observed = Sequence[tuple[FrequencyOracle, IntArray]]


def project_onto_simplex(values: FloatArray) -> FloatArray:
    """Norm-Sub, the nearest distribution (paper, section 4.1): the Euclidean projection onto the simplex.

    What is negative after subtracting one common amount becomes zero, the rest sums to 1.

    >>> project_onto_simplex(np.array([0.7, 0.5, -0.1])).round(3).tolist()
    [0.6, 0.4, 0.0]
    """
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(values - excess[last], 0.0)


@dataclass(frozen=True)
class Frequencies:
    """An unbiased estimate of the frequency of each value, with covariance diag(diagonal) - Σ uuᵀ over `directions`.

    `precision` is one over the variance at a value that nobody has.
    """

    estimate: FloatArray
    precision: float
    diagonal: FloatArray
    directions: FloatArray

    def lifted(self, lift: FloatArray, groups: int) -> FloatArray:
        """The covariance of lift @ (the estimate summed over `groups` equal runs of values)."""
        spread = self.diagonal.reshape(groups, -1).sum(axis=1)
        common = self.directions.reshape(-1, groups, self.diagonal.size // groups).sum(axis=2) @ lift.T
        return (lift * spread) @ lift.T - common.T @ common


def combine(observed: Observed) -> Frequencies:
    """One estimate from all oracles, each weighted by its precision; without a report it is zero, at precision zero."""
    size = observed[0][0].buckets
    seen = [(oracle, tally, oracle.reports(tally)) for oracle, tally in observed if oracle.reports(tally)]
    if not seen:
        return Frequencies(np.zeros(size), 0.0, np.full(size, observed[0][0].noise), np.zeros((0, size)))
    precisions = np.array([reports / oracle.noise for oracle, _, reports in seen])
    shares = precisions / precisions.sum()
    estimate = np.zeros(size)
    for share, (oracle, tally, _) in zip(shares, seen, strict=True):
        estimate += share * oracle.frequencies(tally)
    likely = project_onto_simplex(estimate)
    diagonal, directions = np.zeros(size), []
    for share, (oracle, _, reports) in zip(shares, seen, strict=True):
        own, direction = oracle.covariance(likely)
        diagonal += share**2 / reports * own
        directions.append(share / np.sqrt(reports) * direction)
    return Frequencies(estimate, float(precisions.sum()), diagonal, np.stack(directions))


def norm_sub(window: Window, method: Method) -> Solution:
    """Frequencies of bins, projected onto the simplex and spread evenly over the buckets (paper, section 4.1)."""
    bins = _Bins([(mechanism, tally) for mechanism, tally in window if isinstance(mechanism, FrequencyOracle)])
    edges = np.linspace(0, 1, bins.projected.size + 1)
    curve = np.concatenate([[0.0], np.cumsum(bins.projected)])
    distribution = np.interp(np.linspace(0, 1, method.buckets + 1), edges, curve)
    return Solution(probabilities=np.diff(distribution), uncertainty=bins.uncertainty, fit=bins.fit)


class _Bins:
    """The frequencies of a window's bins."""

    def __init__(self, observed: Observed) -> None:
        self.observed = observed
        self.frequencies = combine(observed)
        self.projected = project_onto_simplex(self.frequencies.estimate)

    def uncertainty(self) -> Uncertainty:
        """The law of the frequencies shifted to sum to 1, before negative ones are cut off: a conservative choice."""
        size, bounds = self.projected.size, part_bounds(self.projected.size)
        sizes = np.diff(bounds)
        centre = self.frequencies.estimate + (1 - self.frequencies.estimate.sum()) / size
        # G(I - 11ᵀ/k), where G sums the bins of each part: C comes in only as its diagonal and its directions.
        diagonal, directions = self.frequencies.diagonal, self.frequencies.directions
        own = np.add.reduceat(diagonal, bounds[:-1])
        mixed = np.outer(own, sizes) / size
        covariance = np.diag(own) - mixed - mixed.T + diagonal.sum() * np.outer(sizes, sizes) / size**2
        common = np.add.reduceat(directions, bounds[:-1], axis=1) - np.outer(directions.sum(axis=1), sizes) / size
        parts = np.add.reduceat(centre, bounds[:-1])
        return Uncertainty(bounds / size, parts, covariance - common.T @ common)

    def fit(self) -> float | None:
        if any(oracle.tally_length != oracle.cells for oracle, _ in self.observed):
            return None  # a tally of support is no histogram of cells
        return pearson([(oracle.forward(self.projected), tally) for oracle, tally in self.observed])
