"""The mean, from mechanisms that estimate nothing else (paper, section 2.2)."""

from __future__ import annotations

import math

from hushgram.estimators.types import Method, Solution, Window
from hushgram.mechanisms.mean_only import MeanMechanism


def mean(window: Window, method: Method) -> Solution:
    """The average of what the cells stand for, over all mechanisms by their precision, with its standard error."""
    weighted, information = 0.0, 0.0
    for mechanism, tally in window:
        if not isinstance(mechanism, MeanMechanism):
            continue
        values, reports = mechanism.cell_values(), int(tally.sum())
        average = float(values @ tally) / reports
        # The spread that the mechanism itself causes is known; a few equal reports must not claim to be exact.
        spread = max(float((values - average) ** 2 @ tally) / reports, mechanism.least_variance)
        information += reports / spread
        weighted += average * reports / spread
    return Solution(mean=(min(max(weighted / information, 0.0), 1.0), math.sqrt(1 / information)))
