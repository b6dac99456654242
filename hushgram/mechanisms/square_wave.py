"""The discrete Square Wave: a bucket reports its neighbours e^ε times as often as others (paper, section 5.4, B-R)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import check_list, check_number, refuse
from hushgram.mechanisms.base import Mechanism, Transition
from hushgram.mechanisms.blanket import Blanket
from hushgram.mechanisms.options import number, option
from hushgram.sampling import WORD_BITS, Below, Law

WIDTH_RANGE = 0.05, 4.0
"""The least and the greatest factor of the bandwidth."""
MOST_WIDTHS = 8


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


def check_widths(name: str, value: object, buckets: int) -> tuple[float, ...]:
    """Different factors of the bandwidth, in ascending order."""
    factors = check_list(name, value, "factors of the bandwidth, such as [0.5, 1]")
    checked = sorted({check_number(f"{name}[{i}]", factor, *WIDTH_RANGE) for i, factor in enumerate(factors)})
    if len(checked) != len(factors) or not 2 <= len(checked) <= MOST_WIDTHS:
        refuse(name, list(factors), f"2 to {MOST_WIDTHS} different factors of the bandwidth, such as [0.5, 1]")
    return tuple(checked)


@dataclass(frozen=True)
class Band(Transition):
    """q everywhere plus p - q on a band of `law.width` rows, so that both products are running sums."""

    buckets: int
    law: Law

    @property
    def cells(self) -> int:
        return self.buckets + self.law.width - 1

    @property
    def blanket(self) -> Blanket:
        """The two ends of the domain share the fewest cells; a wave wider than the domain has cells in all bands."""
        d, w = self.buckets, self.law.width
        return Blanket.of(self.law, min(w, d - 1), max(0, w - d + 1))

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


@dataclass(frozen=True)
class SquareWave(Mechanism, Transition):
    """Bucket i reports each of the cells i … i + 2b with weight P and every other of the d + 2b cells with weight Q.

    With several `widths` a device first draws one of them, each with the same probability whatever its value is, and
    the cell says which: the cells of a width follow those of the width before. One width is blind to waves of the
    density that fit into it a whole number of times; others see them. Each width by itself keeps ε, and so do all.
    """

    name: ClassVar[str] = "square_wave"
    estimators: ClassVar[tuple[str, ...]] = ("ems", "em", "log_spline")

    bandwidth: float | None = option(None, number(0.0, 1.0))
    """Half the width of the wave, as a share of the domain. Left out, it is the best for ε."""
    bits: int = WORD_BITS
    _: KW_ONLY
    widths: tuple[float, ...] | None = option(None, check_widths)
    """Factors of the bandwidth, of which a device draws one for each report. Left out, there is one width."""

    @cached_property
    def half_widths(self) -> tuple[int, ...]:
        bandwidth = best_bandwidth(self.epsilon) if self.bandwidth is None else self.bandwidth
        return tuple(math.floor(factor * bandwidth * self.buckets) for factor in self.widths or (1.0,))

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """The transition of each width."""
        laws = [Law.of(self.epsilon, 2 * half + 1, self.buckets - 1, self.bits) for half in self.half_widths]
        return tuple(Band(self.buckets, law) for law in laws)

    @property
    def laws(self) -> tuple[Law, ...]:
        return tuple(band.law for band in self.bands)

    @cached_property
    def _starts(self) -> IntArray:
        """The first cell of each width, and behind them the number of all cells."""
        return np.cumsum([0, *(band.cells for band in self.bands)])

    @cached_property
    def cells(self) -> int:
        return int(self._starts[-1])

    @property
    def channels(self) -> tuple[tuple[float, Transition], ...]:
        return tuple((1 / len(self.bands), band) for band in self.bands)

    @property
    def blanket(self) -> Blanket:
        return Blanket.mixed((1, band.blanket) for band in self.bands)

    def perturb(self, position: int, below: Below) -> int:
        which = below(len(self.bands)) if self.widths else 0
        return int(self._starts[which]) + self.bands[which].law.draw(position, below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        if not self.widths:
            return self.bands[0].law.draw_many(positions, rng)
        cells = np.empty(positions.shape, dtype=np.int64)
        which = rng.integers(0, len(self.bands), size=positions.shape)
        for index, band in enumerate(self.bands):
            drawn = which == index
            cells[drawn] = self._starts[index] + band.law.draw_many(positions[drawn], rng)
        return cells

    def forward(self, x: FloatArray) -> FloatArray:
        if not self.widths:
            return self.bands[0].forward(x)
        return np.concatenate([share * band.forward(x) for share, band in self.channels], axis=-1)

    def backward(self, y: FloatArray) -> FloatArray:
        if not self.widths:
            return self.bands[0].backward(y)
        parts = np.split(y, self._starts[1:-1], axis=-1)
        total = np.zeros((*y.shape[:-1], self.buckets))
        for (share, band), part in zip(self.channels, parts, strict=True):
            total += share * band.backward(part)
        return total

    def parameters(self) -> dict[str, object]:
        widths = {"half_widths": list(self.half_widths)} if self.widths else {"half_width": self.half_widths[0]}
        return {"buckets": self.buckets, **widths}
