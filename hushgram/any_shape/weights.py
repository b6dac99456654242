"""Weights of cells for a linear question: of little noise, with Mᵀw ≤ h or Mᵀw ≥ h at every value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.linalg import lapack

from hushgram._arrays import BoolArray, FloatArray, IntArray
from hushgram.any_shape.pilot import Design
from hushgram.mechanisms.base import chunks

Side = Literal[-1, 1]
"""Of a lower bound, and of an upper one."""
ROUNDING = 1e-12
"""Added to the information, as a share of its average: what reports hardly tell must not blow up rounding errors."""
WEIGHTS_AT_ONCE = 1 << 17
"""So many weights fit the cache, with all that comes between."""


@dataclass(frozen=True, eq=False)
class Weighed:
    """For each question the mean and the variance of a report's weight, and the least and the greatest one."""

    mean: FloatArray
    variance: FloatArray
    least: FloatArray
    greatest: FloatArray

    @classmethod
    def of(cls, weights: FloatArray, cells: FloatArray) -> Weighed:
        """By the shares of cells."""
        mean = weights @ cells
        variance = np.maximum(weights**2 @ cells - mean**2, 0.0)
        return cls(mean, variance, weights.min(axis=1), weights.max(axis=1))


class Weighting:
    """Weights for the questions that one design answers.

    With y the pilot's cells, D = diag(y) and G = MᵀD⁻¹M, w = D⁻¹M G⁻¹g has the least variance of all with Mᵀw = g. As g
    ramps are taken that stay on one side of h. In the end a constant is added, which settles Mᵀw ≤ h or Mᵀw ≥ h also
    within buckets, and whatever was rounded: all columns of M sum to 1, so that it moves Mᵀw by itself.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.buckets = design.transition.buckets
        self.cells = design.transition.forward(design.x)

    def for_shares(self, start: IntArray, end: IntArray, ramp: IntArray, side: Side) -> FloatArray:
        """A row of weights for each share of values between two edges of buckets, with ramps of given lengths.

        Of a lower bound, ramps lie inside of the two edges, of an upper one outside.
        """
        solved = self._ramps(end, ramp, side) - self._ramps(start, ramp, -side)
        bucket = np.arange(self.buckets)
        return self._settle(solved, (start[:, None] <= bucket) & (bucket < end[:, None]), side)

    def for_averages(self, questions: FloatArray, side: Side) -> FloatArray:
        """A row of weights for each row of numbers, one for each bucket, whose average is asked for."""
        return self._settle(questions @ self._inverse, questions, side)

    def weigh_shares(self, start: IntArray, end: IntArray, ramp: IntArray, side: Side, cells: FloatArray) -> Weighed:
        """What `for_shares` comes to by shares of cells."""
        each = [
            Weighed.of(self.for_shares(start[rows], end[rows], ramp[rows], side), cells)
            for rows in chunks(start.size, max(1, WEIGHTS_AT_ONCE // cells.size))
        ]
        parts = zip(*((some.mean, some.variance, some.least, some.greatest) for some in each), strict=True)
        return Weighed(*map(np.concatenate, parts))

    def _settle(self, solved: FloatArray, questions: FloatArray | BoolArray, side: Side) -> FloatArray:
        """The weights of G⁻¹g, by a constant so high or so low that they only just are on the right side of h."""
        weights = self.design.transition.forward(solved)
        weights /= self.cells
        weights -= solved.sum(axis=1, keepdims=True)
        low, high = self.design.transition.reach(weights)
        excess = (high - questions).max(axis=1) if side < 0 else (low - questions).min(axis=1)
        weights -= excess[:, None]
        return weights

    def _ramps(self, edge: IntArray, ramp: IntArray, side: int) -> FloatArray:
        """G⁻¹g of ramps that end at edges, or begin there: the mean of steps down at neighbouring edges.

        An end of the domain needs no ramp: nothing lies below the first edge, and everything below the last.
        """
        length = np.where((edge == 0) | (edge == self.buckets), 0, ramp)
        first, last = (edge - length, edge) if side < 0 else (edge, edge + length)
        above, below = (np.clip(step, 0, self.buckets) for step in (last, first - 1))
        return (self._steps[above] - self._steps[below]) / (length + 1)[:, None]

    @cached_property
    def _inverse(self) -> FloatArray:
        """(G - 11ᵀ + τ11ᵀ + λI)⁻¹.

        G - 11ᵀ has no information on the total; any τ gives it some, and moves weights by a constant. Where a value's
        place within its bucket matters, Mᵀw = g cannot hold at all values, and is not worth any noise: λ = 1/n
        minimises noise and squared deviation together.
        """
        information = self.design.transition.information(self.cells)
        size = float(np.trace(information)) / self.buckets
        ridge = 1 / self.design.reports if self.design.transition.sees_within_buckets else 0.0
        information += size / self.buckets
        diagonal, failed, added = np.diag_indices(self.buckets), 1, ridge + ROUNDING * size
        while failed:  # rounding errors may be larger still; any ridge gives weights that are right
            information[diagonal] += added
            factor, failed = lapack.dpotrf(information, lower=True)
            added *= 100
        half, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
        half[diagonal] /= 2
        return half + half.T

    @cached_property
    def _steps(self) -> FloatArray:
        """G⁻¹g of a step down at an edge, summed over all edges up to each.

        The step at the last edge is 1 everywhere, and its weights are constant: zero does as well.
        """
        summed = np.zeros((self.buckets + 1, self.buckets))
        np.cumsum(self._inverse[:-1], axis=0, out=summed[1:-1])
        return np.cumsum(summed, axis=0, out=summed)
