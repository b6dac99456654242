"""Expectation maximization, with and without smoothing: EM and EMS (paper, section 5.5, algorithm 1).

Windows or groups that share their mechanisms are solved together, as the rows of an array. Several mechanisms in one
window (ε changed, and old clients still report) share one likelihood, which only adds their terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hushgram._arrays import BoolArray, FloatArray, IntArray
from hushgram.mechanisms.base import Transition, chunks

Stopping = Literal["paper", "converged"]

MAX_ITERATIONS = 10_000
NUMBERS_AT_ONCE = 1 << 15
"""Probabilities that are solved for at once: larger blocks of windows do not fit the cache."""
CDF_TOLERANCE = 1e-7
"""`converged` stops when one more step would move no point of the distribution function by more than this."""


@dataclass(frozen=True)
class Part:
    """The counts of one mechanism's reports: windows × cells."""

    mechanism: Transition
    counts: FloatArray


@dataclass(frozen=True)
class Fits:
    """Distributions (windows × buckets), the map's evaluations that each took, and whether it stopped by itself."""

    x: FloatArray
    iterations: IntArray
    converged: BoolArray


def smooth(x: FloatArray, strength: float) -> FloatArray:
    """Weights (1, 2, 1)/4 at strength 1, in place: a quarter of each difference flows between neighbours.

    Nothing flows over the edges, so the sum is kept without renormalising (the edges reflect). Strength counts the
    variance that is added. What a share of such a pass cannot add, passes between buckets 2, 4, 8 … apart do: at
    strengths 5, 21, 85 … all of them are whole, and together weigh the neighbours by a triangle.
    """
    distance = 1
    while strength > 0:
        share = min(strength / distance**2, 1.0)
        flow = x[..., distance:] - x[..., :-distance]
        flow *= share / 4
        x[..., :-distance] += flow
        x[..., distance:] -= flow
        strength -= share * distance**2
        distance *= 2
    return x


def windows_at_once(buckets: int) -> int:
    return max(1, min(64, NUMBERS_AT_ONCE // buckets))


def paper_tolerance(epsilon: float, smoothing: float) -> float:
    """τ of the stopping rule |L(t+1) - L(t)| < τ: 10⁻³ with smoothing, 10⁻³·e^ε without (section 6.1)."""
    return 1e-3 if smoothing else 1e-3 * math.exp(epsilon)


def maximize(
    parts: Sequence[Part],
    *,
    smoothing: float,
    stopping: Stopping = "paper",
    tolerance: float = 1e-3,
    cdf_tolerances: FloatArray | None = None,
    max_iterations: int = MAX_ITERATIONS,
    start: FloatArray | None = None,
) -> Fits:
    """The distribution of each window, from a uniform start unless one is given. Every window must have a report.

    `tolerance` is that of `paper`; `cdf_tolerances`, for each window, take the place of `CDF_TOLERANCE` in `converged`.
    """
    count, buckets = parts[0].counts.shape[0], parts[0].mechanism.buckets
    x = np.full((count, buckets), 1 / buckets) if start is None else start.copy()
    iterations = np.zeros(count, dtype=np.int64)
    converged = np.zeros(count, dtype=bool)
    near = np.full(count, CDF_TOLERANCE) if cdf_tolerances is None else cdf_tolerances
    for block in chunks(count, windows_at_once(buckets)):
        step = _Step([Part(part.mechanism, part.counts[block]) for part in parts], smoothing)
        if stopping == "paper":
            solved = _iterate(step, x[block], tolerance, max_iterations)
        else:
            solved = _accelerate(step, x[block], near[block], max_iterations)
        x[block], iterations[block], converged[block] = solved.x, solved.iterations, solved.converged
    return Fits(x, iterations, converged)


class _Step:
    """The map x → S(x ∘ Σ_r M_rᵀ(n_r / M_r x) / N) on the windows that have not stopped yet."""

    def __init__(self, parts: Sequence[Part], smoothing: float) -> None:
        self.mechanisms = [part.mechanism for part in parts]
        self.counts = [np.ascontiguousarray(part.counts, dtype=np.float64) for part in parts]
        self.smoothing = smoothing
        self._set_scale()

    def _set_scale(self) -> None:
        self.scale: FloatArray = 1 / np.sum([counts.sum(axis=1) for counts in self.counts], axis=0)[:, None]

    def keep(self, windows: BoolArray) -> None:
        self.counts = [counts[windows] for counts in self.counts]
        self._set_scale()

    def cells(self, x: FloatArray) -> list[FloatArray]:
        return [mechanism.forward(x) for mechanism in self.mechanisms]

    def from_cells(self, x: FloatArray, cells: Sequence[FloatArray]) -> FloatArray:
        pull = np.zeros_like(x)
        for mechanism, counts, y in zip(self.mechanisms, self.counts, cells, strict=True):
            pull += mechanism.backward(counts / y)
        pull *= self.scale
        pull *= x
        return smooth(pull, self.smoothing) if self.smoothing else pull

    def __call__(self, x: FloatArray) -> FloatArray:
        return self.from_cells(x, self.cells(x))

    def gain(self, cells: Sequence[FloatArray], before: Sequence[FloatArray]) -> FloatArray:
        """The rise of the log-likelihood between two vectors of cell probabilities."""
        total = np.zeros(len(self.scale))
        for counts, y, old in zip(self.counts, cells, before, strict=True):
            total += np.einsum("ij,ij->i", counts, np.log(y / old))
        return total


class _Results:
    """The results of windows that have stopped, while the others iterate on."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.fits = Fits(np.empty(shape), np.zeros(shape[0], np.int64), np.zeros(shape[0], bool))
        self.moving = np.arange(shape[0])

    def store(self, stopped: BoolArray, x: FloatArray, iterations: int, converged: bool) -> None:
        where = self.moving[stopped]
        self.fits.x[where] = x[stopped]
        self.fits.iterations[where] = iterations
        self.fits.converged[where] = converged
        self.moving = self.moving[~stopped]


def _iterate(step: _Step, x: FloatArray, tolerance: float, max_iterations: int) -> Fits:
    """The paper's loop: one map after another until the log-likelihood changes by less than `tolerance`."""
    results = _Results(x.shape)
    before = step.cells(x)
    x = step.from_cells(x, before)
    for iteration in range(1, max_iterations + 1):
        cells = step.cells(x)
        stopped = np.abs(step.gain(cells, before)) < tolerance
        if stopped.any():
            results.store(stopped, x, iteration, converged=True)
            if not results.moving.size:
                return results.fits
            step.keep(~stopped)
            x, cells = x[~stopped], [y[~stopped] for y in cells]
        if iteration < max_iterations:
            x, before = step.from_cells(x, cells), cells
    results.store(np.ones(len(x), bool), x, max_iterations, converged=False)
    return results.fits


def _accelerate(step: _Step, x: FloatArray, near: FloatArray, max_iterations: int) -> Fits:
    """SQUAREM (Varadhan and Roland 2008) on the same map: the same fixed point in a fraction of the evaluations."""
    results = _Results(x.shape)
    for evaluations in range(2, max_iterations, 3):
        first = step(x)
        second = step(first)
        change = second - first
        stopped = np.abs(np.cumsum(change, axis=1)).max(axis=1) < near
        if stopped.any():
            results.store(stopped, second, evaluations, converged=True)
            if not results.moving.size:
                return results.fits
            step.keep(~stopped)
            x, first, second, change, near = (array[~stopped] for array in (x, first, second, change, near))
        x = step(_extrapolate(x, first - x, change))
    results.store(np.ones(len(x), bool), x, max_iterations, converged=False)
    return results.fits


def _extrapolate(x: FloatArray, r: FloatArray, change: FloatArray) -> FloatArray:
    """x - 2αr + α²v with α = -‖r‖/‖v‖, drawn back towards -1 (two plain steps) until no entry is negative."""
    v = change - r
    length = np.sqrt(np.einsum("ij,ij->i", v, v))
    alpha = -np.sqrt(np.einsum("ij,ij->i", r, r)) / np.where(length > 0, length, np.inf)
    alpha = np.minimum(alpha, -1.0)[:, None]
    for _ in range(60):
        ahead = x - 2 * alpha * r + alpha**2 * v
        outside = ahead.min(axis=1, keepdims=True) < 0
        if not outside.any():
            break
        alpha = np.where(outside, (alpha - 1) / 2, alpha)
    ahead = np.where(outside, x + r + change, ahead)
    return ahead / ahead.sum(axis=1, keepdims=True)
