"""Mechanisms that estimate a mean and nothing else: stochastic rounding and piecewise (paper, section 2.2)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import MOST_BUCKETS, refuse
from hushgram.domain import Domain
from hushgram.mechanisms.base import Mechanism
from hushgram.mechanisms.blanket import Blanket
from hushgram.mechanisms.general_wave import GRID_STEPS, ContinuousSquareWave
from hushgram.mechanisms.options import option, whole_number
from hushgram.sampling import WORD_BITS, Below, Law

LEAST_CELLS = 256
"""The cells that keep the bias of bucketing a piecewise report below 1/1000 of the domain up to ε = 8."""


@dataclass(frozen=True)
class MeanMechanism(Mechanism):
    """Each cell stands for a number whose expectation, given the device's value, is that value on [0, 1].

    For a real-valued report that is so up to a small part of its cell's width, hence `LEAST_CELLS`.
    """

    estimators: ClassVar[tuple[str, ...]] = ("mean",)
    mean_only: ClassVar[bool] = True

    def check_domain(self, domain: Domain) -> None:
        super().check_domain(domain)
        if domain.scale == "log":
            refuse("scale", domain.scale, f"linear with {self.name}: the mean of logarithms is not the mean")

    @abstractmethod
    def cell_values(self) -> FloatArray:
        """The unbiased guess of the value that each cell stands for; it may lie far outside [0, 1]."""

    @property
    @abstractmethod
    def least_variance(self) -> float:
        """The variance of one guess at the value where it is least: no sample may claim to vary less."""


@dataclass(frozen=True)
class StochasticRounding(MeanMechanism):
    """The value is rounded to 0 or 1 at random, in proportion, and the bit goes through randomized response."""

    name: ClassVar[str] = "stochastic_rounding"

    bits: int = WORD_BITS
    grid_steps: int = GRID_STEPS

    @cached_property
    def law(self) -> Law:
        return Law.of(self.epsilon, 1, 1, self.bits)

    @property
    def laws(self) -> tuple[Law, ...]:
        return (self.law,)

    @property
    def cells(self) -> int:
        return 2

    @property
    def blanket(self) -> Blanket:
        """The two ends are told apart best: all values between them have the same sum of losses, less spread."""
        return Blanket.of(self.law, 1)

    @property
    def positions(self) -> int:
        return self.grid_steps + 1

    def locate(self, units: FloatArray) -> IntArray:
        return np.rint(units * self.grid_steps).astype(np.int64)

    def perturb(self, position: int, below: Below) -> int:
        return self.law.draw(int(below(self.grid_steps) < position), below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        rounded = (rng.integers(0, self.grid_steps, size=positions.shape) < positions).astype(np.int64)
        return self.law.draw_many(rounded, rng)

    def forward(self, x: FloatArray) -> FloatArray:
        ones = self.law.q * x.sum() + self.law.gap * (x @ ((np.arange(self.buckets) + 0.5) / self.buckets))
        return np.array([x.sum() - ones, ones])

    def cell_values(self) -> FloatArray:
        return (np.array([0.0, 1.0]) - self.law.q) / self.law.gap

    @property
    def least_variance(self) -> float:
        return self.law.p * self.law.q / self.law.gap**2

    def parameters(self) -> dict[str, object]:
        return {"grid_steps": self.grid_steps}


@dataclass(frozen=True)
class Piecewise(MeanMechanism):
    """The piecewise mechanism is a continuous Square Wave of half-width e^(-ε/2)/2, read for its mean.

    In the paper's terms: the favoured interval is e^(-ε/2) times as long as the way its left end can go, and the report
    runs over both together.
    """

    name: ClassVar[str] = "piecewise"

    output_buckets: int = option(1024, whole_number(LEAST_CELLS, 4 * MOST_BUCKETS))
    """The cells that a device may send."""
    bits: int = WORD_BITS
    grid_steps: int = GRID_STEPS

    @cached_property
    def wave(self) -> ContinuousSquareWave:
        half_width = math.exp(-self.epsilon / 2) / 2
        return ContinuousSquareWave(
            self.buckets, self.epsilon, half_width, self.output_buckets, self.bits, self.grid_steps
        )

    @property
    def laws(self) -> tuple[Law, ...]:
        return self.wave.laws

    @property
    def cells(self) -> int:
        return self.output_buckets

    @property
    def blanket(self) -> Blanket:
        return self.wave.blanket

    @property
    def positions(self) -> int:
        return self.wave.positions

    def locate(self, units: FloatArray) -> IntArray:
        return self.wave.locate(units)

    def perturb(self, position: int, below: Below) -> int:
        return self.wave.perturb(position, below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        return self.wave.perturb_many(positions, rng)

    def forward(self, x: FloatArray) -> FloatArray:
        return self.wave.forward(x)

    def cell_values(self) -> FloatArray:
        """The expected report is affine in the value: the wave's centre with the excess weight, the middle else."""
        grid, law = self.wave.grid, self.wave.law
        centres = (np.arange(self.cells) + 0.5) * grid.cell
        middle = self.cells * grid.cell / 2
        on_wave = grid.plateau * law.gap
        return ((centres - (1 - on_wave) * middle) / on_wave - grid.plateau / 2) / grid.domain

    @property
    def least_variance(self) -> float:
        root = math.exp(self.epsilon / 2)
        return (root + 3) / (12 * (root - 1) ** 2)

    def parameters(self) -> dict[str, object]:
        return {"cells": self.cells, **self.wave.grid._asdict()}
