"""Haar coefficients through Hadamard response: one level, one row, one bit (HaarHRR; paper, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.domain import Domain
from hushgram.mechanisms.base import Mechanism
from hushgram.mechanisms.blanket import Blanket
from hushgram.mechanisms.hierarchy import check_power, tree_height
from hushgram.sampling import WORD_BITS, Below, Law


def walsh_hadamard(values: FloatArray | IntArray) -> FloatArray:
    """Σ_j (-1)^popcount(r & j)·values[j] for every r, the length a power of two. Its own inverse, times the length."""
    result = np.array(values, dtype=np.float64)
    half = 1
    while half < len(result):
        pairs = result.reshape(-1, 2, half)
        result = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return result


@dataclass(frozen=True)
class HaarResponse(Mechanism):
    """A binary tree over d = 2^h buckets. At each height a value has one node, and a sign: + in its left half, else -.

    The device picks a height and a row of the Hadamard matrix over that height's nodes, and reports sign times entry
    through randomized response. A cell is the height's offset plus 2·row + bit, where bit 1 stands for +.
    """

    name: ClassVar[str] = "haar"
    estimators: ClassVar[tuple[str, ...]] = ("haar",)

    bits: int = WORD_BITS

    def check_domain(self, domain: Domain) -> None:
        check_power(self.buckets, 2)
        super().check_domain(domain)

    @cached_property
    def height(self) -> int:
        height = tree_height(self.buckets, 2)
        if height is None:
            raise ValueError(f"buckets must be a power of 2, got {self.buckets}")
        return height

    @cached_property
    def law(self) -> Law:
        return Law.of(self.epsilon, 1, 1, self.bits)

    @property
    def laws(self) -> tuple[Law, ...]:
        return (self.law,)

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """The number of nodes at heights 1 … h, from d/2 down to 1."""
        return tuple(self.buckets >> (level + 1) for level in range(self.height))

    @cached_property
    def offsets(self) -> IntArray:
        return np.cumsum([0] + [2 * nodes for nodes in self.nodes])

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    @property
    def blanket(self) -> Blanket:
        """Two values have other bits in all rows of the height that parts them, and in half of the rows below it.

        Those in the two halves of the domain are parted at the top, and so in the most rows.
        """
        return Blanket.of(self.law, (self.height + 1) / (2 * self.height))

    def perturb(self, position: int, below: Below) -> int:
        level = below(self.height)
        row = below(self.nodes[level])
        node, left = position >> (level + 1), 1 - (position >> level & 1)
        bit = left ^ ((row & node).bit_count() & 1)
        return int(self.offsets[level]) + 2 * row + self.law.draw(bit, below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        levels = rng.integers(0, self.height, size=positions.shape)
        rows = rng.integers(0, np.asarray(self.nodes)[levels])
        nodes, left = positions >> (levels + 1), 1 - (positions >> levels & 1)
        bits = left ^ (np.bitwise_count(rows & nodes) & 1)
        return self.offsets[levels] + 2 * rows + self.law.draw_many(bits, rng)

    def split(self, tally: IntArray) -> list[IntArray]:
        """Per height, the counts as rows × bit."""
        return [part.reshape(-1, 2) for part in np.split(tally, self.offsets[1:-1])]

    def forward(self, x: FloatArray) -> FloatArray:
        """The probability of each cell when values are distributed as `x`."""
        parts = []
        for nodes in self.nodes:
            halves = x.reshape(nodes, 2, -1).sum(axis=2)
            lean = self.law.gap * walsh_hadamard(halves[:, 0] - halves[:, 1])
            parts.append(np.stack([x.sum() - lean, x.sum() + lean], axis=1).ravel() / (2 * nodes * self.height))
        return np.concatenate(parts)

    def parameters(self) -> dict[str, object]:
        return {"buckets": self.buckets}
