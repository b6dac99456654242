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

from hushgram import arrays, checks, validation
from hushgram.arrays import FloatArray, IntArray
from hushgram.checks import CollectionError, refuse
from hushgram.domain import Domain
from hushgram.draws import Law, os_below, simulation_generator
from hushgram.estimate import Estimate, Status
from hushgram.estimators import ESTIMATORS, Method, Solution
from hushgram.mechanisms import MECHANISMS, Mechanism, Options
from hushgram.mechanisms.base import chunks
from hushgram.validation import MEAN_ONLY, MECHANISM_OPTIONS, METHOD_OPTIONS
from hushgram.windows import Windows

PREVIOUS_MAY_CHANGE = ("epsilon", "mechanism", "bandwidth", "output_buckets", "wave_ratio", "symbols", "level_decay")

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
    prefers coarse levels). `stopping`, `smoothing`, `solver` and `level_weights` say how the estimator works, unseen by
    devices; `smoothing: "adaptive"` lets the reports say how strongly they are smoothed, which takes longer.
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
    smoothing: str | None = None
    solver: str | None = None
    level_weights: str | None = None
    windows: Windows = field(default_factory=Windows)
    groups: tuple[str, ...] = ()
    minimum_reports: int = 1000
    previous: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        checks.label("name", self.name)
        try:
            # Plain values, so that equal parameters are equal, and have equal fingerprints.
            for name, value in validation.checked({name: getattr(self, name) for name in FIELDS}).items():
                object.__setattr__(self, name, value)
            # Whether the parameters are possible together is for the mechanisms to say.
            self.revisions  # noqa: B018
        except CollectionError as error:
            raise CollectionError(f"collection {self.name!r}: {error}") from None
        except ValueError as error:
            raise CollectionError(f"collection {self.name!r}: {self.mechanism}: {error}") from None

    def __hash__(self) -> int:
        return hash((self.name, self.revision))

    # Device and simulation -------------------------------------------------------------------------------------------

    def report(self, value: float) -> int:
        """The cell that a device sends for its value: exact sampling from the operating system's generator, no seed.

        Values outside the domain count as its nearest end.
        """
        if not np.isscalar(value):
            raise ValueError(f"value must be a number, got {checks.shown(value)}")
        position = self.randomizer.locate(self.domain.to_unit(arrays.finite_numbers("value", value)))[0]
        return self.randomizer.perturb(int(position), os_below)

    def simulate(self, values: npt.ArrayLike, seed: int | np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """The cells of as many devices as there are values: seeded, for tests, demonstrations and planning only.

        They come in the narrowest unsigned type that holds the alphabet.

        With a number as `seed`, equal calls give equal cells, and the noise is independent of all else: of values that
        any generator drew with the same seed, of other collections, and of other values. For its stream is keyed by the
        collection's name and revision and by a digest of the values (`draws.simulation_generator`), so that groups may
        share a seed, unless their values are equal one by one. A `Generator` is drawn from as it is, and advances:
        values may come from the same one, and generators of equal state give equal noise to any values.
        """
        checked = arrays.finite_numbers("values", values)
        rng = generator_for(self, checked, seed, "noise")
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
        return Domain(self.low, self.high, self.scale, self.integer, self.unit)  # type: ignore[arg-type]

    @cached_property
    def randomizer(self) -> Mechanism:
        """The mechanism itself, with both halves and its probabilities."""
        options = {name: getattr(self, name) for name in MECHANISM_OPTIONS}
        return MECHANISMS[self.mechanism].build(Options(self.buckets, self.epsilon, **options))

    @property
    def law(self) -> Law | tuple[Law, ...]:
        """The integers P, Q and T behind the probabilities; a tree has one law for each level, coarse first."""
        return self.randomizer.laws if self.mechanism == "hierarchy" else self.randomizer.laws[0]

    @cached_property
    def revision(self) -> str:
        """16 hexadecimal digits that change whenever the law of the reports does."""
        canonical = json.dumps(
            {
                "low": self.low,
                "high": self.high,
                "scale": self.scale,
                "integer": self.integer,
                "epsilon": self.epsilon,
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

    def _earlier(self, where: str, difference: object) -> Collection:
        if not isinstance(difference, Mapping) or not difference:
            refuse(where, difference, "a mapping of what was different, such as {epsilon: 2.0}")
        for key in difference:
            if key not in PREVIOUS_MAY_CHANGE:
                allowed = ", ".join(PREVIOUS_MAY_CHANGE) + checks.hint(key, PREVIOUS_MAY_CHANGE)
                raise CollectionError(f"{where}.{checks.key(key)}: cannot differ in one window, allowed: {allowed}")
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
        return Method(self.estimator, self.epsilon, self.buckets, **chosen)

    @property
    def _no_reports(self) -> Solution:
        if self.mechanism in MEAN_ONLY:
            return Solution(mean=(0.5, math.inf))
        return Solution(probabilities=np.full(self.buckets, 1 / self.buckets))

    def _window(self, tally: Tallies) -> dict[str, IntArray]:
        """The checked tallies of one window by revision, in the order of `revisions`, without the empty ones."""
        given = tally if isinstance(tally, Mapping) else {self.revision: tally}
        for revision in given:
            if revision not in self.revisions:
                from hushgram.revisions import explain_unknown  # only here: it makes collections itself

                explained = explain_unknown(self, str(revision))
                raise ValueError(f"tally of an unknown revision {checks.shown(revision)}: {explained}")
        checked = {}
        for revision, collection in self.revisions.items():
            if revision in given:
                counts = collection.randomizer.check_tally(given[revision])
                if collection.randomizer.reports(counts) > 0:
                    checked[revision] = counts
        return checked

    def _read(self, window: Mapping[str, IntArray], solution: Solution) -> Estimate:
        reports = sum(self.revisions[revision].randomizer.reports(counts) for revision, counts in window.items())
        status: Status = "no_reports" if reports == 0 else "too_few" if reports < self.minimum_reports else "ok"
        return Estimate(self.domain, self.buckets, reports, status, solution)


def generator_for(
    collection: Collection, values: FloatArray, seed: int | np.random.Generator, purpose: str
) -> np.random.Generator:
    """A generator as it is; of a number, the stream that belongs to this collection, these values and this purpose."""
    if isinstance(seed, np.random.Generator):
        return seed
    digest = hashlib.sha256()
    for part in chunks(values.size):  # so that no copy of all values is made
        digest.update((values[part] + 0.0).astype("<f8").tobytes())  # + 0.0: zero has no sign
    return simulation_generator(seed, purpose, collection.name, collection.revision, digest.digest())


FIELDS = tuple(entry.name for entry in fields(Collection))
