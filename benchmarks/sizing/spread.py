"""How evenly keys fall on slots. An engine puts a key where a hash of its bytes says: as good as anywhere at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

PARTITIONS_PER_SLOT = (1, 2, 4, 8)
"""Partitions for each slot, in the table."""
NEVER = 1e-12


@dataclass(frozen=True)
class Spread:
    """Keys spread over slots: how many the busiest slot has, and the chance that a slot has none."""

    keys: int
    slots: int
    busiest: float
    idle: float

    @property
    def excess(self) -> float:
        """The load of the busiest slot over that of an even spread."""
        return self.busiest * self.slots / self.keys


def spread(keys: int, slots: int) -> Spread:
    """The expected load of the busiest slot, exactly.

    Four partitions on two slots fall 2/2 in 6 of 16 cases, 3/1 in 8 and 4/0 in 2:

    >>> spread(4, 2)
    Spread(keys=4, slots=2, busiest=2.75, idle=0.125)
    """
    return Spread(keys, slots, _expected_busiest(keys, slots), _some_empty(keys, slots))


def _expected_busiest(keys: int, slots: int) -> float:
    """Counting slots one by one: `chance` is that none so far has more than some limit, by how many keys they share.

    One row for each limit. Limits that some slot is sure to pass, or none is likely to, are left out.
    """
    if slots == 1:
        return float(keys)
    least = -(-keys // slots)
    most = min(keys, int(binom.isf(NEVER / slots, keys, 1 / slots)))
    limits, shared, own = np.arange(least, most + 1), np.arange(keys + 1), np.arange(most + 1)
    chance = (shared <= limits[:, None]).astype(float)
    left = shared[:, None] - own
    for slot_count in range(2, slots + 1):
        weights = np.where(left >= 0, binom.pmf(own, shared[:, None], 1 / slot_count), 0.0)
        chance = np.stack(
            [
                np.einsum("no,no->n", weights[:, : limit + 1], before[np.maximum(left[:, : limit + 1], 0)])
                for limit, before in zip(limits, chance, strict=True)
            ]
        )
    return least + float((1 - chance[:, keys]).sum())


def _some_empty(keys: int, slots: int) -> float:
    """The chance that a slot has no key: a walk, key by key, over how many slots have one."""
    reached = np.zeros(slots + 1)
    reached[0] = 1.0
    for _ in range(keys):
        next_reached = reached * np.arange(slots + 1) / slots
        next_reached[1:] += reached[:-1] * (1 - np.arange(slots) / slots)
        reached = next_reached
    return float(1 - reached[slots])
