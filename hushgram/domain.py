"""The domain of a collection: how a value in its own units becomes a point of the unit interval, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import FARTHEST, check_flag, check_label, check_number, check_one_of, refuse

Scale = Literal["linear", "log"]


def find_buckets(units: FloatArray, buckets: int) -> IntArray:
    """The index of the equal bucket of [0, 1] that holds each point; 1 itself belongs to the last."""
    index = (units * buckets).astype(np.int64)
    return np.clip(index, 0, buckets - 1, out=index)


@dataclass(frozen=True)
class Domain:
    """Numbers from `low` to `high`; values outside are clipped, so that reports do not reveal them.

    Whole numbers are cells of width one around themselves: the interval is [low - ½, high + ½], and with a bucket
    for each number the bucket's centre is the number.

    >>> Domain(0, 180).to_unit(np.array([45.0, 500.0])).tolist()
    [0.25, 1.0]
    >>> Domain(1, 1000, scale="log").from_unit([0.0, 1 / 3, 1.0]).round(6).tolist()
    [1.0, 10.0, 1000.0]
    """

    low: float
    high: float
    scale: Scale = "linear"
    integer: bool = False
    unit: str = ""

    @cached_property
    def start(self) -> float:
        """Where the unit interval begins."""
        return self.low - 0.5 if self.integer else self.low

    @cached_property
    def length(self) -> float:
        return self.high - self.low + (1.0 if self.integer else 0.0)

    @cached_property
    def _log_length(self) -> float:
        return math.log(self.high) - math.log(self.low)

    def to_unit(self, values: FloatArray) -> FloatArray:
        points = np.clip(values, self.low, self.high)
        if self.scale == "log":
            return np.clip((np.log(points) - math.log(self.low)) / self._log_length, 0.0, 1.0)
        if self.integer:
            np.rint(points, out=points)
        points -= self.start
        points /= self.length
        return points

    def from_unit(self, units: npt.ArrayLike) -> FloatArray:
        points = np.asarray(units, dtype=np.float64)
        if self.scale == "log":
            return np.clip(self.low * np.exp(points * self._log_length), self.low, self.high)
        return self.start + points * self.length

    def edges_to_unit(self, edges: FloatArray) -> FloatArray:
        """The points that edges of buckets lie at; unlike values, they are not rounded to whole numbers.

        >>> Domain(0, 3, integer=True).edges_to_unit(np.array([-0.5, 1.5, 3.5])).tolist()
        [0.0, 0.5, 1.0]
        """
        return self.to_unit(edges) if self.scale == "log" else (edges - self.start) / self.length

    def moments(self, unit_edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean, as an offset from `start`, and variance of values spread evenly over parts of the unit interval.

        Offsets and variances, not values and squares: far from zero those would cancel.
        """
        if self.scale == "log":
            return self._log_moments(unit_edges)
        width = np.diff(unit_edges) * self.length
        centre = (unit_edges[1:] + unit_edges[:-1]) / 2 * self.length
        # m whole numbers next to one another vary by (m² - 1)/12.
        return centre, np.maximum(width**2 - 1, 0.0) / 12 if self.integer else width**2 / 12

    def _log_moments(self, unit_edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of v = low·e^(start + r·t), t uniform: mean a(e^r - 1)/r, mean square a²(e^2r - 1)/2r."""
        r = np.diff(unit_edges) * self._log_length
        before = unit_edges[:-1] * self._log_length
        growth = np.expm1(r) / r
        mean = self.low * (np.expm1(before) + np.exp(before) * (growth - 1))
        # The difference of the two cancels where the part is short; its series begins with growth²·r²/12.
        spread = np.where(r < 1e-3, growth**2 * r**2 / 12, np.expm1(2 * r) / (2 * r) - growth**2)
        return mean, (self.low * np.exp(before)) ** 2 * spread


def check_domain(low: object, high: object, scale: object, integer: object, unit: object, buckets: int) -> Domain:
    """A domain from outside, cut into `buckets`; the first wrong field raises a `CollectionError`."""
    domain = Domain(
        check_number("low", low, -FARTHEST, FARTHEST),
        check_number("high", high, -FARTHEST, FARTHEST),
        "log" if check_one_of("scale", scale, ("linear", "log")) == "log" else "linear",
        check_flag("integer", integer),
        check_label("unit", unit, empty=True),
    )
    first, last = domain.low, domain.high
    if not first < last:
        refuse("high", last, f"a number above low ({first:g})")
    # Buckets must be distinct in floating point, with room to spare.
    if (last - first) / buckets < 64 * math.ulp(max(abs(first), abs(last))):
        refuse("high", last, f"farther from low ({first!r}): {buckets} buckets between them would not be distinct")
    if domain.scale == "log" and first < 1 / FARTHEST:
        refuse("low", first, "a number above 0 on a log scale")
    if domain.scale == "log" and last < 1.001 * first:
        refuse("high", last, "at least 1.001 times low on a log scale")
    if domain.integer and domain.scale == "log":
        refuse("integer", True, "false on a log scale, whose buckets cannot hold equally many whole numbers")
    for name, end in (("low", first), ("high", last)) if domain.integer else ():
        if not end.is_integer() or abs(end) > 2**51:
            refuse(name, end, "a whole number of at most 2**51, since integer is true")
    return domain
