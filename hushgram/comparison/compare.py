"""Two distributions compared: by how much their numbers differ, and whether they differ at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy.special import ndtri

from hushgram._arrays import FloatArray, make_read_only
from hushgram._validation import check_flag
from hushgram.comparison.always_valid import always_valid_deviate
from hushgram.comparison.differences import Difference, DifferenceCurve, difference_interval
from hushgram.comparison.sentence import describe_difference
from hushgram.intervals import Interval, NotEstimableError, Numbers, check_level

if TYPE_CHECKING:
    from hushgram.distribution import Distribution
    from hushgram.domain import Domain


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The first of two distributions beside the second, made by `compare`; all differences are first less second.

    Intervals come from the two sides' own, so that they hold wherever those do. While either side is `growing`, and one
    looks again and again, intervals and `pvalue` are those that hold at all times at once; they are wider.

    >>> from hushgram import Collection
    >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
    >>> city, country = (
    ...     commute.estimate(commute.tally(commute.simulate([minutes] * 20_000, seed=seed)))
    ...     for minutes, seed in [(37.5, 1), (50, 2)]
    ... )
    >>> comparison = city.compare(country)
    >>> comparison.mean.low < 37.5 - 50 < comparison.mean.high
    True
    >>> comparison.pvalue < 0.001, bool(comparison.median.is_clear)
    (True, True)
    >>> comparison.cdf([30, 45]).value.shape
    (2,)
    """

    first: Distribution
    second: Distribution
    level: float = 0.95
    growing: bool = False

    def __post_init__(self) -> None:
        check_level(self.level)
        check_flag("growing", self.growing)
        _check_domains(self.first.domain, self.second.domain)
        for name, side in (("first", self.first), ("second", self.second)):
            if not side.reports:
                raise NotEstimableError(f"nothing to compare: the {name} of the two has no reports")

    @cached_property
    def pvalue(self) -> float | None:
        """The p-value of the test that both are one distribution; None where a side has no tallies to test.

        Of mechanisms that estimate a mean only, the test is that of equal means.
        """
        return self.first._pvalue(self.second, self.growing)

    # Differences -----------------------------------------------------------------------------------------------------

    @cached_property
    def mean(self) -> Difference[float]:
        return self._of("mean", (self.first.mean, self.second.mean), self._longest)

    @cached_property
    def median(self) -> Difference[float]:
        return self.quantile(0.5)

    @cached_property
    def std(self) -> Difference[float]:
        """Of the standard deviations."""
        return self._of("std", (self.first.std, self.second.std), self._longest)

    @overload
    def quantile(self, q: float) -> Difference[float]: ...
    @overload
    def quantile(self, q: Numbers) -> Difference[FloatArray]: ...
    def quantile(self, q: float | Numbers) -> Difference[Any]:
        """Of the least values at or below which a share `q` of the values lies."""
        return self._of("quantile", (self.first.quantile(q), self.second.quantile(q)), self._longest, q)

    @overload
    def cdf(self, x: float) -> Difference[float]: ...
    @overload
    def cdf(self, x: Numbers) -> Difference[FloatArray]: ...
    def cdf(self, x: float | Numbers) -> Difference[Any]:
        """Of the shares of values at or below `x`; above it, they differ by as much the other way round."""
        return self._of("cdf", (self.first.cdf(x), self.second.cdf(x)), 1.0, x)

    @overload
    def probability(self, low: float, high: float) -> Difference[float]: ...
    @overload
    def probability(self, low: Numbers | float, high: Numbers) -> Difference[FloatArray]: ...
    @overload
    def probability(self, low: Numbers, high: float) -> Difference[FloatArray]: ...
    def probability(self, low: Any, high: Any) -> Difference[Any]:
        """Of the shares of values from `low` to `high`; for whole numbers, both included."""
        values = self.first.probability(low, high), self.second.probability(low, high)
        return self._of("probability", values, 1.0, low, high)

    def curve(self) -> DifferenceCurve:
        """The difference of the distribution functions, with a band that holds all of it at once."""
        bands = [side.band(self.level) for side in (self.first, self.second)]
        points = np.union1d(bands[0].points, bands[1].points)
        to_unit = self.first.domain.edges_to_unit  # where values are spread evenly between points
        bounds = [
            Interval(*(np.interp(to_unit(points), to_unit(band.points), end) for end in (band.low, band.high)))
            for band in bands
        ]
        values = [side._curve_at(to_unit(points)) for side in (self.first, self.second)]
        answer = difference_interval((values[0], values[1]), (bounds[0], bounds[1]), self._stretch, 1.0)
        return DifferenceCurve(*map(make_read_only, (points, *answer)))

    # In words --------------------------------------------------------------------------------------------------------

    @property
    def detectable(self) -> float:
        """The difference of the medians, or of the means if there are no others, that would have been found.

        In 4 of 5 cases, that is: where the true difference is 1.43 times as large as half the width of a 95 % interval,
        the interval leaves zero out with a chance of 80 %.
        """
        _, low, high = self._main
        deviate = self._stretch * float(ndtri(0.5 + self.level / 2))
        return (high - low) / 2 * (1 + float(ndtri(0.8)) / deviate)

    def sentence(
        self,
        first: str = "the first",
        second: str = "the second",
        *,
        pvalue: float | None = None,
        threshold: float | None = None,
    ) -> str:
        """What a reader who knows no statistics needs to know, with names for the two sides.

        It speaks of the medians, or of the means if there are no others. Where none is found, it names the difference
        that would have been found in 4 of 5 cases: see `detectable`. Of several comparisons, a corrected `pvalue` and
        its `threshold` take the place of the own p-value and of 1 - `level`.
        """
        tested = self.pvalue if pvalue is None else pvalue
        found = tested is not None and tested < (1 - self.level if threshold is None else threshold)
        text = describe_difference(
            self._main_name,
            self._main,
            self.first.domain.unit,
            (first, second),
            self.level,
            self.detectable,
            tested if found else None,
        )
        sentence = f"T{text[1:]}" if text.startswith("the ") else text  # a name stays as it is
        return sentence + (" Reports still arrive: this holds at any time." if self.growing else "")

    def __repr__(self) -> str:
        value, low, high = self._main
        pvalue = "None" if self.pvalue is None else f"{self.pvalue:.3g}"
        return (
            f"Comparison({self._main_name}={value:.6g} [{low:.6g}, {high:.6g}], level={self.level:g}, pvalue={pvalue})"
        )

    @property
    def _main_name(self) -> str:
        known = self.first.probabilities is not None and self.second.probabilities is not None
        return "median" if known else "mean"

    @property
    def _main(self) -> Difference[float]:
        return self.median if self._main_name == "median" else self.mean

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def _longest(self) -> float:
        return self.first.domain.high - self.first.domain.low

    @cached_property
    def _stretch(self) -> float:
        """How much wider than for one look intervals are."""
        if not self.growing:
            return 1.0
        reports = 1 / (1 / self.first.reports + 1 / self.second.reports)
        return always_valid_deviate(reports, self.level) / float(ndtri(0.5 + self.level / 2))

    def _of(self, what: str, values: tuple[Any, Any], most: float, *at: Any) -> Difference[Any]:
        ask: list[Callable[..., Interval[Any]]] = [self.first.interval, self.second.interval]
        intervals = [interval(what, *at, level=self.level) for interval in ask]
        answer = difference_interval(values, (intervals[0], intervals[1]), self._stretch, most)
        if any(np.ndim(number) for number in at):
            return Difference(*map(make_read_only, answer))
        return Difference(*map(float, answer))


def _check_domains(first: Domain, second: Domain) -> None:
    """Refuses numbers that are not of one kind."""
    if first.unit != second.unit:
        units = [repr(domain.unit) if domain.unit else "no unit" for domain in (first, second)]
        raise ValueError(f"cannot compare different units: {units[0]} and {units[1]}")
    if first != second:
        kinds = [_describe(domain) for domain in (first, second)]
        raise ValueError(f"cannot compare different domains: {kinds[0]} and {kinds[1]}")


def _describe(domain: Domain) -> str:
    whole = "whole numbers from " if domain.integer else ""
    scale = " on a log scale" if domain.scale == "log" else ""
    return f"{whole}{domain.low:g} to {domain.high:g}{scale}"
