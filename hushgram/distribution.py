"""A distribution over the equal buckets of a domain, read in the domain's units: what estimates and snapshots share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from hushgram._arrays import FloatArray, IntArray, check_real_numbers, make_read_only
from hushgram._validation import describe
from hushgram.domain import Domain
from hushgram.intervals import (
    INTERVALS,
    Band,
    DensityBand,
    Interval,
    NotEstimableError,
    Numbers,
    Single,
    check_level,
    check_ranges,
    check_shares,
    first_reach,
)
from hushgram.plotting import Axis

if TYPE_CHECKING:
    from hushgram.comparison import Comparison

Status = Literal["ok", "too_few", "no_reports"]


class Distribution:
    """A distribution whose values are spread evenly within each bucket. Numbers give floats, arrays give arrays.

    >>> from hushgram import Domain, Estimate
    >>> from hushgram.estimators import Solution
    >>> solution = Solution(probabilities=np.array([0.125, 0.25, 0.5, 0.125]))
    >>> example = Estimate(Domain(0, 8, unit="hours"), 4, 1000, "ok", solution)
    >>> example
    Estimate(reports=1000, status='ok', mean=4.25 hours, median=4.5 hours)
    >>> example.quantile(0.375), example.quantile([0.125, 0.5]).tolist()
    (4.0, [2.0, 4.5])
    >>> example.cdf(4), example.probability([0, 6], [2, 8]).tolist()
    (0.375, [0.125, 0.125])
    >>> round(example.std, 3), example.values().tolist(), example.axes[0][0]
    (1.809, [125.0, 250.0, 500.0, 125.0], (0.0, 2.0))
    """

    if TYPE_CHECKING:
        # Subclasses hold these as fields or properties. A property here would become the default of a field.
        @property
        def domain(self) -> Domain: ...
        @property
        def reports(self) -> int: ...
        @property
        def probabilities(self) -> FloatArray | None: ...
        @property
        def mean(self) -> float: ...
        @property
        def variance(self) -> float | None: ...
        @property
        def status(self) -> str: ...
        @property
        def intervals(self) -> str | None: ...
        def _bounds(self, of: str, at: tuple[Any, ...], level: float) -> Interval[Any]: ...
        def band(self, level: float = 0.95) -> Band: ...
        def readable_bins(self, level: float = 0.95) -> DensityBand: ...

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Unpickled arrays are writable; those of a frozen value must not be."""
        vars(self).update(
            {name: make_read_only(part) if isinstance(part, np.ndarray) else part for name, part in state.items()}
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._summary())})"

    def _summary(self) -> list[str]:
        unit = f" {self.domain.unit}" if self.domain.unit else ""
        median = [] if self.probabilities is None else [f"median={self.median:.6g}{unit}"]
        return [f"reports={self.reports}", f"status={self.status!r}", f"mean={self.mean:.6g}{unit}", *median]

    def _notes(self) -> list[str]:
        """Remarks for the picture's caption."""
        return [] if self.status == "ok" else [self.status.replace("_", " ")]

    # Numbers of the distribution -------------------------------------------------------------------------------------

    @property
    def std(self) -> float:
        """The standard deviation of the values."""
        self._need_distribution()
        return math.sqrt(self.variance or 0.0)

    @property
    def median(self) -> float:
        """The least value at or below which half of the values lie."""
        return self.quantile(0.5)

    @cached_property
    def edges(self) -> FloatArray:
        """The edges of the buckets, one more than there are buckets."""
        return make_read_only(self.domain.from_unit(self._unit_edges))

    @cached_property
    def density(self) -> FloatArray:
        """The probability of each bucket over its width, in one over the domain's unit."""
        return make_read_only(self._need_distribution() / np.diff(self.edges))

    @overload
    def quantile(self, q: float) -> float: ...
    @overload
    def quantile(self, q: Numbers) -> FloatArray: ...
    def quantile(self, q: float | Numbers) -> float | FloatArray:
        """The least value at or below which a share `q` of the values lies."""
        shares = check_shares("q", q)
        units = first_reach(self._unit_edges, self._rising, np.minimum(shares, self._rising[-1]))
        return _like(q, self._values_at(units))

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: Numbers) -> FloatArray: ...
    def cdf(self, x: float | Numbers) -> float | FloatArray:
        """The share of values at or below `x`."""
        end = self._units_up_to(check_real_numbers("x", x))
        return _like(x, self._shares(np.zeros_like(end), end))

    @overload
    def probability(self, low: float, high: float) -> float: ...
    @overload
    def probability(self, low: Numbers | float, high: Numbers) -> FloatArray: ...
    @overload
    def probability(self, low: Numbers, high: float) -> FloatArray: ...
    def probability(self, low: float | Numbers, high: float | Numbers) -> float | FloatArray:
        """The share of values from `low` to `high`; for whole numbers, both included."""
        start, end = self._unit_ranges(low, high)
        return _like(start, self._shares(start, end))

    @overload
    def interval(self, of: Single, /, *, level: float = 0.95) -> Interval[float]: ...
    @overload
    def interval(self, of: Literal["quantile", "cdf"], at: float, /, *, level: float = 0.95) -> Interval[float]: ...
    @overload
    def interval(
        self, of: Literal["quantile", "cdf"], at: Numbers, /, *, level: float = 0.95
    ) -> Interval[FloatArray]: ...
    @overload
    def interval(
        self, of: Literal["probability"], low: float, high: float, /, *, level: float = 0.95
    ) -> Interval[float]: ...
    @overload
    def interval(
        self, of: Literal["probability"], low: Numbers | float, high: Numbers, /, *, level: float = 0.95
    ) -> Interval[FloatArray]: ...
    @overload
    def interval(
        self, of: Literal["probability"], low: Numbers, high: float, /, *, level: float = 0.95
    ) -> Interval[FloatArray]: ...
    def interval(self, of: str, /, *at: Any, level: float = 0.95) -> Interval[Any]:
        """A confidence interval, at 95 % unless another level is asked for.

        Of the `mean`, `variance`, `std` or `median`; of `quantile` at shares, of `cdf` at values, of `probability` from
        values to others: `interval("mean")`, `interval("quantile", [0.5, 0.99])`, `interval("probability", 30, 60)`.
        Noise of sampling and of privacy are both in it, and an allowance for the bias of smoothing. Each interval holds
        its number with the confidence of `level`; many at once do not hold all of theirs with it, as `band()` does.
        `intervals` says what they assume: `smooth` distributions, or ones of `any_shape`.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
        >>> estimate = commute.estimate(commute.tally(commute.simulate([37.5] * 5000, seed=7)))
        >>> estimate.interval("mean").low < 37.5 < estimate.interval("mean").high
        True
        >>> low, high = estimate.interval("quantile", [0.1, 0.5, 0.9])
        >>> bool((low < high).all())
        True
        """
        if not isinstance(of, str) or of not in INTERVALS:
            raise ValueError(f"no interval of {describe(of)}, allowed: {', '.join(INTERVALS)}")
        if len(at) != len(INTERVALS[of]):
            wanted = " and ".join(INTERVALS[of]) or "no number"
            raise ValueError(f"an interval of {of} takes {wanted}, got {describe(at)}")
        question = ("quantile", (0.5,)) if of == "median" else (of, at)
        low, high = self._bounds(*question, check_level(level))
        return Interval(low, high) if any(np.ndim(number) for number in at) else Interval(float(low), float(high))

    @cached_property
    def supported(self) -> FloatArray | None:
        """The probabilities as far as the reports support them, evenly spread within each of `readable_bins()`.

        A picture of them shows no noise as fact. None where there is no distribution. Where bins are not known, as in
        results of earlier versions, all probabilities are taken as they are.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
        >>> estimate = commute.estimate(commute.tally(commute.simulate([20.0] * 3000, seed=7)))
        >>> np.unique(estimate.supported).size == estimate.readable_bins().low.size
        True
        """
        if self.probabilities is None:
            return None
        bounds = self._bin_bounds
        shares = np.add.reduceat(self.probabilities, bounds[:-1])
        return make_read_only(np.repeat(shares / np.diff(bounds), np.diff(bounds)))

    # Beside another ---------------------------------------------------------------------------------------------------

    def compare(self, other: Distribution, *, level: float = 0.95, growing: bool = False) -> Comparison:
        """The differences between this distribution and another of the same domain, each with its interval.

        The two must have no report in common: compare a group with the other groups, never with the total that it is a
        part of. Say that they are `growing` if reports still arrive and you look again and again. Refused are different
        domains or units, and a side without reports.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
        >>> city, country = (
        ...     commute.estimate(commute.tally(commute.simulate([minutes] * 20_000, seed=seed)))
        ...     for minutes, seed in [(37.5, 1), (50, 2)]
        ... )
        >>> city.compare(country).sentence("the city", "the country")  # doctest: +ELLIPSIS
        'The median of the city is ... minutes lower than that of the country, 95 % interval ... to ....'
        """
        from hushgram.comparison import Comparison  # only here: most readers compare nothing

        if not isinstance(other, Distribution):
            raise TypeError(f"compare takes an estimate or a snapshot, got {describe(other)}")
        return Comparison(self, other, level, growing)

    def _pvalue(self, other: Distribution, growing: bool) -> float | None:
        """The p-value of the test that another distribution is the same, where there are tallies to test."""
        return None

    def _curve_at(self, units: FloatArray) -> FloatArray:
        """The share of values up to points of the unit interval."""
        return self._shares(np.zeros_like(units), units)

    # For plotting libraries and tables -------------------------------------------------------------------------------

    @property
    def axes(self) -> tuple[Axis]:
        """The buckets as the one axis of a histogram, by the protocol of UHI (boost-histogram, hist, mplhep)."""
        return (Axis(self.edges, self.domain.unit),)

    @property
    def kind(self) -> str:
        """Bars are counts, by the same protocol."""
        return "COUNT"

    def values(self) -> FloatArray:
        """The estimated number of reports with a value in each bucket: all reports times the probability."""
        return self.reports * self._need_distribution()

    def variances(self) -> FloatArray | None:
        """The variance of the error of each of `values()`, or None where it is not known."""
        return None

    def counts(self) -> FloatArray | None:
        """The effective number of entries of each bucket, values²/variances: as many exact values err as much.

        The noise of privacy makes it less, often far less, than `values()`.
        """
        variances = self.variances()
        if variances is None:
            return None
        return np.divide(self.values() ** 2, variances, out=np.zeros_like(variances), where=variances > 0)

    def to_frame(self) -> Any:
        """A data frame with a row for each bucket: of polars if it is installed, else of pandas.

        Columns: `low` and `high` (the bucket's edges), `probability`, `density`, and at the bucket's upper edge `cdf`,
        `cdf_low` and `cdf_high`, the 95 % band of the whole distribution function.
        """
        from hushgram.display import make_frame  # only here: most readers need no table

        low, high = self.bucket_band()
        return make_frame(
            {
                "low": self.edges[:-1],
                "high": self.edges[1:],
                "probability": self._need_distribution(),
                "density": self.density,
                "cdf": np.clip(self._cumulative[1:], 0.0, 1.0),
                "cdf_low": low,
                "cdf_high": high,
            }
        )

    def bucket_band(self) -> Interval[FloatArray]:
        """The 95 % band of the whole distribution function, at the upper edge of each bucket.

        >>> from hushgram import Collection
        >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
        >>> estimate = commute.estimate(commute.tally(commute.simulate([37.5] * 5000, seed=7)))
        >>> low, high = estimate.bucket_band()
        >>> bool((low <= estimate.cdf(estimate.edges[1:])).all())
        True
        """
        band = self.band()
        scale = np.log if self.domain.scale == "log" else np.asarray
        # Values are spread evenly between the band's points, so that its bounds are straight lines there.
        places, points = scale(self.edges[1:]), scale(band.points)
        return Interval(np.interp(places, points, band.low), np.interp(places, points, band.high))

    def _repr_html_(self) -> str:
        """The picture and the numbers that a notebook shows."""
        from hushgram.display import to_html  # only here: most readers need no picture

        return to_html(self)

    # Points of the unit interval -------------------------------------------------------------------------------------

    def _need_distribution(self) -> FloatArray:
        if self.probabilities is None:
            raise NotEstimableError("this mechanism estimates a mean only, not a distribution")
        return self.probabilities

    @property
    def _bucket_count(self) -> int:
        return 1 if self.probabilities is None else self.probabilities.size

    @cached_property
    def _bin_bounds(self) -> IntArray:
        """The buckets at which readable bins begin, and the end of the last."""
        try:
            edges = self.readable_bins().edges
        except NotEstimableError:
            return np.arange(self._bucket_count + 1)
        places = np.interp(edges, self.edges, np.arange(self._bucket_count + 1)).round().astype(np.int64)
        return np.unique(np.concatenate([[0], places, [self._bucket_count]]))

    @cached_property
    def _unit_edges(self) -> FloatArray:
        return np.linspace(0, 1, self._bucket_count + 1)

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(self._need_distribution())])

    @cached_property
    def _rising(self) -> FloatArray:
        """The distribution function, made monotone: some estimators allow negative probabilities."""
        return np.maximum.accumulate(self._cumulative)

    def _shares(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """The probability between points of the unit interval, clipped to 0 … 1: some estimators go below zero."""
        before, after = (np.interp(points, self._unit_edges, self._cumulative) for points in (start, end))
        return np.clip(after - before, 0.0, 1.0)

    def _units_up_to(self, values: FloatArray) -> FloatArray:
        """The points of the unit interval up to which values at or below `values` lie."""
        if self.domain.integer:
            return np.clip((np.floor(values) + 0.5 - self.domain.start) / self.domain.length, 0, 1)
        return self.domain.to_unit(np.atleast_1d(values)).reshape(values.shape)

    def _unit_ranges(self, low: float | Numbers, high: float | Numbers) -> tuple[FloatArray, FloatArray]:
        first, last = check_ranges(low, high)
        return self._units_up_to(np.ceil(first) - 1 if self.domain.integer else first), self._units_up_to(last)

    def _values_at(self, units: FloatArray) -> FloatArray:
        values = self.domain.from_unit(units)
        if self.domain.integer:
            # A whole number reaches to its upper edge, give or take a rounding error.
            values = np.ceil(values - 0.5 - 1e-12 * self.domain.length)
        return np.clip(values, self.domain.low, self.domain.high) + 0.0  # no negative zero: it would look odd


def _like(question: float | Numbers, answer: FloatArray) -> float | FloatArray:
    return answer if np.ndim(question) else float(answer)
