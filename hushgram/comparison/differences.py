"""Intervals of differences, from the intervals of the two sides and nothing else."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

import numpy as np
import numpy.typing as npt

from hushgram._arrays import FloatArray
from hushgram.intervals import Bound, Interval


class Difference(NamedTuple, Generic[Bound]):
    """A number of the first side less that of the second, with its interval; floats, or arrays for such questions."""

    value: Bound
    low: Bound
    high: Bound

    @property
    def is_clear(self) -> Any:
        """Whether the interval leaves no doubt about which side has more."""
        return np.logical_or(np.asarray(self.low) > 0, np.asarray(self.high) < 0)[()]


class DifferenceCurve(NamedTuple):
    """The first distribution function less the second at points of the domain, with a band for all of them at once."""

    points: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray


def difference_interval(
    values: tuple[npt.ArrayLike, npt.ArrayLike],
    intervals: tuple[Interval[Any], Interval[Any]],
    scale: float,
    most: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The difference of two independent numbers, and its bounds, none of them beyond ±`most`.

    With estimates m and intervals l … u: (m₁ - m₂) - √((m₁ - l₁)² + (u₂ - m₂)²) to (m₁ - m₂) + √((u₁ - m₁)² +
    (m₂ - l₂)²), the method of variance estimates recovery (Zou and Donner 2008). Where an interval's end is far from
    its estimate, so is the end of the difference on that side. `scale` stretches the distances from the estimates.

    >>> intervals = (Interval(2.0, 8.0), Interval(1.0, 9.0))
    >>> [float(number) for number in difference_interval((5.0, 5.0), intervals, 1.0, 10.0)]
    [0.0, -5.0, 5.0]
    """
    ends = [(np.asarray(low), np.asarray(high)) for low, high in intervals]
    # An estimate that is smoothed may lie beyond its interval, which is centred on one that is not.
    middles = [np.clip(value, low, high) for value, (low, high) in zip(values, ends, strict=True)]
    below = [middle - low for middle, (low, _) in zip(middles, ends, strict=True)]
    above = [high - middle for middle, (_, high) in zip(middles, ends, strict=True)]
    value = middles[0] - middles[1]
    low, high = value - scale * np.hypot(below[0], above[1]), value + scale * np.hypot(above[0], below[1])
    return value, np.maximum(low, -most), np.minimum(high, most)
