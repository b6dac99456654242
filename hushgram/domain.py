"""The domain of a collection: how a value in its own units becomes a point of the unit interval, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hushgram.arrays import FloatArray, IntArray

Scale = Literal["linear", "log"]


def buckets_of(units: FloatArray, buckets: int) -> IntArray:
    """The index of the equal bucket of [0, 1] that holds each point; 1 itself belongs to the last."""
    index = (units * buckets).astype(np.int64)
    return np.minimum(index, buckets - 1, out=index)


@dataclass(frozen=True)
class Domain:
    """Numbers from `low` to `high`; values outside are clipped, so that a report does not tell that they were.

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

    @property
    def start(self) -> float:
        return self.low - 0.5 if self.integer else self.low

    @property
    def length(self) -> float:
        return self.high - self.low + (1.0 if self.integer else 0.0)

    def to_unit(self, values: FloatArray) -> FloatArray:
        points = np.clip(values, self.low, self.high)
        if self.scale == "log":
            return np.clip(np.log(points / self.low) / math.log(self.high / self.low), 0.0, 1.0)
        if self.integer:
            np.rint(points, out=points)
        points -= self.start
        points /= self.length
        return points

    def from_unit(self, units: npt.ArrayLike) -> FloatArray:
        points = np.asarray(units, dtype=np.float64)
        if self.scale == "log":
            return self.low * np.exp(points * math.log(self.high / self.low))
        return self.start + points * self.length

    def moments(self, unit_edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square, in the domain's units, of values spread evenly over parts of the unit interval."""
        edges = self.from_unit(unit_edges)
        low, high = edges[:-1], edges[1:]
        if self.scale == "log":
            ratio = np.log(high / low)
            return (high - low) / ratio, (high - low) * (high + low) / (2 * ratio)
        centre, width = (low + high) / 2, high - low
        within = (width**2 - 1) / 12 if self.integer else width**2 / 12
        return centre, centre**2 + within
