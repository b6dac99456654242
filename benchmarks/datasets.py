"""The bundled data sets, and smooth shapes beside them, as distributions over equal buckets of the unit interval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from hushgram._arrays import FloatArray, IntArray
from hushgram.pipelines.simulate.shapes import BUNDLED


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
