"""Statements about reports that still arrive, which hold at all times at once, however often one looks.

An estimate of a difference moves as a Brownian motion W of its information I, one over the squared standard error:
its error is W(I)/I, whatever the order in which reports of either side arrive (Jennison and Turnbull 1997, Group-
sequential analysis incorporating covariate information). For W there are bounds that hold for all I together, from a
mixture of likelihoods with normal weights (Robbins 1970); as asymptotic confidence sequences, Waudby-Smith, Arbour,
Sinha, Kennedy and Ramdas 2024.
"""

from __future__ import annotations

import math

import numpy as np

from hushgram._arrays import FloatArray

TUNED_REPORTS = 10_000
"""The reports, n₁n₂/(n₁ + n₂) of the two sides, at which intervals are narrowest: 1.55 times as wide as for one look at
95 %, and less than twice as wide for a tenth and for a hundred times as many."""
TYPICAL_CHANGE = 0.1
"""By how much, of itself, a density is thought to change where it does: what the test for many looks is tuned to."""


def always_valid_deviate(reports: float, level: float) -> float:
    """How many standard errors an interval reaches to either side so that those at all times hold, at a level.

    √(2·(τ + 1)/τ·ln(√(τ + 1)/α)), where τ is the information over that at which it is tuned, times -2 ln α +
    ln(1 - 2 ln α), the τ of the least width.

    >>> round(always_valid_deviate(10_000, 0.95) / 1.96, 2)
    1.55
    """
    alpha = 1 - level
    best = -2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))
    tau = best * reports / TUNED_REPORTS
    return math.sqrt(2 * (tau + 1) / tau * math.log(math.sqrt(tau + 1) / alpha))


def always_valid_pvalue(scores: FloatArray, informations: FloatArray) -> float:
    """The p-value, at any time, of independent scores whose variances are their information.

    It is one over the likelihood ratio of normal changes to none, which exceeds 1/p at any time with a chance of p at
    most (Ville's inequality).
    """
    prior = TYPICAL_CHANGE**2
    gain = prior * scores**2 / (1 + prior * informations) - np.log1p(prior * informations)
    return math.exp(-max(float(gain.sum()) / 2, 0.0))
