"""Randomness: exact integers from the operating system on a device, a seeded generator in simulation.

Every mechanism draws from one law: among finitely many outcomes a block is favoured, e^ε times as
likely as the rest. The weights are integers, so the law is exact, and the server uses the same integers.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from numbers import Integral

import numpy as np
import numpy.typing as npt

from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import describe

Below = Callable[[int], int]
"""Draws a uniform integer from 0 to its argument - 1."""

WORD_BITS = 32
"""The weight of an outcome that is not favoured is 2 to this power. Tests use small words and try every draw."""


DIGEST_BLOCK = 1 << 16


def os_below(limit: int) -> int:
    """A uniform integer below `limit` from the operating system's generator, free of modulo bias."""
    return secrets.randbelow(limit)


def simulation_generator(seed: int, *purpose: str | bytes) -> np.random.Generator:
    """A generator for simulation that shares no stream with any that a caller may have seeded with the same number.

    People draw values with `default_rng(42)` and simulate devices with `seed=42`. If the noise came from
    `default_rng(42)` too, the number behind a value would also decide its noise, and estimates would be wrong. The seed
    is therefore spawned, as `SeedSequence` does for independent streams, with a key that nobody else uses: the SHA-256
    of `purpose`, what the numbers are drawn for. Other purposes have other streams, and equal ones the same.

    >>> ours = simulation_generator(42, "an example").random()
    >>> ours == simulation_generator(42, "an example").random(), ours == np.random.default_rng(42).random()
    (True, False)
    """
    unchecked: object = seed  # callers without a type checker pass anything
    if isinstance(unchecked, bool) or not isinstance(unchecked, Integral) or unchecked < 0:
        raise ValueError(f"seed must be a whole number of zero or more, got {describe(unchecked)}")
    parts = [part.encode() if isinstance(part, str) else part for part in ("hushgram simulation", *purpose)]
    key = hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=np.frombuffer(key, dtype="<u4").tolist()))


def collection_generator(
    seed: int | np.random.Generator, purpose: str, name: str, revision: str, values: FloatArray
) -> np.random.Generator:
    """A generator as it is; of a number, the stream that belongs to a collection, to these values and this purpose."""
    if isinstance(seed, np.random.Generator):
        return seed
    digest = hashlib.sha256()
    for start in range(0, values.size, DIGEST_BLOCK):  # a copy of all values would need their memory once more
        # + 0.0: zero has no sign
        digest.update((values[start : start + DIGEST_BLOCK] + 0.0).astype("<f8").tobytes())
    return simulation_generator(seed, purpose, name, revision, digest.digest())


@lru_cache(maxsize=1024)
def favoured_weight(epsilon: float, bits: int = WORD_BITS) -> int:
    """P = ⌊e^ε·2^bits⌋, so that ln(P / 2^bits) never exceeds ε.

    Decimal arithmetic rounds e^ε correctly to 60 digits: the integer is the same on every platform,
    which a C library's `exp` does not promise.
    """
    digits = Context(prec=60)
    return int(digits.multiply(digits.exp(Decimal(epsilon)), Decimal(2**bits)))


@dataclass(frozen=True)
class Law:
    """`width` favoured outcomes of weight `P` each, among `others` of weight `Q` each, drawn at once.

    >>> law = Law.of(epsilon=1.0, width=3, others=7)
    >>> law.P / law.Q <= 2.718281828459045
    True
    """

    P: int
    Q: int
    width: int
    others: int

    def __post_init__(self) -> None:
        if self.T >= 2**63:
            raise ValueError(
                f"the law needs {self.T.bit_length()} bits, 63 are allowed: "
                "take a smaller epsilon, a smaller bandwidth or fewer buckets"
            )

    @classmethod
    def of(cls, epsilon: float, width: int, others: int, bits: int = WORD_BITS) -> Law:
        return cls(favoured_weight(epsilon, bits), 2**bits, width, others)

    @property
    def T(self) -> int:
        """The sum of all weights: a draw is a uniform integer below it."""
        return self.width * self.P + self.others * self.Q

    @property
    def p(self) -> float:
        """The probability of one favoured outcome."""
        return self.P / self.T

    @property
    def q(self) -> float:
        """The probability of one other outcome."""
        return self.Q / self.T

    @property
    def gap(self) -> float:
        """p - q, without cancellation."""
        return (self.P - self.Q) / self.T

    def draw(self, start: int, below: Below) -> int:
        """An outcome, where those from `start` to `start + width - 1` are favoured."""
        r = below(self.T)
        favoured = self.width * self.P
        if r < favoured:
            return start + r // self.P
        other = (r - favoured) // self.Q
        return other if other < start else other + self.width

    def draw_many(self, starts: IntArray, rng: np.random.Generator) -> IntArray:
        """`draw` for an array of starts, by a seeded generator."""
        return self.outcomes(starts, rng.integers(0, self.T, size=starts.shape, dtype=np.uint64))

    def outcomes(self, starts: IntArray, draws: npt.NDArray[np.uint64]) -> IntArray:
        """What `draw` answers when the generator gives `draws`."""
        favoured = np.uint64(self.width * self.P)
        inside = (draws // np.uint64(self.P)).view(np.int64)
        inside += starts
        # Draws of the favoured block wrap around here; `where` does not use them.
        outside = ((draws - favoured) // np.uint64(self.Q)).view(np.int64)
        outside += (outside >= starts) * np.int64(self.width)
        return np.where(draws < favoured, inside, outside)
