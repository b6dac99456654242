"""The result of an estimator, and the law of its error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """A fit with little or no smoothing, on parts of the unit interval, and the covariance of its error."""

    edges: FloatArray
    centre: FloatArray
    covariance: FloatArray


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
