"""EM and EMS as estimators of a window: the fit, the law of its error, and the test that the mechanism was obeyed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hushgram.arrays import FloatArray, IntArray
from hushgram.estimators.em import Part, maximize, paper_tolerance, smooth
from hushgram.estimators.fit import pearson
from hushgram.estimators.solution import Method, Solution, Uncertainty, Window, part_bounds
from hushgram.mechanisms.base import Transition
from hushgram.mechanisms.general_wave import Dense

LIGHT_SMOOTHING = 0.1
"""Intervals are centred on a fit smoothed this little: its bias is small against its noise."""
FIT_ITERATIONS = 200
"""EM steps from the estimate before the fit is tested: smoothing, and not the reports, may be what does not fit."""


def ems(windows: Sequence[Window], method: Method) -> list[Solution]:
    return _solve(windows, method, smoothing=1.0)


def em(windows: Sequence[Window], method: Method) -> list[Solution]:
    return _solve(windows, method, smoothing=0.0)


def _solve(windows: Sequence[Window], method: Method, smoothing: float) -> list[Solution]:
    """All windows have the same mechanisms in the same order, and are rows of one problem."""
    transitions: list[Transition] = [mechanism for mechanism, _ in windows[0] if isinstance(mechanism, Transition)]
    parts = [
        Part(transition, np.stack([window[index][1] for window in windows]).astype(np.float64))
        for index, transition in enumerate(transitions)
    ]
    tolerance = paper_tolerance(method.epsilon, smoothing)
    fitted = maximize(parts, smoothing=smoothing, stopping=method.stopping, tolerance=tolerance)
    return [
        _solution(
            transitions,
            [tally for _, tally in window],
            fitted.x[row],
            fitted.iterations[row],
            fitted.converged[row],
        )
        for row, window in enumerate(windows)
    ]


def _solution(
    transitions: list[Transition], tallies: list[IntArray], x: FloatArray, iterations: np.int64, converged: np.bool
) -> Solution:
    observed = list(zip(transitions, tallies, strict=True))

    def fit() -> float | None:
        parts = [Part(transition, tally[None, :].astype(np.float64)) for transition, tally in observed]
        closer = maximize(parts, smoothing=0.0, tolerance=0.0, max_iterations=FIT_ITERATIONS, start=x[None, :])
        return pearson([(transition.forward(closer.x[0]), tally) for transition, tally in observed])

    return Solution(int(iterations), bool(converged), x, uncertainty=lambda: sandwich(transitions, tallies), fit=fit)


def sandwich(transitions: Sequence[Transition], tallies: Sequence[IntArray]) -> Uncertainty:
    """The law of the error of a lightly smoothed EMS fit.

    At the fixed point x = G(x, f) of the EMS map, f the observed shares of the cells, a change of f moves x by
    X = (I - ∂G/∂x)⁻¹ ∂G/∂f, and f varies as a multinomial with the fitted probabilities. The difference to the fit with
    full smoothing enters as one more direction of error: it tells how far smoothing moves the answer, which the
    multinomial does not know.
    """
    buckets = transitions[0].buckets
    bounds = part_bounds(buckets)
    sizes = np.diff(bounds)
    spread = np.repeat(np.eye(sizes.size), sizes, axis=0) / np.repeat(sizes, sizes)[:, None]
    coarse = [Dense(transition.forward(spread.T).T) for transition in transitions]
    parts = [
        Part(transition, tally[None, :].astype(np.float64)) for transition, tally in zip(coarse, tallies, strict=True)
    ]
    light, full = (maximize(parts, smoothing=s, stopping="converged").x[0] for s in (LIGHT_SMOOTHING, 1.0))

    total = sum(int(tally.sum()) for tally in tallies)
    smoothing = smooth(np.eye(sizes.size), LIGHT_SMOOTHING)
    by_x, by_f, fitted = np.zeros((sizes.size, sizes.size)), [], []
    for transition, tally in zip(coarse, tallies, strict=True):
        matrix, f = transition.values, tally / total
        y = matrix @ light
        by_x += np.diag(matrix.T @ (f / y)) - light[:, None] * (matrix.T @ ((f / y**2)[:, None] * matrix))
        by_f.append(light[:, None] * (matrix.T / y))
        fitted.append(y * f.sum())
    response, f = smoothing @ np.concatenate(by_f, axis=1), np.concatenate(fitted)
    # Distributions sum to 1, so the map is singular along 1; adding 11ᵀ/d settles that direction.
    moved = np.linalg.solve(np.eye(sizes.size) - smoothing @ by_x + 1 / sizes.size, response - response.mean(axis=0))
    moved -= (moved @ f)[:, None]
    covariance = (moved * (f / total)) @ moved.T + np.outer(light - full, light - full)
    return Uncertainty(bounds / buckets, light, covariance)
