"""The functions that a log-density is a sum of, and their prior: what depends on the mechanisms alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
from scipy.interpolate import BSpline

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.types import part_bounds
from hushgram.mechanisms.base import Transition

SPLINES = 64
"""Cubic B-splines on the domain; between 48 and 160 of them the results hardly differ."""
POOLS = 256
"""The most pools of neighbouring cells, for each channel of a mechanism, that Fisher's information is computed with."""
SINGLE_BUCKETS = 8
"""Buckets at either end that are parts of their own: a density may be steep there."""
LINE_VARIANCE = 9.0
"""The prior variance of the coefficient of the straight line, which has mean square 1."""
END_VARIANCE = 0.1
"""The prior variance of the exponents of power laws at the two ends, log u and log(1 - u)."""


class Basis:
    """Functions on the buckets, one to a column: a line, the modes of a spline, and a power law at each end.

    A mode is an eigenvector of the second-difference penalty on B-splines, scaled to mean square 1. All priors of
    smoothness that differ in their order are then diagonal: mode k has a variance that falls as a power of its
    frequency κ ≈ k + ½.

    The gradient of the likelihood is exact. Its curvature is computed on parts of the domain and pools of cells.
    """

    def __init__(self, mechanisms: Sequence[Transition]) -> None:
        self.mechanisms = tuple(mechanisms)
        self.buckets = self.mechanisms[0].buckets
        splines = min(SPLINES, self.buckets)
        edges = np.linspace(0, 1, self.buckets + 1)
        middles = (edges[1:] + edges[:-1]) / 2
        penalty = np.diff(np.eye(splines), n=2, axis=0)
        roughness, vectors = np.linalg.eigh(penalty.T @ penalty)
        knots = np.concatenate([[0.0] * 3, np.linspace(0, 1, splines - 2), [1.0] * 3])
        modes = _to_unit_square(BSpline.design_matrix(middles, knots, 3).toarray() @ vectors[:, 2:])
        modes *= np.where(modes[0] < 0, -1, 1)  # an eigenvector has no sign of its own
        line = _to_unit_square(middles[:, None])
        self.functions = np.ascontiguousarray(np.column_stack([line, modes, _power_laws(edges)]))
        self.size = self.functions.shape[1]
        self.is_mode = np.zeros(self.size, dtype=bool)
        self.is_mode[1:-2] = True
        self.log_frequency = np.zeros(self.size)
        self.log_frequency[1:-2] = np.log(roughness[2:] ** 0.25 * splines / np.pi)
        self.fixed_variances = np.full(self.size, LINE_VARIANCE)
        self.fixed_variances[-2:] = END_VARIANCE
        self._pool()

    def _pool(self) -> None:
        singles = np.arange(min(SINGLE_BUCKETS, self.buckets) + 1)
        bounds = np.unique(np.concatenate([part_bounds(self.buckets), singles, self.buckets - singles]))
        self.part_starts, self.part_sizes = bounds[:-1], np.diff(bounds)
        self.part_of_bucket = np.repeat(np.arange(self.part_sizes.size), self.part_sizes)
        self.part_functions = self.part_averages(self.functions)
        spread = np.repeat(np.eye(self.part_sizes.size) / self.part_sizes, self.part_sizes, axis=1)
        columns = [mechanism.forward(spread) for mechanism in self.mechanisms]
        self.pool_starts = [
            _pool_starts(cells.shape[1], POOLS * len(mechanism.channels))
            for cells, mechanism in zip(columns, self.mechanisms, strict=True)
        ]
        self.mechanism_of_pool = np.repeat(np.arange(len(columns)), [starts.size for starts in self.pool_starts])
        self.matrix = np.ascontiguousarray(self.pools(columns).T)

    def part_averages(self, functions: FloatArray) -> FloatArray:
        """The averages of functions on the buckets over each part."""
        return np.add.reduceat(functions, self.part_starts, axis=0) / self.part_sizes[:, None]

    def pools(self, cells: Sequence[FloatArray]) -> FloatArray:
        """The sums of numbers on the cells of each mechanism over the pools, all mechanisms one after the other."""
        sums = [np.add.reduceat(row, starts, axis=-1) for row, starts in zip(cells, self.pool_starts, strict=True)]
        return np.concatenate(sums, axis=-1)

    def forward(self, x: FloatArray) -> list[FloatArray]:
        """The probability of each cell of each mechanism."""
        return [mechanism.forward(x) for mechanism in self.mechanisms]

    def backward(self, cells: Sequence[FloatArray]) -> FloatArray:
        """Σ Mᵀ over the mechanisms."""
        total = np.zeros(self.buckets)
        for mechanism, row in zip(self.mechanisms, cells, strict=True):
            total += mechanism.backward(row)
        return total

    @cached_property
    def step_coefficients(self) -> FloatArray:
        """The coefficients with which the functions follow, as closely as they can, a step before each bucket."""
        sums = np.cumsum(self.functions[::-1], axis=0)[::-1]
        # A small ridge makes the coefficients unique: few buckets have more functions than they need.
        products = self.functions.T @ self.functions + 1e-6 * self.buckets * np.eye(self.size)
        return np.asarray(np.linalg.solve(products, sums.T), dtype=np.float64)

    def information_of_points(self, y: FloatArray, reports: FloatArray) -> FloatArray:
        """For each part, Fisher's information about a share of all values that moves to it from all parts alike.

        `y` are the probabilities of the pools, `reports` the numbers of each mechanism's.
        """
        return self._squared_matrix.T @ (reports[self.mechanism_of_pool] / y) - float(reports.sum())

    @cached_property
    def _squared_matrix(self) -> FloatArray:
        return self.matrix**2

    @cached_property
    def unresolved(self) -> FloatArray:
        """For each edge of the buckets, how much of a step there no sum of functions follows, in squared buckets."""
        orthogonal, _ = np.linalg.qr(np.column_stack([np.ones(self.buckets), self.functions]))
        sums = np.vstack([np.zeros(orthogonal.shape[1]), np.cumsum(orthogonal, axis=0)])
        return np.maximum(np.arange(self.buckets + 1) - (sums**2).sum(axis=1), 0.0)


@lru_cache(maxsize=16)
def basis_of(mechanisms: tuple[Transition, ...]) -> Basis:
    """The basis for windows whose reports went through these mechanisms; it takes a few windows' time to make."""
    return Basis(mechanisms)


def _pool_starts(cells: int, most: int) -> IntArray:
    return np.unique(np.linspace(0, cells, min(cells, most) + 1).astype(np.int64)[:-1])


def _to_unit_square(columns: FloatArray) -> FloatArray:
    """Columns with mean 0 and mean square 1."""
    centred = columns - columns.mean(axis=0)
    return centred / np.sqrt((centred**2).mean(axis=0))


def _power_laws(edges: FloatArray) -> FloatArray:
    """log u and log(1 - u), averaged over each bucket, with mean 0."""

    def average_log(u: FloatArray) -> FloatArray:
        integral = np.where(u > 0, u * np.log(np.where(u > 0, u, 1.0)) - u, 0.0)
        return np.diff(integral) / np.diff(u)

    rising = average_log(edges)
    columns = np.column_stack([rising, rising[::-1]])
    return columns - columns.mean(axis=0)
