"""One setting of a rival, repeated as the paper's methods are: the same populations, buckets and metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.paper.data import population, truth
from benchmarks.paper.rivals.factorization import estimate_by_factorization
from benchmarks.paper.rivals.pripl_tree import estimate_by_pripl_tree
from benchmarks.paper.trials import ResultRow, Setting
from hushgram._arrays import FloatArray, IntArray
from hushgram.simulation import METRICS, Summary


@dataclass(frozen=True)
class Rival:
    """A method beyond the paper: population, ε, buckets and a generator in, the probability of each bucket out."""

    name: str
    estimate: Callable[[IntArray, float, int, np.random.Generator], FloatArray]


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("PriPL-Tree", estimate_by_pripl_tree),
        Rival("factorization", estimate_by_factorization),
    )
}


def measure_rival(setting: Setting) -> list[ResultRow]:
    """All figures of a setting. Their randomness depends on the setting alone, not on earlier measurements."""
    [name] = setting.methods
    devices = population(setting.data, setting.reports)
    true = truth(devices, setting.buckets)
    histograms = [
        RIVALS[name].estimate(
            devices,
            setting.epsilon,
            setting.buckets,
            np.random.default_rng([run, *f"{name} {setting.data} {setting.epsilon}".encode()]),
        )
        for run in range(setting.runs)
    ]
    return [
        ResultRow.of(setting, name, metric, Summary.of([error(true, histogram) for histogram in histograms]))
        for metric, error in METRICS.items()
    ]
