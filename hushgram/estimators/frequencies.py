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
    """An unbiased estimate of the frequency of each value.

    `precision` is one over the variance at a value that nobody has, `likely` a distribution near the estimate. Each
    of the `sources` adds its share of the covariance.
    """

    estimate: FloatArray
    precision: float
    likely: FloatArray
    sources: tuple[tuple[float, FrequencyOracle], ...]

    def covariance(self, starts: IntArray) -> FloatArray:
        """The covariance of the frequencies of runs of values that begin at `starts`."""
        total = np.zeros((starts.size, starts.size))
        for share, oracle in self.sources:
            total += share * oracle.covariance(self.likely, starts)
        return total

    @property
    def most_runs(self) -> int:
        """The most runs whose covariance is quickly computed."""
        return min(oracle.most_runs for _, oracle in self.sources)


def combine(observed: Observed) -> Frequencies:
    """One estimate from all oracles, each weighted by its precision.

    Without a report it is zero, at precision zero, with the covariance of one report of even values.
    """
    size = observed[0][0].buckets
    seen = [(oracle, tally, oracle.reports(tally)) for oracle, tally in observed if oracle.reports(tally)]
    if not seen:
        return Frequencies(np.zeros(size), 0.0, np.full(size, 1 / size), ((1.0, observed[0][0]),))
    precisions = np.array([reports / oracle.noise for oracle, _, reports in seen])
    shares = precisions / precisions.sum()
    estimate = np.zeros(size)
    for share, (oracle, tally, _) in zip(shares, seen, strict=True):
        estimate += share * oracle.frequencies(tally)
    sources = tuple((share**2 / reports, oracle) for share, (oracle, _, reports) in zip(shares, seen, strict=True))
    return Frequencies(estimate, float(precisions.sum()), project_onto_simplex(estimate), sources)


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
        self.projected = self.frequencies.likely

    def uncertainty(self) -> Uncertainty:
        """The law of the frequencies shifted to sum to 1, before negative ones are cut off: a conservative choice."""
        size = self.projected.size
        bounds = part_bounds(size, self.frequencies.most_runs)
        centre = self.frequencies.estimate + (1 - self.frequencies.estimate.sum()) / size
        # With C the covariance of the parts: what all of them have too much is subtracted evenly from all values.
        shift = np.eye(bounds.size - 1) - (np.diff(bounds) / size)[:, None]
        covariance = shift @ self.frequencies.covariance(bounds[:-1]) @ shift.T
        return Uncertainty.of_parts(bounds / size, np.add.reduceat(centre, bounds[:-1]), covariance)

    def fit(self) -> float | None:
        if any(oracle.tally_length != oracle.cells for oracle, _ in self.observed):
            return None  # a tally of support is no histogram of cells
        return pearson([(oracle.forward(self.projected), tally) for oracle, tally in self.observed])
