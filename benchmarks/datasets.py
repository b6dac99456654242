"""The bundled data sets, and smooth shapes beside them, as distributions over equal buckets of the unit interval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

from hushgram._arrays import FloatArray, IntArray
from hushgram.pipelines import simulate

BUNDLED = Path(simulate.__path__[0]) / "data"


def bundled_counts(name: str, buckets: int) -> IntArray:
    """How many of a data set's values lie in each bucket of its domain."""
    with np.load(BUNDLED / f"{name}.npz") as file:
        values, counts = file["values"] * float(file["scale"]), file["counts"]
        low, high = float(file["lo"]), float(file["hi"])
    # A hair more than the exact edge: values that lie on one are decimal fractions, not binary ones.
    index = np.floor((values - low) * buckets / (high - low) + 1e-9).astype(np.int64)
    inside = (index >= 0) & (index < buckets)
    return np.bincount(index[inside], weights=counts[inside], minlength=buckets).astype(np.int64)


def bundled(name: str, buckets: int) -> FloatArray:
    """A data set's share of values in each bucket of its domain."""
    total = bundled_counts(name, buckets)
    return total / total.sum()


def _between_edges(cdf: Callable[[FloatArray], FloatArray], buckets: int) -> FloatArray:
    shares = np.diff(cdf(np.linspace(0, 1, buckets + 1)))
    return shares / shares.sum()


SMOOTH: dict[str, Callable[[int], FloatArray]] = {
    "beta(5, 2)": lambda d: _between_edges(stats.beta(5, 2).cdf, d),
    "two hills": lambda d: _between_edges(
        lambda v: 0.4 * stats.beta.cdf(v, 20, 60) + 0.6 * stats.beta.cdf(v, 30, 12), d
    ),
    "log-normal": lambda d: _between_edges(stats.lognorm(0.6, scale=np.exp(-2)).cdf, d),
    "uniform": lambda d: np.full(d, 1 / d),
    "taxi": lambda d: bundled("taxi", d),
}
SPIKY: dict[str, Callable[[int], FloatArray]] = {"income": lambda d: bundled("income", d)}


def _with_points(ground: Callable[[int], FloatArray], *points: tuple[float, float]) -> Callable[[int], FloatArray]:
    """A distribution with point masses, given as places of the unit interval and shares of the whole."""

    def shares(buckets: int) -> FloatArray:
        x = (1 - sum(mass for _, mass in points)) * ground(buckets)
        for place, mass in points:
            x[int(place * buckets)] += mass
        return x

    return shares


def _stairs(*heights: float) -> Callable[[int], FloatArray]:
    """Steps of equal width; the number of buckets must be a multiple of theirs."""
    return lambda d: np.repeat(np.array(heights) / sum(heights), d // len(heights)) / (d // len(heights))


def _peaks(width: float, *places: float) -> Callable[[int], FloatArray]:
    """Normal peaks of equal mass."""
    return lambda d: _between_edges(lambda v: np.mean([stats.norm.cdf(v, place, width) for place in places], axis=0), d)


HARD: dict[str, Callable[[int], FloatArray]] = {
    "retirement": lambda d: bundled("retirement", d),
    "30 % zeros": _with_points(lambda d: _between_edges(stats.gamma(2.5, scale=0.09).cdf, d), (0.0, 0.3)),
    "two spikes": _with_points(SMOOTH["uniform"], (0.3, 0.15), (0.7003, 0.15)),
    "both ends": lambda d: _between_edges(stats.beta(0.5, 0.5).cdf, d),
    "needle": lambda d: _between_edges(
        lambda v: 0.8 * stats.norm.cdf(v, 0.45, 0.18) + 0.2 * stats.norm.cdf(v, 0.62, 0.008), d
    ),
    "Laplace": lambda d: _between_edges(stats.laplace(0.4, 0.06).cdf, d),
    "Pareto": lambda d: _between_edges(stats.truncpareto(1.2, 41, loc=-0.025, scale=0.025).cdf, d),
    "one jump": _stairs(3, 3, 1, 1, 1, 1, 1, 1),
    "stairs": _stairs(2, 1, 6, 0.3, 3, 1, 0.1, 1.5),
    "five peaks": _peaks(0.015, 0.15, 0.32, 0.5, 0.66, 0.85),
}
"""Shapes that smoothing may harm: point masses, steep ends, jumps and narrow peaks."""
EXTREME: dict[str, Callable[[int], FloatArray]] = {
    "masses at both ends": _with_points(SMOOTH["uniform"], (0.0, 0.25), (0.9999, 0.25)),
    "three values": _with_points(SMOOTH["uniform"], (0.0, 0.3), (0.37, 0.3), (0.38, 0.4)),
    "comb": _with_points(SMOOTH["uniform"], *((place / 16, 1 / 16) for place in range(16))),
}
"""Shapes without any smooth part: intervals that assume nothing hold for them, too."""

_STEPS = ((0.0, 0.28, 0.63, 1.0), (0.0, 0.2, 0.8, 1.0))
KEPT_ASIDE: dict[str, Callable[[int], FloatArray]] = {
    "exponential": lambda d: _between_edges(stats.expon(scale=0.2).cdf, d),
    "triangle": lambda d: _between_edges(stats.triang(0.3).cdf, d),
    "three hills": lambda d: _between_edges(
        lambda v: (
            0.3 * stats.norm.cdf(v, 0.2, 0.03)
            + 0.45 * stats.norm.cdf(v, 0.5, 0.08)
            + 0.25 * stats.norm.cdf(v, 0.82, 0.05)
        ),
        d,
    ),
    "Student's t": lambda d: _between_edges(stats.t(3, 0.45, 0.08).cdf, d),
    "plateau": lambda d: _between_edges(lambda v: np.interp(v, *_STEPS), d),
    "hill on a plain": lambda d: _between_edges(lambda v: 0.7 * v + 0.3 * stats.norm.cdf(v, 0.37, 0.02), d),
}
"""Shapes chosen by their kind, before any result was seen: nothing may be tuned on them."""
