"""The answers of a library's methods, and the figures computed from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.peers.environment import PeerError
from hushgram._arrays import FloatArray
from hushgram.estimators.frequencies import project_onto_simplex
from hushgram.metrics import kolmogorov_smirnov, wasserstein
from hushgram.simulation import Summary

CONFIDENCE = 0.999
"""High enough that among a dozen mechanisms that keep their promise hardly one is accused by chance."""


@dataclass(frozen=True)
class Audit:
    """Of equally many reports of each of two values, how many support the first and not the second."""

    reports: int
    own: int
    other: int

    def epsilon_at_least(self, confidence: float = CONFIDENCE) -> float:
        """A lower bound of the actual ε, at this confidence, by the bounds of Clopper and Pearson on both shares.

        >>> round(Audit(100_000, 36_552, 13_447).epsilon_at_least(), 2)
        0.96
        """
        tail = (1 - confidence) / 2
        low = stats.beta.ppf(tail, self.own, self.reports - self.own + 1) if self.own else 0.0
        high = stats.beta.ppf(1 - tail, self.other + 1, self.reports - self.other) if self.other < self.reports else 1.0
        return math.log(low / high) if low > 0 else -math.inf


@dataclass(frozen=True)
class Estimates:
    """The estimated shares of each run (rows) by data set and ε, and the audit where there is one."""

    runs: Mapping[tuple[str, float], FloatArray]
    audit: Audit | None


@dataclass(frozen=True)
class Speed:
    """Reports a second that devices make, and that a server counts and estimates; and on how many it was timed."""

    device: float
    server: float
    reports: int


def read_estimates(text: str, shapes: Mapping[tuple[str, float], tuple[int, int]]) -> dict[str, Estimates]:
    """A peer's answer to the question of accuracy, by method; `shapes` holds runs and buckets of each."""
    return {name: _estimates(name, entry, shapes) for name, entry in _methods(text).items()}


def _estimates(name: str, entry: Any, shapes: Mapping[tuple[str, float], tuple[int, int]]) -> Estimates:
    runs = {}
    for (dataset, epsilon), shape in shapes.items():
        try:
            array = np.array(entry["estimates"][dataset][str(epsilon)], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            raise PeerError(f"its answer has no estimates by {name} of {dataset} at ε = {epsilon}") from None
        if array.shape != shape or not np.isfinite(array).all():
            raise PeerError(f"its estimates by {name} of {dataset} at ε = {epsilon} are not {shape} numbers")
        runs[dataset, epsilon] = array
    return Estimates(runs, Audit(**entry["audit"]) if entry.get("audit") else None)


def read_speeds(text: str) -> dict[str, Speed]:
    """A peer's answer to the question of speed, by method."""
    speeds = {}
    for name, entry in _methods(text).items():
        try:
            device, server = (entry[half]["reports"] / entry[half]["seconds"] for half in ("device", "server"))
            speeds[name] = Speed(device, server, entry["server"]["reports"])
        except (KeyError, TypeError, ZeroDivisionError):
            raise PeerError(f"its answer has no times of {name}") from None
    return speeds


def read_decoded(text: str) -> dict[str, FloatArray]:
    """The peer's own estimates from the reports that it also left as cells, by method."""
    methods = _methods(text).items()
    return {name: np.array(entry["estimate_of_cells"]) for name, entry in methods if entry.get("estimate_of_cells")}


def _methods(text: str) -> dict[str, Any]:
    try:
        methods = json.loads(text)["methods"]
    except (ValueError, KeyError, TypeError):
        raise PeerError("its answer is not what a script of ours writes") from None
    if not isinstance(methods, dict) or not methods:
        raise PeerError("its answer names no method")
    return methods


def mean_squared_error(true: FloatArray, estimated: FloatArray) -> float:
    return float(np.mean((true - estimated) ** 2))


FIGURES = {"W1": wasserstein, "KS": kolmogorov_smirnov, "MSE": mean_squared_error}


def is_distribution(estimates: Sequence[FloatArray] | FloatArray) -> bool:
    return all(estimate.min() >= -1e-12 and abs(estimate.sum() - 1) < 1e-9 for estimate in estimates)


def errors(truths: FloatArray, estimates: FloatArray, projected: bool) -> dict[str, Summary]:
    """Errors over runs, each against the shares of the values that its own devices had; as they are, or projected."""
    histograms = [project_onto_simplex(histogram) if projected else histogram for histogram in estimates]
    return {
        name: Summary.of([figure(true, histogram) for true, histogram in zip(truths, histograms, strict=True)])
        for name, figure in FIGURES.items()
    }
