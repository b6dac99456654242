"""Which answer a record is: of which window, in which pane, from reports of which times; with their way to Avro."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from hushgram._validation import ALL_GROUPS

EVENT_FIELDS = ("first_event", "last_event", "uploads")


@dataclass(frozen=True)
class Pane:
    """Which of several answers about one window this is. Of two, the better has the higher generation, then more
    reports, then the higher index: tallies only grow.

    >>> Pane(index=2, timing="late")
    Pane(generation=0, index=2, timing='late')
    """

    generation: int = 0
    index: int = 0
    timing: str = "on_time"


@dataclass(frozen=True)
class Series:
    """A collection, of one group or of all together."""

    collection: str
    group: str | None


@dataclass(frozen=True)
class Key:
    """A collection's window, of one group or of all together; times in milliseconds since 1970.

    >>> Key("commute", None, 1_767_225_600_000, 1_767_229_200_000).window_end
    1767229200000
    """

    collection: str
    group: str | None
    window_start: int
    window_end: int

    @property
    def group_name(self) -> str:
        """The group; `(all)`, which no group may be called, for all together."""
        return ALL_GROUPS if self.group is None else self.group

    @property
    def text(self) -> str:
        """The key as one text, the same in every sink; no two keys have the same.

        >>> Key("commute", None, 1_767_225_600_000, 1_767_229_200_000).text
        'commute/(all)/2026-01-01T00:00:00Z/2026-01-01T01:00:00Z'
        >>> Key("commute", "a/b", 1_767_225_600_000, 1_767_229_200_000).text
        'commute/a%2Fb/2026-01-01T00:00:00Z/2026-01-01T01:00:00Z'
        """
        group = ALL_GROUPS if self.group is None else quote(self.group, safe="")
        times = (f"{iso_time(time)}Z" for time in (self.window_start, self.window_end))
        return "/".join((quote(self.collection, safe=""), group, *times))


def shared_reports(one: Key, other: Key) -> str | None:
    """Why two results of one run have reports in common, so that they cannot be compared; None if they have none.

    >>> total, group = Key("commute", None, 0, 3_600_000), Key("commute", "DE", 0, 3_600_000)
    >>> shared_reports(total, group)
    "the reports of 'DE' are among all: compare it with the other groups instead"
    >>> shared_reports(group, Key("commute", "FR", 0, 3_600_000))
    """
    apart = one.window_end <= other.window_start or other.window_end <= one.window_start
    if one.collection != other.collection or apart:
        return None
    if one.group == other.group:
        return "both are one window" if one == other else "their windows overlap, and have reports in common"
    groups = [group for group in (one.group, other.group) if group is not None]
    return (
        None
        if len(groups) == 2
        else f"the reports of {groups[0]!r} are among all: compare it with the other groups instead"
    )


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


def key_to_avro(key: Key) -> dict[str, Any]:
    return {**vars(key), "key": key.text}


def key_from_avro(record: Mapping[str, Any]) -> Key:
    times = (milliseconds(record[name]) for name in ("window_start", "window_end"))
    return Key(record["collection"], record["group"], *times)


def pane_to_avro(pane: Pane) -> dict[str, Any]:
    return {"generation": pane.generation, "pane_index": pane.index, "pane_timing": pane.timing}


def pane_from_avro(record: Mapping[str, Any]) -> Pane:
    return Pane(record["generation"], record["pane_index"], record["pane_timing"])


def events_to_avro(events: Events | None) -> dict[str, Any]:
    values = (None, None, None) if events is None else (events.first, events.last, events.uploads)
    return dict(zip(EVENT_FIELDS, values, strict=True))


def events_from_avro(record: Mapping[str, Any]) -> Events | None:
    """None where a field is missing, as in version 1, or null."""
    first, last, uploads = (record.get(name) for name in EVENT_FIELDS)
    if first is None or last is None or uploads is None:
        return None
    return Events(milliseconds(first), milliseconds(last), uploads)


def iso_time(milliseconds: int) -> str:
    """A time in ISO 8601, also where it lies beyond what `datetime` can hold.

    >>> iso_time(1_767_225_600_000), iso_time(1_767_225_600_001)
    ('2026-01-01T00:00:00', '2026-01-01T00:00:00.001')
    """
    return str(np.datetime64(milliseconds, "ms")).removesuffix(".000")


def milliseconds(value: Any) -> int:
    """fastavro makes dates of timestamps; some files, and some dates, are numbers."""
    return value if isinstance(value, int) else math.floor(value.timestamp() * 1000 + 0.5)
