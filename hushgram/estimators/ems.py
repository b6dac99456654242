"""EM and EMS as estimators of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.estimators.em import Fits, Part, maximize, paper_tolerance, windows_at_once
from hushgram.estimators.goodness_of_fit import CLEAR, pearson
from hushgram.estimators.smoothing import choose_strengths
from hushgram.estimators.strips import least_squares
from hushgram.estimators.types import Method, Solution, Uncertainty, Window
from hushgram.estimators.uncertainty import coarsened, light_fits, sandwich
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
    def _lights(self) -> FloatArray:
        return light_fits(self.parts)

    @cached_property
    def _laws(self) -> list[Uncertainty]:
        return sandwich(self.parts, self._lights)

    @cached_property
    def _unsmoothed(self) -> list[Uncertainty]:
        return least_squares(self.parts)

    @cached_property
    def _fits(self) -> list[float | None]:
        near = [part.mechanism.forward(self._lights) for part in coarsened(self.parts)]
        return fits(self.parts, near, self.x)


def fits(parts: Sequence[Part], near: Sequence[FloatArray], x: FloatArray) -> list[float | None]:
    """The p-value of each window's test of fit.

    `near` has the cells' probabilities, windows × cells for each part, by a fit with little smoothing. Where these are
    not clearly those of the reports, the test is of what EM makes of the estimate `x`.
    """
    pvalues = _pearson(parts, near)
    unclear = [row for row, pvalue in enumerate(pvalues) if pvalue is not None and pvalue <= CLEAR]
    if unclear:
        some = [Part(part.mechanism, part.counts[unclear]) for part in parts]
        closer = maximize(some, smoothing=0.0, tolerance=0.0, max_iterations=FIT_ITERATIONS, start=x[unclear]).x
        for row, pvalue in zip(unclear, _pearson(some, [part.mechanism.forward(closer) for part in some]), strict=True):
            pvalues[row] = pvalue
    return pvalues


def _pearson(parts: Sequence[Part], cells: Sequence[FloatArray]) -> list[float | None]:
    return [
        pearson([(expected[row], part.counts[row]) for expected, part in zip(cells, parts, strict=True)])
        for row in range(len(parts[0].counts))
    ]
