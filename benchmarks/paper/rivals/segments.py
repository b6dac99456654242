"""A histogram as a few line segments that join: breakpoints by greedy search, heights by least squares.

The first phase of PriPL-Tree (Wang, Ye, Hu, Meng, VLDB 2024, section 3.3, equations 2 to 6 and algorithm 1). Every
breakpoint is tried: the paper's coarse-to-fine search only saves time. In the basis of hats, one for each knot, the
normal equations are tridiagonal and their entries are sums over intervals, so a try costs no pass over the buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray, IntArray

MOST_SEGMENTS = 32
LEAST_GAIN = 0.01
"""The search ends where one more segment takes less than this share off the squared residuals ("the ratio approaches
1", in the paper's words)."""
ROUNDING = 1e-12
"""Residuals below this share of the squares of the histogram are none."""


@dataclass(frozen=True)
class Segments:
    """Neighbouring intervals of buckets: segment k has those from `bounds[k]` to `bounds[k + 1]`, exclusive."""

    bounds: IntArray
    slopes: FloatArray
    masses: FloatArray

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.bounds)


def fit_segments(jagged: FloatArray, smooth: FloatArray, least_mass: float, most: int = MOST_SEGMENTS) -> Segments:
    """Half of the segments at most from the jagged histogram, the others from the smooth one, which gives the slopes.

    An interval is split only if the smooth histogram has more than `least_mass` there: less would drown in noise.

    >>> tent = np.array([1, 2, 3, 4, 3, 2, 1, 0.0])
    >>> fit = fit_segments(tent, tent, least_mass=0.0)
    >>> fit.bounds.tolist(), fit.slopes.round(9).tolist()
    ([0, 3, 8], [1.0, -1.0])
    """
    knots = [0, smooth.size - 1]
    for histogram, limit in ((jagged, most // 2), (smooth, most)):
        knots = _split(_Sums.of(histogram), knots, smooth, least_mass, limit)
    heights, _ = _Sums.of(smooth).fit(np.array([knots]))
    bounds = np.array([*knots[:-1], smooth.size])
    return Segments(bounds, np.diff(heights[0]) / np.diff(knots), np.add.reduceat(smooth, bounds[:-1]))


def _split(sums: _Sums, knots: Sequence[int], smooth: FloatArray, least_mass: float, limit: int) -> list[int]:
    """More knots, one at a time, each in the interval whose residuals are greatest."""
    result = list(knots)
    heights, [total] = sums.fit(np.array([result]))
    while len(result) <= limit and total > 0:
        starts = result[:-1]
        residuals = (sums.histogram - np.interp(np.arange(smooth.size), result, heights[0])) ** 2
        # Two neighbouring knots leave no room for one between them.
        open_to_split = (np.add.reduceat(smooth, starts) > least_mass) & (np.diff(result) > 1)
        if not open_to_split.any():
            break
        worst = int(np.argmax(np.where(open_to_split, np.add.reduceat(residuals, starts), -1.0)))
        tried = np.arange(result[worst] + 1, result[worst + 1])
        candidates = np.insert(np.tile(result, (tried.size, 1)), worst + 1, tried, axis=1)
        totals = sums.fit(candidates)[1]
        best = int(np.argmin(totals))
        if totals[best] > (1 - LEAST_GAIN) * total:
            break
        result = candidates[best].tolist()
        heights, [total] = sums.fit(candidates[best : best + 1])
    return result


@dataclass(frozen=True)
class _Sums:
    """A histogram with its running sums, plain and weighted by the bucket."""

    histogram: FloatArray
    plain: FloatArray
    weighted: FloatArray

    @classmethod
    def of(cls, histogram: FloatArray) -> _Sums:
        running = (np.cumsum(values) for values in (histogram, np.arange(histogram.size) * histogram))
        return cls(histogram, *(np.concatenate([[0.0], sums]) for sums in running))

    def fit(self, knots: IntArray) -> tuple[FloatArray, FloatArray]:
        """For each row of knots, both ends among them, the best heights there and the squared residuals they leave.

        Between two knots, λ from 0 to 1, a bucket adds (1 - λ)², λ(1 - λ) and λ² to the matrix and (1 - λ)·value and
        λ·value to the right side. A knot's own bucket belongs to the interval on its right, the last one's to none.
        """
        left, right, width = knots[:, :-1], knots[:, 1:], np.diff(knots).astype(np.float64)
        ones = width
        lags = (width - 1) / 2  # Σλ and Σλ² over buckets 0 … width - 1
        squares = (width - 1) * (2 * width - 1) / (6 * width)
        values = self.plain[right] - self.plain[left]
        slanted = (self.weighted[right] - self.weighted[left] - left * values) / width
        last = self.histogram[-1]
        diagonal = _at_knots(ones - 2 * lags + squares, squares)
        diagonal[:, -1] += 1
        target = _at_knots(values - slanted, slanted)
        target[:, -1] += last
        heights = _solve_tridiagonal(diagonal, lags - squares, target)
        whole = float(self.histogram @ self.histogram)
        residuals = whole - (heights * target).sum(axis=1)
        return heights, np.where(residuals > ROUNDING * whole, residuals, 0.0)


def _at_knots(of_left: FloatArray, of_right: FloatArray) -> FloatArray:
    """What intervals add at their left and right knots."""
    total = np.zeros((of_left.shape[0], of_left.shape[1] + 1))
    total[:, :-1] += of_left
    total[:, 1:] += of_right
    return total


def _solve_tridiagonal(diagonal: FloatArray, beside: FloatArray, target: FloatArray) -> FloatArray:
    """Symmetric positive definite systems, one in each row, by elimination downwards and back."""
    pivots, values = diagonal.copy(), target.copy()
    for k in range(1, diagonal.shape[1]):
        factor = beside[:, k - 1] / pivots[:, k - 1]
        pivots[:, k] -= factor * beside[:, k - 1]
        values[:, k] -= factor * values[:, k - 1]
    values[:, -1] /= pivots[:, -1]
    for k in range(diagonal.shape[1] - 2, -1, -1):
        values[:, k] = (values[:, k] - beside[:, k] * values[:, k + 1]) / pivots[:, k]
    return values
