"""The discrete Square Wave: a bucket reports its neighbours e^ε times as often as others (paper, section 5.4, B-R)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.mechanisms.base import Mechanism, Transition
from hushgram.mechanisms.options import number, option
from hushgram.sampling import WORD_BITS, Below, Law


def best_bandwidth(epsilon: float) -> float:
    """b(ε) = (εe^ε - e^ε + 1) / (2e^ε(e^ε - 1 - ε)), which maximises a bound on mutual information (section 5.3).

    Below ε = 1 numerator and denominator cancel, so both are summed as series without their common factor ε².

    >>> [round(best_bandwidth(e), 5) for e in (1e-8, 1.0, 2.0, 4.0)]
    [0.5, 0.25608, 0.12934, 0.03043]
    """
    grown = math.exp(epsilon)
    if epsilon >= 1.0:
        return (epsilon * grown - grown + 1) / (2 * grown * (grown - 1 - epsilon))
    terms = [(k, epsilon ** (k - 2) / math.factorial(k)) for k in range(2, 24)]
    return sum((k - 1) * term for k, term in terms) / (2 * grown * sum(term for _, term in terms))


@dataclass(frozen=True)
class SquareWave(Mechanism, Transition):
    """Bucket i reports each of the cells i … i + 2b with weight P and every other of the d + 2b cells with weight Q.

    The transition matrix is q everywhere plus p - q on a band of 2b + 1 rows, so that both products are running sums.
    """

    name: ClassVar[str] = "square_wave"
    estimators: ClassVar[tuple[str, ...]] = ("ems", "em", "log_spline")

    bandwidth: float | None = option(None, number(0.0, 1.0))
    """Half the width of the wave, as a share of the domain. Left out, it is the best for ε."""
    bits: int = WORD_BITS

    @cached_property
    def half_width(self) -> int:
        bandwidth = best_bandwidth(self.epsilon) if self.bandwidth is None else self.bandwidth
        return math.floor(bandwidth * self.buckets)

    @cached_property
    def law(self) -> Law:
        return Law.of(self.epsilon, 2 * self.half_width + 1, self.buckets - 1, self.bits)

    @property
    def laws(self) -> tuple[Law, ...]:
        return (self.law,)

    @property
    def cells(self) -> int:
        return self.buckets + 2 * self.half_width

    def perturb(self, position: int, below: Below) -> int:
        return self.law.draw(position, below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        return self.law.draw_many(positions, rng)

    def forward(self, x: FloatArray) -> FloatArray:
        d, w = self.buckets, self.law.width
        steps = np.zeros((*x.shape[:-1], self.cells))
        steps[..., :d] = x
        steps[..., w:] -= x[..., : d - 1]
        band = np.cumsum(steps, axis=-1, out=steps)
        band *= self.law.gap
        band += self.law.q * x.sum(axis=-1, keepdims=True)
        return band

    def backward(self, y: FloatArray) -> FloatArray:
        d, w = self.buckets, self.law.width
        sums = np.cumsum(y, axis=-1)
        band = sums[..., w - 1 :].copy()
        band[..., 1:] -= sums[..., : d - 1]
        band *= self.law.gap
        band += self.law.q * sums[..., -1:]
        return band

    def parameters(self) -> dict[str, object]:
        return {"buckets": self.buckets, "half_width": self.half_width}
