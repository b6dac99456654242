"""The result of an estimator, and the law of its error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.em import Stopping
from hushgram.mechanisms.base import Mechanism

Window = Sequence[tuple[Mechanism, IntArray]]
"""The tallies of one window, each with the mechanism that its reports went through; every tally has a report."""

PARTS_LIMIT = 256
"""The most parts of the domain that the law of the error is computed for: its cost grows with the cube."""


@dataclass(frozen=True)
class Method:
    """How a distribution is estimated. Nothing here changes what a device does."""

    estimator: str
    epsilon: float
    buckets: int
    stopping: Stopping = "paper"
    smoothing: Literal["full", "adaptive"] = "full"
    solver: Literal["exact", "admm"] = "exact"
    level_weights: Literal["variance", "equal"] = "variance"


METHOD_OPTIONS = {
    "stopping": (("paper", "converged"), ("ems", "em")),
    "smoothing": (("full", "adaptive"), ("ems",)),
    "solver": (("exact", "admm"), ("hh_admm",)),
    "level_weights": (("variance", "equal"), ("hh", "hh_admm")),
}
"""The options of estimators: their choices, and which estimators take them."""


@dataclass(frozen=True)
class Uncertainty:
    """A fit with little or no smoothing, on parts of the unit interval, and the law of its error."""

    edges: FloatArray
    centre: FloatArray
    """The shares of the parts."""
    curve_covariance: FloatArray
    """Of the distribution function's error at the edges."""
    scatter: FloatArray | None = None
    """What buckets may scatter inside each part: at a share s of a part, the distribution function has s(1 - s) times
    this variance more than the straight line between its edges. None, if it is taken for straight."""
    least_errors: FloatArray | None = None
    """No share of a range, but for an empty one and the whole, has a smaller standard error than the part in its middle
    has here. None, if the law needs no such limit."""

    @classmethod
    def of_parts(cls, edges: FloatArray, centre: FloatArray, covariance: FloatArray) -> Uncertainty:
        """From the covariance of the errors of the parts."""
        curve_covariance = np.zeros((edges.size, edges.size))
        inner = curve_covariance[1:, 1:]
        np.cumsum(np.cumsum(covariance, axis=0, out=inner), axis=1, out=inner)
        return cls(edges, centre, curve_covariance)

    @property
    def covariance(self) -> FloatArray:
        """Of the errors of the parts."""
        return np.diff(np.diff(self.curve_covariance, axis=0), axis=1)

    @cached_property
    def curve(self) -> FloatArray:
        """The distribution function at the edges."""
        return np.concatenate([[0.0], np.cumsum(self.centre)])

    @cached_property
    def curve_errors(self) -> FloatArray:
        """The standard errors of the distribution function at the edges."""
        errors = np.sqrt(np.maximum(np.diag(self.curve_covariance), 0.0))
        return np.maximum(errors, self._least(np.zeros(self.edges.size), self.edges))

    def sums_with_errors(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weighted sums of the parts, one for each row of weights, and their standard errors.

        By partial summation: with F the distribution function, Σ wᵢ(Fᵢ₊₁ - Fᵢ) = Σ (wᵢ₋₁ - wᵢ)Fᵢ, and w is zero beyond
        the ends.
        """
        scale = float(np.abs(weights).max()) or 1.0  # squares of a domain's squares need not be finite
        drops = -np.diff(weights / scale, axis=1, prepend=0.0, append=0.0)
        variances = np.einsum("ij,ij->i", drops @ self.curve_covariance, drops)
        return weights @ self.centre, scale * np.sqrt(np.maximum(variances, 0.0))

    def shares_with_errors(self, start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The shares between points of the unit interval, and their standard errors."""
        first, last = (np.clip(points[:, None], self.edges[:-1], self.edges[1:]) for points in (start, end))
        weights = (last - first) / np.diff(self.edges)
        centres, errors = self.sums_with_errors(weights)
        if self.scatter is not None:
            errors = np.sqrt(errors**2 + (weights * (1 - weights)) @ self.scatter)
        return centres, np.maximum(errors, self._least(start, end))

    def bins(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The shares between successive points of the unit interval, and the covariance of their errors.

        Within a part the distribution function is a straight line, but for what buckets may scatter.
        """
        after = np.clip(np.searchsorted(self.edges, points), 1, self.edges.size - 1)
        share = (points - self.edges[after - 1]) / (self.edges[after] - self.edges[after - 1])
        rows = self.curve_covariance[after - 1] * (1 - share[:, None]) + self.curve_covariance[after] * share[:, None]
        between = rows[:, after - 1] * (1 - share) + rows[:, after] * share
        curve = self.curve[after - 1] * (1 - share) + self.curve[after] * share
        if self.scatter is not None:
            bridge = np.minimum.outer(share, share) - np.outer(share, share)
            between += np.where(np.equal.outer(after, after), self.scatter[after - 1] * bridge, 0.0)
        covariance = np.diff(np.diff(between, axis=0), axis=1)
        diagonal = np.diag_indices(len(covariance))
        covariance[diagonal] = np.maximum(covariance[diagonal], self._least(points[:-1], points[1:]) ** 2)
        return np.diff(curve), covariance

    def _least(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """The least errors of the shares between points."""
        if self.least_errors is None:
            return np.zeros(start.shape)
        part = np.searchsorted(self.edges[1:-1], (start + end) / 2, side="right")
        return np.where((end > start) & (end - start < 1), self.least_errors[part], 0.0)


def _unknown() -> None:
    """Not a lambda: solutions travel between processes."""


@dataclass(frozen=True)
class Solution:
    """`probabilities` over the buckets, or `mean` alone as (value, standard error) on the unit interval.

    The law of the error and the goodness of fit cost more than the estimate: they are computed when asked for.
    """

    iterations: int = 0
    converged: bool = True
    probabilities: FloatArray | None = None
    mean: tuple[float, float] | None = None
    uncertainty: Callable[[], Uncertainty | None] = _unknown
    unsmoothed: Callable[[], Uncertainty | None] | None = None
    """A fit without smoothing, where `uncertainty` is of one with some."""
    fit: Callable[[], float | None] = _unknown
    estimator: str | None = None
    """The estimator that the result is of, where it is not the one that was asked for."""
    warm_start: bytes | None = None
    """Where an estimate of the same window, with more reports, may start from."""


def part_bounds(buckets: int, most: int = PARTS_LIMIT) -> IntArray:
    """Where the parts begin and end, in buckets: each bucket a part while there are few, runs of them after."""
    return np.linspace(0, buckets, min(buckets, most, PARTS_LIMIT) + 1).round().astype(np.int64)
