"""Whether implausibly many values lie at an end of the domain: devices clip what lies beyond it, and reports hide that.

The ends of the estimate are all the evidence that a server has of values in another unit than the domain's. The
outermost strip of the domain is held against the strip beside it. Under an exponential distribution of mean m, strips
of width w differ by (1 - e^(-w/m))²; an end is heavy if the difference is more than a steep one explains.
"""

from __future__ import annotations

import math

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.types import Uncertainty

STRIPS = 16
"""A strip is this part of the domain, or one bucket where there are fewer buckets."""
STEEPEST = 1 / 20
"""The mean of the steepest exponential distribution, as a share of the domain, that counts as plausible."""
STANDARD_ERRORS = 4.0
"""An end is heavy if it exceeds the limit by this many: a distribution that is at the limit itself does so by chance in
fewer than one window of 30,000."""

Ends = tuple[float | None, float | None]
"""The share of values in the two outermost strips at the low and at the high end; None where it is plausible."""


def plausible_excess(width: float) -> float:
    """The greatest plausible excess of the outermost strip over the strip beside it."""
    return math.expm1(-width / STEEPEST) ** 2


def strip_width(buckets: int) -> int:
    """In buckets."""
    return -(-buckets // STRIPS)


def strip_bounds(buckets: int) -> IntArray:
    """Where strips begin and end, in buckets: of equal width from either end; one in the middle may be narrower."""
    below = np.arange(0, buckets // 2 + 1, strip_width(buckets))
    return np.unique(np.concatenate([below, buckets - below]))


def find_heavy_ends(probabilities: FloatArray, law: Uncertainty) -> Ends:
    """The heavy ends of an estimated distribution; `law` is a fit without smoothing, and its error."""
    buckets, edges = probabilities.size, law.edges
    # Where reports are of bins that are wider than a strip, nothing is known of less than a bin.
    width = max(strip_width(buckets) / buckets, float(edges[1]), float(1 - edges[-2]))
    ends: list[float | None] = []
    for from_high in (False, True):
        outermost, beside = (_weights(law, strip * width, width, from_high) for strip in (0, 1))
        (more,), (error,) = law.sums_with_errors((outermost - beside)[None])
        if more - STANDARD_ERRORS * error <= plausible_excess(width):
            ends.append(None)
        else:
            # Smoothing moves values away from an end, and a fit without it has more noise.
            smoothed = (probabilities[::-1] if from_high else probabilities)[: round(2 * width * buckets)].sum()
            ends.append(float(np.clip(max(smoothed, law.centre @ (outermost + beside)), 0.0, 1.0)))
    return ends[0], ends[1]


def _weights(law: Uncertainty, start: float, width: float, from_high: bool) -> FloatArray:
    """Of the law's parts, so that they add up to the share of a strip."""
    if from_high:
        start = 1 - start - width
    lower, upper = (np.clip(edge, law.edges[:-1], law.edges[1:]) for edge in (start, start + width))
    return (upper - lower) / np.diff(law.edges)


def find_heavy_ends_of_values(units: FloatArray) -> Ends:
    """The heavy ends of known values, as points of the unit interval."""
    shares = np.histogram(units, STRIPS, (0.0, 1.0))[0] / max(units.size, 1)
    plausible = plausible_excess(1 / STRIPS)
    ends = ((shares[0], shares[1]), (shares[-1], shares[-2]))
    low, high = (float(end + beside) if end - beside > plausible else None for end, beside in ends)
    return low, high
