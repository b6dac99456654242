"""EM and EMS as estimators of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.estimators.em import Fits, Part, maximize, paper_tolerance, windows_at_once
from hushgram.estimators.goodness_of_fit import pearson
from hushgram.estimators.smoothing import choose_strengths
from hushgram.estimators.strips import least_squares
from hushgram.estimators.types import Method, Solution, Uncertainty, Window
from hushgram.estimators.uncertainty import sandwich
from hushgram.mechanisms.base import Transition, chunks

Strengths = Callable[[Sequence[Part]], FloatArray]
"""Gives the strength of smoothing of each window."""

FIT_ITERATIONS = 200
"""EM steps from the estimate before the fit is tested, so that smoothing alone cannot make reports look wrong."""


def ems(windows: Sequence[Window], method: Method) -> list[Solution]:
    return _solve(windows, method, choose_strengths if method.smoothing == "adaptive" else _alike(1.0))


def em(windows: Sequence[Window], method: Method) -> list[Solution]:
    return _solve(windows, method, _alike(0.0))


def _alike(strength: float) -> Strengths:
    return lambda parts: np.full(len(parts[0].counts), strength)


def _solve(windows: Sequence[Window], method: Method, strengths: Strengths) -> list[Solution]:
    """All windows have the same mechanisms in the same order, and are rows of one problem."""
    solutions = []
    for some in chunks(len(windows), windows_at_once(method.buckets)):
        parts = _parts(windows[some])
        fitted = _fitted(parts, strengths(parts), method)
        block = _Block(parts, fitted.x)
        solutions += [
            Solution(
                int(fitted.iterations[row]),
                bool(fitted.converged[row]),
                fitted.x[row],
                uncertainty=partial(block.law, row),
                unsmoothed=partial(block.unsmoothed, row),
                fit=partial(block.fit, row),
            )
            for row in range(len(fitted.x))
        ]
    return solutions


def _fitted(parts: Sequence[Part], strengths: FloatArray, method: Method) -> Fits:
    """Windows of the same strength are solved together."""
    count = len(strengths)
    fits = Fits(np.empty((count, method.buckets)), np.zeros(count, np.int64), np.zeros(count, bool))
    for strength in np.unique(strengths).tolist():
        rows = strengths == strength
        some = maximize(
            [Part(part.mechanism, part.counts[rows]) for part in parts],
            smoothing=strength,
            stopping=method.stopping,
            tolerance=paper_tolerance(method.epsilon, strength),
        )
        fits.x[rows], fits.iterations[rows], fits.converged[rows] = some.x, some.iterations, some.converged
    return fits


def _parts(windows: Sequence[Window]) -> list[Part]:
    return [
        Part(mechanism, np.stack([window[index][1] for window in windows]).astype(np.float64))
        for index, (mechanism, _) in enumerate(windows[0])
        if isinstance(mechanism, Transition)
    ]


class _Block:
    """Windows solved together; what costs more than the estimate is computed for all of them on first use."""

    def __init__(self, parts: Sequence[Part], x: FloatArray) -> None:
        self.parts, self.x = parts, x

    def law(self, row: int) -> Uncertainty:
        return self._laws[row]

    def unsmoothed(self, row: int) -> Uncertainty:
        return self._unsmoothed[row]

    def fit(self, row: int) -> float | None:
        return self._fits[row]

    @cached_property
    def _laws(self) -> list[Uncertainty]:
        return sandwich(self.parts)

    @cached_property
    def _unsmoothed(self) -> list[Uncertainty]:
        return least_squares(self.parts)

    @cached_property
    def _fits(self) -> list[float | None]:
        return fits(self.parts, self.x)


def fits(parts: Sequence[Part], x: FloatArray) -> list[float | None]:
    """The p-value of each window's test of fit, at what EM makes of the estimate."""
    closer = maximize(parts, smoothing=0.0, tolerance=0.0, max_iterations=FIT_ITERATIONS, start=x).x
    cells = [part.mechanism.forward(closer) for part in parts]
    return [
        pearson([(expected[row], part.counts[row]) for expected, part in zip(cells, parts, strict=True)])
        for row in range(len(closer))
    ]
