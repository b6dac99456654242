"""Confidence intervals and bands, and the questions that a distribution answers with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from hushgram._arrays import FloatArray, check_real_numbers
from hushgram._validation import describe

Numbers = Sequence[float] | npt.NDArray[Any]
"""Several numbers; answers about them are arrays of the same shape."""
Single = Literal["mean", "variance", "std", "median"]
INTERVALS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(get_args(Single), ()),
    "quantile": ("q",),
    "cdf": ("x",),
    "probability": ("low", "high"),
}
"""The intervals that there are, and the numbers that each takes."""
IntervalKind = Literal["smooth", "any_shape"]
INTERVAL_KINDS: tuple[IntervalKind, ...] = get_args(IntervalKind)
Assumption = Literal["smooth", "any_shape", "unsmoothed"]
ASSUMPTIONS: dict[str, str] = {
    "smooth": "for smooth distributions; may miss beside jumps and spikes",
    "any_shape": "for distributions of any shape",
    "unsmoothed": "of counts that are not smoothed, for distributions of any shape",
}
"""What each kind of intervals assumes, in the words that stand beside numbers."""
DENSITY_BINS = 64
"""Bins of a density unless another number is asked for: about what a picture shows, and what reports may resolve."""
Bound = TypeVar("Bound", float, FloatArray)


class NotEstimableError(ValueError):
    """The reports, or the stored results, do not determine the answer."""


class Interval(NamedTuple, Generic[Bound]):
    """A confidence interval; its ends are floats, or arrays for a question with arrays."""

    low: Bound
    high: Bound


class Band(NamedTuple):
    """A confidence band for the whole distribution function: its bounds at some points of the domain."""

    points: FloatArray
    low: FloatArray
    high: FloatArray


class DensityBand(NamedTuple):
    """Confidence bounds of the average density in each of some bins, in one over the domain's unit."""

    edges: FloatArray
    """One more than there are bins."""
    low: FloatArray
    high: FloatArray


def first_reach(points: FloatArray, rising: FloatArray, levels: FloatArray) -> FloatArray:
    """Where a rising, piecewise linear curve first reaches levels that it does reach."""
    after = np.searchsorted(rising, levels, side="left")
    before = np.maximum(after - 1, 0)
    height = rising[after] - rising[before]
    share = np.divide(levels - rising[before], height, out=np.zeros_like(levels), where=height > 0)
    return points[before] + (points[after] - points[before]) * share


def check_shares(name: str, q: float | Numbers) -> FloatArray:
    """Numbers from 0 to 1, in any shape."""
    try:
        shares = check_real_numbers(name, q)
    except ValueError:
        raise ValueError(f"{name} must be from 0 to 1, got {describe(q)}") from None
    outside = (shares < 0) | (shares > 1)
    if outside.any():
        raise ValueError(f"{name} must be from 0 to 1, got {shares[outside].ravel()[0]:g}")
    return shares


def check_ranges(low: float | Numbers, high: float | Numbers) -> tuple[FloatArray, FloatArray]:
    """Ends of ranges, in one shape, none of which begins above its end."""
    first, last = np.broadcast_arrays(check_real_numbers("low", low), check_real_numbers("high", high))
    if (first > last).any():
        at = np.unravel_index(int(np.argmax(first > last)), first.shape)
        raise ValueError(f"low must not be above high, got {first[at]:g} and {last[at]:g}")
    return first, last


def check_bins(bins: object, most: int) -> int:
    """A number of bins, from 1 to that of the buckets; 64, or fewer where there are not as many buckets, for None."""
    if bins is None:
        return min(DENSITY_BINS, most)
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or not 1 <= bins <= most:
        raise ValueError(f"bins must be a whole number from 1 to {most}, the number of buckets, got {describe(bins)}")
    return int(bins)


def check_level(level: float) -> float:
    """A confidence level between 0 and 1."""
    if not isinstance(level, (int, float, np.number)) or not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {describe(level)}")
    return float(level)
