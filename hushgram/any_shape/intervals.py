"""Intervals for any shape, in the units of a collection.

Devices tell the bucket of a value, and nothing that an interval could rest on of its place in the bucket. So a question
about values is answered by edges of buckets: a lower bound by the buckets that lie in the question altogether, an upper
one by all that touch it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, FloatArray, IntArray, check_real_numbers
from hushgram._validation import FARTHEST
from hushgram.any_shape.bounds import Bounds
from hushgram.any_shape.pilot import make_design
from hushgram.any_shape.weights import Side
from hushgram.domain import Domain, find_buckets
from hushgram.intervals import Interval, Numbers, check_ranges, check_shares
from hushgram.mechanisms.base import Mechanism
from hushgram.readable_bins import finest_narrow_runs

QUANTILE_EDGES = 256
"""The most edges at which the distribution function is compared with a share."""
BAND_EDGES = 64
"""The most edges that a band is fixed at; between them it is carried on by monotonicity."""
MEAN_PART = 0.1
"""Of the probability that a lower bound of the variance is wrong, the part for the mean, which moves it little."""


class AnyShape:
    """Answers to questions about the values behind the tallies of one window, at least one report in each of them."""

    def __init__(self, domain: Domain, tallies: Sequence[tuple[Mechanism, IntArray]]) -> None:
        self.domain = domain
        self._bounds = Bounds(make_design(tallies))
        self.buckets = self._bounds.buckets

    def interval(self, of: str, at: tuple[Any, ...], level: float) -> Interval[Any]:
        answers: dict[str, Callable[..., Interval[Any]]] = {
            "mean": self.mean,
            "variance": self.variance,
            "std": self.std,
            "quantile": self.quantile,
            "cdf": self.cdf,
            "probability": self.probability,
        }
        return answers[of](*at, level=level)

    def mean(self, *, level: float) -> Interval[Any]:
        least, greatest = self._places
        low, high = (self.domain.low + self._length * end for end in self._between(least, greatest, (1 - level) / 2))
        return Interval(max(low, self.domain.low), min(high, self.domain.high))

    def variance(self, *, level: float) -> Interval[Any]:
        """E[(v - c)²] is never less than the variance, and exceeds it by (E[v] - c)²: c is the pilot's mean."""
        tail = (1 - level) / 2
        least, greatest = self._places
        centre = float(self._bounds.design.x @ (least + greatest)) / 2
        nearest = np.maximum(np.maximum(least - centre, centre - greatest), 0.0) ** 2
        farthest = np.maximum(centre - least, greatest - centre) ** 2
        high = self._bounds.average(farthest, tail, 1)
        off = max(abs(mean - centre) for mean in self._between(least, greatest, MEAN_PART * tail / 2))
        low = self._bounds.average(nearest, (1 - MEAN_PART) * tail, -1) - off**2
        return Interval(*(self._length**2 * np.clip(_ordered(low, high), 0.0, 0.25)))

    def std(self, *, level: float) -> Interval[Any]:
        return Interval(*np.sqrt(self.variance(level=level)))

    def cdf(self, x: float | Numbers, *, level: float) -> Interval[Any]:
        values = check_real_numbers("x", x)
        return self._interval_of_shares(np.full(values.shape, -np.inf), values, level)

    def probability(self, low: float | Numbers, high: float | Numbers, *, level: float) -> Interval[Any]:
        """Of the share of values from `low` to `high`, both included."""
        return self._interval_of_shares(*check_ranges(low, high), level)

    def quantile(self, q: float | Numbers, *, level: float) -> Interval[Any]:
        """From the first bucket in which the distribution function may have reached `q` to the last.

        Each edge is one test, and only those next to the true quantile must not fail: many edges cost no confidence.
        """
        shares = check_shares("q", q)
        edges = self._pilot_edges(QUANTILE_EDGES)
        lower, upper = self._curve(edges, (1 - level) / 2)
        first = np.searchsorted(np.maximum.accumulate(upper), shares)
        last = np.searchsorted(np.minimum.accumulate(lower[::-1])[::-1], shares, side="right") - 1
        below, above = np.maximum(first - 1, 0), np.minimum(last + 1, edges.size - 1)
        start, end = edges[np.minimum(below, above - 1)], edges[np.maximum(above, below + 1)]
        least, greatest = self._values
        return Interval(least[start], greatest[end - 1])

    def band(self, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points of the domain and bounds there, between which straight lines bound the distribution function, too.

        Between two edges the function may jump anywhere: it is at least the lower bound before, and at most the upper
        bound after. So bounds are steps, each drawn as two points, one hardly before the other.
        """
        edges = self._pilot_edges(BAND_EDGES)
        tests = max(1, 2 * (edges.size - 2))
        lower, upper = self._curve(edges, (1 - level) / tests)
        lower, upper = np.maximum.accumulate(lower), np.minimum.accumulate(upper[::-1])[::-1]
        upper = np.maximum(lower, upper)
        at = self.domain.from_unit(edges / self.buckets)
        before, beyond = (np.nextafter(at, end) for end in (-np.inf, np.inf))
        after = np.append(upper[1:], 1.0)
        # Whole numbers lie between edges, values may lie on one and then belong to the bucket above.
        here = upper if self.domain.integer else after
        if self.domain.integer:
            before, beyond = at - 0.25, at + 0.25
        points = np.stack([before, at, beyond], axis=1).ravel()
        low = np.stack([np.append(0.0, lower[:-1]), lower, lower], axis=1).ravel()
        high = np.stack([upper, here, after], axis=1).ravel()
        return points[1:-1], low[1:-1], high[1:-1]

    def bins(self, edges: IntArray, of: int, level: float, simultaneous: bool) -> tuple[FloatArray, FloatArray]:
        """Bounds of the shares of values between edges, given in parts of the domain, of which there are `of`."""
        tail = (1 - level) / 2 / (edges.size - 1 if simultaneous else 1)
        return self._shares_of_bins(edges[:-1], edges[1:], of, tail)

    def readable_bins(self, edges: IntArray, of: int, level: float) -> tuple[IntArray, FloatArray, FloatArray]:
        """The edges of bins that are joined until they are readable, and bounds of their shares, all at once.

        The pilot says which are: bounds of other reports need not allow for a choice among many.
        """
        count = edges.size - 1
        tail = (1 - level) / 2 / count
        runs = [
            (starts, np.minimum(starts + length, count))
            for length in (2**power for power in range((count - 1).bit_length() + 1))
            if (starts := np.arange(0, count, length)).size
        ]
        bounds = [self._shares_of_bins(edges[start], edges[end], of, tail, expected=True) for start, end in runs]
        starts, ends = (np.concatenate(part) for part in zip(*runs, strict=True))
        low, high = (np.concatenate(part) for part in zip(*bounds, strict=True))
        chosen = finest_narrow_runs(starts, ends, (low + high) / 2, (high - low) / 2, np.diff(edges) / of)
        joined = edges[np.append(starts[chosen], count)]
        return joined, *self.bins(joined, of, level, simultaneous=True)

    def _shares_of_bins(
        self, start: IntArray, end: IntArray, of: int, tail: float, expected: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        (down, end_down), (up, end_up) = (
            (start * self.buckets // of, end * self.buckets // of),
            (-(-start * self.buckets // of), -(-end * self.buckets // of)),
        )
        low = self._bounds.shares(up, end_down, tail, -1, alike=True, expected=expected)
        high = self._bounds.shares(down, end_up, tail, 1, alike=True, expected=expected)
        return _ordered(low, high)

    # Buckets ---------------------------------------------------------------------------------------------------------

    @property
    def _length(self) -> float:
        return self.domain.high - self.domain.low

    @cached_property
    def _values(self) -> tuple[FloatArray, FloatArray]:
        """The least and the greatest value of each bucket."""
        if self.domain.integer:
            count = round(self.domain.length) // self.buckets
            least: FloatArray = self.domain.low + count * np.arange(self.buckets, dtype=np.float64)
            return least, least + (count - 1)
        edges = self.domain.from_unit(np.arange(self.buckets + 1) / self.buckets)
        edges[[0, -1]] = self.domain.low, self.domain.high
        return edges[:-1], edges[1:]

    @cached_property
    def _places(self) -> tuple[FloatArray, FloatArray]:
        """The same, as places between the ends of the domain: squares of values may be too large."""
        least, greatest = ((values - self.domain.low) / self._length for values in self._values)
        return least, greatest

    def _between(self, least: FloatArray, greatest: FloatArray, tail: float) -> tuple[float, float]:
        """Bounds of the average of something that is between two numbers in each bucket."""
        low, high = _ordered(self._bounds.average(least, tail, -1), self._bounds.average(greatest, tail, 1))
        return float(low), float(high)

    def _bucket(self, values: FloatArray) -> IntArray:
        return find_buckets(self.domain.to_unit(np.atleast_1d(values)), self.buckets).reshape(values.shape)

    def _interval_of_shares(self, low: FloatArray, high: FloatArray, level: float) -> Interval[Any]:
        """Of values from `low` to `high`, both included."""
        first, last = (np.clip(end, -2 * FARTHEST, 2 * FARTHEST) for end in (low, high))
        before, after = np.nextafter(first, -np.inf), np.nextafter(last, np.inf)
        if self.domain.integer:
            first, last = np.ceil(first), np.floor(last)
            before, after = first - 1, last + 1
        # Of the buckets that touch the range, and of those inside it, which hold no value before or after it.
        outer = np.stack([self._bucket(first), self._bucket(last) + 1])
        inner = np.stack(
            [
                np.where(before < self.domain.low, 0, self._bucket(before) + 1),
                np.where(after > self.domain.high, self.buckets, self._bucket(after)),
            ]
        )
        nowhere = (first > self.domain.high) | (last < self.domain.low) | (first > last)
        tail = (1 - level) / 2
        lower, upper = self._of_pairs(inner, nowhere, tail, -1), self._of_pairs(outer, nowhere, tail, 1)
        return Interval(*_ordered(lower, upper))

    def _of_pairs(self, edges: IntArray, nowhere: BoolArray, tail: float, side: Side) -> FloatArray:
        if not nowhere.size:
            return np.zeros(nowhere.shape)
        pairs, places = np.unique(edges.reshape(2, -1), axis=1, return_inverse=True)
        bounds = self._bounds.shares(pairs[0], pairs[1], tail, side, alike=bool((pairs[0] == pairs[0, :1]).all()))
        return np.where(nowhere, 0.0, bounds[places.ravel()].reshape(nowhere.shape))

    def _pilot_edges(self, most: int) -> IntArray:
        """Edges with about as many values between any two of them, the ends of the domain included."""
        if self.buckets <= most:
            return np.arange(self.buckets + 1)
        curve = np.cumsum(self._bounds.design.x)
        inner = np.searchsorted(curve, np.arange(1, most) / most) + 1
        return np.unique(np.concatenate([[0], inner, [self.buckets]]))

    def _curve(self, edges: IntArray, tail: float) -> tuple[FloatArray, FloatArray]:
        """Bounds of the share of values below each edge."""
        start = np.zeros_like(edges)
        lower = self._bounds.shares(start, edges, tail, -1, alike=True)
        return lower, self._bounds.shares(start, edges, tail, 1, alike=True)


def _ordered(low: Any, high: Any) -> tuple[FloatArray, FloatArray]:
    """Bounds that contradict one another, as bad luck or lies may make them, change places."""
    return np.minimum(low, high), np.maximum(low, high)
