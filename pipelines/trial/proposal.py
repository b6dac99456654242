"""A domain for numbers that a person has, as one would choose it who does not want to leave any of them out.

The rule, in the order of its steps:

1. The bulk lies between the 0.5 % and the 99.5 % quantile. The domain covers the bulk, and all values no farther from
   it than half its length; what is farther out is clipped to the domain's ends, as devices do.
2. Where the bulk is positive, spans a factor of 100 or more, and has its median in the lowest tenth, but near the
   middle of its logarithms, the scale is logarithmic, and lengths are those of logarithms.
3. The ends are moved outwards to round numbers: 1, 2 or 5 times a power of ten on a logarithmic scale, else multiples
   of such a number of about a tenth of the length. Numbers that begin near zero begin at zero, unless they are a few
   whole numbers.
4. Whole numbers of at most 1024 values have a bucket for each. Those of at most 16 are reported by randomized response:
   smoothing would take a few numbers that differ for one smooth hill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.mechanisms import RandomizedResponse, SquareWave

DEFAULT_MECHANISM = SquareWave.name
BULK = (0.005, 0.995)
REACH = 0.5
"""Values this many lengths of the bulk outside of it are still covered."""
LEAST_LOG_FACTOR = 100.0
LOW_MEDIAN = 0.1
MIDDLE = (0.2, 0.8)
NEAR_ZERO = 0.25
"""A domain whose low end is less than this share of its high end begins at zero."""
MOST_WHOLE_NUMBERS = 1024
MOST_ANSWERS = 16
"""The most whole numbers that are reported by randomized response, whose error grows with their number, while that of
a wave does not. At ε = 1 and 10,000 reports its expected W1 was less than a wave's for 16 numbers of all shapes tried
(smooth, steep, spiky, random), uniform ones aside, and twice as large for 24 of a smooth shape; at 100,000 reports the
two were equal for 32."""
BUCKETS = 1024
STEPS = 10
"""The step of round numbers is about this part of the length."""
LEAST_ULPS = 2.0**17
"""The length in units of the last place, so that buckets can be told apart."""


@dataclass(frozen=True)
class Proposal:
    """What of a collection follows from its values."""

    low: float
    high: float
    scale: str = "linear"
    integer: bool = False
    buckets: int = BUCKETS
    mechanism: str = DEFAULT_MECHANISM

    def parameters(self) -> dict[str, Any]:
        """As `Collection` takes them; those left out that have their default."""
        return {
            "low": self.low,
            "high": self.high,
            **({} if self.scale == "linear" else {"scale": self.scale}),
            **({"integer": True} if self.integer else {}),
            **({} if self.buckets == BUCKETS and not self.integer else {"buckets": self.buckets}),
            **({} if self.mechanism == DEFAULT_MECHANISM else {"mechanism": self.mechanism}),
        }


def propose(values: FloatArray, low: float | None = None, high: float | None = None) -> Proposal:
    """The domain for some finite numbers, not all of them equal; an end that is set stays as it is.

    >>> propose(np.array([18.0, 25.0, 31.0, 47.0, 64.0, 93.0]))
    Proposal(low=0.0, high=95.0, scale='linear', integer=True, buckets=96, mechanism='square_wave')
    >>> propose(np.array([0.0, 1.0, 1.0])).parameters()
    {'low': 0.0, 'high': 1.0, 'integer': True, 'buckets': 2, 'mechanism': 'randomized_response'}
    >>> propose(np.random.default_rng(1).normal(36.6, 0.4, 5000)).parameters()
    {'low': 35.0, 'high': 38.2}
    >>> propose(np.random.default_rng(1).lognormal(3, 2, 5000)).parameters()
    {'low': 0.01, 'high': 100000.0, 'scale': 'log'}
    """
    if (low is None or low > 0) and _asks_for_logarithms(values):
        start, end = np.exp(_covered(np.log(values[values > 0]))).tolist()
        return Proposal(
            low=_round_down(start) if low is None else low, high=_round_up(end) if high is None else high, scale="log"
        )
    start, end = _distinct(*_covered(values))
    start, end = (start if low is None else low), (end if high is None else high)
    if not (start < end and math.isfinite(end - start)):  # impossible: the collection says why
        return Proposal(start, end)
    whole = bool((values == np.rint(values)).all()) and start.is_integer() and end.is_integer()
    step = _round_down((end - start) / STEPS)
    if whole:
        step = max(1.0, step)
    if low is None:
        start = _multiple(math.floor(start / step), step)
        if 0 <= start <= NEAR_ZERO * end and not (whole and step == 1):
            start = 0.0
    if high is None:
        end = _multiple(math.ceil(end / step), step)
    size = end - start + 1
    if whole and size <= MOST_WHOLE_NUMBERS:
        mechanism = RandomizedResponse.name if size <= MOST_ANSWERS else DEFAULT_MECHANISM
        return Proposal(start, end, integer=True, buckets=int(size), mechanism=mechanism)
    return Proposal(start, end)


def _covered(values: FloatArray) -> tuple[float, float]:
    """The ends of the bulk, moved outwards to what lies no farther than half its length."""
    low, high = np.quantile(values, BULK).tolist()
    least, most = float(values.min()), float(values.max())
    reach = REACH * (high - low) if low < high else most - least
    return max(least, low - reach), min(most, high + reach)


def _distinct(start: float, end: float) -> tuple[float, float]:
    """Farther from one another, where buckets between them would be the same number."""
    missing = LEAST_ULPS * math.ulp(max(abs(start), abs(end))) - (end - start)
    return (start - missing, end + missing) if missing > 0 else (start, end)


def _asks_for_logarithms(values: FloatArray) -> bool:
    low, median, high = np.quantile(values, (BULK[0], 0.5, BULK[1])).tolist()
    if low <= 0 or high < LEAST_LOG_FACTOR * low:
        return False
    return median - low < LOW_MEDIAN * (high - low) and MIDDLE[0] <= math.log(median / low, high / low) <= MIDDLE[1]


def _round_down(number: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above.

    >>> _round_down(0.3), _round_down(7.5), _round_down(100.0)
    (0.2, 5.0, 100.0)
    """
    return max(candidate for candidate in _round_numbers(number) if candidate <= number)


def _round_up(number: float) -> float:
    return min(candidate for candidate in _round_numbers(number) if candidate >= number)


def _round_numbers(near: float) -> list[float]:
    power = math.floor(math.log10(near))
    return [float(f"{digit}e{power + more}") for more in (-1, 0, 1) for digit in (1, 2, 5)]


def _multiple(count: int, step: float) -> float:
    """In decimal arithmetic: three times 0.1 is 0.3."""
    return float(count * Decimal(repr(step)))
