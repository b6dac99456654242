"""A collection: the question to the devices, how they report in private, and how reports become an estimate."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hushgram import _arrays, _validation
from hushgram._arrays import IntArray
from hushgram._validation import (
    GREATEST_EPSILON,
    LEAST_EPSILON,
    MOST_BUCKETS,
    CollectionError,
    check_groups,
    check_label,
    check_number,
    check_whole,
    refuse,
)
from hushgram.any_shape.check import check_intervals
from hushgram.device import Device, check_device
from hushgram.distribution import Status
from hushgram.domain import Domain, check_domain
from hushgram.estimate import Estimate
from hushgram.estimators import ESTIMATORS, WARM_ESTIMATORS, Method, Solution, Window, check_method
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.intervals import Assumption, IntervalKind
from hushgram.mechanisms import (
    Mechanism,
    RandomizedResponse,
    SquareWave,
    make_mechanism,
    mechanism_options,
    options_of,
)
from hushgram.mechanisms.base import Transition, chunks
from hushgram.previous import check_previous, earlier_collection
from hushgram.quantile_shares import check_quantiles, with_standard
from hushgram.sampling import collection_generator, os_below
from hushgram.windows import Windows

HOURLY = Windows()

Tallies = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""The tally of one window: of the current revision alone, or of several by revision."""


@dataclass(frozen=True, init=False, repr=False)
class Collection:
    """One number, collected from many devices under local differential privacy.

    >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
    >>> cells = commute.simulate([37.5] * 5000, seed=7)
    >>> estimate = commute.estimate(commute.tally(cells))
    >>> low, high = estimate.interval("mean")
    >>> low < 37.5 < high
    True

    The mechanism is a name, with its options beside it, or a value of `hushgram.mechanisms`. Options of the mechanism
    have good defaults; options of the estimator do not concern devices.

    >>> from hushgram.mechanisms import SquareWave
    >>> wide = Collection(name="commute", low=0, high=180, epsilon=1.0, mechanism="square_wave", bandwidth=0.3)
    >>> wide == Collection(name="commute", low=0, high=180, epsilon=1.0, mechanism=SquareWave(bandwidth=0.3))
    True
    """

    name: str
    """The collection's name, as reports carry it."""
    low: float
    """The least value; what lies below counts as this."""
    high: float
    """The greatest value; what lies above counts as this."""
    epsilon: float
    """The promise of privacy: no value makes a report more than e^ε times as likely as another does."""
    buckets: int
    """The equal parts of the domain that an estimate gives a probability to."""
    unit: str
    """What the numbers are, for people."""
    scale: str
    """`log` gives each factor of ten the same room; `low` must then be above zero."""
    integer: bool
    """Whether values are whole numbers. Each bucket then holds equally many of them."""
    mechanism: Mechanism
    """How a device perturbs its value."""
    estimator: str
    """How the distribution is computed from a tally. Left out, it is the first that the mechanism has."""
    stopping: str | None
    """`paper` stops by the paper's rule, `converged` at the fixed point. Left out, it is `paper`."""
    smoothing: str | None
    """`adaptive` lets the reports say how strongly they are smoothed, which takes longer. Left out, it is `full`."""
    solver: str | None
    """`exact` solves the tree directly, `admm` iterates as the paper does. Left out, it is `exact`."""
    level_weights: str | None
    """Whether levels of the tree weigh by their precision or alike. Left out, it is `variance`."""
    intervals: IntervalKind
    """`smooth` intervals hold for smooth distributions, `any_shape` ones for all, spiky ones too; they are wider."""
    quantiles: tuple[float, ...]
    """Shares of the values whose quantiles results hold beside those of 5 %, 10 %, … 95 %, which they always hold."""
    windows: Windows
    """The spans of event time that reports are counted in."""
    groups: tuple[str, ...]
    """The public labels that a report may carry; each gets estimates of its own."""
    minimum_reports: int
    """With fewer reports, the status of an estimate is `too_few`."""
    previous: tuple[Mapping[str, Any], ...]
    """Earlier parameters, as differences, that clients in the field may still use."""
    device: Device | None
    """The most that one device may spend, as it counts itself. Left out, devices do not count."""

    def __init__(
        self,
        *,
        name: str,
        low: float,
        high: float,
        epsilon: float,
        buckets: int = 1024,
        unit: str = "",
        scale: str = "linear",
        integer: bool = False,
        mechanism: str | Mechanism = "square_wave",
        estimator: str = "",
        stopping: str | None = None,
        smoothing: str | None = None,
        solver: str | None = None,
        level_weights: str | None = None,
        intervals: str = "smooth",
        quantiles: Sequence[float] = (),
        windows: Windows = HOURLY,
        groups: Sequence[str] = (),
        minimum_reports: int = 1000,
        previous: Sequence[Mapping[str, Any]] = (),
        device: Device | None = None,
        **options: float | Sequence[float] | None,
    ) -> None:
        for option in set(options) - set(mechanism_options()):
            close = _validation.suggest(option, [*mechanism_options(), *FIELDS])
            raise TypeError(f"Collection() got an unexpected keyword argument {option!r}{close}")
        methods = {"stopping": stopping, "smoothing": smoothing, "solver": solver, "level_weights": level_weights}
        self._set(name=check_label("name", name))
        try:
            # Stored in plain form, so that equal parameters compare equal and have equal revisions.
            self._set(buckets=check_whole("buckets", buckets, 2, MOST_BUCKETS))
            domain = check_domain(low, high, scale, integer, unit, self.buckets)
            self._set(low=domain.low, high=domain.high, scale=domain.scale, integer=domain.integer, unit=domain.unit)
            self._set(epsilon=check_number("epsilon", epsilon, LEAST_EPSILON, GREATEST_EPSILON))
            chosen = make_mechanism(mechanism, options, self.buckets)
            self._set(mechanism=chosen.for_collection(domain, self.buckets, self.epsilon))
            vars(self.mechanism)["in_collection"] = True
            self._set(estimator=check_method(estimator, self.mechanism, methods), **methods)
            self._set(intervals=check_intervals(intervals, self.mechanism))
            self._set(quantiles=check_quantiles(quantiles))
            if self.quantiles and self.mechanism.mean_only:
                refuse("quantiles", quantiles, f"none with {self.mechanism.name}, which estimates a mean only")
            self._set(minimum_reports=check_whole("minimum_reports", minimum_reports, 0, 2**53))
            if not isinstance(windows, Windows):
                refuse("windows", windows, "a Windows value")
            self._set(windows=windows, groups=check_groups(groups), previous=check_previous(previous))
            self._set(device=check_device(device, self.epsilon))
            # Laws are computed now, so that an impossible combination is refused here.
            self.revisions  # noqa: B018
        except CollectionError as error:
            raise CollectionError(f"collection {self.name!r}: {error}") from None
        except ValueError as error:
            raise CollectionError(f"collection {self.name!r}: {self.mechanism.name}: {error}") from None

    def _set(self, **values: object) -> None:
        vars(self).update(values)

    def __hash__(self) -> int:
        return hash((self.name, self.revision))

    def __repr__(self) -> str:
        return f"Collection({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    def to_dict(self) -> dict[str, Any]:
        """The parameters that differ from their defaults; `Collection(**parameters)` makes an equal collection."""
        defaults = {name: parameter.default for name, parameter in inspect.signature(Collection).parameters.items()}
        values = {name: getattr(self, name) for name in FIELDS}
        values["mechanism"], defaults["estimator"] = self.mechanism.name, self.mechanism.estimators[0]
        for name, option in options_of(type(self.mechanism)).items():
            values[name], defaults[name] = getattr(self.mechanism, name), option.default
        return {name: value for name, value in values.items() if value != defaults[name]}

    # Device and simulation -------------------------------------------------------------------------------------------

    def report(self, value: float) -> int:
        """The cell that a device sends for its value, sampled exactly from the operating system's generator.

        Values outside the domain count as its nearest end.
        """
        number = _arrays.check_finite_number("value", value)
        position = self.mechanism.locate(self.domain.to_unit(np.array([number])))[0]
        return self.mechanism.perturb(int(position), os_below)

    def simulate(self, values: npt.ArrayLike, seed: int | np.random.Generator) -> npt.NDArray[np.unsignedinteger[Any]]:
        """The cells of simulated devices, one for each value: seeded, for tests, demonstrations and planning only.

        Cells have the narrowest unsigned type that holds them. With a number as `seed`, equal calls give equal cells,
        and the noise is independent of values that any generator drew with the same seed, of other collections and of
        other values: its stream is keyed by the collection's name and revision and by a digest of the values. So groups
        may share a seed, unless their values are equal one by one. A `Generator` is used as it is, and advances.
        """
        checked = _arrays.check_finite_numbers("values", values)
        rng = collection_generator(seed, "noise", self.name, self.revision, checked)
        cells = np.empty(checked.shape, dtype=np.min_scalar_type(self.mechanism.cells - 1))
        for part in chunks(checked.size):
            positions = self.mechanism.locate(self.domain.to_unit(checked[part]))
            cells[part] = self.mechanism.perturb_many(positions, rng)
        return cells

    def manifest(self) -> dict[str, Any]:
        """What a device needs to report in any language, as plain values for JSON: see docs/clients.md.

        >>> Collection(name="commute", low=0, high=180, epsilon=1.0).manifest()["mechanism"]
        'square_wave'
        """
        from hushgram.manifest import manifest  # only here: neither this device nor a server needs it

        return manifest(self)

    # Server ----------------------------------------------------------------------------------------------------------

    @property
    def assumption(self) -> Assumption:
        """What intervals assume: what is asked for by `intervals`, but for mechanisms whose counts are not smoothed.

        >>> Collection(name="commute", low=0, high=180, epsilon=1.0, mechanism="hierarchy").assumption
        'unsmoothed'
        """
        smoothed = isinstance(self.mechanism, Transition)
        return "unsmoothed" if self.intervals == "smooth" and not smoothed else self.intervals

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares whose quantiles results hold: 5 %, 10 %, … 95 %, and those of `quantiles`.

        >>> Collection(name="commute", low=0, high=180, epsilon=1.0, quantiles=[0.5, 0.999]).shares[-2:]
        (0.95, 0.999)
        """
        return with_standard(self.quantiles)

    def tally(self, cells: npt.ArrayLike) -> IntArray:
        """How often each cell was reported, as int64: `tally(a) + tally(b)` is the tally of a and b together."""
        return self.mechanism.tally(cells)

    def estimate(self, tally: Tallies, start: bytes | None = None) -> Estimate:
        """The distribution behind a tally, or behind the tallies of several revisions by their fingerprint.

        `start` is the `warm_start` of an earlier estimate of the same window, with fewer reports. The result then comes
        sooner, and may differ from that without it by a little that its intervals are far wider than.
        """
        return self.estimate_many([tally], [start])[0]

    def estimate_many(self, tallies: Sequence[Tallies], starts: Sequence[bytes | None] | None = None) -> list[Estimate]:
        """Estimates for many windows or groups at once; those with the same revisions are solved together.

        `starts` has a warm start, or None, for each of them.
        """
        windows = [self._window(tally) for tally in tallies]
        warm = [None] * len(windows) if starts is None else starts
        if len(warm) != len(windows):
            raise ValueError(f"starts must be as many as tallies, got {len(warm)} and {len(windows)}")
        together: dict[tuple[str, ...], list[int]] = {}
        for index, window in enumerate(windows):
            together.setdefault(tuple(window), []).append(index)
        solutions: dict[int, Solution] = {}
        for revisions, members in together.items():
            if not revisions:
                solved = [self._no_reports] * len(members)
            else:
                mechanisms = [self.revisions[revision].mechanism for revision in revisions]
                problems = [list(zip(mechanisms, windows[member].values(), strict=True)) for member in members]
                solved = self._solve(problems, [warm[member] for member in members])
            solutions.update(zip(members, solved, strict=True))
        return [self._read(window, solutions[index]) for index, window in enumerate(windows)]

    @property
    def has_warm_starts(self) -> bool:
        """Whether the estimator can start from an earlier estimate of the same window."""
        return self.estimator in WARM_ESTIMATORS

    def _solve(self, problems: Sequence[Window], starts: Sequence[bytes | None]) -> list[Solution]:
        if self.has_warm_starts:
            return WARM_ESTIMATORS[self.estimator](problems, self._method, starts)
        return ESTIMATORS[self.estimator](problems, self._method)

    # Trust -----------------------------------------------------------------------------------------------------------

    def central_epsilon(self, reports: int, delta: float = 1e-8) -> float | None:
        """The ε towards readers who see only tallies of that many reports, or what follows from them.

        A tally does not tell which report is whose: one hides among the others, and ε towards its readers is less than
        the collection's own. It is a promise of (ε, δ): with a probability of `delta` at most it says nothing. Reports
        are those of this revision in one window and group, each from another device, and all but one's own have to be
        honest. An upper bound, by the privacy blanket; None for a mechanism that declares none.

        >>> commute = Collection(name="commute", low=0, high=180, epsilon=1.0)
        >>> [round(commute.central_epsilon(reports), 3) for reports in (100, 10_000, 1_000_000)]
        [0.554, 0.05, 0.004]
        """
        from hushgram import central_epsilon  # only here: devices need none of it

        counted, failing = central_epsilon.check_reports(reports), central_epsilon.check_delta(delta)
        blanket = self.mechanism.blanket
        return (
            None if blanket is None else min(central_epsilon.central_epsilon(blanket, counted, failing), self.epsilon)
        )

    def lying_bound(self, share: float) -> float | None:
        """The most that a share of lying devices can move a point of the distribution function unnoticed.

        Unnoticed are lies with which the reports look like those of honest devices with other values; of other lies
        `fit_pvalue` tells. A liar then counts for 1/β people at most, β = w·(p - q) for a wave of w cells; of several
        widths the best counts. `Estimate.if_lying` bounds the same for the estimate at hand, and never by more. None
        but for square waves and randomized response, a wave of one cell.

        >>> commute = Collection(name="commute", low=0, high=180, epsilon=1.0)
        >>> round(commute.lying_bound(0.01), 4)
        0.0272
        """
        checked = _validation.check_share("share", share)
        if not isinstance(self.mechanism, (SquareWave, RandomizedResponse)):
            return None
        return min(1.0, checked / max(law.width * law.gap for law in self.mechanism.laws))

    # Definition ------------------------------------------------------------------------------------------------------

    @cached_property
    def domain(self) -> Domain:
        """The domain with its scale and its unit."""
        return Domain(self.low, self.high, self.scale, self.integer, self.unit)  # type: ignore[arg-type]

    @cached_property
    def revision(self) -> str:
        """A fingerprint of 16 hexadecimal digits, which changes whenever the law of the reports does."""
        canonical = json.dumps(
            {
                "low": self.low,
                "high": self.high,
                "scale": self.scale,
                "integer": self.integer,
                "epsilon": self.epsilon,
                "mechanism": self.mechanism.name,
                "parameters": self.mechanism.parameters(),
                "laws": [[law.P, law.Q, law.T] for law in self.mechanism.laws],
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
            earlier = earlier_collection(self, where, difference)
            if earlier.revision in known:
                raise CollectionError(f"{where}: got the same law as another revision, allowed: each only once")
            known[earlier.revision] = earlier
        return known

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def _method(self) -> Method:
        chosen = {name: getattr(self, name) for name in METHOD_OPTIONS if getattr(self, name) is not None}
        return Method(self.estimator, self.epsilon, self.buckets, **chosen)

    @property
    def _no_reports(self) -> Solution:
        if self.mechanism.mean_only:
            return Solution(mean=(0.5, math.inf))
        return Solution(probabilities=np.full(self.buckets, 1 / self.buckets))

    def _window(self, tally: Tallies) -> dict[str, IntArray]:
        """The checked tallies of one window by revision, in the order of `revisions`, without the empty ones."""
        tallies = tally if isinstance(tally, Mapping) else {self.revision: tally}
        for revision in tallies:
            if revision not in self.revisions:
                from hushgram.revisions import explain_unknown  # only here: it makes collections itself

                explained = explain_unknown(self, str(revision))
                raise ValueError(f"tally of an unknown revision {_validation.describe(revision)}: {explained}")
        checked = {}
        for revision, collection in self.revisions.items():
            if revision in tallies:
                counts = collection.mechanism.check_tally(tallies[revision])
                if collection.mechanism.reports(counts) > 0:
                    checked[revision] = counts
        return checked

    def _read(self, window: Mapping[str, IntArray], solution: Solution) -> Estimate:
        reports = sum(self.revisions[revision].mechanism.reports(counts) for revision, counts in window.items())
        status: Status = "no_reports" if reports == 0 else "too_few" if reports < self.minimum_reports else "ok"
        tallies = tuple((self.revisions[revision].mechanism, counts) for revision, counts in window.items())
        return Estimate(self.domain, self.buckets, reports, status, solution, tallies, self.assumption)


FIELDS = tuple(entry.name for entry in fields(Collection))
