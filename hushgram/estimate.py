"""An estimated distribution, read in the units of its collection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import ndtri

from hushgram.arrays import FloatArray
from hushgram.checks import shown
from hushgram.domain import Domain
from hushgram.ends import Ends, heavy_ends
from hushgram.estimators.solution import Solution, Uncertainty

Status = Literal["ok", "too_few", "no_reports"]
Interval = tuple[float, float]

BAND_DRAWS = 1000


class NotEstimableError(ValueError):
    """Asked for what the mechanism cannot tell."""


@dataclass(frozen=True, repr=False, eq=False)
class Estimate:
    """What the reports of one window say about the values behind them.

    `status` is `ok`, `too_few` (fewer reports than the collection's minimum: noise may look like fact) or `no_reports`
    (then the distribution is uniform, and every interval is the whole domain).
    """

    domain: Domain
    buckets: int
    reports: int
    status: Status
    solution: Solution

    def __repr__(self) -> str:
        known = f"mean={self.mean:.6g}" + ("" if self.probabilities is None else f", median={self.quantile(0.5):.6g}")
        return f"Estimate(reports={self.reports}, status={self.status!r}, {known})"

    @property
    def iterations(self) -> int:
        return self.solution.iterations

    @property
    def converged(self) -> bool:
        return self.solution.converged

    @property
    def probabilities(self) -> FloatArray | None:
        """The probability of each bucket, or None where the mechanism tells a mean only."""
        return self.solution.probabilities

    @cached_property
    def edges(self) -> FloatArray:
        """The edges of the buckets, one more than there are buckets."""
        return self.domain.from_unit(self._unit_edges)

    @cached_property
    def mean(self) -> float:
        if self.solution.mean is not None:
            return self._within(float(self.domain.from_unit(self.solution.mean[0])))
        return self._within(self.domain.start + self._mean_offset)

    @cached_property
    def variance(self) -> float:
        """The variance of the values; it needs a distribution. Not below zero, even where single buckets are."""
        offsets, within = self._moments
        return max(float(self._need_distribution() @ (within + (offsets - self._mean_offset) ** 2)), 0.0)

    def quantile(self, q: float) -> float:
        """The least value below or at which a share `q` of the values lies."""
        _check_share("q", q)
        curve = np.maximum.accumulate(self._cumulative)
        return self._value_at(_first_reach(self._unit_edges, curve, min(q, float(curve[-1]))))

    def cdf(self, x: float) -> float:
        """The share of values at or below `x`."""
        return self._share(0.0, self._unit_up_to("x", x))

    def probability(self, low: float, high: float) -> float:
        """The share of values from `low` to `high`; for whole numbers, both included."""
        return self._share(*self._unit_range(low, high))

    @cached_property
    def fit(self) -> float | None:
        """The p-value of the test that the reports obey the declared mechanism; None where there is no such test.

        Below 0.001 or so, suspect clients with another ε, damaged reports or poisoning.
        """
        return self.solution.fit()

    @cached_property
    def heavy_ends(self) -> Ends:
        """The share of values at the low and at the high end of the domain or beyond it, where it is implausibly large.

        None is an end with no more than a steep distribution explains, or a mechanism that tells a mean only. Devices
        clip what lies beyond the domain, so a heavy end is a hint at values in another unit, or a domain too narrow.
        """
        law = self.solution.unsmoothed() if self.solution.unsmoothed is not None else self._law
        return (None, None) if law is None or self.probabilities is None else heavy_ends(self.probabilities, law)

    def interval(
        self, of: Literal["mean", "variance", "quantile", "cdf", "probability"], *at: float, level: float = 0.95
    ) -> Interval:
        """A confidence interval at 95 %, as in `interval("mean")`, `interval("quantile", 0.5)`, `interval("cdf", 30)`.

        Noise of sampling and of privacy are both in it, and an allowance for the bias of smoothing.
        """
        readings: dict[str, tuple[Callable[..., Interval], tuple[str, ...]]] = {
            "mean": (self._mean_interval, ()),
            "variance": (self._variance_interval, ()),
            "quantile": (self._quantile_interval, ("q",)),
            "cdf": (self._cdf_interval, ("x",)),
            "probability": (self._probability_interval, ("low", "high")),
        }
        if of not in readings:
            raise ValueError(f"no interval of {shown(of)}, allowed: {', '.join(readings)}")
        read, names = readings[of]
        if len(at) != len(names):
            wanted = " and ".join(names) if names else "no number"
            raise ValueError(f"an interval of {of} takes {wanted}, got {shown(at)}")
        return read(float(ndtri(0.5 + _check_level(level) / 2)), *at)

    def band(self, level: float = 0.95) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points, lower and upper bound of a band that holds the whole distribution function at once.

        The half-width is the quantile of the greatest error over all points, each measured in the same unit (sup norm).
        """
        _check_level(level)
        self._need_distribution()
        if self._law is None:
            return self.domain.from_unit([0.0, 1.0]), np.zeros(2), np.ones(2)
        curve, covariance = self._curve
        scale, directions = np.linalg.eigh(covariance)
        rng = np.random.default_rng(0)
        draws = directions @ (np.sqrt(np.maximum(scale, 0.0))[:, None] * rng.standard_normal((scale.size, BAND_DRAWS)))
        half = np.quantile(np.abs(draws).max(axis=0), level)
        return self.domain.from_unit(self._law.edges), np.clip(curve - half, 0, 1), np.clip(curve + half, 0, 1)

    # The law of the error --------------------------------------------------------------------------------------------

    @cached_property
    def _law(self) -> Uncertainty | None:
        return self.solution.uncertainty()

    @cached_property
    def _curve(self) -> tuple[FloatArray, FloatArray]:
        """The distribution function at the edges of the law's parts, and the covariance of its error."""
        assert self._law is not None
        sums = np.cumsum(np.cumsum(self._law.covariance, axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(self._law.centre)]), np.pad(sums, ((1, 0), (1, 0)))

    def _around(self, weights: FloatArray, z: float) -> Interval:
        """Of a weighted sum of the law's parts."""
        assert self._law is not None
        centre = float(self._law.centre @ weights)
        scale = float(np.abs(weights).max()) or 1.0  # squares of a domain's squares need not be finite
        unit = weights / scale
        half = z * scale * math.sqrt(max(float(unit @ self._law.covariance @ unit), 0.0))
        return centre - half, centre + half

    def _mean_interval(self, z: float) -> Interval:
        if self.solution.mean is not None:
            centre, error = self.solution.mean
            low, high = self.domain.from_unit(np.clip([centre - z * error, centre + z * error], 0, 1))
        elif self._law is None:
            return self.domain.low, self.domain.high
        else:
            offsets, _ = self.domain.moments(self._law.edges)
            low, high = (self.domain.start + end for end in self._around(offsets, z))
        return self._within(float(low)), self._within(float(high))

    def _variance_interval(self, z: float) -> Interval:
        self._need_distribution()
        greatest = ((self.domain.high - self.domain.low) / 2) ** 2
        if self._law is None:
            return 0.0, greatest
        offsets, within = self.domain.moments(self._law.edges)
        # The gradient of E[v²] - E[v]² at the fit, up to a constant that a total of 1 cannot move.
        low, high = self._around(within + (offsets - float(self._law.centre @ offsets)) ** 2, z)
        return min(max(low, 0.0), greatest), min(max(high, 0.0), greatest)

    def _cdf_interval(self, z: float, x: float) -> Interval:
        return self._share_interval(z, 0.0, self._unit_up_to("x", x))

    def _probability_interval(self, z: float, low: float, high: float) -> Interval:
        return self._share_interval(z, *self._unit_range(low, high))

    def _share_interval(self, z: float, start: float, end: float) -> Interval:
        self._need_distribution()
        if self._law is None:
            return 0.0, 1.0
        edges = self._law.edges
        covered = np.clip(end, edges[:-1], edges[1:]) - np.clip(start, edges[:-1], edges[1:])
        low, high = self._around(covered / np.diff(edges), z)
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)

    def _quantile_interval(self, z: float, q: float) -> Interval:
        """From the first point where the distribution function may have reached `q` to the last where it may not."""
        _check_share("q", q)
        self._need_distribution()
        if self._law is None:
            return self.domain.low, self.domain.high
        curve, covariance = self._curve
        half = z * np.sqrt(np.maximum(np.diag(covariance), 0.0))
        upper = np.maximum.accumulate(np.clip(curve + half, 0, 1))
        lower = np.minimum.accumulate(np.clip(curve - half, 0, 1)[::-1])
        low = _first_reach(self._law.edges, upper, min(q, float(upper[-1])))
        # The last point at or below q is the first at or above 1 - q when read backwards.
        high = 1 - _first_reach(1 - self._law.edges[::-1], 1 - lower, min(1 - q, float(1 - lower[-1])))
        return self._value_at(low), self._value_at(high)

    # Reading ---------------------------------------------------------------------------------------------------------

    def _need_distribution(self) -> FloatArray:
        if self.probabilities is None:
            raise NotEstimableError("this mechanism tells a mean only, not a distribution")
        return self.probabilities

    @cached_property
    def _unit_edges(self) -> FloatArray:
        return np.linspace(0, 1, self.buckets + 1)

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(self._need_distribution())])

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        return self.domain.moments(self._unit_edges)

    @cached_property
    def _mean_offset(self) -> float:
        """How far the mean lies above the domain's start."""
        return float(self._need_distribution() @ self._moments[0])

    def _within(self, value: float) -> float:
        return min(max(value, self.domain.low), self.domain.high)

    def _share(self, start: float, end: float) -> float:
        """Between two points of the unit interval; an estimator that allows negative buckets is held to 0 … 1 here."""
        before, after = np.interp([start, end], self._unit_edges, self._cumulative)
        return float(np.clip(after - before, 0.0, 1.0))

    def _unit_up_to(self, name: str, x: float) -> float:
        """The point of the unit interval up to which values at or below `x` lie."""
        value = _check_number(name, x)
        if math.isinf(value):
            return float(value > 0)
        if self.domain.integer:
            return float(np.clip((math.floor(value) + 0.5 - self.domain.start) / self.domain.length, 0, 1))
        return float(self.domain.to_unit(np.array([value]))[0])

    def _unit_range(self, low: float, high: float) -> tuple[float, float]:
        first, last = _check_number("low", low), _check_number("high", high)
        if first > last:
            raise ValueError(f"low must not be above high, got {shown(low)} and {shown(high)}")
        if self.domain.integer and math.isfinite(first):
            first = math.ceil(first) - 1
        return self._unit_up_to("low", first), self._unit_up_to("high", last)

    def _value_at(self, unit: float) -> float:
        value = float(self.domain.from_unit(unit))
        if self.domain.integer:
            # A whole number ends at its upper edge; what lies a rounding error beyond still belongs to it.
            value = float(math.ceil(value - 0.5 - 1e-12 * self.domain.length))
        return self._within(value)


def _first_reach(points: FloatArray, rising: FloatArray, level: float) -> float:
    """Where a rising, piecewise linear curve first reaches a level that it does reach."""
    at = int(np.searchsorted(rising, level, side="left"))
    if at == 0:
        return float(points[0])
    before, after = rising[at - 1], rising[at]
    return float(points[at - 1] + (points[at] - points[at - 1]) * (level - before) / (after - before))


def _check_number(name: str, value: float) -> float:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        try:
            number = float(value)
        except (OverflowError, TypeError):
            number = math.nan
        if not math.isnan(number):
            return number
    raise ValueError(f"{name} must be a number, got {shown(value)}")


def _check_share(name: str, q: float) -> None:
    if not isinstance(q, (int, float, np.number)) or isinstance(q, bool) or not 0 <= q <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {shown(q)}")


def _check_level(level: float) -> float:
    if not isinstance(level, (int, float, np.number)) or not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {shown(level)}")
    return float(level)
