"""Results as typed values, each with its way to an Avro record and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from hushgram.arrays import FloatArray, IntArray

Reason = Literal[
    "unreadable",
    "undecodable",
    "unknown_schema",
    "unknown_collection",
    "unknown_revision",
    "cell_out_of_range",
    "ragged_cells",
    "unknown_group",
    "from_the_future",
    "too_old",
    "duplicate",
    "too_large",
    "deleted_unread",
]
REASONS: tuple[str, ...] = get_args(Reason)
PAYLOAD_LIMIT = 4096
EVENT_FIELDS = ("first_event", "last_event", "uploads")
LATER_FIELDS = ("heavy_low_end", "heavy_high_end", "time_zone")
"""What snapshots have gained since version 1, beside the fields of events."""


@dataclass(frozen=True)
class Pane:
    """Which of several answers about one window this is. Of two, the better has the higher generation, then more
    reports, then the higher index: tallies only grow."""

    generation: int = 0
    index: int = 0
    timing: str = "on_time"


@dataclass(frozen=True)
class Key:
    """A collection's window, of one group or of all together; times in milliseconds since 1970."""

    collection: str
    group: str | None
    window_start: int
    window_end: int


@dataclass(frozen=True)
class Events:
    """When the reports of a window were measured: the earliest and the latest event time, in milliseconds since 1970,
    and how many uploads they came in; all reports of an upload have one time."""

    first: int
    last: int
    uploads: int

    def __or__(self, other: Events) -> Events:
        """Of both together."""
        return Events(min(self.first, other.first), max(self.last, other.last), self.uploads + other.uploads)


@dataclass(frozen=True, eq=False)
class Histogram:
    """The tallies of a window by revision: (reports, counts). Files of version 1 tell nothing of events."""

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
            **_key_to_avro(self.key),
            **_pane_to_avro(self.pane),
            "tallies": tallies,
            **_events_to_avro(self.events),
        }

    @classmethod
    def from_avro(cls, record: Mapping[str, Any]) -> Histogram:
        tallies = {
            _hex(tally["revision"]): (tally["reports"], np.array(tally["counts"], dtype=np.int64))
            for tally in record["tallies"]
        }
        return cls(_key_from_avro(record), _pane_from_avro(record), tallies, _events_from_avro(record))


@dataclass(frozen=True)
class Quantile:
    share: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What a window's reports say about the values behind them; None is what the mechanism cannot know.

    `heavy_low_end` and `heavy_high_end` are None unless an end of the domain holds implausibly many values.
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

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.pane.generation, self.reports, self.pane.index

    def to_avro(self) -> dict[str, Any]:
        own = {name: _plain(getattr(self, name)) for name in _own_fields(Snapshot)}
        return {**_key_to_avro(self.key), **_pane_to_avro(self.pane), **own, **_events_to_avro(self.events)}

    @classmethod
    def from_avro(cls, record: Mapping[str, Any]) -> Snapshot:
        own: dict[str, Any] = {
            name: record.get(name) if name in LATER_FIELDS else record[name] for name in _own_fields(Snapshot)
        }
        for name in ("probabilities", "cdf_points", "cdf_low", "cdf_high"):
            own[name] = None if own[name] is None else np.array(own[name], dtype=np.float64)
        if own["quantiles"] is not None:
            own["quantiles"] = tuple(Quantile(**quantile) for quantile in own["quantiles"])
        own["revisions"] = tuple(own["revisions"])
        events = _events_from_avro(record)
        return cls(key=_key_from_avro(record), pane=_pane_from_avro(record), events=events, **own)


@dataclass(frozen=True)
class DeadLetter:
    """Something that could not be counted. `reports` is how many it stands for, where that can be known."""

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
        return cls(**{**own, "received_at": _milliseconds(own["received_at"]), "payload": payload})


def _own_fields(record: type) -> list[str]:
    return [field.name for field in fields(record) if field.name not in ("key", "pane", "events")]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [vars(part) if isinstance(part, Quantile) else part for part in value]
    return value


def _key_to_avro(key: Key) -> dict[str, Any]:
    return vars(key).copy()


def _key_from_avro(record: Mapping[str, Any]) -> Key:
    times = (_milliseconds(record[name]) for name in ("window_start", "window_end"))
    return Key(record["collection"], record["group"], *times)


def _pane_to_avro(pane: Pane) -> dict[str, Any]:
    return {"generation": pane.generation, "pane_index": pane.index, "pane_timing": pane.timing}


def _pane_from_avro(record: Mapping[str, Any]) -> Pane:
    return Pane(record["generation"], record["pane_index"], record["pane_timing"])


def _events_to_avro(events: Events | None) -> dict[str, Any]:
    told = (None, None, None) if events is None else (events.first, events.last, events.uploads)
    return dict(zip(EVENT_FIELDS, told, strict=True))


def _events_from_avro(record: Mapping[str, Any]) -> Events | None:
    """None where a field is missing, as in version 1, or null."""
    first, last, uploads = (record.get(name) for name in EVENT_FIELDS)
    if first is None or last is None or uploads is None:
        return None
    return Events(_milliseconds(first), _milliseconds(last), uploads)


def _hex(value: bytes | str) -> str:
    """JSON has no bytes: in its lines they are hexadecimal already."""
    return value if isinstance(value, str) else value.hex()


def _milliseconds(value: Any) -> int:
    """fastavro makes dates of timestamps; some files, and some dates, are numbers."""
    return value if isinstance(value, int) else math.floor(value.timestamp() * 1000 + 0.5)
