"""What weights of cells come to at a value: E[w | value] at any value of each bucket, not only on average over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.mechanisms.base import Transition
from hushgram.mechanisms.general_wave import GeneralWave, Grid


@dataclass(frozen=True, eq=False)
class Joint(Transition):
    """The transitions of several mechanisms, each with its share of the reports: a cell says which it came through."""

    parts: tuple[Transition, ...]
    shares: tuple[float, ...]
    sizes: tuple[int, ...]

    @property
    def buckets(self) -> int:  # type: ignore[override]
        return self.parts[0].buckets

    def forward(self, x: FloatArray) -> FloatArray:
        each = [share * part.forward(x) for part, share in zip(self.parts, self.shares, strict=True)]
        return np.concatenate(each, axis=-1)

    def backward(self, y: FloatArray) -> FloatArray:
        total = np.zeros((*y.shape[:-1], self.buckets))
        for part, share, own in zip(self.parts, self.shares, self._split(y), strict=True):
            total += share * part.backward(own)
        return total

    def information(self, y: FloatArray) -> FloatArray:
        total = np.zeros((self.buckets, self.buckets))
        for part, share, own in zip(self.parts, self.shares, self._split(y), strict=True):
            total += share * part.information(own / share)
        return total

    @property
    def sees_within_buckets(self) -> bool:
        """Whether a report depends on a value's place within its bucket."""
        return any(isinstance(part, GeneralWave) for part in self.parts)

    def reach(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds, for each row of weights and each bucket, of the expected weight at all values of the bucket."""
        low, high = (np.zeros((len(weights), self.buckets)) for _ in range(2))
        for part, share, own in zip(self.parts, self.shares, self._split(weights), strict=True):
            least, greatest = reach(part, own)
            low += share * least
            high += share * greatest
        return low, high

    def _split(self, y: FloatArray) -> list[FloatArray]:
        return np.split(y, np.cumsum(self.sizes)[:-1], axis=-1)


def reach(transition: Transition, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same for one mechanism. A discrete one sees nothing of a value but its bucket."""
    if isinstance(transition, GeneralWave):
        return _reach_of_wave(transition, weights)
    expected = transition.backward(weights)
    return expected, expected


@dataclass(frozen=True)
class _Places:
    """Where, in steps of the grid, the expected weight has its corners, and which of these belong to each bucket."""

    corners: IntArray
    starts: IntArray
    ends: IntArray


@lru_cache(maxsize=16)
def _places(grid: Grid, cells: int, buckets: int) -> _Places:
    """A device rounds its value to a step, so that a bucket's values reach from the step below it to the one above.

    Corners are where one of the wave's own corners passes from a cell to the next.
    """
    edges = np.arange(buckets + 1) * grid.domain
    below, above = edges // buckets, -(-edges // buckets)
    ahead = (0, grid.plateau) if grid.ramp == 1 else (0, grid.ramp, grid.plateau, grid.plateau + grid.ramp)
    passing = np.concatenate([np.arange(cells + 1) * grid.cell - distance for distance in ahead])
    corners = np.unique(np.concatenate([passing[(passing >= 0) & (passing <= grid.domain)], below, above]))
    return _Places(corners, np.searchsorted(corners, below[:-1]), np.searchsorted(corners, above[1:]))


def _reach_of_wave(wave: GeneralWave, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Between two corners the expected weight is a polynomial of degree 1, or 2 where the wave has sloping sides.

    There it is no greater, and no less, than its Bézier points: its ends, and 2·middle - (start + end)/2.
    """
    places, expect = _places(wave.grid, wave.cells, wave.buckets), _expected(wave, weights)
    at = expect(places.corners)
    low = high = at
    if wave.grid.ramp > 1:
        middle = expect((places.corners[1:] + places.corners[:-1]) / 2)
        beyond = 2 * middle - (at[:, 1:] + at[:, :-1]) / 2
        low, high = (at.copy() for _ in range(2))
        np.minimum(low[:, :-1], beyond, out=low[:, :-1])
        np.maximum(high[:, :-1], beyond, out=high[:, :-1])
    return _over_buckets(np.minimum, low, at, places), _over_buckets(np.maximum, high, at, places)


def _over_buckets(extreme: np.ufunc, from_corner: FloatArray, at: FloatArray, places: _Places) -> FloatArray:
    """The extreme over each bucket's corners; a corner stands for what follows it, but the bucket's last for itself."""
    found: FloatArray = extreme(extreme.reduceat(from_corner, places.starts, axis=1), at[:, places.ends])
    # Where an edge lies between two steps, what follows the step below it belongs to both buckets.
    found[:, :-1] = extreme(found[:, :-1], from_corner[:, places.starts[1:]])
    return found


def _expected(wave: GeneralWave, weights: FloatArray) -> Callable[[FloatArray | IntArray], FloatArray]:
    """The expected weight as a function of the device's position on the grid.

    A(m) is the sum of the weights of the first m steps of the output. A wave with steep sides has q·A(all) +
    (p - q)·(A(v + plateau) - A(v)) at v; with sloping ones the second term is averaged over the steps of the ramp.
    """
    grid, law = wave.grid, wave.law
    before = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1) * grid.cell
    padded = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
    floor = law.q * before[:, -1:]

    def sums(steps: FloatArray | IntArray) -> FloatArray:
        cell = (steps // grid.cell).astype(np.int64)
        return before[:, cell] + padded[:, cell] * (steps - cell * grid.cell)

    if grid.ramp == 1:
        return lambda at: floor + law.gap * (sums(at + grid.plateau) - sums(at))

    cells = before[:, :-1] * grid.cell + weights * (grid.cell * (grid.cell - 1) / 2)
    twice = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(cells, axis=1)], axis=1)

    def double_sums(steps: FloatArray | IntArray) -> FloatArray:
        """Σ A(l) over l < m."""
        cell = (steps // grid.cell).astype(np.int64)
        inside = steps - cell * grid.cell
        return twice[:, cell] + before[:, cell] * inside + padded[:, cell] * (inside * (inside - 1) / 2)

    def expect(at: FloatArray | IntArray) -> FloatArray:
        far, near = at + grid.plateau, at
        risen = double_sums(far + grid.ramp) - double_sums(far) - double_sums(near + grid.ramp) + double_sums(near)
        return floor + law.gap / grid.ramp * risen

    return expect
