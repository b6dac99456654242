"""A channel that is optimised for the distribution function: workload factorization (McKenna et al., VLDB 2020).

Among all ε-private channels Q, matrices of reports × values, and all linear unbiased readings of their tallies,
projected gradient descent looks for the pair whose total variance over a workload is least; the workload here is the
prefixes F(1), F(2), …. Objective and constraints are the publication's, the search is ours. It knows no smoothness:
what it finds is meant for any distribution. Its cost limits the number of values, which are therefore bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import isotonic_regression

from hushgram._arrays import FloatArray, IntArray
from hushgram.simulation import regroup

BINS = 128
REPORTS_PER_VALUE = 4
"""The rows of Q for each of its columns, as the publication recommends."""
STEPS = 2000
GROWTH, SHRINKAGE, SHORTEST = 1.2, 0.5, 1e-6
"""How the length of a step changes after one that helps, and after one that does not and is taken back; the descent
ends where it is but this part of the first."""
BISECTIONS = 50


@dataclass(frozen=True, eq=False)
class Channel:
    """The probability of each report (rows) given each value (columns), and how its tallies are read."""

    matrix: FloatArray

    @property
    def values(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def reading(self) -> FloatArray:
        """(QᵀD⁻¹Q)⁻¹QᵀD⁻¹, D = diag(Q1): of all unbiased readings the one of least variance when values are even."""
        weighted = self.matrix / self.matrix.sum(axis=1)[:, None]
        return np.linalg.solve(self.matrix.T @ weighted, weighted.T)

    def prefixes(self, tally: IntArray) -> FloatArray:
        """The unbiased estimate of the distribution function at the end of each value; the last is 1."""
        return np.cumsum(self.reading @ (tally / tally.sum()))

    def draw_tally(self, population: IntArray, rng: np.random.Generator) -> IntArray:
        """The reports of devices with `population` of each value. Those of a value are one multinomial draw."""
        laws = (self.matrix / self.matrix.sum(axis=0)).T
        return rng.multinomial(population, laws).sum(axis=0)


def estimate_by_factorization(
    population: IntArray, epsilon: float, buckets: int, rng: np.random.Generator
) -> FloatArray:
    """The probability of each bucket, from simulated devices with `population` values in each of their fine buckets."""
    channel = optimised_channel(epsilon, min(BINS, buckets))
    tally = channel.draw_tally(population.reshape(channel.values, -1).sum(axis=1), rng)
    return regroup(nearest_distribution(channel.prefixes(tally)), buckets)


def nearest_distribution(prefixes: FloatArray) -> FloatArray:
    """The distribution whose function is nearest to the estimated one: the squared error that the channel is made for.

    >>> nearest_distribution(np.array([0.3, 0.1, 0.9, 1.0])).round(3).tolist()
    [0.2, 0.0, 0.7, 0.1]
    """
    rising = np.clip(isotonic_regression(prefixes[:-1]).x, 0.0, 1.0)
    return np.diff(np.concatenate([[0.0], rising, [1.0]]))


# The search -----------------------------------------------------------------------------------------------------------


@lru_cache
def optimised_channel(epsilon: float, values: int) -> Channel:
    """Descent from a random start, always the same one: by turns in Q alone, and in Q and the least probabilities z.

    Row o of Q keeps between z_o and e^ε·z_o, which is what ε-privacy asks. Once most entries are at a bound, a step
    that moves the bounds seldom helps any more, but one between them still may, hence the turns.
    """
    rng = np.random.default_rng([values, *str(epsilon).encode()])
    ratio, reports = math.exp(epsilon), REPORTS_PER_VALUE * values
    floors = np.full(reports, (1 + 1 / ratio) / (2 * reports))
    matrix = project_columns(rng.random((reports, values)) / reports, floors, ratio)
    error, slope = prefix_variance(matrix)
    first = 0.1 * np.abs(matrix).mean() / np.abs(slope).mean()
    lengths = {False: first, True: first}
    for turn in range(STEPS):
        moves_floors = turn % 2 == 1
        length, lower = lengths[moves_floors], floors
        if moves_floors:
            fall = _slope_of_floors(matrix, floors, ratio, slope) / (values * ratio)
            lower = _keep_feasible(floors - length * fall, ratio)
        tried = project_columns(matrix - length * slope, lower, ratio)
        tried_error, tried_slope = prefix_variance(tried)
        better = tried_error < error
        if better:
            matrix, floors, error, slope = tried, lower, tried_error, tried_slope
        lengths[moves_floors] *= GROWTH if better else SHRINKAGE
        if max(lengths.values()) < SHORTEST * first:
            break
    return Channel(matrix)


def prefix_variance(matrix: FloatArray) -> tuple[float, FloatArray]:
    """L(Q) = tr((QᵀD⁻¹Q)⁻¹WᵀW), the total variance over the prefixes W up to constants, and its derivative by Q.

    With X = (QᵀD⁻¹Q)⁻¹WᵀW(QᵀD⁻¹Q)⁻¹ the derivative is -2D⁻¹QX, plus the diagonal of D⁻¹QXQᵀD⁻¹ in every column.
    """
    weighted = matrix / matrix.sum(axis=1)[:, None]
    values = matrix.shape[1]
    # Prefixes i and j share the values up to the lesser of the two: (WᵀW)_ij = values - max(i, j).
    workload = values - np.maximum.outer(np.arange(values), np.arange(values)).astype(np.float64)
    inverse = np.linalg.inv(matrix.T @ weighted)
    spread = weighted @ (inverse @ workload @ inverse)
    slope = (spread * weighted).sum(axis=1)[:, None] - 2 * spread
    return float((inverse * workload).sum()), slope


def project_columns(matrix: FloatArray, floors: FloatArray, ratio: float) -> FloatArray:
    """For each column the nearest one with entries between `floors` and `ratio` times that, and the sum 1.

    That is the column plus a number, cut to the bounds. The number is found by bisection, and then exactly.
    """
    lower, upper = floors[:, None], ratio * floors[:, None]
    low, high = (lower - matrix).min(axis=0), (upper - matrix).max(axis=0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = np.clip(matrix + middle, lower, upper).sum(axis=0) < 1
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    cut = np.clip(matrix + high, lower, upper)
    between = (cut > lower) & (cut < upper)
    excess = (cut.sum(axis=0) - 1) / np.maximum(between.sum(axis=0), 1)
    return np.clip(cut - excess * between, lower, upper)


def _slope_of_floors(matrix: FloatArray, floors: FloatArray, ratio: float, slope: FloatArray) -> FloatArray:
    """The derivative by z: entries at a bound move with it, and those between make up for it, evenly."""
    low, high = matrix <= floors[:, None], matrix >= ratio * floors[:, None]
    between = ~(low | high)
    made_up = (slope * between).sum(axis=0) / np.maximum(between.sum(axis=0), 1)
    gain = slope - made_up
    return (gain * low).sum(axis=1) + ratio * (gain * high).sum(axis=1)


def _keep_feasible(floors: FloatArray, ratio: float) -> FloatArray:
    """Floors that leave room for columns that sum to 1."""
    positive = np.maximum(floors, 1e-12)
    total = positive.sum()
    return positive * np.clip(total, 1 / ratio, 1.0) / total
