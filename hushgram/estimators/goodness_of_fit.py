"""Goodness of fit: the test that reports come from the declared mechanism."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtrc

from hushgram._arrays import FloatArray, IntArray

LEAST_EXPECTED = 5.0
CLEAR = 0.01
"""A fit with a p-value above this needs no closer look."""


def pearson(observed: Sequence[tuple[FloatArray, FloatArray | IntArray]]) -> float | None:
    """The p-value of Pearson's X² for counts against the fitted cell probabilities; None if all is one pool.

    Neighbouring cells are pooled until at least five reports are expected in each pool. The freedom that the fit used
    up is not subtracted, which makes the test conservative.
    """
    statistic, freedom = 0.0, 0
    for probabilities, counts in observed:
        expected, actual = pool(probabilities * counts.sum(), counts)
        statistic += float(((actual - expected) ** 2 / expected).sum())
        freedom += expected.size - 1
    return float(chdtrc(freedom, statistic)) if freedom > 0 else None


def pool(expected: FloatArray, counts: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
    """Runs of cells with at least `LEAST_EXPECTED` expected reports each; what is left at the end joins the last run.

    >>> pool(np.array([3.0, 3.0, 9.0, 1.0]), np.array([2, 4, 8, 2]))
    (array([ 6., 10.]), array([ 6., 10.]))
    """
    if expected.min() >= LEAST_EXPECTED:
        return expected, counts.astype(np.float64)
    ends = []
    running = 0.0
    for cell, value in enumerate(expected.tolist()):
        running += value
        if running >= LEAST_EXPECTED:
            ends.append(cell + 1)
            running = 0.0
    starts = [0, *ends[:-1]] if ends else [0]
    return np.add.reduceat(expected, starts), np.add.reduceat(counts, starts).astype(np.float64)
