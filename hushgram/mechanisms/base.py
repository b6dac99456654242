"""The parts of every mechanism: a value becomes one integer, the cell; cells become a tally; tallies add up."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from hushgram import _arrays
from hushgram._arrays import FloatArray, IntArray
from hushgram._validation import MOST_BUCKETS, CollectionError, check_whole, refuse
from hushgram.domain import Domain, find_buckets
from hushgram.mechanisms.blanket import Blanket
from hushgram.mechanisms.options import option, options_of
from hushgram.sampling import Below, Law

CHUNK = 1 << 16
"""Values processed at a time, so that temporary arrays stay in the cache and memory does not grow with reports."""


def chunks(length: int, size: int = CHUNK) -> Iterator[slice]:
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


@dataclass(frozen=True)
class Mechanism(ABC):
    """Both halves of an ε-locally private mechanism, device and server, so that their probabilities cannot drift apart.

    A value is first *located*: a point of [0, 1] becomes one of `positions` integers. From there on the device half
    is exact: `perturb` uses integers only, and its law is the one that the server inverts.

    A mechanism is a frozen dataclass; its options are fields made by `option`. A collection takes it with nothing but
    options, checks them, and adds its own buckets and ε.
    """

    name: ClassVar[str]
    """What a collection calls the mechanism."""
    estimators: ClassVar[tuple[str, ...]]
    """The estimators that understand its tallies, the default first."""
    mean_only: ClassVar[bool] = False
    """Whether its reports determine a mean only, and no distribution."""
    takes_integers: ClassVar[bool] = True
    """Whether whole numbers may be collected with it."""

    in_collection: ClassVar[bool] = False
    """True of the mechanism of a collection: in another collection its buckets and ε give way."""

    buckets: int = 0
    """The number of equal parts of [0, 1] that the reports are read by."""
    epsilon: float = 0.0

    def for_collection(self, domain: Domain, buckets: int, epsilon: float) -> Self:
        """A mechanism with the same options, checked, and a collection's buckets and ε; of other fields the defaults.

        Words of few bits are for tests, and must not reach devices.
        """
        for name, own, allowed in (("buckets", self.buckets, buckets), ("epsilon", self.epsilon, epsilon)):
            if own not in (0, allowed):
                raise CollectionError(f"{name}: got {own:g} in the mechanism, allowed: the collection's, {allowed:g}")
        checked = {
            name: declared.check(name, getattr(self, name), buckets)
            for name, declared in options_of(type(self)).items()
            if getattr(self, name) is not None
        }
        mechanism = type(self)(buckets=buckets, epsilon=epsilon, **checked)
        mechanism.check_domain(domain)
        return mechanism

    def check_domain(self, domain: Domain) -> None:
        """Refuses a domain that the mechanism cannot serve with its buckets."""
        if domain.integer and not self.takes_integers:
            refuse("integer", True, f"false with {self.name}, which fills buckets evenly; square_wave does not")
        if domain.integer and not self.mean_only:
            check_divisor("buckets", self.buckets, domain)

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
        """The number of inputs that the device distinguishes."""
        return self.buckets

    def locate(self, units: FloatArray) -> IntArray:
        """The position of each point of [0, 1]."""
        return find_buckets(units, self.positions)

    @property
    def blanket(self) -> Blanket | None:
        """The part of a report's law that is the same for all values, or None where it is not known."""
        return None

    @property
    def tally_length(self) -> int:
        return self.cells

    def tally(self, cells: npt.ArrayLike) -> IntArray:
        """How often each cell was reported: `tally(a) + tally(b) == tally(a and b)`."""
        checked = _arrays.check_whole_numbers("cells", cells, self.cells)
        total = np.zeros(self.cells, dtype=np.int64)
        for part in chunks(checked.size, max(CHUNK, 4 * self.cells)):
            total += np.bincount(checked[part], minlength=self.cells)
        return total

    def check_tally(self, tally: npt.ArrayLike) -> IntArray:
        """A tally from outside, as one that could have come from `tally`."""
        return _arrays.check_counts("tally", tally, self.tally_length)

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

    @property
    def channels(self) -> tuple[tuple[float, Transition], ...]:
        """The transitions that a report may go through, and says which, each with its probability."""
        return ((1.0, self),)

    def matrix(self) -> FloatArray:
        """M itself, cells × buckets: for tests and small problems, the operators are the way to use it."""
        return self.forward(np.eye(self.buckets)).T

    def information(self, y: FloatArray) -> FloatArray:
        """MᵀD⁻¹M - 11ᵀ, D the probabilities `y` of the cells: what a report tells of x beyond that its total is 1."""
        one_bucket = np.eye(self.buckets)
        rows = [self.backward((self.forward(one_bucket[some]) - y) / y) for some in chunks(self.buckets, 32)]
        return np.concatenate(rows)


def check_divisor(name: str, count: int, domain: Domain) -> None:
    """Refuses a number of parts that hold unequally many whole numbers: an uneven share would look like a slope."""
    size = int(domain.high - domain.low) + 1
    if size % count:
        fitting = [other for other in range(2, min(size, MOST_BUCKETS) + 1) if size % other == 0]
        near = min(fitting, key=lambda other: abs(other - count), default=None)
        advice = "and there is none: take another low or high" if near is None else f"such as {near}"
        refuse(name, count, f"a divisor of the {size} whole numbers from low to high, {advice}")


@dataclass(frozen=True)
class FrequencyOracle(Mechanism):
    """A mechanism whose reports support values: the true one with probability p*, any other with probability q*."""

    estimators: ClassVar[tuple[str, ...]] = ("norm_sub",)

    _: KW_ONLY
    bins: int | None = option(None, lambda name, value, buckets: check_whole(name, value, 2, buckets), varies=False)
    """The equal parts of the domain that a device distinguishes. Left out, they are the buckets."""

    def for_collection(self, domain: Domain, buckets: int, epsilon: float) -> Self:
        oracle = super().for_collection(domain, buckets, epsilon)
        return oracle if oracle.bins is None else replace(oracle, buckets=oracle.bins)

    def check_domain(self, domain: Domain) -> None:
        super().check_domain(domain)
        if domain.integer and self.bins is not None:
            check_divisor("bins", self.bins, domain)

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

    def covariance(self, x: FloatArray, starts: IntArray) -> FloatArray:
        """n times the covariance of the frequencies of runs of values, `x` the distribution of the values.

        Runs begin at `starts`, and each ends where the next begins. Here a report supports other values than its own
        independently, so that two frequencies covary as in the sample itself, by -x_v·x_w.
        """
        p, q = self.support_probabilities
        supported = q + (p - q) * x
        own = np.add.reduceat(supported * (1 - supported) / (p - q) ** 2 + x**2, starts)
        common = np.add.reduceat(x, starts)
        return np.diag(own) - np.outer(common, common)

    @property
    def most_runs(self) -> int:
        """The most runs of values whose covariance is quickly computed."""
        return sys.maxsize
