"""Norm-Sub: the nearest distribution to a vector that may be negative or not sum to one (paper, section 4.1)."""

from __future__ import annotations

import numpy as np

from hushgram.arrays import FloatArray


def project_onto_simplex(values: FloatArray) -> FloatArray:
    """The Euclidean projection: what is negative after subtracting one common amount becomes zero, the rest sums to 1.

    >>> project_onto_simplex(np.array([0.7, 0.5, -0.1])).round(3).tolist()
    [0.6, 0.4, 0.0]
    """
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(falling > excess)[-1]
    return np.maximum(values - excess[last], 0.0)
