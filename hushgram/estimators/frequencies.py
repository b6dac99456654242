"""Unbiased frequencies from one or several oracles over the same values, with their covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram.arrays import FloatArray, IntArray
from hushgram.estimators.fit import pearson
from hushgram.estimators.simplex import project_onto_simplex
from hushgram.estimators.solution import Method, Solution, Uncertainty, Window, part_bounds
from hushgram.mechanisms.base import FrequencyOracle


@dataclass(frozen=True)
class Frequencies:
    """An unbiased estimate of the frequency of each value.

    `precision` is one over the variance at a value that nobody has. The covariance is diag(variances) - shared·ffᵀ off
    the diagonal, where f is the estimate made a distribution.
    """

    estimate: FloatArray
    precision: float
    variances: FloatArray
    shared: float

    def covariance(self) -> FloatArray:
        f = project_onto_simplex(self.estimate)
        matrix = -self.shared * np.outer(f, f)
        np.fill_diagonal(matrix, self.variances)
        return matrix


def combine(observed: Sequence[tuple[FrequencyOracle, IntArray]]) -> Frequencies:
    """One estimate from all oracles, each weighted by its precision; without a report it is zero, at precision zero."""
    size = observed[0][0].buckets
    reports = np.array([oracle.reports(tally) for oracle, tally in observed], dtype=np.float64)
    precisions = reports / [oracle.noise for oracle, _ in observed]
    if not reports.any():
        return Frequencies(np.zeros(size), 0.0, np.full(size, observed[0][0].noise), 0.0)
    shares = precisions / precisions.sum()
    estimate = sum(share * oracle.frequencies(tally) for share, (oracle, tally) in zip(shares, observed, strict=True))
    likely = project_onto_simplex(estimate)
    weights = np.divide(shares**2, reports, out=np.zeros_like(shares), where=reports > 0)
    variances = sum(weight * oracle.variances(likely) for weight, (oracle, _) in zip(weights, observed, strict=True))
    return Frequencies(estimate, float(precisions.sum()), variances, float(weights.sum()))


def norm_sub(window: Window, method: Method) -> Solution:
    """Frequencies of bins, projected onto the simplex and spread evenly over the buckets (paper, section 4.1).

    The covariance is that of the frequencies before the projection, which only brings them nearer: it is conservative.
    """
    observed = _oracles(window)
    bins = combine(observed)
    projected = project_onto_simplex(bins.estimate)
    edges = np.linspace(0, 1, projected.size + 1)
    distribution = np.interp(
        np.linspace(0, 1, method.buckets + 1), edges, np.concatenate([[0.0], np.cumsum(projected)])
    )

    def uncertainty() -> Uncertainty:
        bounds = part_bounds(projected.size)
        covariance = np.add.reduceat(np.add.reduceat(bins.covariance(), bounds[:-1], axis=0), bounds[:-1], axis=1)
        return Uncertainty(edges[bounds], np.add.reduceat(bins.estimate, bounds[:-1]), covariance)

    def fit() -> float | None:
        return pearson([(oracle.forward(projected), tally) for oracle, tally in observed])

    return Solution(probabilities=np.diff(distribution), uncertainty=uncertainty, fit=fit)


def _oracles(window: Window) -> list[tuple[FrequencyOracle, IntArray]]:
    return [(mechanism, tally) for mechanism, tally in window if isinstance(mechanism, FrequencyOracle)]
