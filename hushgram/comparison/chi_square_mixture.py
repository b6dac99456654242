"""The tail of a weighted sum of χ² variables of one degree of freedom."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, ndtr

from hushgram._arrays import FloatArray

NEGLIGIBLE = 1e-10
"""Weights below such a share of the greatest do not count."""
NEAR_MEAN = 0.05
"""The saddlepoint formula is 0/0 at the mean; within such a normal deviate of it, moments serve."""


def mixture_tail(value: float, weights: FloatArray) -> float:
    """P(Σ w_k Z_k² > value) for independent standard normal Z_k, to a few percent of itself however small it is.

    By the saddlepoint (Kuonen 1999, Saddlepoint approximations for distributions of quadratic forms, with the formula
    of Lugannani and Rice). Weights that are not positive count as zero; without any, the tail is 1.

    >>> round(mixture_tail(11.07, np.ones(5)), 3), round(mixture_tail(2 * 30.0, np.full(5, 2.0)), 6)  # as of χ²
    (0.05, 1.5e-05)
    """
    positive = weights[weights > NEGLIGIBLE * max(float(weights.max(initial=0.0)), 0.0)]
    if not positive.size:
        return 1.0
    scaled, q = positive / positive.max(), value / float(positive.max())
    if scaled.size == 1:
        return float(chdtrc(1, max(q, 0.0)))
    if q <= 0:
        return 1.0
    t = _saddlepoint(q, scaled)
    depth = 2 * (t * q + 0.5 * float(np.log1p(-2 * t * scaled).sum()))
    w = math.copysign(math.sqrt(max(depth, 0.0)), t)
    if abs(w) < NEAR_MEAN:
        return _by_moments(q, scaled)
    v = t * math.sqrt(2 * float(((scaled / (1 - 2 * t * scaled)) ** 2).sum()))
    density = math.exp(-w * w / 2) / math.sqrt(2 * math.pi)
    return min(max(float(ndtr(-w)) + density * (1 / v - 1 / w), 0.0), 1.0)


def _saddlepoint(q: float, weights: FloatArray) -> float:
    """Where the derivative of the cumulant generating function, Σ w/(1 - 2tw), is q; the greatest weight is 1."""

    def excess(t: float) -> float:
        return float((weights / (1 - 2 * t * weights)).sum()) - q

    # Each weight adds at most 1/(1 - 2t), which the greatest does: 1 - 2t lies between 1/q and size/q.
    return float(brentq(excess, (1 - (weights.size + 1) / q) / 2, (1 - 0.99 / q) / 2, xtol=1e-14))


def _by_moments(q: float, weights: FloatArray) -> float:
    """The tail of the χ² with the same mean, variance and skewness, scaled and shifted (Imhof 1961)."""
    first, second, third = (float((weights**power).sum()) for power in (1, 2, 3))
    freedom = second**3 / third**2
    return float(chdtrc(freedom, max((q - first) * math.sqrt(freedom / second) + freedom, 0.0)))
