"""A collection: what is asked of the devices, how they answer in private, and how the answers are read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hushgram import arrays, checks
from hushgram.arrays import IntArray
from hushgram.checks import CollectionError, refuse
from hushgram.domain import Domain
from hushgram.draws import Law, os_below
from hushgram.estimate import Estimate, Status
from hushgram.estimators import ESTIMATORS, Method, Solution
from hushgram.mechanisms import MECHANISMS, Mechanism, Options
from hushgram.mechanisms.base import chunks
from hushgram.mechanisms.hierarchy import tree_height
from hushgram.windows import Windows

LEAST_EPSILON, GREATEST_EPSILON = 1e-6, 20.0
MOST_BUCKETS = 1 << 16
BRANCHINGS = (2, 4, 8)
MEAN_ONLY = ("stochastic_rounding", "piecewise")

MECHANISM_OPTIONS = ("bandwidth", "output_buckets", "wave_ratio", "symbols", "bins", "branching", "level_decay")
PREVIOUS_MAY_CHANGE = ("epsilon", "mechanism", "bandwidth", "output_buckets", "wave_ratio", "symbols", "level_decay")
METHOD_OPTIONS = {
    "stopping": (("paper", "converged"), ("ems", "em")),
    "solver": (("exact", "admm"), ("hh_admm",)),
    "level_weights": (("variance", "equal"), ("hh", "hh_admm")),
}

Tallies = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""The tally of one window: of the current revision alone, or of several by revision."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """The public face: one number collected from many devices.

    >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
    >>> cells = commute.simulate([37.5] * 5000, seed=7)
    >>> estimate = commute.estimate(commute.tally(cells))
    >>> low, high = estimate.interval("mean")
    >>> low < 37.5 < high
    True

    The mechanism's options, left out, are chosen well: `bandwidth` (of the wave, as a share of the domain),
    `output_buckets`, `wave_ratio`, `symbols` (of a hash), `bins`, `branching` and `level_decay` (of a tree; below 1 it
    prefers coarse levels). `stopping`, `solver` and `level_weights` say how the estimator works, unseen by devices.
    `previous` lists earlier parameters, as differences, that clients in the field may still use.
    """

    name: str
    low: float
    high: float
    epsilon: float
    buckets: int = 1024
    unit: str = ""
    scale: str = "linear"
    integer: bool = False
    mechanism: str = "square_wave"
    estimator: str = ""
    bandwidth: float | None = None
    output_buckets: int | None = None
    wave_ratio: float | None = None
    symbols: int | None = None
    bins: int | None = None
    branching: int | None = None
    level_decay: float | None = None
    stopping: str | None = None
    solver: str | None = None
    level_weights: str | None = None
    windows: Windows = field(default_factory=Windows)
    groups: tuple[str, ...] = ()
    minimum_reports: int = 1000
    previous: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        checks.label("name", self.name)
        try:
            self._check_domain()
            self._check_mechanism()
            self._check_method()
            self._check_audience()
            self.revisions  # noqa: B018 - builds every revision, so that a wrong one is told here
        except CollectionError as error:
            raise CollectionError(f"collection {self.name!r}: {error}") from None
        except ValueError as error:  # a mechanism found its parameters impossible together
            raise CollectionError(f"collection {self.name!r}: {self.mechanism}: {error}") from None

    # Device and simulation -------------------------------------------------------------------------------------------

    def report(self, value: float) -> int:
        """The cell that a device sends for its value: exact sampling from the operating system's generator, no seed.

        Values outside the domain count as its nearest end.
        """
        if isinstance(value, (bool, str, bytes)) or not np.isscalar(value):
            raise ValueError(f"value must be a number, got {value!r}")
        position = self.randomizer.locate(self.domain.to_unit(arrays.finite_numbers("value", value)))[0]
        return self.randomizer.perturb(int(position), os_below)

    def simulate(self, values: npt.ArrayLike, seed: int | np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """The cells of as many devices as there are values: seeded, for tests, demonstrations and planning only.

        They come in the narrowest unsigned type that holds the alphabet.
        """
        rng = np.random.default_rng(seed)
        checked = arrays.finite_numbers("values", values)
        cells = np.empty(checked.shape, dtype=np.min_scalar_type(self.randomizer.cells - 1))
        for part in chunks(checked.size):
            positions = self.randomizer.locate(self.domain.to_unit(checked[part]))
            cells[part] = self.randomizer.perturb_many(positions, rng)
        return cells

    # Server ----------------------------------------------------------------------------------------------------------

    def tally(self, cells: npt.ArrayLike) -> IntArray:
        """How often each cell was reported, an int64 vector: `tally(a) + tally(b)` is the tally of a and b together."""
        return self.randomizer.tally(cells)

    def estimate(self, tally: Tallies) -> Estimate:
        """The distribution behind a tally, or behind the tallies of several revisions by their fingerprint."""
        return self.estimate_many([tally])[0]

    def estimate_many(self, tallies: Sequence[Tallies]) -> list[Estimate]:
        """Estimates for many windows or groups at once; those with the same revisions are solved together."""
        windows = [self._window(tally) for tally in tallies]
        together: dict[tuple[str, ...], list[int]] = {}
        for index, window in enumerate(windows):
            together.setdefault(tuple(window), []).append(index)
        solutions: dict[int, Solution] = {}
        for revisions, members in together.items():
            if not revisions:
                solved = [self._no_reports] * len(members)
            else:
                mechanisms = [self.revisions[revision].randomizer for revision in revisions]
                problems = [list(zip(mechanisms, windows[member].values(), strict=True)) for member in members]
                solved = ESTIMATORS[self.estimator](problems, self._method)
            solutions.update(zip(members, solved, strict=True))
        return [self._read(window, solutions[index]) for index, window in enumerate(windows)]

    # What it is ------------------------------------------------------------------------------------------------------

    @cached_property
    def domain(self) -> Domain:
        return Domain(float(self.low), float(self.high), self.scale, self.integer, self.unit)  # type: ignore[arg-type]

    @cached_property
    def randomizer(self) -> Mechanism:
        """The mechanism itself, with both halves and its probabilities."""
        options = {name: getattr(self, name) for name in MECHANISM_OPTIONS}
        return MECHANISMS[self.mechanism].build(Options(self.buckets, float(self.epsilon), **options))

    @property
    def law(self) -> Law | tuple[Law, ...]:
        """The integers P, Q and T behind the probabilities; a tree has one law for each level, coarse first."""
        laws = self.randomizer.laws
        return laws[0] if len(laws) == 1 else laws

    @cached_property
    def revision(self) -> str:
        """16 hexadecimal digits that change whenever the law of the reports does."""
        canonical = json.dumps(
            {
                "low": float(self.low),
                "high": float(self.high),
                "scale": self.scale,
                "integer": self.integer,
                "epsilon": float(self.epsilon),
                "mechanism": self.mechanism,
                "parameters": self.randomizer.parameters(),
                "laws": [[law.P, law.Q, law.T] for law in self.randomizer.laws],
            },
            sort_keys=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @cached_property
    def revisions(self) -> dict[str, Collection]:
        """This collection and its previous ones by fingerprint, the current first."""
        known = {self.revision: self}
        for index, difference in enumerate(self.previous):
            where = f"previous[{index}]"
            earlier = self._earlier(where, difference)
            if earlier.revision in known:
                raise CollectionError(f"{where}: got the same law as another revision, allowed: each only once")
            known[earlier.revision] = earlier
        return known

    # Checks ----------------------------------------------------------------------------------------------------------

    def _check_domain(self) -> None:
        low, high = checks.number("low", self.low), checks.number("high", self.high)
        checks.one_of("scale", self.scale, ("linear", "log"))
        checks.flag("integer", self.integer)
        checks.label("unit", self.unit, empty=True)
        checks.whole("buckets", self.buckets, 2, MOST_BUCKETS)
        if not low < high or not math.isfinite(high - low):
            refuse("high", self.high, f"a number above low ({self.low}), at a finite distance")
        if self.scale == "log" and low <= 0:
            refuse("low", self.low, "a number above 0 on a log scale")
        if self.integer:
            self._check_integer_domain(low, high)

    def _check_integer_domain(self, low: float, high: float) -> None:
        if self.scale == "log":
            refuse("integer", True, "false on a log scale, whose buckets cannot hold equally many whole numbers")
        for name, end in (("low", low), ("high", high)):
            if not end.is_integer() or abs(end) > 2**53:
                refuse(name, end, "a whole number, since integer is true")
        size = int(high - low) + 1
        if size % self.buckets:
            fitting = [count for count in range(2, min(size, MOST_BUCKETS) + 1) if size % count == 0]
            near = sorted(sorted(fitting, key=lambda count: abs(count - self.buckets))[:3])
            refuse("buckets", self.buckets, f"a divisor of the {size} whole numbers from low to high, such as {near}")

    def _check_mechanism(self) -> None:
        checks.number("epsilon", self.epsilon, LEAST_EPSILON, GREATEST_EPSILON)
        kind = MECHANISMS[checks.one_of("mechanism", self.mechanism, MECHANISMS)]
        for name in MECHANISM_OPTIONS:
            if getattr(self, name) is not None and name not in kind.options:
                allowed = ", ".join(kind.options) or "no option"
                raise CollectionError(f"{name}: not an option of {self.mechanism}, which takes {allowed}")
        if self.bandwidth is not None:
            checks.number("bandwidth", self.bandwidth, 0.0, 1.0)
        if self.wave_ratio is not None:
            checks.number("wave_ratio", self.wave_ratio, 0.0, 1.0)
        if self.level_decay is not None:
            checks.number("level_decay", self.level_decay, 0.1, 1.0)
        if self.output_buckets is not None:
            checks.whole("output_buckets", self.output_buckets, 2, 4 * MOST_BUCKETS)
        if self.bins is not None:
            checks.whole("bins", self.bins, 2, self.buckets)
        if self.symbols is not None:
            self._check_symbols(self.symbols)
        if self.branching is not None and self.branching not in BRANCHINGS:
            refuse("branching", self.branching, ", ".join(map(str, BRANCHINGS)))
        if self.mechanism == "hierarchy":
            self._check_power(self.branching or 4)
        if self.mechanism == "haar":
            self._check_power(2)
        if self.mechanism in MEAN_ONLY and self.scale == "log":
            refuse("scale", self.scale, f"linear with {self.mechanism}: the mean of logarithms is not the mean")
        self.randomizer.laws  # noqa: B018 - finds out whether the parameters are possible together

    def _check_symbols(self, symbols: int) -> None:
        checks.whole("symbols", symbols, 2, 1 << 16)
        if self.mechanism == "local_hashing" and any(symbols % k == 0 for k in range(2, math.isqrt(symbols) + 1)):
            refuse("symbols", symbols, "a prime number, for the family to be balanced")

    def _check_power(self, base: int) -> None:
        if tree_height(self.buckets, base) is None:
            exponent = max(1, math.floor(math.log(self.buckets, base)))
            refuse("buckets", self.buckets, f"a power of {base}, such as {base**exponent} or {base ** (exponent + 1)}")

    def _check_method(self) -> None:
        known = MECHANISMS[self.mechanism].estimators
        if not self.estimator:
            object.__setattr__(self, "estimator", known[0])
        checks.one_of("estimator", self.estimator, ESTIMATORS)
        if self.estimator not in known:
            refuse("estimator", self.estimator, f"{', '.join(known)} with the mechanism {self.mechanism}")
        for name, (choices, estimators) in METHOD_OPTIONS.items():
            value = getattr(self, name)
            if value is None:
                continue
            checks.one_of(name, value, choices)
            if self.estimator not in estimators:
                raise CollectionError(f"{name}: not an option of {self.estimator}, but of {', '.join(estimators)}")

    def _check_audience(self) -> None:
        checks.whole("minimum_reports", self.minimum_reports, 0, 2**53)
        if not isinstance(self.windows, Windows):
            refuse("windows", self.windows, "a Windows value")
        for name, example in (
            ("groups", "labels, such as [DE, FR]"),
            ("previous", "differences, such as [{epsilon: 2}]"),
        ):
            given = getattr(self, name)
            if not isinstance(given, (list, tuple)):
                refuse(name, given, f"a list of {example}")
            object.__setattr__(self, name, tuple(given))
        for index, group in enumerate(self.groups):
            checks.label(f"groups[{index}]", group)
            if group in self.groups[:index]:
                refuse(f"groups[{index}]", group, "each label only once")

    def _earlier(self, where: str, difference: object) -> Collection:
        if not isinstance(difference, Mapping) or not difference:
            refuse(where, difference, "a mapping of what was different, such as {epsilon: 2.0}")
        for key in difference:
            if key not in PREVIOUS_MAY_CHANGE:
                allowed = ", ".join(PREVIOUS_MAY_CHANGE) + checks.hint(key, PREVIOUS_MAY_CHANGE)
                raise CollectionError(f"{where}.{key}: cannot differ in one window, allowed: {allowed}")
        inherited: dict[str, Any] = {}
        if difference.get("mechanism", self.mechanism) != self.mechanism:
            inherited = dict.fromkeys(set(MECHANISM_OPTIONS) - {"bins", "branching"}, None)
        try:
            return replace(self, **{**inherited, **difference, "previous": (), "groups": ()})
        except CollectionError as error:
            raise CollectionError(f"{where}: {str(error).partition(': ')[2]}") from None

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def _method(self) -> Method:
        chosen = {name: getattr(self, name) for name in METHOD_OPTIONS if getattr(self, name) is not None}
        return Method(self.estimator, float(self.epsilon), self.buckets, **chosen)

    @property
    def _no_reports(self) -> Solution:
        if self.mechanism in MEAN_ONLY:
            return Solution(mean=(0.5, math.inf))
        return Solution(probabilities=np.full(self.buckets, 1 / self.buckets))

    def _window(self, tally: Tallies) -> dict[str, IntArray]:
        """The checked tallies of one window by revision, in the order of `revisions`, without the empty ones."""
        given = tally if isinstance(tally, Mapping) else {self.revision: tally}
        unknown = set(given) - set(self.revisions)
        if unknown:
            raise ValueError(f"tally of an unknown revision {sorted(unknown)[0]!r}, known: {', '.join(self.revisions)}")
        checked = {}
        for revision, collection in self.revisions.items():
            if revision in given:
                counts = arrays.counts("tally", given[revision], collection.randomizer.tally_length)
                if collection.randomizer.reports(counts) > 0:
                    checked[revision] = counts
        return checked

    def _read(self, window: Mapping[str, IntArray], solution: Solution) -> Estimate:
        reports = sum(self.revisions[revision].randomizer.reports(counts) for revision, counts in window.items())
        status: Status = "no_reports" if reports == 0 else "too_few" if reports < self.minimum_reports else "ok"
        return Estimate(self.domain, self.buckets, reports, status, solution)


FIELDS = tuple(entry.name for entry in fields(Collection))
