"""An estimated distribution, with the confidence intervals that the law of its error gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from hushgram._arrays import FloatArray, IntArray, check_real_numbers, make_read_only
from hushgram._validation import check_share
from hushgram.distribution import Distribution, Status
from hushgram.domain import Domain
from hushgram.estimators.types import Solution, Uncertainty
from hushgram.greatest_error import greatest_deviation, greatest_error
from hushgram.heavy_ends import Ends, find_heavy_ends
from hushgram.intervals import (
    Assumption,
    Band,
    DensityBand,
    Interval,
    Numbers,
    check_bins,
    check_level,
    check_shares,
    first_reach,
)
from hushgram.mechanisms.base import Mechanism, chunks
from hushgram.readable_bins import find_readable_bins

if TYPE_CHECKING:
    from hushgram.any_shape.intervals import AnyShape
    from hushgram.lying import Lying

SHARES_AT_ONCE = 4096
"""Intervals of shares are computed in blocks, each row of which weighs all parts of the law."""


@dataclass(frozen=True, repr=False, eq=False)
class Estimate(Distribution):
    """The distribution of values that the reports of one window point to.

    `status` is `ok`, `too_few` (fewer reports than the collection's minimum, so that noise may look like structure) or
    `no_reports` (the distribution is then uniform, and every interval the whole domain).

    >>> from hushgram import Collection
    >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
    >>> estimate = commute.estimate(commute.tally(commute.simulate([37.5] * 5000, seed=7)))
    >>> estimate.quantile([0.1, 0.5, 0.9]).shape
    (3,)
    >>> estimate.interval("quantile", 0.5).low < 37.5 < estimate.interval("quantile", 0.5).high
    True
    """

    domain: Domain
    buckets: int
    reports: int
    status: Status
    solution: Solution
    tallies: tuple[tuple[Mechanism, IntArray], ...] = ()
    """What the estimate is of: for each revision in the window its mechanism, and how often each cell was reported."""
    intervals: Assumption = "smooth"
    """What intervals and bands assume: a smooth distribution, or one of any shape, as `unsmoothed` ones do, too."""

    @property
    def iterations(self) -> int:
        return self.solution.iterations

    @property
    def converged(self) -> bool:
        return self.solution.converged

    @property
    def warm_start(self) -> bytes | None:
        """Where an estimate of the same window, with more reports, may start from; None if from scratch only.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, estimator="log_spline")
        >>> cells = commute.simulate(np.random.default_rng(1).gamma(4, 9, 20_000), seed=7)
        >>> earlier = commute.estimate(commute.tally(cells[:18_000]))
        >>> later = commute.estimate(commute.tally(cells), start=earlier.warm_start)
        >>> later.iterations < commute.estimate(commute.tally(cells)).iterations
        True
        """
        return self.solution.warm_start

    @cached_property
    def probabilities(self) -> FloatArray | None:
        """The probability of each bucket, or None where the mechanism estimates a mean only."""
        return None if self.solution.probabilities is None else make_read_only(self.solution.probabilities)

    @cached_property
    def mean(self) -> float:
        if self.solution.mean is not None:
            return self._within(float(self.domain.from_unit(self.solution.mean[0])))
        return self._within(self.domain.start + self._mean_offset)

    @cached_property
    def variance(self) -> float:
        """The variance of the values; it needs a distribution. Not below zero, even where single buckets are."""
        offsets, within = self.domain.moments(self._unit_edges)
        return max(float(self._need_distribution() @ (within + (offsets - self._mean_offset) ** 2)), 0.0)

    @cached_property
    def fit_pvalue(self) -> float | None:
        """The p-value of the test that the reports obey the declared mechanism; None where there is no such test.

        Below 0.001 or so, suspect clients with another ε, damaged reports or poisoning, unless values are very spiky:
        where most of them are one number, or a few, honest reports under a wave may come below 0.001, too.
        """
        return self.solution.fit()

    @cached_property
    def heavy_ends(self) -> Ends:
        """The shares of values at or beyond the low and the high end of the domain, where they are implausibly large.

        None stands for a plausible share, or for a mechanism that estimates a mean only. Devices clip values to the
        domain, so a heavy end hints at values in another unit, or at a domain that is too narrow.
        """
        law = self.solution.unsmoothed() if self.solution.unsmoothed is not None else self._law
        return (None, None) if law is None or self.probabilities is None else find_heavy_ends(self.probabilities, law)

    # Intervals -------------------------------------------------------------------------------------------------------

    def _bounds(self, of: str, at: tuple[Any, ...], level: float) -> Interval[Any]:
        if self._any_shape is not None:
            return self._any_shape.interval(of, at, level)
        answers: dict[str, Callable[..., Interval[Any]]] = {
            "mean": self._mean_interval,
            "variance": self._variance_interval,
            "std": self._std_interval,
            "quantile": self._quantile_interval,
            "cdf": self._cdf_interval,
            "probability": self._probability_interval,
        }
        return answers[of](float(ndtri(0.5 + level / 2)), *at)

    def band(self, level: float = 0.95) -> Band:
        """A band that holds the whole distribution function at once; between its points, straight lines bound it.

        The half-width is the quantile of the greatest error over all points, each measured in the same unit (sup norm).
        For any shape, points are fewer, the bounds of all of them together hold, and in between they are steps.
        """
        level = check_level(level)
        self._need_distribution()
        if self._any_shape is not None:
            return Band(*map(make_read_only, self._any_shape.band(level)))
        if self._law is None:
            return Band(*map(make_read_only, (self.domain.from_unit([0.0, 1.0]), np.zeros(2), np.ones(2))))
        curve, half = self._law.curve, greatest_error(self._law.curve_covariance, level)
        bounds = (np.clip(curve - half, 0, 1), np.clip(curve + half, 0, 1))
        return Band(*map(make_read_only, (self.domain.from_unit(self._law.edges), *bounds)))

    def density_band(self, bins: int | None = None, *, level: float = 0.95, simultaneous: bool = False) -> DensityBand:
        """Bounds of the average density in bins of as many buckets each, 64 of them unless another number is asked for.

        Each bin's bounds hold its density with the confidence of `level`; those of all bins at once do if they are
        `simultaneous`, and are then wider. They are centred on a fit that is smoothed less than the estimate itself, or
        for any shape on none at all, so that in a bin the estimate need not be in the middle of them.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
        >>> estimate = commute.estimate(commute.tally(commute.simulate([37.5] * 5000, seed=7)))
        >>> band = estimate.density_band(6)
        >>> band.edges.tolist()
        [0.0, 30.9375, 59.0625, 90.0, 120.9375, 149.0625, 180.0]
        >>> bool((band.low <= band.high).all())
        True
        """
        check_level(level)
        self._need_distribution()
        count = check_bins(bins, self.buckets)
        bounds = self._equal_bins(count)
        low, high = np.zeros(count), np.ones(count)
        if self._any_shape is not None:
            low, high = self._any_shape.bins(bounds, self.buckets, level, simultaneous)
        elif self._law is not None:
            shares, covariance = self._law.bins(bounds / self.buckets)
            errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
            z = greatest_deviation(covariance, level) if simultaneous else float(ndtri(0.5 + level / 2))
            low, high = np.clip(shares - z * errors, 0, 1), np.clip(shares + z * errors, 0, 1)
        return self._density_band(bounds, low, high)

    def readable_bins(self, level: float = 0.95) -> DensityBand:
        """Bounds of the density in bins that are no finer than the reports can tell apart, all of them at once.

        Neighbours of 64 bins are joined until the density of each is known to within half of itself, or of the average
        density where that is greater. Few reports give few bins, none a single one. A picture of them shows no noise as
        fact: where the bounds of one bin lie above those of others, there is a peak, with the confidence of `level`.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
        >>> minutes = np.random.default_rng(3).gamma(4.0, 10.0, 100_000)
        >>> cells = commute.simulate(minutes, seed=7)
        >>> few, many = (commute.estimate(commute.tally(cells[:count])).readable_bins() for count in (1000, 100_000))
        >>> few.low.size < many.low.size
        True
        """
        check_level(level)
        self._need_distribution()
        finest = self._equal_bins(check_bins(None, self.buckets))
        if self._any_shape is not None:
            return self._density_band(*self._any_shape.readable_bins(finest, self.buckets, level))
        if self._law is None:
            return self._density_band(self._equal_bins(1), np.ones(1), np.ones(1))
        parts = np.unique((self._law.edges * self.buckets).round().astype(np.int64))
        # Some mechanisms have few bins of their own, and know nothing of what is within them.
        finest = parts if parts.size <= finest.size else finest
        points = finest / self.buckets
        chosen, low, high = find_readable_bins(*self._law.bins(points), np.diff(points), level)
        return self._density_band(finest[chosen], low, high)

    def if_lying(self, share: float) -> Lying:
        """Bounds of the honest devices' mean, quantiles and distribution function if a share of all devices lies.

        Liars may send any cells, and agree on them. The bounds are sharp: with that share of lies, each distribution
        within them explains the reports as well as the estimate does. Noise is not in them, as it is in `interval`:
        they tell what lies could do to an estimate from any number of reports. For waves and randomized response; other
        mechanisms have none, and `NotEstimableError` says so. Share 0 gives the estimate itself.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
        >>> estimate = commute.estimate(commute.tally(commute.simulate([37.5] * 5000, seed=7)))
        >>> lying = estimate.if_lying(0.01)
        >>> lying.mean.low < estimate.mean < lying.mean.high
        True
        >>> low, high = lying.cdf([30, 60])
        >>> bool((low <= estimate.cdf([30, 60])).all() and (estimate.cdf([30, 60]) <= high).all())
        True
        >>> lying.quantile(0.5).low <= estimate.median <= lying.quantile(0.5).high
        True
        """
        from hushgram.lying import Lying, check_mechanisms  # only here: most readers ask for nothing of the kind

        checked = check_share("share", share)
        self._need_distribution()
        check_mechanisms(mechanism for mechanism, _ in self.tallies)
        return Lying(checked, self, self.tallies)

    def variances(self) -> FloatArray | None:
        """The variance of the error of each of `values()`: what a plotting library makes its error bars of.

        Its root is the standard error of a bucket's count, by the same law as `interval("probability", …)`: noise of
        sampling and of privacy, and the allowance for the bias of smoothing. Two things differ from a histogram of
        exact values. The variance does not shrink with the count: an empty bucket has noise too. And errors of buckets
        near one another are correlated, of waves positively (neighbours by 0.9 and more, being smoothed together), of
        trees negatively. So variances must not be added: for the error of several buckets together, take the interval
        of their probability. None without reports, and where intervals are for any shape: errors of smoothing are then
        not bounded by any variance.
        """
        if self._law is None or self.intervals == "any_shape":
            return None
        _, halves = self._shares_with_errors(self._unit_edges[:-1], self._unit_edges[1:])
        return (self.reports * halves) ** 2

    def _pvalue(self, other: Distribution, growing: bool) -> float | None:
        from hushgram.comparison import same_distribution

        if not isinstance(other, Estimate) or not self.tallies or not other.tallies:
            return None
        return same_distribution(self.tallies, other.tallies, growing=growing)

    @cached_property
    def _any_shape(self) -> AnyShape | None:
        """What answers where intervals are for any shape; without reports, nothing does."""
        if self.intervals != "any_shape" or not self.tallies:
            return None
        from hushgram.any_shape.intervals import AnyShape  # only here: most estimates need none of it

        return AnyShape(self.domain, self.tallies)

    # The law of the error --------------------------------------------------------------------------------------------

    @cached_property
    def _law(self) -> Uncertainty | None:
        return self.solution.uncertainty()

    def _shares_with_errors(self, start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The shares of values between points of the unit interval, by the law, and their standard errors."""
        assert self._law is not None
        centres, errors = np.empty(start.size), np.empty(start.size)
        for block in chunks(start.size, SHARES_AT_ONCE):
            centres[block], errors[block] = self._law.shares_with_errors(start.ravel()[block], end.ravel()[block])
        return centres.reshape(start.shape), errors.reshape(start.shape)

    def _equal_bins(self, count: int) -> IntArray:
        """Where bins of as many whole buckets each begin and end."""
        return np.linspace(0, self.buckets, count + 1).round().astype(np.int64)

    def _density_band(self, bounds: IntArray, low: FloatArray, high: FloatArray) -> DensityBand:
        """Bounds of the density in runs of buckets, from those of their shares."""
        edges = self.edges[bounds]
        return DensityBand(*map(make_read_only, (edges, low / np.diff(edges), high / np.diff(edges))))

    def _mean_interval(self, z: float) -> Interval[Any]:
        if self.solution.mean is not None:
            centre, error = self.solution.mean
            low, high = self.domain.from_unit(np.clip([centre - z * error, centre + z * error], 0, 1))
        elif self._law is None:
            return Interval(self.domain.low, self.domain.high)
        else:
            offsets, _ = self.domain.moments(self._law.edges)
            (offset,), (half,) = self._law.sums_with_errors(offsets[None, :])
            low, high = self.domain.start + offset - z * half, self.domain.start + offset + z * half
        return Interval(self._within(float(low)), self._within(float(high)))

    def _variance_interval(self, z: float) -> Interval[Any]:
        self._need_distribution()
        greatest = ((self.domain.high - self.domain.low) / 2) ** 2
        if self._law is None:
            return Interval(0.0, greatest)
        offsets, within = self.domain.moments(self._law.edges)
        # The gradient of E[v²] - E[v]² at the fit, up to a constant that a total of 1 cannot move.
        gradient = within + (offsets - float(self._law.centre @ offsets)) ** 2
        (centre,), (half,) = self._law.sums_with_errors(gradient[None, :])
        return Interval(*np.clip([centre - z * half, centre + z * half], 0.0, greatest))

    def _std_interval(self, z: float) -> Interval[Any]:
        """The root is monotone: it holds the deviation exactly when the other interval holds the variance."""
        return Interval(*np.sqrt(self._variance_interval(z)))

    def _cdf_interval(self, z: float, x: float | Numbers) -> Interval[Any]:
        end = self._units_up_to(check_real_numbers("x", x))
        return self._share_interval(z, np.zeros_like(end), end)

    def _probability_interval(self, z: float, low: float | Numbers, high: float | Numbers) -> Interval[Any]:
        return self._share_interval(z, *self._unit_ranges(low, high))

    def _share_interval(self, z: float, start: FloatArray, end: FloatArray) -> Interval[Any]:
        self._need_distribution()
        if self._law is None:
            return Interval(np.zeros_like(end), np.ones_like(end))
        centres, errors = self._shares_with_errors(start, end)
        return Interval(np.clip(centres - z * errors, 0.0, 1.0), np.clip(centres + z * errors, 0.0, 1.0))

    def _quantile_interval(self, z: float, q: float | Numbers) -> Interval[Any]:
        """From the first point where the distribution function may have reached `q` to the last where it may not."""
        shares = check_shares("q", q)
        self._need_distribution()
        if self._law is None:
            return Interval(np.full_like(shares, self.domain.low), np.full_like(shares, self.domain.high))
        curve = self._law.curve
        half = z * self._law.curve_errors
        upper = np.maximum.accumulate(np.clip(curve + half, 0, 1))
        lower = np.minimum.accumulate(np.clip(curve - half, 0, 1)[::-1])
        low = first_reach(self._law.edges, upper, np.minimum(shares, upper[-1]))
        # The last point at or below q is the first at or above 1 - q when read backwards.
        high = 1 - first_reach(1 - self._law.edges[::-1], 1 - lower, np.minimum(1 - shares, 1 - lower[-1]))
        return Interval(self._values_at(low), self._values_at(high))

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def _bucket_count(self) -> int:
        return self.buckets

    @cached_property
    def _mean_offset(self) -> float:
        """How far the mean lies above the domain's start."""
        return float(self._need_distribution() @ self.domain.moments(self._unit_edges)[0])

    def _within(self, value: float) -> float:
        return min(max(value, self.domain.low), self.domain.high)
