"""A β-ary tree over the buckets: a device picks a level and reports its ancestor there (HH; paper, section 4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import MOST_BUCKETS, check_whole, refuse
from hushgram.domain import Domain
from hushgram.mechanisms.base import FrequencyOracle, Mechanism
from hushgram.mechanisms.blanket import Blanket
from hushgram.mechanisms.hashing import frequency_oracle
from hushgram.mechanisms.options import number, option
from hushgram.sampling import WORD_BITS, Below, Law

BRANCHINGS = (2, 4, 8)
SHARE_UNIT = 1 << 20
"""Level probabilities are whole numbers of shares; a probability in proportion to 1.0 has this many."""


def tree_height(buckets: int, branching: int) -> int | None:
    """h with branching^h = buckets, or None."""
    height, leaves = 0, 1
    while leaves < buckets:
        height, leaves = height + 1, leaves * branching
    return height if leaves == buckets and height > 0 else None


def check_branching(name: str, value: object, buckets: int) -> int:
    """One of `BRANCHINGS`."""
    branching = check_whole(name, value, min(BRANCHINGS), max(BRANCHINGS))
    return branching if branching in BRANCHINGS else refuse(name, value, ", ".join(map(str, BRANCHINGS)))


def check_power(buckets: int, base: int) -> None:
    """Refuses buckets that are not the leaves of a tree whose nodes have `base` children each."""
    if tree_height(buckets, base) is None:
        exponent = max(1, math.floor(math.log(buckets, base)))
        near = [str(count) for count in (base**exponent, base ** (exponent + 1)) if count <= MOST_BUCKETS]
        refuse("buckets", buckets, f"a power of {base}, such as {' or '.join(near)}")


def level_shares(levels: int, decay: float) -> tuple[int, ...]:
    """Whole shares in proportion to decay^level: 1 picks levels evenly, less prefers the coarse ones."""
    shares = [max(1, round(decay**level * SHARE_UNIT)) for level in range(levels)]
    return tuple(share // math.gcd(*shares) for share in shares)


def pick(shares: tuple[int, ...], r: int) -> int:
    """The level whose part of the shares, laid end to end, holds `r`."""
    for level, share in enumerate(shares):
        if r < share:
            return level
        r -= share
    raise ValueError("r must be below the sum of the shares")


@dataclass(frozen=True)
class Hierarchy(Mechanism):
    """Level 1 has β nodes, level h the d = β^h leaves; each level has the frequency oracle with the least noise there.

    A cell is the level's offset plus that oracle's cell.
    """

    name: ClassVar[str] = "hierarchy"
    estimators: ClassVar[tuple[str, ...]] = ("hh_admm", "hh")

    branching: int = option(4, check_branching, varies=False)
    """The children of each node of the tree: 2, 4 or 8. `buckets` must be a power of it."""
    level_decay: float = option(1.0, number(0.1, 1.0))
    """How much rarer each finer level of the tree is reported than the one above; 1 picks levels evenly."""
    bits: int = WORD_BITS

    def check_domain(self, domain: Domain) -> None:
        check_power(self.buckets, self.branching)
        super().check_domain(domain)

    @cached_property
    def height(self) -> int:
        height = tree_height(self.buckets, self.branching)
        if height is None:
            raise ValueError(f"buckets must be a power of {self.branching}, got {self.buckets}")
        return height

    @cached_property
    def shares(self) -> tuple[int, ...]:
        return level_shares(self.height, self.level_decay)

    @cached_property
    def oracles(self) -> tuple[FrequencyOracle, ...]:
        sizes = (self.branching ** (level + 1) for level in range(self.height))
        return tuple(frequency_oracle(size, self.epsilon, self.bits) for size in sizes)

    @cached_property
    def offsets(self) -> IntArray:
        return np.cumsum([0] + [oracle.cells for oracle in self.oracles])

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    @property
    def laws(self) -> tuple[Law, ...]:
        return tuple(oracle.law for oracle in self.oracles)

    @property
    def blanket(self) -> Blanket | None:
        """Values under two nodes of the first level have other ancestors at all levels."""
        blankets = [oracle.blanket for oracle in self.oracles]
        known = [blanket for blanket in blankets if blanket is not None]
        return Blanket.mixed(zip(self.shares, known, strict=True)) if len(known) == len(blankets) else None

    def perturb(self, position: int, below: Below) -> int:
        level = pick(self.shares, below(sum(self.shares)))
        ancestor = position // self.branching ** (self.height - 1 - level)
        return int(self.offsets[level]) + self.oracles[level].perturb(ancestor, below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        draws = rng.integers(0, sum(self.shares), size=positions.shape)
        levels = np.searchsorted(np.cumsum(self.shares), draws, side="right")
        cells = np.empty_like(positions)
        for level, oracle in enumerate(self.oracles):
            at_level = levels == level
            ancestors = positions[at_level] // self.branching ** (self.height - 1 - level)
            cells[at_level] = self.offsets[level] + oracle.perturb_many(ancestors, rng)
        return cells

    def split(self, tally: IntArray) -> list[IntArray]:
        """The tally of each level."""
        return np.split(tally, self.offsets[1:-1])

    def forward(self, x: FloatArray) -> FloatArray:
        """The probability of each cell when values are distributed as `x`."""
        parts = []
        for share, oracle in zip(self.shares, self.oracles, strict=True):
            cells = oracle.forward(x.reshape(oracle.buckets, -1).sum(axis=1))
            parts.append(cells * (share / sum(self.shares)))
        return np.concatenate(parts)

    def parameters(self) -> dict[str, object]:
        return {
            "buckets": self.buckets,
            "branching": self.branching,
            "shares": list(self.shares),
            "oracles": [{"kind": type(oracle).__name__, **oracle.parameters()} for oracle in self.oracles],
        }
