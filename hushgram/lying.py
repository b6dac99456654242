"""If a share of the devices lies: all that the distribution of the honest ones may then be.

Let a share f of the reports be anything at all, a, and the others honest: the law of the reports is
y = (1 - f)·Mx + f·a. So x is possible exactly if x ≥ 0, Σx = 1 and (1 - f)·Mx ≤ y in every cell. Bounds over all such x
are sharp: each of them explains the same reports, so that no test can tell it from the others.

y is taken to be that of the estimate, Mx̂, but in cells with clearly more reports than Mx̂ explains, where it is what was
counted: lies need not look like those of any x, and an estimate may be too smooth. So x̂ itself is always possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from scipy.ndimage import maximum_filter1d

from hushgram._arrays import FloatArray, IntArray, check_real_numbers
from hushgram.distribution import Distribution
from hushgram.intervals import Interval, NotEstimableError, Numbers, check_shares
from hushgram.mechanisms.base import Mechanism, Transition
from hushgram.mechanisms.randomized_response import RandomizedResponse
from hushgram.mechanisms.square_wave import Band, SquareWave
from hushgram.possible import Possible, PossibleCurves, PossibleUnder, anything, possible_under_bands

MOST_ENTRIES = 1 << 22
"""The most entries of the matrix of a linear programme."""
RUNS = (1, 4, 16, 64, 256)
"""The lengths of runs of cells that are compared with what the estimate explains."""
CLEAR = 4.0
"""So many standard deviations more than expected are clearly more: by chance, one run in 30,000 has them."""


def check_mechanisms(mechanisms: Iterable[Mechanism]) -> None:
    """Refuses mechanisms of which it is not known what lies can do, or only after very long."""
    for mechanism in mechanisms:
        if _bands(mechanism) is not None:
            continue
        if not isinstance(mechanism, Transition):
            known = "waves and randomized_response"
            raise NotEstimableError(f"what lies could do is known of {known}, not of {mechanism.name}")
        if mechanism.buckets * mechanism.cells > MOST_ENTRIES:
            raise NotEstimableError(
                f"what lies could do with {mechanism.name} takes a matrix of {mechanism.buckets} buckets × "
                f"{mechanism.cells} cells, allowed: at most {MOST_ENTRIES} entries; square_wave needs none"
            )


def _bands(mechanism: Mechanism) -> tuple[Band, ...] | None:
    """Randomized response is a wave of one cell."""
    if isinstance(mechanism, RandomizedResponse):
        return (Band(mechanism.buckets, mechanism.law),)
    return mechanism.bands if isinstance(mechanism, SquareWave) else None


def find_excess(expected: FloatArray, counts: IntArray) -> FloatArray:
    """How much the observed shares of cells exceed the expected ones, where they clearly do, and zero elsewhere.

    Runs of several lengths are looked at, since a long one shows what its cells hide one by one.
    """
    reports = counts.sum()
    residuals = np.concatenate([[0.0], np.cumsum(counts / reports - expected)])
    masses = np.concatenate([[0.0], np.cumsum(expected)])
    excess = np.zeros(expected.size)
    for length in (length for length in RUNS if length <= expected.size):
        more, mass = (sums[length:] - sums[:-length] for sums in (residuals, masses))
        clear = np.where(more > CLEAR * np.sqrt(mass / reports), more / length, 0.0)
        covering = np.concatenate([clear, np.zeros(length - 1)])  # a cell belongs to the runs that begin up to it
        np.maximum(excess, maximum_filter1d(covering, length, origin=(length - 1) // 2, mode="constant"), out=excess)
    return excess


def possible_under(mechanism: Mechanism, counts: IntArray, estimate: Distribution, share: float) -> Possible:
    """What is possible if a share of the reports of one mechanism is lies."""
    edges = np.linspace(0, 1, mechanism.buckets + 1)
    x = np.maximum(np.diff(np.interp(edges, estimate._unit_edges, estimate._rising)), 0.0)
    if share == 0:
        curve = np.concatenate([[0.0], np.cumsum(x)]) / x.sum()
        return PossibleCurves(curve, curve)
    if share == 1:
        return anything(mechanism.buckets)
    bands = _bands(mechanism)
    x /= x.sum()
    excess = find_excess(mechanism.forward(x), counts)
    if bands is not None:
        return possible_under_bands(bands, x, excess, share)
    assert isinstance(mechanism, Transition)
    return PossibleUnder(mechanism, mechanism.forward(x) + excess, share)


@dataclass(frozen=True, eq=False)
class Lying:
    """Bounds that hold for the honest devices if no more than a share of all devices sent anything they liked.

    They are not confidence intervals: noise of sampling and of privacy come on top.
    """

    share: float
    estimate: Distribution
    tallies: tuple[tuple[Mechanism, IntArray], ...]

    def __repr__(self) -> str:
        low, high = self.mean
        return f"Lying(share={self.share:g}, mean={low:.6g}…{high:.6g})"

    @cached_property
    def mean(self) -> Interval[float]:
        """The least and the greatest mean that is possible."""
        domain = self.estimate.domain
        low, high = (
            [domain.start + possible.mean(self._offsets(possible), upper) for possible in self._possible]
            for upper in (False, True)
        )
        return Interval(max(min(low), domain.low), min(max(high), domain.high))

    @property
    def median(self) -> Interval[float]:
        return self.quantile(0.5)

    @overload
    def quantile(self, q: float) -> Interval[float]: ...
    @overload
    def quantile(self, q: Numbers) -> Interval[FloatArray]: ...
    def quantile(self, q: float | Numbers) -> Interval[float] | Interval[FloatArray]:
        """The least and the greatest value that is possible for a quantile."""
        shares = check_shares("q", q)
        ends = [np.array([self._reach(share, upper) for share in shares.ravel()]) for upper in (True, False)]
        low, high = (self.estimate._values_at(end.reshape(shares.shape)) for end in ends)
        return Interval(low, high) if np.ndim(q) else Interval(float(low), float(high))

    @overload
    def cdf(self, x: float) -> Interval[float]: ...
    @overload
    def cdf(self, x: Numbers) -> Interval[FloatArray]: ...
    def cdf(self, x: float | Numbers) -> Interval[float] | Interval[FloatArray]:
        """The least and the greatest share of values at or below `x` that is possible."""
        units = self.estimate._units_up_to(check_real_numbers("x", x))
        ends = [np.array([self._at(unit, upper) for unit in units.ravel()]) for upper in (False, True)]
        low, high = (end.reshape(units.shape) for end in ends)
        return Interval(low, high) if np.ndim(x) else Interval(float(low), float(high))

    @cached_property
    def _possible(self) -> list[Possible]:
        """One for each mechanism. Whichever the liars take, under one of them no more than the share are lies."""
        if not self.tallies:
            return [anything(self.estimate._bucket_count)]
        return [possible_under(mechanism, counts, self.estimate, self.share) for mechanism, counts in self.tallies]

    def _offsets(self, possible: Possible) -> FloatArray:
        return self.estimate.domain.moments(np.linspace(0, 1, possible.parts + 1))[0]

    def _bound(self, edge: int, upper: bool) -> float:
        bounds = [possible.bound(edge, upper) for possible in self._possible]
        return max(bounds) if upper else min(bounds)

    def _at(self, unit: float, upper: bool) -> float:
        """Between two edges: values are spread evenly there, so that a bound is not beyond the line through both."""
        parts = self._possible[0].parts
        before = min(int(unit * parts), parts - 1)
        start, share = self._bound(before, upper), unit * parts - before
        return start + (self._bound(before + 1, upper) - start) * share if share > 0 else start

    def _reach(self, level: float, upper: bool) -> float:
        """The first point of the unit interval at which a bound of the distribution function reaches a level."""
        below, reached = 0, self._possible[0].parts
        if level <= 0:
            return 0.0
        while reached - below > 1:
            middle = (below + reached) // 2
            below, reached = (below, middle) if self._bound(middle, upper) >= level else (middle, reached)
        start, end = self._bound(below, upper), self._bound(reached, upper)
        return (below + min(max((level - start) / (end - start), 0.0), 1.0)) / self._possible[0].parts
