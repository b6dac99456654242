"""Generalized randomized response: the true value e^ε times as often as any other (paper, section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.mechanisms.base import FrequencyOracle
from hushgram.mechanisms.blanket import Blanket
from hushgram.sampling import WORD_BITS, Below, Law


@dataclass(frozen=True)
class RandomizedResponse(FrequencyOracle):
    """Reports its bucket with weight P and each other bucket with weight Q."""

    name: ClassVar[str] = "randomized_response"

    bits: int = WORD_BITS

    @cached_property
    def law(self) -> Law:
        return Law.of(self.epsilon, 1, self.buckets - 1, self.bits)

    @property
    def cells(self) -> int:
        return self.buckets

    def perturb(self, position: int, below: Below) -> int:
        return self.law.draw(position, below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        return self.law.draw_many(positions, rng)

    @property
    def blanket(self) -> Blanket:
        return Blanket.of(self.law, 1)

    @property
    def support_probabilities(self) -> tuple[float, float]:
        return self.law.p, self.law.q

    def support(self, tally: IntArray) -> IntArray:
        return tally

    def covariance(self, x: FloatArray, starts: IntArray) -> FloatArray:
        """A report supports exactly one value: the counts are a multinomial."""
        supported = np.add.reduceat(self.law.q + self.law.gap * x, starts)
        return (np.diag(supported) - np.outer(supported, supported)) / self.law.gap**2

    def forward(self, x: FloatArray) -> FloatArray:
        return self.law.gap * x + self.law.q * x.sum(axis=-1, keepdims=True)

    def parameters(self) -> dict[str, object]:
        return {"buckets": self.buckets}
