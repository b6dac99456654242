"""Local hashing: a value is hashed to a few symbols, the symbol goes through randomized response (paper, section 2.1).

`LocalHashing` draws its hash from a small balanced family, so that reports are counted per hash in a table;
`SeededHashing` is the classic protocol with a 32-bit seed, whose support is counted report by report.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hushgram import _arrays
from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import check_whole, refuse
from hushgram.mechanisms.base import FrequencyOracle, chunks
from hushgram.mechanisms.blanket import Blanket
from hushgram.mechanisms.options import option, whole_number
from hushgram.mechanisms.randomized_response import RandomizedResponse
from hushgram.mechanisms.xxh32 import DecimalTexts
from hushgram.sampling import WORD_BITS, Below, Law

TABLE_LIMIT = 1 << 18
"""The most cells a table of hash × symbol may have; without it large ε would ask for hundreds of megabytes."""

MOST_PRODUCTS = 1 << 30
"""The most products that a covariance of frequencies may take: about a tenth of a second."""
COVARIANCE_BLOCK = 1 << 13
"""Cells whose support is multiplied at a time, to stay in the cache."""

SEEDS = 1 << 32
MOST_SYMBOLS = 1 << 16


def count_digits(size: int, base: int) -> int:
    """The least m with base^m ≥ size."""
    digits, reach = 1, base
    while reach < size:
        digits, reach = digits + 1, reach * base
    return digits


def best_prime(size: int, epsilon: float) -> int | None:
    """The number of symbols with the least noise among the primes whose table is within the limit, if any is."""
    grown = math.exp(epsilon)

    def noise(g: int) -> float:
        p, q = grown / (grown + g - 1), 1 / g
        return q * (1 - q) / (p - q) ** 2

    fitting = [g for g in _primes(math.isqrt(TABLE_LIMIT)) if g ** (count_digits(size, g) + 1) <= TABLE_LIMIT]
    return min(fitting, key=noise, default=None)


def check_prime(name: str, value: object, buckets: int) -> int:
    """A prime number of symbols."""
    symbols = check_whole(name, value, 2, MOST_SYMBOLS)
    if any(symbols % k == 0 for k in range(2, math.isqrt(symbols) + 1)):
        refuse(name, value, "a prime number, for the family to be balanced")
    return symbols


def _primes(limit: int) -> list[int]:
    return [n for n in range(2, limit + 1) if all(n % k for k in range(2, math.isqrt(n) + 1))]


@dataclass(frozen=True)
class LocalHashing(FrequencyOracle):
    """Hashing with the linear family h_a(v) = Σ aⱼvⱼ mod g over the base-g digits of v.

    Any two values collide in exactly 1/g of the g^m functions, so the estimate is unbiased at any number of reports.
    A cell is hash·g + symbol.
    """

    name: ClassVar[str] = "local_hashing"

    symbols: int | None = option(None, check_prime)
    """The symbols that values are hashed to. Left out, they are as many as give the least noise."""
    bits: int = WORD_BITS

    @cached_property
    def g(self) -> int:
        g = best_prime(self.buckets, self.epsilon) if self.symbols is None else self.symbols
        if g is None or g ** (count_digits(self.buckets, g) + 1) > TABLE_LIMIT:
            raise ValueError(
                f"hashing {self.buckets} values to {g or 2} symbols needs a table of more than {TABLE_LIMIT} cells, "
                "which is the limit: leave symbols out, or take fewer values"
            )
        return g

    @cached_property
    def digits(self) -> int:
        return count_digits(self.buckets, self.g)

    @property
    def functions(self) -> int:
        return int(self.g**self.digits)

    @cached_property
    def law(self) -> Law:
        return Law.of(self.epsilon, 1, self.g - 1, self.bits)

    @property
    def cells(self) -> int:
        return self.functions * self.g

    def symbol(self, function: IntArray, value: IntArray) -> IntArray:
        """h_a(v), elementwise."""
        total = np.zeros(np.broadcast_shapes(np.shape(function), np.shape(value)), dtype=np.int64)
        power = 1
        for _ in range(self.digits):
            total += (function // power % self.g) * (value // power % self.g)
            power *= self.g
        return total % self.g

    def perturb(self, position: int, below: Below) -> int:
        function = below(self.functions)
        symbol = self.symbol(np.array([function]), np.array([position]))[0]
        return function * self.g + self.law.draw(int(symbol), below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        functions = rng.integers(0, self.functions, size=positions.shape)
        return functions * self.g + self.law.draw_many(self.symbol(functions, positions), rng)

    @property
    def blanket(self) -> Blanket:
        """Any two values have the same symbol under 1/g of the functions, and all values under one: that of zeros."""
        return Blanket.of(self.law, 1 - 1 / self.g, 1 / self.functions)

    @property
    def support_probabilities(self) -> tuple[float, float]:
        return self.law.p, 1 / self.g

    def support(self, tally: IntArray) -> IntArray:
        """C(v) = Σ_a T[a, h_a(v)] for all v, by a Fourier transform over the digits of a and the symbol.

        1[h = s] = (1/g) Σ_t ω^(t(s - h)), so C(v) = (1/g) Σ_t T̂[t·v, -t]. The cost does not grow with the number
        of reports, and rounding restores the integers.
        """
        g, m = self.g, self.digits
        transformed = np.fft.fftn(tally.reshape((g,) * m + (g,))).reshape(self.functions, g)
        t = np.arange(g)
        total = transformed[self._multiples, -t % g].real.sum(axis=1)
        return np.rint(total / g).astype(np.int64)

    def hashed(self, x: FloatArray) -> FloatArray:
        """Σ_{v: h_a(v) = s} x_v for every function a (rows) and symbol s, by the same transform in reverse."""
        g, m = self.g, self.digits
        padded = np.zeros(self.functions)
        padded[: self.buckets] = x
        transformed = np.fft.fftn(padded.reshape((g,) * m)).ravel()
        # Σ_v x_v 1[<a, v> = s] = (1/g) Σ_t ω^(ts) X̂[t·a]; of real numbers, half of the t determine the others.
        return np.fft.irfft(transformed[self._all_multiples[:, : g // 2 + 1]], n=g, axis=1)

    def forward(self, x: FloatArray) -> FloatArray:
        """(q + (p - q)·Σ_{v: h_a(v) = s} x_v) / g^m for every cell (a, s)."""
        return ((self.law.gap * self.hashed(x) + self.law.q * x.sum()) / self.functions).ravel()

    def covariance(self, x: FloatArray, starts: IntArray) -> FloatArray:
        """That of what a report's cell supports, by the probabilities of all cells.

        Values on one line of the family are not supported independently: a function that hashes two of them alike
        hashes all of the line alike, so that a report of any supports all or none.
        """
        runs, probabilities = _support_of_runs(self, tuple(starts.tolist())), self.forward(x)
        means = runs @ probabilities
        total = np.zeros((starts.size, starts.size))
        for part in chunks(self.cells, COVARIANCE_BLOCK):
            centred = runs[:, part] - means[:, None]
            total += (centred * probabilities[part]) @ centred.T
        p, q = self.support_probabilities
        return total / (p - q) ** 2

    @property
    def most_runs(self) -> int:
        return math.isqrt(MOST_PRODUCTS // self.cells)

    @cached_property
    def _all_multiples(self) -> IntArray:
        """t·a digit by digit, for every function a (rows) and t < g (columns)."""
        values = np.arange(self.functions)[:, None]
        multiples = np.zeros((self.functions, self.g), dtype=np.int64)
        power = 1
        for _ in range(self.digits):
            multiples += (values // power % self.g) * np.arange(self.g) % self.g * power
            power *= self.g
        return multiples

    @property
    def _multiples(self) -> IntArray:
        return self._all_multiples[: self.buckets]

    def parameters(self) -> dict[str, object]:
        return {"buckets": self.buckets, "symbols": self.g}


@lru_cache(maxsize=8)
def _support_of_runs(oracle: LocalHashing, starts: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """How many values of each run of values (rows) a report of each cell supports: small whole numbers."""
    runs = np.empty((len(starts), oracle.cells), dtype=np.float32)
    for row, (start, end) in enumerate(itertools.pairwise((*starts, oracle.buckets))):
        inside = np.zeros(oracle.buckets)
        inside[start:end] = 1
        runs[row] = np.rint(oracle.hashed(inside)).ravel()
    return runs


def frequency_oracle(size: int, epsilon: float, bits: int = WORD_BITS) -> FrequencyOracle:
    """The oracle with the least noise over `size` values: randomized response, or hashing where a table fits."""
    oracles: list[FrequencyOracle] = [RandomizedResponse(size, epsilon, bits=bits)] if size <= TABLE_LIMIT else []
    if best_prime(size, epsilon) is not None:
        oracles.append(LocalHashing(size, epsilon, bits=bits))
    if not oracles:
        raise ValueError(f"{size} values are too many for any frequency oracle: at most {TABLE_LIMIT}")
    return min(oracles, key=lambda oracle: oracle.noise)


SUPPORT_BLOCK = 1 << 18
"""Hashes computed at a time when support is counted: a compromise between interpreter and cache."""


def count_support(cells: IntArray, texts: DecimalTexts, symbols: int) -> IntArray:
    """How many of the reports (seed·symbols + symbol) hash each text to the reported symbol."""
    support = np.zeros(texts.size, dtype=np.int64)
    seeds, reported = (cells // symbols).astype(np.uint32), (cells % symbols).astype(np.uint32)
    for part in chunks(cells.size, max(1, SUPPORT_BLOCK // texts.size)):
        hashes = texts.hash(seeds[part])
        hashes -= hashes // np.uint32(symbols) * np.uint32(symbols)  # numpy divides in SIMD, but has no such `%`
        support += np.count_nonzero(hashes == reported[part], axis=1)
    return support


@dataclass(frozen=True)
class SeededHashing(FrequencyOracle):
    """The classic OLH: xxh32 of the value's decimal text under a random seed, modulo g; the cell is seed·g + symbol.

    There is no small table of cells, so a tally holds the support of each value, counted on arrival, and the number of
    reports.
    """

    name: ClassVar[str] = "seeded_hashing"

    symbols: int | None = option(None, whole_number(2, MOST_SYMBOLS))
    """The symbols that values are hashed to. Left out, they are round(e^ε) + 1."""
    bits: int = WORD_BITS

    @cached_property
    def g(self) -> int:
        """round(e^ε) + 1 symbols, as the open-source clients have it."""
        return round(math.exp(self.epsilon)) + 1 if self.symbols is None else self.symbols

    @cached_property
    def law(self) -> Law:
        return Law.of(self.epsilon, 1, self.g - 1, self.bits)

    @cached_property
    def _texts(self) -> DecimalTexts:
        return DecimalTexts.of(np.arange(self.buckets))

    @property
    def cells(self) -> int:
        return SEEDS * self.g

    def perturb(self, position: int, below: Below) -> int:
        seed = below(SEEDS)
        return seed * self.g + self.law.draw(int(self._symbols(np.array([seed]), position)[0]), below)

    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        seeds = rng.integers(0, SEEDS, size=positions.shape)
        symbols = np.empty_like(positions)
        for value in np.unique(positions):
            of_value = positions == value
            symbols[of_value] = self._symbols(seeds[of_value], value)
        return seeds * self.g + self.law.draw_many(symbols, rng)

    def _symbols(self, seeds: IntArray, value: int) -> IntArray:
        hashes = DecimalTexts.of(np.array([value])).hash(seeds.astype(np.uint32))
        return np.remainder(hashes[0], self.g, dtype=np.int64)

    @property
    def tally_length(self) -> int:
        return self.buckets + 1

    def tally(self, cells: npt.ArrayLike) -> IntArray:
        checked = _arrays.check_whole_numbers("cells", cells, self.cells).astype(np.int64, copy=False)
        total = np.zeros(self.tally_length, dtype=np.int64)
        total[-1] = checked.size
        total[:-1] = count_support(checked, self._texts, self.g)
        return total

    def reports(self, tally: IntArray) -> int:
        return int(tally[-1])

    @property
    def blanket(self) -> Blanket:
        """As if no two values had ever the same symbol: it holds for every hash, and a tally of support hides more."""
        return Blanket.of(self.law, 1)

    @property
    def support_probabilities(self) -> tuple[float, float]:
        return self.law.p, 1 / self.g

    def support(self, tally: IntArray) -> IntArray:
        return tally[:-1]

    def check_tally(self, tally: npt.ArrayLike) -> IntArray:
        checked = super().check_tally(tally)
        if int(checked.max()) > checked[-1]:
            raise ValueError(f"tally must not support a value more often than there are reports ({checked[-1]})")
        return checked

    def forward(self, x: FloatArray) -> FloatArray:
        raise ValueError(f"{self.cells} cells are too many to list")

    def parameters(self) -> dict[str, object]:
        return {"buckets": self.buckets, "symbols": self.g}
