"""The law of the error of an EMS estimate: from it come intervals of the mean, of quantiles and of the whole curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import inv

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.em import Part, maximize, smooth
from hushgram.estimators.types import Uncertainty, part_bounds
from hushgram.mechanisms.base import Transition, chunks

LIGHT_SMOOTHING = 0.1
"""Intervals are centred on a fit smoothed this little: its bias is small against its noise."""
BIAS_REACH = 0.05
"""How far along the domain, as a share of it, the allowance for the bias of smoothing is carried."""
CELLS_PER_PART = 8
"""Cells for each part, after pooling neighbours, that noise is computed with: more only add cost."""


def coarsened(parts: Sequence[Part]) -> list[Part]:
    """The same counts, as those of distributions over parts of the domain."""
    return [Part(Coarsened(part.mechanism), part.counts) for part in parts]


def light_fits(parts: Sequence[Part]) -> FloatArray:
    """The EMS fits, over parts of the domain, that the laws of windows are centred on."""
    return maximize(coarsened(parts), smoothing=LIGHT_SMOOTHING, stopping="converged").x


def sandwich(parts: Sequence[Part], lights: FloatArray) -> list[Uncertainty]:
    """The law of the error of a lightly smoothed EMS fit, for each window: its noise, and an allowance for its bias.

    A fit to few reports sits at the edge of what is possible and looks surer than it is, so the law of its noise gives
    way to that of a uniform distribution until the reports outweigh it.
    """
    coarse = tuple(Coarsened(part.mechanism) for part in parts)
    fulls = maximize(coarsened(parts), smoothing=1.0, stopping="converged").x
    worths = np.array([worth(part.mechanism) for part in parts])
    edges = part_bounds(parts[0].mechanism.buckets) / parts[0].mechanism.buckets
    laws = []
    for row, (light, full) in enumerate(zip(lights, fulls, strict=True)):
        reports = np.array([part.counts[row].sum() for part in parts])
        shares = tuple((reports / reports.sum()).tolist())
        outweighed = 1 / (1 + reports @ worths)
        noise = (1 - outweighed) * _noise(coarse, shares, light) + outweighed * _uniform_noise(coarse, shares)
        laws.append(Uncertainty.of_parts(edges, light, noise / reports.sum() + _bias(light - full)))
    return laws


def _bias(moved: FloatArray) -> FloatArray:
    """The covariance that stands for the bias of smoothing, from what more smoothing moved.

    The difference of the two distribution functions is taken as one standard deviation of error. Where it happens to
    cross zero the bias need not, so the average is taken over that curve and its shifts to either side; what leaves at
    one end comes in at the other, so that the mean's share of it stays.
    """
    curve = np.cumsum(moved)[:-1]
    reach = round(BIAS_REACH * moved.size)
    shifts = sorted({-reach, -(reach // 2), 0, reach // 2, reach})
    directions = np.stack([np.diff(np.roll(curve, shift), prepend=0.0, append=0.0) for shift in shifts])
    return directions.T @ directions / len(shifts)


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

    At the fixed point x = G(x, f) of the EMS map, f the shares of the cells, a change of f moves x by
    (I - ∂G/∂x)⁻¹ ∂G/∂f, and f varies as a multinomial. With B = diag(x)·Mᵀ·diag(1/Mx)·M and smoothing S,
    ∂G/∂x = S(I - B), and ∂G/∂f passes on the covariance S(B·diag(x) - xxᵀ)Sᵀ.
    """
    size = x.size
    returned = np.zeros((size, size))
    for transition, share in zip(coarse, shares, strict=True):
        matrix = _pooled_matrix(transition)
        weighted = matrix * np.sqrt(share / (matrix @ x))[:, None]
        returned += weighted.T @ weighted
    returned *= x[:, None]
    passed_on = returned * x - np.outer(x, x)
    for rows in (passed_on, passed_on.T):
        smooth(rows, LIGHT_SMOOTHING)
    # Distributions sum to 1, so the map is singular along 1; adding 11ᵀ/d settles that direction.
    one = np.eye(size)
    stays = one + smooth((returned - one).T, LIGHT_SMOOTHING).T + 1 / size
    response = inv(stays, overwrite_a=True, check_finite=False)
    return response @ passed_on @ response.T


@lru_cache(maxsize=16)
def _uniform_noise(coarse: tuple[Coarsened, ...], shares: tuple[float, ...]) -> FloatArray:
    return _noise(coarse, shares, coarse[0].sizes / coarse[0].fine.buckets)


@lru_cache(maxsize=16)
def _pooled_matrix(transition: Coarsened) -> FloatArray:
    """M with its rows pooled, a few columns at a time: the whole of it may be large."""
    parts = np.eye(transition.buckets)
    cells = transition.forward(parts[0]).size
    starts = np.unique(np.linspace(0, cells, min(cells, CELLS_PER_PART * transition.buckets) + 1).astype(np.int64)[:-1])
    columns = [np.add.reduceat(transition.forward(parts[part]), starts, axis=-1) for part in chunks(len(parts), 16)]
    return np.concatenate(columns).T


def worth(transition: Transition) -> float:
    """The information of a report about the mean, as a share of that of the value itself, when values are uniform."""
    return sum(share * _worth(channel) for share, channel in transition.channels)


def _worth(transition: Transition) -> float:
    """The same of one channel.

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
