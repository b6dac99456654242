"""What tallies say about a distribution, in one form for all mechanisms: sums over reports, linear in expectation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.frequencies import project_onto_simplex
from hushgram.mechanisms.base import FrequencyOracle, Mechanism, Transition
from hushgram.mechanisms.hashing import LocalHashing
from hushgram.mechanisms.hierarchy import Hierarchy
from hushgram.mechanisms.mean_only import MeanMechanism
from hushgram.mechanisms.randomized_response import RandomizedResponse

POOLS = 256
"""The most pools of neighbouring cells for each channel of a mechanism; finer ones add next to nothing."""


@dataclass(frozen=True, eq=False)
class Observation(ABC):
    """Nonnegative numbers that reports add up to; those of one report have expectation `design` @ x.

    Here x is the distribution over equal parts of the domain, spread evenly within each.
    """

    design: FloatArray

    @abstractmethod
    def reports(self, tally: IntArray) -> int: ...

    @abstractmethod
    def totals(self, tally: IntArray) -> FloatArray:
        """The sums over all reports of a tally."""

    @abstractmethod
    def precision(self, expected: FloatArray, tally: IntArray) -> FloatArray:
        """About one over the variance of each of one report's numbers: how to weigh them."""

    @abstractmethod
    def covariance(self, weights: FloatArray, tally: IntArray) -> FloatArray:
        """The covariance of weighted sums of one report's numbers, one sum to a row of weights, by a tally's spread."""


@dataclass(frozen=True, eq=False)
class Cells(Observation):
    """How many reports each pool of cells has."""

    starts: IntArray

    def reports(self, tally: IntArray) -> int:
        return int(tally.sum())

    def totals(self, tally: IntArray) -> FloatArray:
        return np.add.reduceat(tally, self.starts).astype(np.float64)

    def precision(self, expected: FloatArray, tally: IntArray) -> FloatArray:
        return 1 / expected

    def covariance(self, weights: FloatArray, tally: IntArray) -> FloatArray:
        """That of the tally itself, so that the test is one of permutations where both sides share a mechanism."""
        return _covariance_in_tally(weights, self.totals(tally))


@dataclass(frozen=True, eq=False)
class Support(Observation):
    """How many reports support the values of each pool: p* of those with the value, q* of the others."""

    oracle: FrequencyOracle
    starts: IntArray

    def reports(self, tally: IntArray) -> int:
        return self.oracle.reports(tally)

    def totals(self, tally: IntArray) -> FloatArray:
        return np.add.reduceat(self.oracle.support(tally), self.starts).astype(np.float64)

    def precision(self, expected: FloatArray, tally: IntArray) -> FloatArray:
        sizes = np.diff(self.starts, append=self.oracle.buckets)
        return 1 / np.maximum(expected * (1 - expected / sizes), 1e-12)

    def covariance(self, weights: FloatArray, tally: IntArray) -> FloatArray:
        p, q = self.oracle.support_probabilities
        likely = project_onto_simplex(self.oracle.frequencies(tally))
        covariance: FloatArray = (p - q) ** 2 * weights @ self.oracle.covariance(likely, self.starts) @ weights.T
        return covariance


@dataclass(frozen=True, eq=False)
class HashedSupport(Support):
    """The same of a family of hashes, in which values may be supported together more or less often than by chance."""

    oracle: LocalHashing

    def covariance(self, weights: FloatArray, tally: IntArray) -> FloatArray:
        """Weights of values are weights of cells, each of which supports the values that it is the hash of."""
        seen = np.flatnonzero(tally)
        by_value = np.repeat(weights, np.diff(self.starts, append=self.oracle.buckets), axis=1)
        by_cell = np.stack([self.oracle.hashed(row).ravel()[seen] for row in by_value])
        return _covariance_in_tally(by_cell, tally[seen])


@dataclass(frozen=True, eq=False)
class Mean(Observation):
    """The sum of what reports stand for, on a scale from 0 to 1, and what it lacks to the number of reports."""

    values: FloatArray
    least_variance: float

    def reports(self, tally: IntArray) -> int:
        return int(tally.sum())

    def totals(self, tally: IntArray) -> FloatArray:
        total = float(self.values @ tally)
        return np.array([float(tally.sum()) - total, total])

    def _variance(self, tally: IntArray) -> float:
        total = float(tally.sum())
        average = float(self.values @ tally) / total
        return max(float((self.values - average) ** 2 @ tally) / total, self.least_variance)

    def precision(self, expected: FloatArray, tally: IntArray) -> FloatArray:
        return np.full(2, 1 / (2 * self._variance(tally)))  # two numbers that say the same

    def covariance(self, weights: FloatArray, tally: IntArray) -> FloatArray:
        slopes = weights[:, 1] - weights[:, 0]
        return self._variance(tally) * np.outer(slopes, slopes)


def split(mechanism: Mechanism, tally: IntArray) -> Iterator[tuple[Mechanism, IntArray]]:
    """A tally as those of simple mechanisms: that of a tree comes apart into its levels.

    A report's level does not depend on its value, so that each level is a sample by itself.
    """
    if isinstance(mechanism, Hierarchy):
        yield from zip(mechanism.oracles, mechanism.split(tally), strict=True)
    else:
        yield mechanism, tally


@lru_cache(maxsize=32)
def observation_of(mechanism: Mechanism, parts: int) -> Observation:
    """What the tallies of a mechanism say about the distribution over a number of equal parts of the domain."""
    if isinstance(mechanism, MeanMechanism):
        values = mechanism.cell_values()
        low, high = float(values.min()), float(values.max())
        rising = ((np.arange(parts) + 0.5) / parts - low) / (high - low)
        scaled, least = (values - low) / (high - low), mechanism.least_variance / (high - low) ** 2
        return Mean(np.stack([1 - rising, rising]), scaled, least)
    shares = _shares_of_parts(parts, mechanism.buckets)
    if isinstance(mechanism, FrequencyOracle) and not isinstance(mechanism, RandomizedResponse):
        p, q = mechanism.support_probabilities
        starts = _pool_starts(mechanism.buckets, POOLS)
        design = np.add.reduceat(q + (p - q) * shares, starts, axis=1).T
        if isinstance(mechanism, LocalHashing):
            return HashedSupport(design, mechanism, starts)
        return Support(design, mechanism, starts)
    cells = np.stack([mechanism.forward(row) for row in shares])
    # Neighbouring cells say much the same only where the report is about as large as the value.
    ordered = isinstance(mechanism, (Transition, RandomizedResponse))
    channels = len(mechanism.channels) if isinstance(mechanism, Transition) else 1
    starts = _pool_starts(mechanism.cells, POOLS * channels if ordered else mechanism.cells)
    return Cells(np.ascontiguousarray(np.add.reduceat(cells, starts, axis=1).T), starts)


def _covariance_in_tally(weights: FloatArray, counts: FloatArray | IntArray) -> FloatArray:
    """The covariance of the weights of a report that is drawn from counted ones, one variable to a row."""
    total = float(counts.sum())
    centred = weights - (weights @ counts / total)[:, None]
    covariance: FloatArray = (centred * counts) @ centred.T / max(total - 1, 1.0)
    return covariance


def _pool_starts(cells: int, most: int) -> IntArray:
    return np.unique(np.linspace(0, cells, min(cells, most) + 1).astype(np.int64)[:-1])


def _shares_of_parts(parts: int, buckets: int) -> FloatArray:
    """The shares of each part that lie in each bucket: parts × buckets, rows that sum to 1."""
    edges, bounds = np.arange(parts + 1) / parts, np.arange(buckets + 1) / buckets
    ends = np.minimum(edges[1:, None], bounds[None, 1:]) - np.maximum(edges[:-1, None], bounds[None, :-1])
    return np.maximum(ends, 0.0) * parts
