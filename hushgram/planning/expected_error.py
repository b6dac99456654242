"""The expected quality of one estimate: its error on known distributions, and the width of its intervals."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.collection import Collection
from hushgram.estimate import Estimate
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.simulation import METRICS, Summary, draw_tally, regroup

COMPARED = 1024
"""The least parts of the domain that distributions are compared on: few buckets must not hide what they blur."""
MOST_COMPARED = 4096

ERRORS = ("w1", "ks")
"""Figures that need the truth, on the unit domain."""
BINS = "bins"
"""The number of readable bins. All other figures are half the width of a 95 % interval, in units."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A distribution to try a collection on, as shares of equal parts of its domain."""

    name: str
    distribution: FloatArray

    def generator(self, seed: int, run: int) -> np.random.Generator:
        """The same for every collection and number of reports, whichever shapes are tried beside this one."""
        return np.random.default_rng([seed, zlib.crc32(self.name.encode()), run])


@dataclass(frozen=True)
class Runs:
    """Simulated estimates for each shape: of all of them the errors are taken, of the first few the intervals too."""

    errors: int = 16
    intervals: int = 4


@dataclass(frozen=True)
class Outlook:
    """The expected figures of one estimate, by name and shape, over simulated collections of `reports` reports."""

    collection: Collection
    reports: int
    figures: Mapping[str, Mapping[str, Summary]]

    def mean(self, figure: str) -> Summary:
        """The average of a figure over the shapes."""
        each = list(self.figures[figure].values())
        error = math.sqrt(sum(one.error**2 for one in each)) / len(each)
        return Summary(sum(one.mean for one in each) / len(each), error, sum(one.runs for one in each))

    def worst(self, figure: str) -> tuple[str, Summary]:
        """The shape where a figure is largest, and the figure there."""
        return max(self.figures[figure].items(), key=lambda item: item[1].mean)


def grid(collection: Collection) -> int:
    """The number of equal parts of the domain that truth and estimates are compared on; whole numbers are not cut."""
    if collection.integer:
        size = int(collection.high - collection.low) + 1
        return size if size <= MOST_COMPARED else collection.buckets
    return collection.buckets * math.ceil(COMPARED / collection.buckets)


def figures_of(collection: Collection) -> tuple[str, ...]:
    """The figures that a collection has; `p50` is the median."""
    return ("mean",) if collection.mechanism.mean_only else ("w1", "ks", "mean", "p50", BINS)


def outlook(
    collection: Collection, shapes: Sequence[Shape], reports: int, figures: Iterable[str], runs: Runs, seed: int
) -> Outlook:
    """The expected figures, from simulated collections."""
    wanted = tuple(figures)
    errors = [name for name in wanted if name in ERRORS]
    intervals = [name for name in wanted if name not in ERRORS]
    if not errors and collection.estimator in METHOD_OPTIONS["stopping"][1]:
        # Intervals of a wave have fits of their own, which do not depend on how the estimate stopped.
        collection = replace(collection, stopping="converged")
    wide = min(runs.intervals, runs.errors) if intervals else 0
    taken: dict[str, dict[str, list[float]]] = {name: {shape.name: [] for shape in shapes} for name in wanted}
    # Intervals of a batch are computed together, so runs that need none form a batch of their own.
    for some, with_intervals in ((range(wide), True), (range(wide, runs.errors if errors else wide), False)):
        rows = [(shape, run) for shape in shapes for run in some]
        tallies = [
            draw_tally(collection, shape.distribution, reports, shape.generator(seed, run)) for shape, run in rows
        ]
        for (shape, _), estimate in zip(rows, collection.estimate_many(tallies), strict=True):
            for name in errors:
                taken[name][shape.name].append(_error(name, shape, estimate))
            for name in intervals if with_intervals else ():
                taken[name][shape.name].append(_resolution(name, estimate))
    summaries = {name: {shape: Summary.of(each) for shape, each in by.items()} for name, by in taken.items()}
    return Outlook(collection, reports, summaries)


def _error(name: str, shape: Shape, estimate: Estimate) -> float:
    assert estimate.probabilities is not None
    return METRICS[name](shape.distribution, regroup(estimate.probabilities, shape.distribution.size))


def _resolution(name: str, estimate: Estimate) -> float:
    return float(estimate.readable_bins().low.size) if name == BINS else half_width(name, estimate)


def half_width(name: str, estimate: Estimate) -> float:
    """Half the 95 % interval of the mean, or of a quantile such as `p50` or `p99.9`, in the collection's units."""
    low, high = estimate.interval("mean") if name == "mean" else estimate.interval("quantile", float(name[1:]) / 100)
    return (high - low) / 2
