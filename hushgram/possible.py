"""The distributions that are possible where each cell's probability is known up to a limit: bounds over all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from hushgram._arrays import FloatArray
from hushgram.mechanisms.base import Transition
from hushgram.mechanisms.square_wave import Band

MOST_DIFFERENCES = 2
"""A square wave's cells are sparse in first differences, a trapezoid's in second."""
ROUNDED = 1e-14
"""Differences of cells below this share of the greatest are rounding errors."""
SETTLED = 1e-13
"""Bounds are found when a further round lowers none by more than this."""
MOST_ITERATIONS = 300
"""Where a solver takes more it may never end, as with steep trapezoids of many buckets."""
FEW_CELLS = 64
"""The number of cells that are taken at first where a programme of all of them does not end."""
REFINEMENTS = 3


class Possible(ABC):
    """The distributions over equal parts of the domain that are possible, by their extremes."""

    parts: int

    @abstractmethod
    def bound(self, edge: int, upper: bool) -> float:
        """The greatest or the least share of values below the edge of a part."""

    @abstractmethod
    def mean(self, offsets: FloatArray, upper: bool) -> float:
        """The greatest or the least mean of rising offsets, one for each part."""


@dataclass(frozen=True, eq=False)
class PossibleCurves(Possible):
    """All distribution functions between two that are possible themselves."""

    least: FloatArray
    greatest: FloatArray

    @property
    def parts(self) -> int:  # type: ignore[override]
        return self.least.size - 1

    def bound(self, edge: int, upper: bool) -> float:
        return float((self.greatest if upper else self.least)[edge])

    def mean(self, offsets: FloatArray, upper: bool) -> float:
        """The least distribution function has the greatest mean."""
        return float(offsets @ np.diff(self.least if upper else self.greatest))


def anything(parts: int) -> PossibleCurves:
    """All distributions."""
    edges = np.arange(parts + 1)
    return PossibleCurves((edges == parts).astype(np.float64), (edges > 0).astype(np.float64))


def possible_under_bands(bands: Sequence[Band], x: FloatArray, excess: FloatArray, share: float) -> PossibleCurves:
    """What is possible where the law of all reports is that of x and some excess, and a share of them are lies.

    Bands are those of square waves, or of randomized response, which is a wave of one cell; each has as many reports.

    A cell has probability q + (p - q)·(F(i) - F(i - w)), so that its constraint bounds the difference of two points of
    F; a further one says that F does not fall. Such systems are solved by shortest paths, for all points at once, and
    of two solutions the pointwise greater and lesser are solutions: there is a greatest F and a least.
    """
    parts = np.split(excess * len(bands), np.cumsum([band.cells for band in bands])[:-1])
    # Read from the other end, the least is the greatest.
    least = 1 - _greatest(bands, x[::-1], [part[::-1] for part in parts], share)[::-1]
    return PossibleCurves(least, _greatest(bands, x, parts, share))


def _greatest(bands: Sequence[Band], x: FloatArray, excess: Sequence[FloatArray], share: float) -> FloatArray:
    """The shortest paths from F(0) = 0, each round any number of steps by w, and then back."""
    curve = np.concatenate([[0.0], np.cumsum(x)])
    curve /= curve[-1]
    size = x.size
    greatest = np.ones(size)  # without F(0)
    rises = []
    for band, more in zip(bands, excess, strict=True):
        width, law = band.law.width, band.law
        inside = curve[1:] - curve[np.maximum(np.arange(1, size + 1) - width, 0)]
        rise = np.minimum((inside + (more[:size] + share * law.q) / law.gap) / (1 - share), 1.0)
        rows = -(-size // width)
        rises.append(np.cumsum(np.append(rise, np.zeros(rows * width - size)).reshape(rows, -1), axis=0))
    for _ in range(size):
        before = greatest
        for risen in rises:
            above = np.append(greatest, np.ones(risen.size - size)).reshape(risen.shape) - risen
            np.minimum(above[0], 0.0, out=above[0])
            greatest = np.minimum(greatest, (np.minimum.accumulate(above, axis=0) + risen).ravel()[:size])
        greatest = np.minimum.accumulate(greatest[::-1])[::-1]
        if (before - greatest).max() <= SETTLED:
            break
    return np.concatenate([[0.0], np.append(greatest[:-1], 1.0)])


class PossibleUnder(Possible):
    """What is possible under any transition, by a linear programme for each bound.

    With z = Mx as variables of their own the programme is sparse: neighbouring cells differ by little of x. The answer
    is not the solver's value but what its multipliers λ ≥ 0 prove, hᵀx ≤ λᵀy/(1 - f) + max(h - Mᵀλ) for all possible
    x: the two are the same up to the solver's tolerance, and this one is never too narrow.
    """

    def __init__(self, transition: Transition, y: FloatArray, share: float) -> None:
        self.transition, self.parts = transition, transition.buckets
        self._limits = y / (1 - share)
        self._known: dict[tuple[int, bool], float] = {}

    def bound(self, edge: int, upper: bool) -> float:
        if edge in (0, self.parts):
            return float(edge > 0)
        if (edge, upper) not in self._known:
            below = (np.arange(self.parts) < edge).astype(np.float64)
            self._known[edge, upper] = min(max(self._extreme(below, upper), 0.0), 1.0)
        return self._known[edge, upper]

    def mean(self, offsets: FloatArray, upper: bool) -> float:
        scale = float(offsets[-1])
        return scale * self._extreme(offsets / scale, upper)

    def _extreme(self, weights: FloatArray, upper: bool) -> float:
        return self._most(weights) if upper else -self._most(-weights)

    def _most(self, weights: FloatArray) -> float:
        """The greatest hᵀx."""
        cells = self._limits.size
        costs = np.concatenate([-weights, np.zeros(cells)])
        limits = np.concatenate([np.full(self.parts, np.inf), np.ones(cells)])
        totals = np.concatenate([np.zeros(cells), [1.0]])
        bounds: Any = np.stack([np.zeros(limits.size), limits], axis=1)
        solved = linprog(
            costs,
            A_eq=self._equations,
            b_eq=totals,
            bounds=bounds,
            method="highs-ipm",
            options={"maxiter": MOST_ITERATIONS},
        )
        if solved.success:
            multipliers = np.maximum(-solved.upper.marginals[self.parts :], 0.0) / self._limits
        else:
            multipliers = self._multipliers_of_few(weights) / self._limits
        return float(multipliers @ self._limits + (weights - self.transition.backward(multipliers)).max())

    def _multipliers_of_few(self, weights: FloatArray) -> FloatArray:
        """Multipliers of limits of 1 where only some cells count: what they prove is valid, if less sharp.

        First of cells at equal distances, then also of those ever nearer to the ones that matter.
        """
        cells = self._limits.size
        spread = chosen = np.unique(np.linspace(0, cells - 1, FEW_CELLS).round().astype(np.int64))
        multipliers = np.zeros(cells)
        for refinement in range(REFINEMENTS + 1):
            solved = linprog(
                -weights,
                A_ub=self._relative[chosen],
                b_ub=np.ones(chosen.size),
                A_eq=np.ones((1, self.parts)),
                b_eq=[1.0],
                method="highs-ds",
                options={"maxiter": MOST_ITERATIONS * chosen.size},
            )
            if not solved.success:
                break
            multipliers = np.zeros(cells)
            multipliers[chosen] = np.maximum(-solved.ineqlin.marginals, 0.0)
            distance = max(cells // (FEW_CELLS << (refinement + 1)), 1)
            matter = np.flatnonzero(multipliers)
            near = np.concatenate([spread, matter, matter - distance, matter + distance])
            chosen = np.unique(np.clip(near, 0, cells - 1))
        return multipliers

    @cached_property
    def _relative(self) -> FloatArray:
        """M over the limits of its cells."""
        return self.transition.matrix() / self._limits[:, None]

    @cached_property
    def _equations(self) -> Any:
        """Differences of Mx - z between neighbouring cells are zero, z in units of its limits, and Σx = 1."""
        matrix = self.transition.matrix()
        cells = len(matrix)
        matrix *= cells  # numbers near 1, as the solver's tolerances expect
        differences: Any = sparse.eye_array(cells, format="csr")
        operator, fewest = differences, sparse.csr_array(matrix)
        for _ in range(MOST_DIFFERENCES):
            differences = (sparse.eye_array(cells) - sparse.eye_array(cells, k=-1)) @ differences
            matrix = np.diff(matrix, axis=0, prepend=0.0)
            matrix[np.abs(matrix) < ROUNDED * cells * self._limits.max()] = 0.0
            if sparse.csr_array(matrix).nnz < fewest.nnz:
                fewest, operator = sparse.csr_array(matrix), differences
        sides = operator @ sparse.diags_array(cells * self._limits)
        total = sparse.csr_array(np.concatenate([np.ones(self.parts), np.zeros(cells)])[None, :])
        return sparse.vstack([sparse.hstack([fewest, -sides]), total]).tocsc()
