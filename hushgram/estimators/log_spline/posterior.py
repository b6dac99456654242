"""The mode of the posterior, with the hyperparameters that maximise the evidence (Laplace's approximation)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.estimators.log_spline import cholesky
from hushgram.estimators.log_spline.model import Hyperparameters, Model

CENTRE = Hyperparameters(5.0, 2.2)
SPREAD = Hyperparameters(1.5, 0.5)
"""The hyperprior: normal, with this mean and these standard deviations. It matters where there are few reports, whose
evidence is flat and would draw towards too smooth a curve."""
LEAST_EXPONENT, GREATEST_EXPONENT = 0.8, 3.5
LONGEST_STEP = 6.0
"""The most that a step changes the log-density of any bucket, in nats."""
NEAR = 5.0
"""Hyperparameters move once a step gains less than this, in nats: before, the quadratic approximation means little."""
PATIENCE = 15
"""After this many steps, hyperparameters move in any case, and half as far: whole moves may go round in a circle."""
HYPER_STEPS = 2
"""Steps of the hyperparameters for each step of the coefficients."""
TOLERANCE, ROUGH_TOLERANCE = 0.01, 1.0
"""The gain of a step, in nats, below which the mode is found: with free hyperparameters, and with fixed ones."""
HYPER_TOLERANCE = 0.1


@dataclass(frozen=True, eq=False)
class Posterior:
    """The mode `a` of the coefficients' posterior, and the quadratic approximation around it."""

    model: Model
    a: FloatArray
    hyper: Hyperparameters
    x: FloatArray
    """The distribution at the mode."""
    pull: FloatArray
    """Σ Mᵀ(n/y) - N: how much the log-likelihood gains from more mass in each bucket."""
    information: FloatArray
    """Fisher's information F about the coefficients."""
    deviations: FloatArray
    """The prior's standard deviations D."""
    root: FloatArray
    """The Cholesky factor of I + DFD: the covariance of the coefficients is D(I + DFD)⁻¹D."""
    log_evidence: float
    steps: int
    converged: bool

    @property
    def target(self) -> FloatArray:
        """Fa + g, so that D(I + DFD)⁻¹D times it is the mode of the quadratic approximation."""
        return self.information @ self.a + self.model.gradient(self.x * self.pull)

    def standard_errors(self) -> FloatArray:
        return self.deviations * np.sqrt(np.diag(cholesky.inverse(self.root)))


class _Point(NamedTuple):
    """A value of the coefficients with its log-likelihood, distribution and cell probabilities."""

    a: FloatArray
    log_likelihood: float
    x: FloatArray
    cells: list[FloatArray]


def find_mode(
    model: Model,
    counts: Sequence[FloatArray],
    a: FloatArray,
    hyper: Hyperparameters,
    *,
    free: bool = True,
    most_steps: int = 30,
    information: FloatArray | None = None,
) -> Posterior:
    """Fisher scoring of the coefficients from `a` on, and of the hyperparameters if they are `free`.

    With D the prior's deviations, g the gradient and F the information, a step leads to D(I + DFD)⁻¹D(Fa + g). The
    first step takes the `information` that is given, as that of a point close to `a`.
    """
    basis = model.basis
    reports = np.array([row.sum() for row in counts])
    weights = reports[basis.mechanism_of_pool]

    def evaluate(a: FloatArray) -> _Point:
        x = model.distribution(a)
        cells = basis.forward(x)
        return _Point(a, float(sum(row @ np.log(y) for row, y in zip(counts, cells, strict=True))), x, cells)

    def pull(cells: Sequence[FloatArray]) -> FloatArray:
        return basis.backward([row / y for row, y in zip(counts, cells, strict=True)]) - reports.sum()

    point = evaluate(a)
    gain, hyper_change, converged, number = math.inf, math.inf, False, 0
    while number < most_steps and not converged:
        number += 1
        gradient = model.gradient(point.x * pull(point.cells))
        if information is None or number > 1:
            change, y = model.sensitivity(point.x)
            change *= np.sqrt(weights / y)[:, None]
            information = change.T @ change
        target = information @ point.a + gradient
        if free and (gain < NEAR or number > PATIENCE):
            hyper, hyper_change = _improve(model, information, target, hyper, 0.5 if number > PATIENCE else 1.0)
        deviations = model.prior_deviations(hyper)
        root = factorise(information, deviations)
        step = posterior_mean(root, deviations, target) - point.a
        gain = float(step @ (gradient - point.a / deviations**2))
        point = _search_line(model, evaluate, point, step, gain, deviations)
        settled = hyper_change < HYPER_TOLERANCE if free else True
        converged = abs(gain) < (TOLERANCE if free else ROUGH_TOLERANCE) and settled
    log_evidence = (
        point.log_likelihood
        - _penalty(point.a, deviations)
        - float(np.log(np.diag(root)).sum())
        - 0.5 * ((hyper.log_scale - CENTRE.log_scale) / SPREAD.log_scale) ** 2
        - 0.5 * ((hyper.exponent - CENTRE.exponent) / SPREAD.exponent) ** 2
    )
    assert information is not None
    return Posterior(
        model,
        point.a,
        hyper,
        point.x,
        pull(point.cells),
        information,
        deviations,
        root,
        log_evidence,
        number,
        converged,
    )


def factorise(information: FloatArray, deviations: FloatArray) -> FloatArray:
    """The lower Cholesky factor of I + DFD."""
    scaled = deviations[:, None] * information * deviations
    scaled[np.diag_indices(deviations.size)] += 1
    return cholesky.factor(scaled)


def posterior_mean(root: FloatArray, deviations: FloatArray, target: FloatArray) -> FloatArray:
    """D(I + DFD)⁻¹D times `target`."""
    return deviations * cholesky.solve(root, deviations * target)


def _penalty(a: FloatArray, deviations: FloatArray) -> float:
    return 0.5 * float(((a / deviations) ** 2).sum())


def _search_line(
    model: Model,
    evaluate: Callable[[FloatArray], _Point],
    start: _Point,
    step: FloatArray,
    gain: float,
    deviations: FloatArray,
) -> _Point:
    """A point along the step with a higher posterior.

    Fisher's information is not the curvature of the likelihood itself, so that the step may overshoot: its length is
    interpolated by a parabola through what was gained.
    """
    before = start.log_likelihood - _penalty(start.a, deviations)
    length = min(1.0, LONGEST_STEP / max(float(np.abs(model.log_density(step)).max()), 1e-9))
    while True:
        point = evaluate(start.a + length * step)
        after = point.log_likelihood - _penalty(point.a, deviations)
        bend = 2 * (before + gain * length - after) / length**2
        best = gain / bend if bend > 0 else 4 * length
        if after >= before - 1e-6 or length < 1e-4:
            break
        length = max(min(best, length / 2), length / 10)
    if best < 0.75 * length:
        shorter = evaluate(start.a + best * step)
        if shorter.log_likelihood - _penalty(shorter.a, deviations) > after:
            return shorter
    return point


def _improve(
    model: Model, information: FloatArray, target: FloatArray, hyper: Hyperparameters, length: float
) -> tuple[Hyperparameters, float]:
    """Hyperparameters of a higher evidence, and the greatest change by a whole step; those made have a `length`."""
    change = math.inf
    for _ in range(HYPER_STEPS):
        better = _hyper_step(model, information, target, hyper, length)
        change = max(abs(better.log_scale - hyper.log_scale), abs(better.exponent - hyper.exponent)) / length
        hyper = better
        if change < 0.03:
            break
    return hyper, change


def _hyper_step(
    model: Model, information: FloatArray, target: FloatArray, hyper: Hyperparameters, length: float
) -> Hyperparameters:
    """A step of Fisher scoring of the quadratic's log-evidence and the hyperprior.

    With E = I - (I + DFD)⁻¹, the log-evidence rises by ½(a²/s - E_kk) for a rise of log s_k, and its expected
    curvature in log s is ½E∘E.
    """
    deviations = model.prior_deviations(hyper)
    inverse = cholesky.inverse(factorise(information, deviations))
    slopes = np.zeros((model.size, 2))
    modes = model.basis.is_mode
    slopes[: model.basis.size, 0] = modes
    slopes[: model.basis.size, 1] = np.where(modes, -2 * model.basis.log_frequency, 0.0)
    whitened = inverse @ (deviations * target)
    effect = np.eye(model.size) - inverse
    values, centre, spread = (np.array([h.log_scale, h.exponent]) for h in (hyper, CENTRE, SPREAD))
    slope = 0.5 * slopes.T @ (whitened**2 - np.diag(effect)) - (values - centre) / spread**2
    curvature = 0.5 * slopes.T @ (effect**2 @ slopes) + np.diag(1 / spread**2)
    most = np.array([1.5, 0.3])
    log_scale, exponent = values + length * np.clip(np.linalg.solve(curvature, slope), -most, most)
    return Hyperparameters(float(log_scale), float(np.clip(exponent, LEAST_EXPONENT, GREATEST_EXPONENT)))
