"""The paper's four data sets (section 6.1): populations that are drawn once and fixed; the truth is their histogram."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmarks.datasets import bundled, bundled_counts
from hushgram._arrays import FloatArray, IntArray

FINE = 2048
"""Buckets of a population: the most that any experiment uses, and a multiple of all the others."""


@dataclass(frozen=True)
class Data:
    """A data set: the number of values in the paper, the buckets they are estimated on, and where ours come from."""

    title: str
    reports: int
    buckets: int
    spiky: bool
    origin: str
    draw: Callable[[int, np.random.Generator], IntArray]


def _beta(reports: int, rng: np.random.Generator) -> IntArray:
    return np.histogram(rng.beta(5, 2, reports), FINE, (0, 1))[0]


def _resampled(name: str) -> Callable[[int, np.random.Generator], IntArray]:
    return lambda reports, rng: rng.multinomial(reports, bundled(name, FINE))


DATA: dict[str, Data] = {
    "beta": Data("Beta(5, 2)", 100_000, 256, False, "drawn from the distribution, as in the paper", _beta),
    "taxi": Data(
        "Taxi pick-up time",
        2_189_968,
        1024,
        False,
        "a stand-in: 540 669 pick-ups of the same source in other months, resampled to the paper's number",
        _resampled("taxi"),
    ),
    "income": Data(
        "Income",
        2_308_374,
        1024,
        True,
        "a stand-in: 130 519 persons of the same survey one year later, resampled to the paper's number",
        _resampled("income"),
    ),
    "retirement": Data(
        "Retirement",
        178_012,
        1024,
        False,
        "the paper's own data, value by value",
        lambda reports, rng: bundled_counts("retirement", FINE),
    ),
}


@lru_cache
def population(name: str, reports: int | None = None) -> IntArray:
    """How many devices there are in each of `FINE` buckets; with `reports`, a smaller draw of the same, for tests."""
    data = DATA[name]
    rng = np.random.default_rng([6, *name.encode()])
    counts = data.draw(data.reports, rng)
    if reports is not None:
        counts = rng.multinomial(reports, counts / counts.sum())
    counts.setflags(write=False)
    return counts


def truth(population: IntArray, buckets: int) -> FloatArray:
    """The population's histogram: the share of devices in each bucket."""
    return population.reshape(buckets, -1).sum(axis=1) / population.sum()
