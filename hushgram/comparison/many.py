"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(pvalues: Sequence[float]) -> list[float]:
    """P-values corrected for their number: one falls below 0.05 by mere chance, among all, with 5 % at most.

    The step-down method of Holm 1979: the least is multiplied by how many there are, the next by one less, and so on;
    none becomes less than one that was smaller.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(pvalues)
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(np.asarray(pvalues)[order] * factors), 1.0)
    return [float(p) for p in corrected]
