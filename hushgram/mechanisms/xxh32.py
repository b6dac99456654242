"""xxh32 of decimal texts under many seeds at once, in numpy: what the open-source OLH clients hash with.

The algorithm is that of the xxHash specification for inputs of less than 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushgram._arrays import IntArray

Words = npt.NDArray[np.uint32]

PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)
ZERO = ord("0")
LONGEST = 15


@dataclass(frozen=True)
class _Step:
    """One round of the hash: each longer prefix starts from its parent's state and takes in one character, or four."""

    parents: IntArray
    addends: Words
    rotation: int
    factor: np.uint32


@dataclass(frozen=True)
class DecimalTexts:
    """Whole numbers in rising order, as decimal texts ready to be hashed; texts that begin alike share the work."""

    size: int
    by_length: tuple[tuple[int, tuple[_Step, ...]], ...]

    @classmethod
    def of(cls, values: IntArray) -> DecimalTexts:
        lengths = np.searchsorted(10 ** np.arange(1, LONGEST), values, side="right") + 1
        groups = ((int(length), values[lengths == length]) for length in np.unique(lengths))
        return cls(values.size, tuple((length, tuple(_steps(group, length))) for length, group in groups))

    def hash(self, seeds: Words) -> Words:
        """The hash of each text (rows) under each seed (columns)."""
        hashes = np.empty((self.size, seeds.size), dtype=np.uint32)
        done = 0
        for length, steps in self.by_length:
            state: Words = (seeds + PRIME_5 + np.uint32(length))[None, :]
            for step in steps:
                state = state.take(step.parents, axis=0)
                state += step.addends
                wrapped = state >> np.uint32(32 - step.rotation)
                state <<= np.uint32(step.rotation)
                state |= wrapped
                state *= step.factor
            _avalanche(state)
            hashes[done : done + len(state)] = state
            done += len(state)
        return hashes


def _steps(values: IntArray, length: int) -> list[_Step]:
    steps, prefixes, done = [], np.zeros(1, dtype=np.int64), 0
    while done < length:
        taken = 4 if length - done >= 4 else 1
        done += taken
        longer = np.unique(values // 10 ** (length - done))
        parents = np.searchsorted(prefixes, longer // 10**taken)
        digits = [longer // 10**place % 10 + ZERO for place in reversed(range(taken))]
        word = sum((digit << (8 * place) for place, digit in enumerate(digits)), np.zeros_like(longer)).astype(
            np.uint32
        )
        rotation, into, factor = (17, PRIME_3, PRIME_4) if taken == 4 else (11, PRIME_5, PRIME_1)
        steps.append(_Step(parents, (word * into)[:, None], rotation, factor))
        prefixes = longer
    return steps


def _avalanche(state: Words) -> None:
    state ^= state >> np.uint32(15)
    state *= PRIME_2
    state ^= state >> np.uint32(13)
    state *= PRIME_3
    state ^= state >> np.uint32(16)
