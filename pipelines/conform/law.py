"""The exact law of the reports that a manifest asks for, as bins with known probabilities.

Bins are cells, or where those are too many to be counted one by one, cells that have the same probability: of hashing,
whether the reported symbol is that of the value. So a test of the bins is one of the whole law.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.mechanisms.xxh32 import DecimalTexts

SEEDS = 1 << 32
SEED_BITS = 6
"""Seeds are told apart by their highest bits only."""


@dataclass(frozen=True)
class Channel:
    """One channel of a law, for one position: local cells become bins, and bins have probabilities."""

    kind: str
    integers: Mapping[str, int]
    place: int
    """The position, divided."""

    def __getattr__(self, name: str) -> int:
        try:
            return self.integers[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def weights(self) -> tuple[float, float]:
        return self.P / self.total, self.Q / self.total

    @property
    def functions_or_seeds(self) -> int:
        return 1 << SEED_BITS if self.kind == "xxh32" else self.functions

    @cached_property
    def cells(self) -> int:
        match self.kind:
            case "wave":
                return (self.width + self.others) // self.step
            case "coin":
                return 2
            case "hadamard":
                return 2 * self.rows
            case "linear_hash":
                return self.functions * self.symbols
            case "xxh32":
                return SEEDS * self.symbols
            case _:
                return self.width + self.others

    @cached_property
    def probabilities(self) -> FloatArray:
        """Of each bin."""
        p, q = self.weights
        match self.kind:
            case "wave":
                return self._wave()
            case "coin":
                up = self.place / self.steps
                return np.array([up * q + (1 - up) * p, up * p + (1 - up) * q])
            case "hadamard":
                return np.repeat([p, q], self.rows) / self.rows
            case "linear_hash" | "xxh32":
                alike = np.full(self.symbols, q)
                alike[0] = p
                return np.repeat(alike, self.functions_or_seeds) / self.functions_or_seeds
            case _:
                block = np.full(self.cells, q)
                block[self.place : self.place + self.width] = p
                return block

    def _wave(self) -> FloatArray:
        """The floor, and on it the pairs of a step of the plateau and one of the ramp whose sum falls into the cell."""
        edges = np.arange(self.cells + 1) * self.step - self.place
        pairs = sum(
            sign * (n := np.maximum(edges - shift, 0)) * (n + 1) // 2
            for shift, sign in ((0, 1), (self.width, -1), (self.ramp, -1), (self.width + self.ramp, 1))
        )
        excess = (self.P - self.Q) / self.total
        return np.diff(pairs) * (excess / self.ramp) + self.step * self.Q / self.total

    def bins(self, cells: IntArray) -> IntArray:
        """The bin of each of the channel's own cells; the favoured bins of hashing come first."""
        if self.kind not in ("hadamard", "linear_hash", "xxh32"):
            return cells
        if self.kind == "hadamard":
            rows, bits = cells >> 1, cells & 1
            other = bits ^ (1 - self.place % 2) ^ (np.bitwise_count(rows & (self.place // 2)) & 1)
            return other * self.rows + rows
        functions, symbols = cells // self.symbols, cells % self.symbols
        relative = (symbols - self._hash(functions)) % self.symbols
        kept = functions >> (32 - SEED_BITS) if self.kind == "xxh32" else functions
        return relative * self.functions_or_seeds + kept

    def _hash(self, functions: IntArray) -> IntArray:
        if self.kind == "xxh32":
            hashed = DecimalTexts.of(np.array([self.place])).hash(functions.astype(np.uint32))[0]
            return hashed.astype(np.int64) % self.symbols
        total, power = np.zeros_like(functions), 1
        for _ in range(self.digits):
            total += functions // power % self.symbols * (self.place // power % self.symbols)
            power *= self.symbols
        return total % self.symbols


@dataclass(frozen=True)
class ReportLaw:
    """The law of the reports of one position.

    >>> from hushgram import Collection
    >>> manifest = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=4).manifest()
    >>> law = ReportLaw.of(manifest, position=0)
    >>> law.cells, law.probabilities.round(3).tolist(), law.bins(np.array([0, 5])).tolist()
    (6, [0.244, 0.244, 0.244, 0.09, 0.09, 0.09], [0, 5])
    """

    shares: FloatArray
    channels: tuple[Channel, ...]

    @classmethod
    def of(cls, manifest: Mapping[str, Any], position: int) -> ReportLaw:
        law = manifest["law"]
        channels = []
        for source in law["channels"]:
            integers = {name: int(text) for name, text in source.items() if name != "kind"}
            channels.append(Channel(source["kind"], integers, position // integers["divisor"]))
        shares = np.array([int(share) for share in law["shares"] or ["1"]], dtype=np.float64)
        return cls(shares / shares.sum(), tuple(channels))

    @cached_property
    def cells(self) -> int:
        return sum(channel.cells for channel in self.channels)

    @cached_property
    def probabilities(self) -> FloatArray:
        """Of all bins, channel after channel."""
        parts = zip(self.shares, self.channels, strict=True)
        return np.concatenate([share * channel.probabilities for share, channel in parts])

    def bins(self, cells: IntArray) -> IntArray:
        """The bin of each cell."""
        starts = np.cumsum([0, *(channel.cells for channel in self.channels)])
        firsts = np.cumsum([0, *(channel.probabilities.size for channel in self.channels)])
        which = np.searchsorted(starts, cells, side="right") - 1
        found = np.empty_like(cells)
        for index, channel in enumerate(self.channels):
            own = which == index
            found[own] = firsts[index] + channel.bins(cells[own] - starts[index])
        return found

    def likelihoods(self, cells: IntArray) -> FloatArray:
        """The probability of the bin of each cell; of two positions, their ratio is that of the cells."""
        return self.probabilities[self.bins(cells)]


MOST_LISTED = 1 << 19


def greatest_gains(first: ReportLaw, second: ReportLaw) -> tuple[float, float]:
    """The logarithm of how much likelier a report can be by the first law than by the second; and the other way round.

    >>> from hushgram import Collection
    >>> manifest = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=4).manifest()
    >>> [round(gain, 9) for gain in greatest_gains(ReportLaw.of(manifest, 0), ReportLaw.of(manifest, 3))]
    [1.0, 1.0]
    """
    if first.cells > MOST_LISTED:  # of seeds that tell the two values apart, of which there are some
        steepest = max(math.log(channel.P / channel.Q) for channel in first.channels)
        return steepest, steepest
    cells = np.arange(first.cells)
    gains = np.log(first.likelihoods(cells) / second.likelihoods(cells))
    return float(gains.max()), float(-gains.min())
