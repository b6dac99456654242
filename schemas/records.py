"""Results as typed values, each with its way to an Avro record and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hushgram._arrays import FloatArray, IntArray, check_real_numbers, make_read_only
from hushgram.distribution import Distribution
from hushgram.domain import Domain
from hushgram.intervals import Band, DensityBand, Interval, NotEstimableError, check_level, check_shares
from hushgram.quantile_shares import SAME_SHARE
from hushgram.schemas.window_key import (
    Events,
    Key,
    Pane,
    Series,
    events_from_avro,
    events_to_avro,
    iso_time,
    key_from_avro,
    key_to_avro,
    milliseconds,
    pane_from_avro,
    pane_to_avro,
    shared_reports,
)

if TYPE_CHECKING:
    from hushgram.comparison import Comparison

__all__ = ["REASONS", "DeadLetter", "Events", "Histogram", "Key", "Pane", "Quantile", "Reason", "Series", "Snapshot"]

Reason = Literal[
    "unreadable",
    "undecodable",
    "unknown_schema",
    "unknown_collection",
    "unknown_revision",
    "cell_out_of_range",
    "ragged_cells",
    "conflicting_ids",
    "ragged_ids",
    "unknown_group",
    "from_the_future",
    "too_old",
    "duplicate",
    "too_large",
    "deleted_unread",
]
REASONS: tuple[str, ...] = get_args(Reason)
PAYLOAD_LIMIT = 4096
LATER_FIELDS = (
    ("heavy_low_end", "heavy_high_end", "time_zone"),
    (
        *("density_edges", "density_low", "density_high", "intervals"),
        *("central_epsilon", "lying_bound", "epsilon", "mechanism"),
    ),
    ("key",),
)
"""What snapshots gained with version 2, beside the fields of events, and with versions 3 and 4."""
ARRAY_FIELDS = (
    *("probabilities", "cdf_points", "cdf_low", "cdf_high"),
    *("density_edges", "density_low", "density_high"),
)
LEVEL = 0.95
"""The confidence level of the intervals and of the band that snapshots hold."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """The tallies of a window by revision: (reports, counts). Files of version 1 have no events.

    >>> key = Key("commute", None, 1_767_225_600_000, 1_767_229_200_000)
    >>> Histogram(key, Pane(), {"bee7fcbcb7cce993": (6, np.array([1, 2, 3]))}).reports
    6
    """

    key: Key
    pane: Pane
    tallies: Mapping[str, tuple[int, IntArray]]
    events: Events | None = None

    @property
    def reports(self) -> int:
        return sum(reports for reports, _ in self.tallies.values())

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.pane.generation, self.reports, self.pane.index

    def to_avro(self) -> dict[str, Any]:
        tallies = [
            {"revision": bytes.fromhex(revision), "reports": reports, "counts": counts.tolist()}
            for revision, (reports, counts) in sorted(self.tallies.items())
        ]
        return {
            **key_to_avro(self.key),
            **pane_to_avro(self.pane),
            "tallies": tallies,
            **events_to_avro(self.events),
        }

    @classmethod
    def from_avro(cls, record: Mapping[str, Any]) -> Histogram:
        tallies = {
            _hex(tally["revision"]): (tally["reports"], np.array(tally["counts"], dtype=np.int64))
            for tally in record["tallies"]
        }
        return cls(key_from_avro(record), pane_from_avro(record), tallies, events_from_avro(record))


@dataclass(frozen=True)
class Quantile:
    share: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot(Distribution):
    """What a window's reports say about the values behind them; None is what the mechanism cannot know.

    It answers the questions that an `Estimate` does: all that follow from the probabilities, and of the intervals those
    that were stored, of the mean, the variance, and some quantiles, at 95 %. Intervals of `cdf` and `probability` come
    from the stored band, which holds the whole distribution function at once: they are wider than the estimate's own.
    `heavy_low_end` and `heavy_high_end` are None unless an end of the domain holds implausibly many values. How far it
    can be trusted is in `intervals`, what they assume; `central_epsilon`, towards readers who see tallies only, with a
    δ of 10⁻⁸; `lying_bound`, the most by which 1 % of lying devices can move the distribution function unnoticed; and
    the `epsilon` and `mechanism` of current devices. Snapshots of earlier versions hold None instead.

    >>> import hushgram.beam as hg
    >>> for snapshot in hg.read_snapshots("results"):  # doctest: +SKIP
    ...     print(snapshot.key.window_start, snapshot.quantile(0.5))
    """

    key: Key
    pane: Pane
    status: str
    reports: int
    revisions: tuple[str, ...]
    low: float
    high: float
    scale: str
    integer: bool
    unit: str
    probabilities: FloatArray | None
    mean: float
    mean_low: float
    mean_high: float
    variance: float | None
    variance_low: float | None
    variance_high: float | None
    quantiles: tuple[Quantile, ...] | None
    cdf_points: FloatArray | None
    cdf_low: FloatArray | None
    cdf_high: FloatArray | None
    iterations: int
    converged: bool
    fit: float | None
    estimator: str
    software: str
    events: Events | None = None
    heavy_low_end: float | None = None
    heavy_high_end: float | None = None
    time_zone: str | None = None
    density_edges: FloatArray | None = None
    density_low: FloatArray | None = None
    density_high: FloatArray | None = None
    intervals: str | None = None
    central_epsilon: float | None = None
    lying_bound: float | None = None
    epsilon: float | None = None
    mechanism: str | None = None

    def __post_init__(self) -> None:
        for name in ARRAY_FIELDS:
            array = getattr(self, name)
            object.__setattr__(self, name, None if array is None else make_read_only(array))

    @cached_property
    def domain(self) -> Domain:
        if self.scale not in ("linear", "log"):
            raise ValueError(f"scale: got {self.scale!r}, allowed: linear, log")
        return Domain(self.low, self.high, "log" if self.scale == "log" else "linear", self.integer, self.unit)

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.pane.generation, self.reports, self.pane.index

    @property
    def heavy_ends(self) -> tuple[float | None, float | None]:
        """The shares of values at or beyond the two ends of the domain, where they are implausibly large."""
        return self.heavy_low_end, self.heavy_high_end

    @property
    def fit_pvalue(self) -> float | None:
        """The p-value of the test that the reports obey the declared mechanism; None where there is no such test."""
        return self.fit

    def compare(self, other: Distribution, *, level: float = LEVEL, growing: bool | None = None) -> Comparison:
        """The differences between this snapshot and another of the same domain, from the intervals that were stored.

        There is no test, `pvalue` is None: snapshots hold no tallies. Two snapshots of one collection whose windows
        overlap must be of different groups, or they have reports in common. Unless you say otherwise, they are growing
        if one of them is of an early pane.
        """
        snapshots = [side for side in (self, other) if isinstance(side, Snapshot)]
        shared = shared_reports(*(side.key for side in snapshots)) if len(snapshots) == 2 else None
        if shared is not None:
            raise ValueError(f"cannot compare: {shared}")
        early = any(side.pane.timing == "early" for side in snapshots)
        return super().compare(other, level=level, growing=early if growing is None else growing)

    def band(self, level: float = LEVEL) -> Band:
        """The band that was stored: at 95 %, it holds the whole distribution function at once."""
        self._need_distribution()
        _check_stored_level(level)
        if self.cdf_points is None or self.cdf_low is None or self.cdf_high is None:
            raise NotEstimableError("this snapshot holds no band of its distribution function")
        return Band(self.cdf_points, self.cdf_low, self.cdf_high)

    def readable_bins(self, level: float = LEVEL) -> DensityBand:
        """The bounds of the density that were stored, in bins that are no finer than the reports can tell apart."""
        self._need_distribution()
        _check_stored_level(level)
        if self.density_edges is None or self.density_low is None or self.density_high is None:
            raise NotEstimableError("this snapshot holds no bounds of its density")
        return DensityBand(self.density_edges, self.density_low, self.density_high)

    def _bounds(self, of: str, at: tuple[Any, ...], level: float) -> Interval[Any]:
        _check_stored_level(level)
        if of == "mean":
            return Interval(self.mean_low, self.mean_high)
        self._need_distribution()
        if of == "quantile":
            return self._quantile_bounds(check_shares("q", at[0]))
        if of == "cdf":
            return Interval(*self._curve_bounds(self._units_up_to(check_real_numbers("x", at[0]))))
        if of == "probability":
            (low_start, high_start), (low_end, high_end) = map(self._curve_bounds, self._unit_ranges(*at))
            return Interval(np.clip(low_end - high_start, 0.0, 1.0), np.clip(high_end - low_start, 0.0, 1.0))
        if self.variance_low is None or self.variance_high is None:
            raise NotEstimableError("this snapshot holds no interval of the variance")
        bounds = np.array([self.variance_low, self.variance_high])
        return Interval(*(np.sqrt(bounds) if of == "std" else bounds))

    def _curve_bounds(self, units: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The band's bounds of the distribution function at points of the unit interval."""
        band = self.band()
        points = self.domain.edges_to_unit(band.points)
        low, high = (np.interp(units, points, bound) for bound in (band.low, band.high))
        # Everything lies below the domain's high end, and nothing below its low one, unless values may be just there.
        nothing_below = (units <= 0) & (self.intervals != "any_shape")
        return np.where(units >= 1, 1.0, low), np.where(nothing_below, 0.0, high)

    def _quantile_bounds(self, shares: FloatArray) -> Interval[Any]:
        stored = sorted(self.quantiles or (), key=lambda quantile: quantile.share)
        known = np.array([quantile.share for quantile in stored])
        near = np.abs(shares[..., None] - known) < SAME_SHARE
        if not near.any(axis=-1).all():
            unknown, names = shares[~near.any(axis=-1)].ravel()[0], ", ".join(f"{share:g}" for share in known) or "none"
            raise NotEstimableError(f"this snapshot holds no interval of the quantile {unknown:g}, only of: {names}")
        place = near.argmax(axis=-1)
        return Interval(*(np.array([getattr(quantile, end) for quantile in stored])[place] for end in ("low", "high")))

    def _summary(self) -> list[str]:
        key = self.key
        group = [] if key.group is None else [f"group={key.group!r}"]
        return [
            f"collection={key.collection!r}",
            *group,
            f"window_start={iso_time(key.window_start)}",
            *super()._summary(),
        ]

    def _notes(self) -> list[str]:
        key = self.key
        group = [] if key.group is None else [f"group {key.group}"]
        window = f"{iso_time(key.window_start)} to {iso_time(key.window_end)} UTC"
        return [key.collection, *group, window, *super()._notes()]

    def to_avro(self) -> dict[str, Any]:
        own = {name: _plain(getattr(self, name)) for name in _own_fields(Snapshot)}
        return {**key_to_avro(self.key), **pane_to_avro(self.pane), **own, **events_to_avro(self.events)}

    @classmethod
    def from_avro(cls, record: Mapping[str, Any]) -> Snapshot:
        later = set(chain.from_iterable(LATER_FIELDS))
        own: dict[str, Any] = {
            name: record.get(name) if name in later else record[name] for name in _own_fields(Snapshot)
        }
        for name in ARRAY_FIELDS:
            own[name] = None if own[name] is None else np.array(own[name], dtype=np.float64)
        if own["quantiles"] is not None:
            own["quantiles"] = tuple(Quantile(**quantile) for quantile in own["quantiles"])
        own["revisions"] = tuple(own["revisions"])
        events = events_from_avro(record)
        return cls(key=key_from_avro(record), pane=pane_from_avro(record), events=events, **own)


@dataclass(frozen=True)
class DeadLetter:
    """Something that could not be counted. `reports` is how many it stands for, where that can be known.

    >>> letter = DeadLetter("too_old", 3, "event time 2026-01-01 00:00:00 UTC", "reports[0]", 17, 1_767_312_000_000)
    >>> letter.reason in REASONS
    True
    """

    reason: Reason
    reports: int | None
    detail: str
    source: str
    position: int | None
    received_at: int
    payload: bytes = b""

    def to_avro(self) -> dict[str, Any]:
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "payload": self.payload[:PAYLOAD_LIMIT]}

    @classmethod
    def from_avro(cls, record: Mapping[str, Any]) -> DeadLetter:
        own = {field.name: record[field.name] for field in fields(cls)}
        payload = bytes.fromhex(_hex(own["payload"]))
        return cls(**{**own, "received_at": milliseconds(own["received_at"]), "payload": payload})


def _check_stored_level(level: float) -> None:
    if check_level(level) != LEVEL:
        raise NotEstimableError(f"a snapshot holds intervals at {LEVEL:.0%} only, not at {level:.6g}")


def _own_fields(record: type) -> list[str]:
    return [field.name for field in fields(record) if field.name not in ("key", "pane", "events")]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [vars(part) if isinstance(part, Quantile) else part for part in value]
    return value


def _hex(value: bytes | str) -> str:
    """JSON has no bytes: in its lines they are hexadecimal already."""
    return value if isinstance(value, str) else value.hex()
