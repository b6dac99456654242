"""What every mechanism is: a value becomes one integer, the cell; cells become a tally; tallies add up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hushgram import arrays
from hushgram.arrays import FloatArray, IntArray
from hushgram.domain import buckets_of
from hushgram.draws import Below, Law

CHUNK = 1 << 16
"""Values worked on at a time: temporaries stay in the cache, and memory does not grow with the number of reports."""


def chunks(length: int, size: int = CHUNK) -> Iterator[slice]:
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


class Mechanism(ABC):
    """Both halves of an ε-locally private mechanism, device and server, so that their probabilities cannot drift apart.

    A value is first *located*: a point of [0, 1] becomes one of `positions` integers. From there on the device half
    is exact: `perturb` uses integers only, and its law is the one that the server inverts.
    """

    epsilon: float
    buckets: int
    """The number of equal parts of [0, 1] that the reports are read by."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """The size of the report alphabet: cells are integers from 0 to this, exclusive."""

    @property
    @abstractmethod
    def laws(self) -> tuple[Law, ...]:
        """The integers behind the probabilities: all that a client in another language needs."""

    @abstractmethod
    def perturb(self, position: int, below: Below) -> int:
        """The cell a device reports for its position."""

    @abstractmethod
    def perturb_many(self, positions: IntArray, rng: np.random.Generator) -> IntArray:
        """The same law for an array of positions, by a seeded generator: for simulation, never for a device."""

    @abstractmethod
    def forward(self, x: FloatArray) -> FloatArray:
        """The probability of each cell when values are distributed as `x` over the buckets, evenly within each."""

    @abstractmethod
    def parameters(self) -> dict[str, object]:
        """Everything that the law depends on, for the fingerprint of a collection."""

    @property
    def positions(self) -> int:
        """The number of inputs that the device tells apart."""
        return self.buckets

    def locate(self, units: FloatArray) -> IntArray:
        """The position of each point of [0, 1]."""
        return buckets_of(units, self.positions)

    @property
    def tally_length(self) -> int:
        return self.cells

    def tally(self, cells: npt.ArrayLike) -> IntArray:
        """How often each cell was reported: `tally(a) + tally(b) == tally(a and b)`."""
        checked = arrays.whole_numbers("cells", cells, self.cells)
        total = np.zeros(self.cells, dtype=np.int64)
        for part in chunks(checked.size, max(CHUNK, 4 * self.cells)):
            total += np.bincount(checked[part], minlength=self.cells)
        return total

    def check_tally(self, tally: npt.ArrayLike) -> IntArray:
        """A tally from outside, as one that could have come from `tally`."""
        return arrays.counts("tally", tally, self.tally_length)

    def reports(self, tally: IntArray) -> int:
        """The number of reports behind a tally."""
        return int(tally.sum())


class Transition(ABC):
    """The linear map M from a distribution over buckets to one over cells, and its transpose.

    Both take a vector, or many as the rows of an array; a row's result does not depend on the rows beside it.
    """

    buckets: int

    @abstractmethod
    def forward(self, x: FloatArray) -> FloatArray:
        """M x: the probability of each cell when values are distributed as `x`."""

    @abstractmethod
    def backward(self, y: FloatArray) -> FloatArray:
        """Mᵀ y."""

    def matrix(self) -> FloatArray:
        """M itself, cells × buckets: for tests and small problems, the operators are the way to use it."""
        return self.forward(np.eye(self.buckets)).T


class FrequencyOracle(Mechanism):
    """A mechanism whose reports support values: the true one with probability p*, any other with probability q*."""

    @property
    @abstractmethod
    def law(self) -> Law: ...

    @property
    def laws(self) -> tuple[Law, ...]:
        return (self.law,)

    @property
    @abstractmethod
    def support_probabilities(self) -> tuple[float, float]:
        """p* and q*."""

    @abstractmethod
    def support(self, tally: IntArray) -> IntArray:
        """C(v): how many reports support each value."""

    @property
    def noise(self) -> float:
        """n times the variance of the estimated frequency of a value that nobody has."""
        p, q = self.support_probabilities
        return q * (1 - q) / (p - q) ** 2

    def frequencies(self, tally: IntArray) -> FloatArray:
        """The unbiased estimate (C(v)/n - q*) / (p* - q*) of each value's frequency; zero where there is no report."""
        reports = self.reports(tally)
        if reports == 0:
            return np.zeros(self.buckets)
        p, q = self.support_probabilities
        return (self.support(tally) / reports - q) / (p - q)

    def covariance(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(D, u): n times the covariance of the frequencies is diag(D) - uuᵀ when values are distributed as `x`.

        Of hashing: given its value, a report supports other values independently, so that two frequencies covary as in
        the sample itself, by -x_v·x_w.
        """
        p, q = self.support_probabilities
        supported = q + (p - q) * x
        return supported * (1 - supported) / (p - q) ** 2 + x**2, x
