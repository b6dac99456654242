"""Waves whose report is a real number, sent as the bucket it falls in (paper, sections 5.1, 5.2 and 5.4, R-B).

Reals are not private as floats, so the device works on a grid of about 2²⁴ integer steps and reports the cell alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import MOST_BUCKETS
from hushgram.mechanisms.base import Mechanism, Transition
from hushgram.mechanisms.blanket import Blanket
from hushgram.mechanisms.options import number, option, whole_number
from hushgram.mechanisms.square_wave import best_bandwidth
from hushgram.sampling import WORD_BITS, Below, Law

GRID_STEPS = 1 << 24


class Grid(NamedTuple):
    """Lengths in grid steps. The wave's foot is `plateau + ramp - 1` wide and starts at the device's position."""

    domain: int
    cell: int
    plateau: int
    ramp: int


@dataclass(frozen=True)
class GeneralWave(Mechanism, Transition):
    """A trapezoid of density between q and e^ε·q around the value; `wave_ratio` is its upper side over its lower.

    Ratio 1 is the continuous Square Wave, ratio 0 the triangle. A trapezoid is the sum of two uniform draws, one over
    the plateau and one over the ramp; the floor of weight Q lies under all of the output. Two draws at most, all exact.
    """

    name: ClassVar[str] = "general_wave"
    estimators: ClassVar[tuple[str, ...]] = ("ems", "em", "log_spline")
    takes_integers: ClassVar[bool] = False

    wave_ratio: float = option(0.6, number(0.0, 1.0))
    """The upper side of the trapezoid over its lower: 1 is a square, 0 a triangle."""
    bandwidth: float | None = option(None, number(0.0, 1.0))
    """Half the width of the wave, as a share of the domain. Left out, it is the best for ε."""
    output_buckets: int | None = option(None, whole_number(2, 4 * MOST_BUCKETS))
    """The cells that a device may send. Left out, they are as many as `buckets`; with `piecewise`, 1024."""
    bits: int = WORD_BITS
    grid_steps: int = GRID_STEPS

    @property
    def half_width(self) -> float:
        return best_bandwidth(self.epsilon) if self.bandwidth is None else self.bandwidth

    @property
    def cells(self) -> int:
        return self.buckets if self.output_buckets is None else self.output_buckets

    @cached_property
    def grid(self) -> Grid:
        """Whole numbers for which the output, domain + foot, is a whole number of equal cells."""
        stretch = 1 + 2 * self.half_width
        # A wide wave at a large ε takes a coarser grid, so that the law stays within its 63 bits.
        room = 62 - self.bits - math.log2(1 + 2 * self.half_width * math.exp(self.epsilon))
        steps = min(self.grid_steps, 2 ** max(0, math.floor(room)))
        cell = max(2, round(steps * stretch / self.cells))
        domain = min(round(self.cells * cell / stretch), self.cells * cell - 1)
        foot = self.cells * cell - domain
        ramp = max(1, round(foot * (1 - self.wave_ratio) / 2))
        return Grid(domain, cell, foot + 1 - ramp, ramp)

    @cached_property
    def law(self) -> Law:
        grid = self.grid
        return Law.of(self.epsilon, grid.plateau, self.cells * grid.cell - grid.plateau, self.bits)

    @property
    def laws(self) -> tuple[Law, ...]:
        return (self.law,)

    @property
    def positions(self) -> int:
        return self.grid.domain + 1

    def locate(self, units: FloatArray) -> IntArray:
        return np.rint(units * self.grid.domain).astype(np.int64)

    @property
    def blanket(self) -> Blanket:
        """That of the wave on the grid, before its steps are pooled to cells: pooling can only hide more.

        Sloping sides lie between floor and top. Splitting each height into those two, for both values by the same draw,
        keeps the mean of the privacy loss and spreads it; what is apart then is at most what it is of steep sides.
        """
        grid = self.grid
        always = max(0, grid.plateau - grid.domain) if grid.ramp == 1 else 0
        return Blanket.of(self.law, min(grid.plateau, grid.domain), always)

    def perturb(self, position: int, below: Below) -> int:
        law, grid = self.law, self.grid
        excess = law.P - law.Q
        r = below(law.T)
        if r < grid.plateau * excess:
            return (position + r // excess + below(grid.ramp)) // grid.cell
        return (r - grid.plateau * excess) // law.Q // grid.cell

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        law, grid = self.law, self.grid
        excess = law.P - law.Q
        r = rng.integers(0, law.T, size=positions.shape)
        on_wave = positions + r // max(excess, 1)
        if grid.ramp > 1:
            on_wave += rng.integers(0, grid.ramp, size=positions.shape)
        on_floor = (r - grid.plateau * excess) // law.Q
        return np.where(r < grid.plateau * excess, on_wave, on_floor) // grid.cell

    @cached_property
    def _transition(self) -> Transition:
        sums = 1 if self.grid.ramp == 1 else 2
        return RunningSum(self._steps(sums), self.law.q * self.grid.cell, sums)

    def _steps(self, sums: int) -> sparse.csr_array:
        """S: repeated differences, from row to row, of the wave's share of M: nonzero only where a corner passes.

        The wave is a sum of powers of the distance to its corners, a cell's share in a bucket a mixed difference of
        their antiderivatives. Lengths are whole numbers of 1/buckets grid steps, so that distances are exact.
        """
        width, cell = self.grid.domain, self.grid.cell * self.buckets
        reach = -(-width // cell) + sums + 1
        corners, rise, extent = _corners(self.grid, self.buckets, reach * cell)
        reach += -(-extent // cell)
        columns = np.arange(self.buckets)
        rows_of, columns_of, values = [], [], []
        for corner, sign in corners:
            passes = columns * width + corner
            rows = (passes // cell)[:, None] + np.arange(-sums, reach + 1)
            past = rows * cell - passes[:, None]
            steps = np.diff(rise(past) - rise(past - width), n=sums + 1)
            values.append(sign * self.law.gap / (width * self.buckets) * steps)
            rows_of.append(rows[:, sums:-1])
            columns_of.append(np.broadcast_to(columns[:, None], steps.shape))
        row, column, value = (np.concatenate(part).ravel() for part in (rows_of, columns_of, values))
        inside = (row < self.cells) & (value != 0)
        return sparse.csr_array((value[inside], (row[inside], column[inside])), shape=(self.cells, self.buckets))

    def forward(self, x: FloatArray) -> FloatArray:
        return self._transition.forward(x)

    def backward(self, y: FloatArray) -> FloatArray:
        return self._transition.backward(y)

    def parameters(self) -> dict[str, object]:
        return {"buckets": self.buckets, "cells": self.cells, "ratio": float(self.wave_ratio), **self.grid._asdict()}


@dataclass(frozen=True)
class ContinuousSquareWave(GeneralWave):
    """The Square Wave of real numbers: steep sides, whose transition is a running sum."""

    name: ClassVar[str] = "square_wave_continuous"

    wave_ratio: float = field(default=1.0, init=False)


@dataclass(frozen=True)
class RunningSum(Transition):
    """M = floor·11ᵀ + LᵏS, where L sums over rows and S is sparse: both products cost O(buckets + cells)."""

    steps: sparse.csr_array
    floor: float
    sums: int

    @property
    def buckets(self) -> int:  # type: ignore[override]
        return int(self.steps.shape[1])

    @cached_property
    def _transposed(self) -> sparse.csr_array:
        return self.steps.T.tocsr()

    def forward(self, x: FloatArray) -> FloatArray:
        y: FloatArray = (self.steps @ x.T).T
        for _ in range(self.sums):
            y = np.cumsum(y, axis=-1)
        y += self.floor * x.sum(axis=-1, keepdims=True)
        return y

    def backward(self, y: FloatArray) -> FloatArray:
        sums = np.cumsum(y[..., ::-1], axis=-1)
        total = sums[..., -1:]
        for _ in range(self.sums - 1):
            sums = np.cumsum(sums, axis=-1)
        x: FloatArray = (self._transposed @ sums[..., ::-1].T).T
        x += self.floor * total
        return x


Rise = Callable[[IntArray], FloatArray]


def _corners(grid: Grid, buckets: int, apart: int) -> tuple[list[tuple[int, float]], Rise, int]:
    """Where the wave's corners are, with their signs; what rises from each (twice integrated); how long it bends for.

    A ramp has a corner at both ends. If they are not far `apart`, both count as one, which bends for the ramp's length:
    taken singly, two that are close would cancel to little but rounding.
    """
    ramp, plateau = (grid.ramp - 1) * buckets, grid.plateau * buckets
    sides = [(0, 1.0), (plateau, -1.0)]
    if ramp == 0:
        return sides, lambda u: np.maximum(u, 0).astype(np.float64) ** 2 / 2, 0
    if ramp > apart:
        corners = [(side + end, sign * turn) for side, sign in sides for end, turn in ((0, 1.0), (ramp, -1.0))]
        return corners, lambda u: np.maximum(u, 0).astype(np.float64) ** 3 / (6 * ramp), 0

    def risen(u: IntArray) -> FloatArray:
        lag = np.maximum(u, 0).astype(np.float64)
        return np.where(lag < ramp, lag**3 / (6 * ramp), lag * (lag - ramp) / 2 + ramp**2 / 6)

    return sides, risen, ramp
