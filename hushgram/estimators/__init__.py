"""Estimators: pure functions from the tallies of windows to distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hushgram._validation import CollectionError, check_one_of, refuse
from hushgram.estimators import ems, frequencies, haar, mean, tree
from hushgram.estimators.log_spline import log_spline
from hushgram.estimators.types import METHOD_OPTIONS, Method, Solution, Window
from hushgram.mechanisms import Mechanism

Estimator = Callable[[Sequence[Window], Method], list[Solution]]
WarmEstimator = Callable[[Sequence[Window], Method, Sequence[bytes | None]], list[Solution]]


def _one_by_one(solve: Callable[[Window, Method], Solution]) -> Estimator:
    return lambda windows, method: [solve(window, method) for window in windows]


ESTIMATORS: dict[str, Estimator] = {
    "ems": ems.ems,
    "em": ems.em,
    "log_spline": log_spline,
    "hh": _one_by_one(tree.hh),
    "hh_admm": _one_by_one(tree.hh_admm),
    "haar": _one_by_one(haar.haar),
    "norm_sub": _one_by_one(frequencies.norm_sub),
    "mean": _one_by_one(mean.mean),
}
WARM_ESTIMATORS: dict[str, WarmEstimator] = {"log_spline": log_spline}
"""Those that can start from an earlier result of the same window."""


def check_method(estimator: object, mechanism: Mechanism, options: Mapping[str, object]) -> str:
    """The name of an estimator that understands the mechanism, the default if it is empty, and takes the options."""
    known = mechanism.estimators
    name = check_one_of("estimator", estimator or known[0], ESTIMATORS)
    if name not in known:
        refuse("estimator", name, f"{', '.join(known)} with the mechanism {mechanism.name}")
    for option, value in options.items():
        choices, takers = METHOD_OPTIONS[option]
        if value is not None and check_one_of(option, value, choices) and name not in takers:
            raise CollectionError(f"{option}: not an option of {name}, but of {', '.join(takers)}")
    return name


__all__ = ["ESTIMATORS", "WARM_ESTIMATORS", "Estimator", "Method", "Solution", "Window", "check_method"]
