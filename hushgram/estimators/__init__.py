"""Estimators: pure functions from the tallies of windows to distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hushgram.estimators import frequencies, haar, mean, tree, waves
from hushgram.estimators.solution import Method, Solution, Window

Estimator = Callable[[Sequence[Window], Method], list[Solution]]


def _one_by_one(solve: Callable[[Window, Method], Solution]) -> Estimator:
    return lambda windows, method: [solve(window, method) for window in windows]


ESTIMATORS: dict[str, Estimator] = {
    "ems": waves.ems,
    "em": waves.em,
    "hh": _one_by_one(tree.hh),
    "hh_admm": _one_by_one(tree.hh_admm),
    "haar": _one_by_one(haar.haar),
    "norm_sub": _one_by_one(frequencies.norm_sub),
    "mean": _one_by_one(mean.mean),
}

__all__ = ["ESTIMATORS", "Estimator", "Method", "Solution", "Window"]
