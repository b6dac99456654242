"""EM and EMS as estimators of a window: the fit, the law of its error, and the test that the mechanism was obeyed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from hushgram.arrays import FloatArray, IntArray
from hushgram.estimators.em import Part, maximize, paper_tolerance, smooth
from hushgram.estimators.fit import pearson
from hushgram.estimators.solution import Method, Solution, Uncertainty, Window, part_bounds
from hushgram.mechanisms.base import Transition

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

    The difference to the fit with full smoothing enters as one more direction of error: it tells how far smoothing
    moves the answer, which the noise of the reports does not know. A fit to few reports sits at the edge of what is
    possible and looks surer than it is, so its law gives way to that of a uniform distribution until the reports
    outweigh it.
    """
    buckets = transitions[0].buckets
    coarse = [Coarsened(transition) for transition in transitions]
    parts = [Part(part, tally[None, :].astype(np.float64)) for part, tally in zip(coarse, tallies, strict=True)]
    light, full = (maximize(parts, smoothing=s, stopping="converged").x[0] for s in (LIGHT_SMOOTHING, 1.0))

    reports = np.array([tally.sum() for tally in tallies], dtype=np.float64)
    shares = tuple(reports / reports.sum())
    outweighed = 1 / (1 + reports @ [worth(transition) for transition in transitions])
    noise = (1 - outweighed) * _noise(coarse, shares, light) + outweighed * _uniform_noise(tuple(coarse), shares)
    covariance = noise / reports.sum() + np.outer(light - full, light - full)
    return Uncertainty(part_bounds(buckets) / buckets, light, covariance)


@dataclass(frozen=True)
class Coarsened(Transition):
    """A transition from distributions over parts, each a run of buckets that share its mass evenly."""

    fine: Transition

    @cached_property
    def sizes(self) -> IntArray:
        return np.diff(part_bounds(self.fine.buckets))

    @property
    def buckets(self) -> int:  # type: ignore[override]
        return self.sizes.size

    def forward(self, x: FloatArray) -> FloatArray:
        return self.fine.forward(np.repeat(x / self.sizes, self.sizes, axis=-1))

    def backward(self, y: FloatArray) -> FloatArray:
        starts = np.cumsum(self.sizes) - self.sizes
        return np.add.reduceat(self.fine.backward(y), starts, axis=-1) / self.sizes


def _noise(coarse: Sequence[Coarsened], shares: Sequence[float], x: FloatArray) -> FloatArray:
    """The number of reports times the covariance that their noise causes in the fit, at the distribution `x`.

    At the fixed point x = G(x, f) of the EMS map, f the shares of the cells, a change of f moves x by (I - ∂G/∂x)⁻¹
    ∂G/∂f, and f varies as a multinomial. With B = diag(x)·Mᵀ·diag(1/Mx)·M and smoothing S, ∂G/∂x = S(I - B), and ∂G/∂f
    passes on the covariance S(B·diag(x) - xxᵀ)Sᵀ.
    """
    size = x.size
    returned = np.zeros((size, size))
    for transition, share in zip(coarse, shares, strict=True):
        matrix = _matrix(transition)
        returned += share * (x[:, None] * (matrix.T @ (matrix / (matrix @ x)[:, None])))
    smoothing = smooth(np.eye(size), LIGHT_SMOOTHING)
    passed_on = smoothing @ (returned * x - np.outer(x, x)) @ smoothing.T
    # Distributions sum to 1, so the map is singular along 1; adding 11ᵀ/d settles that direction.
    response = np.linalg.inv(np.eye(size) - smoothing @ (np.eye(size) - returned) + 1 / size)
    return response @ passed_on @ response.T


@lru_cache(maxsize=16)
def _uniform_noise(coarse: tuple[Coarsened, ...], shares: tuple[float, ...]) -> FloatArray:
    return _noise(coarse, shares, coarse[0].sizes / coarse[0].fine.buckets)


@lru_cache(maxsize=16)
def _matrix(transition: Coarsened) -> FloatArray:
    return transition.matrix()


@lru_cache(maxsize=256)
def worth(transition: Transition) -> float:
    """How much a report tells of the mean, as a share of what the value itself would tell, when values are uniform.

    The expected cell is affine in the value, so its slope turns the spread of cells into the error of a guess.
    """
    ends = np.zeros((3, transition.buckets))
    ends[0, 0] = ends[1, -1] = 1
    ends[2] = 1 / transition.buckets
    probabilities = transition.forward(ends)
    cells = np.arange(probabilities.shape[1])
    first, last, middle = probabilities @ cells
    slope = (last - first) / (1 - 1 / transition.buckets)
    return float(slope**2 / (probabilities[2] @ (cells - middle) ** 2) / 12)
