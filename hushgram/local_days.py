"""Days on the clocks of a time zone: where each begins, and which day a moment lies in.

A zone's offset from UTC is constant between its transitions, so both questions are a search among the transitions and
one addition, for whole arrays at once. Days are numbered by their date: day 0 is 1970-01-01.
"""

from __future__ import annotations

import io
import struct
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path

import numpy as np

from hushgram._arrays import IntArray
from hushgram._validation import refuse, suggest

DAY_MS = 86_400_000
FOREVER_MS = 1 << 62
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_SECOND = (datetime(1, 1, 3, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
"""Two days into the year 1: a date in every zone."""
LAST_SECOND = (datetime(2200, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
"""A zone's yearly rule is followed until here; after it the offset stays as it is."""
RULE_STEP = 14 * 86_400
"""Seconds between moments whose offsets are compared to find a yearly rule's transitions, of which a year has two."""


@dataclass(frozen=True, eq=False)
class LocalDays:
    """The days of one zone; times are milliseconds since 1970.

    `offsets[i]`, local time minus UTC, holds from `starts[i]` until the next start. A day begins at the first moment
    whose date is that day or a later one, so days leave no gap and never overlap. Where clocks skip midnight, the day
    begins when they jump; where they show midnight twice, it begins at the first of the two; and a date that the zone
    skipped is a day without length.
    """

    starts: IntArray
    offsets: IntArray

    @cached_property
    def _reached(self) -> IntArray:
        """The latest local time that clocks have come to by the end of each offset."""
        return np.maximum.accumulate(np.append(self.starts[1:], FOREVER_MS) + self.offsets)

    @cached_property
    def _begun(self) -> IntArray:
        """The latest day that has begun before each offset."""
        return np.append(-FOREVER_MS, self._reached[:-1] - 1) // DAY_MS

    def numbers(self, times: IntArray) -> IntArray:
        """The day that each time lies in."""
        place = np.searchsorted(self.starts, times, side="right") - 1
        # Clocks set back across midnight show the previous day once more, but the new day has begun.
        return np.maximum((times + self.offsets[place]) // DAY_MS, self._begun[place])

    def begins(self, days: IntArray) -> IntArray:
        """When each day begins."""
        midnights = days * DAY_MS
        place = np.searchsorted(self._reached, midnights, side="right")
        return np.maximum(self.starts[place], midnights - self.offsets[place])


def check_time_zone(name: str, value: object) -> str:
    """A zone of the IANA database; `name` is what a message calls the setting."""
    known = _known_zones()
    if not isinstance(value, str) or value not in known:
        refuse(name, value, "a name of the IANA time zone database, such as Europe/Berlin" + suggest(value, known))
    return value


@lru_cache(maxsize=1)
def _known_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


@lru_cache(maxsize=64)
def local_days(time_zone: str) -> LocalDays:
    """The days of a zone, by this machine's database, or else by the tzdata package."""
    data = _zone_file(time_zone)
    zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(data), time_zone)
    listed = [second for second in _listed_transitions(data) if FIRST_SECOND < second < LAST_SECOND]
    rule = data.rpartition(b"\n")[0].rpartition(b"\n")[2]  # the last line, such as CET-1CEST,M3.5.0,M10.5.0/3
    ruled = _ruled_transitions(zone, max(listed, default=FIRST_SECOND)) if b"," in rule else ()
    seconds = [FIRST_SECOND, *listed, *ruled]
    offsets = np.array([_offset(zone, second) for second in seconds], dtype=np.int64)
    changes = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 1))
    starts = np.array(seconds, dtype=np.int64)[changes] * 1000
    starts[0] = -FOREVER_MS
    return LocalDays(starts, offsets[changes] * 1000)


def _zone_file(time_zone: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        path = Path(folder, time_zone)
        if path.is_file():
            return path.read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", *time_zone.split("/")).read_bytes()


def _listed_transitions(data: bytes) -> list[int]:
    """The transition times that a TZif file lists, in seconds (RFC 9636, section 3)."""
    at, width = 0, ">i4"
    *counts, times, types, characters = struct.unpack_from(">6I", data, 20)
    if data[4:5] >= b"2":  # the same again, in numbers of eight bytes, stands behind the first block
        universal, standard, leaps = counts
        at, width = 44 + 5 * times + 6 * types + characters + 8 * leaps + standard + universal, ">i8"
        (times,) = struct.unpack_from(">I", data, at + 32)
    return np.frombuffer(data, width, times, at + 44).tolist()


def _ruled_transitions(zone: zoneinfo.ZoneInfo, since: int) -> Iterator[int]:
    """The seconds after `since` at which the yearly rule with which a zone's file ends changes the offset."""
    before = _offset(zone, since)
    for end in range(since + RULE_STEP, LAST_SECOND, RULE_STEP):
        after = _offset(zone, end)
        if after != before:
            low, high = end - RULE_STEP, end  # the transition lies after the one, and not after the other
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
            yield high
        before = after


def _offset(zone: zoneinfo.ZoneInfo, second: int) -> int:
    offset = (EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
