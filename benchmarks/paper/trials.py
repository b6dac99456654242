"""One setting of an experiment, repeated: the same population, other reports each time; errors and their spread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.coverage import shares_held
from benchmarks.paper.data import FINE, population, truth
from benchmarks.paper.methods import COVERED, METHODS
from benchmarks.paper.two_phase import simulate_variance
from hushgram import Collection
from hushgram._arrays import FloatArray, IntArray
from hushgram.estimate import Estimate
from hushgram.simulation import METRICS, Summary, regroup, simulate_tally

RUNS_AT_ONCE = 16
"""Tallies that are held and estimated together: enough for the estimators' blocks, few enough for the memory."""


@dataclass(frozen=True)
class Setting:
    """A point of a figure. `methods` read the same reports; `reports`, if given, makes the population smaller."""

    figure: str
    data: str
    epsilon: float
    buckets: int
    methods: tuple[str, ...]
    runs: int
    bandwidth: float | None = None
    reports: int | None = None

    @property
    def collections(self) -> dict[str, Collection]:
        return {name: METHODS[name].collection(self.epsilon, self.buckets, self.bandwidth) for name in self.methods}


@dataclass(frozen=True)
class ResultRow:
    """A line of the table: a metric's mean over independent runs, and the standard error of that mean."""

    figure: str
    method: str
    data: str
    epsilon: float
    buckets: int
    bandwidth: float | None
    metric: str
    mean: float
    error: float
    runs: int

    @classmethod
    def of(cls, setting: Setting, method: str, metric: str, summary: Summary) -> ResultRow:
        point = (setting.data, setting.epsilon, setting.buckets, setting.bandwidth)
        return cls(setting.figure, method, *point, metric, summary.mean, summary.error, summary.runs)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(setting: Setting) -> list[ResultRow]:
    """All figures of a setting. Their randomness depends on the setting alone, not on earlier measurements."""
    collections = setting.collections
    first = next(iter(collections.values()))
    devices = population(setting.data, setting.reports)
    rngs = [_generator(setting, first, run) for run in range(setting.runs)]
    if first.mechanism.mean_only:
        [name] = collections
        figures = [_moment_errors(first, devices, rng) for rng in rngs]
        return [
            ResultRow.of(setting, name, metric, Summary.of([errors[metric] for errors in figures]))
            for metric in figures[0]
        ]
    estimates: dict[str, list[Estimate]] = {name: [] for name in collections}
    for start in range(0, setting.runs, RUNS_AT_ONCE):
        tallies = [simulate_tally(first, devices, rng) for rng in rngs[start : start + RUNS_AT_ONCE]]
        for name, collection in collections.items():
            estimates[name] += collection.estimate_many(tallies)
    return [row for name in collections for row in _rows(setting, name, estimates[name], devices)]


def _generator(setting: Setting, collection: Collection, run: int) -> np.random.Generator:
    return np.random.default_rng([run, *f"{setting.data} {setting.epsilon} {collection.revision}".encode()])


def _rows(setting: Setting, name: str, estimates: Sequence[Estimate], devices: IntArray) -> Iterator[ResultRow]:
    # Histograms of different resolution are compared on the finest of them.
    grid = FINE if setting.figure == "buckets" else setting.buckets
    true = truth(devices, grid)
    histograms = [regroup(_probabilities(estimate), grid) for estimate in estimates]
    metrics = METHODS[name].metrics
    for metric in metrics:
        if metric in METRICS:
            yield ResultRow.of(
                setting, name, metric, Summary.of([METRICS[metric](true, histogram) for histogram in histograms])
            )
    if setting.figure == "methods" and set(COVERED) <= set(metrics):
        for metric, share in zip(COVERED, shares_held(estimates, true), strict=True):
            error = math.sqrt(share * (1 - share) / len(estimates))
            yield ResultRow.of(setting, name, metric, Summary(share, error, len(estimates)))


def _probabilities(estimate: Estimate) -> FloatArray:
    assert estimate.probabilities is not None
    return estimate.probabilities


def _moment_errors(collection: Collection, devices: IntArray, rng: np.random.Generator) -> dict[str, float]:
    """Of a mechanism that estimates a mean: all devices for the mean; half for it, half for the variance (6.3)."""
    mean = collection.estimate(simulate_tally(collection, devices, rng)).mean
    values = (np.repeat(np.arange(FINE), devices) + rng.random(int(devices.sum()))) / FINE
    variance = simulate_variance(collection, values, rng)
    true, centres = truth(devices, FINE), (np.arange(FINE) + 0.5) / FINE
    true_mean = float(true @ centres)
    true_variance = float(true @ (centres - true_mean) ** 2)
    return {"mean": abs(mean - true_mean), "variance": abs(variance - true_variance)}
