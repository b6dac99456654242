"""The windows of a collection: how long they are, how often they begin, how late a report may come."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hushgram import _validation
from hushgram._arrays import IntArray
from hushgram._validation import CollectionError, refuse, suggest
from hushgram.local_days import DAY_MS, LocalDays, check_time_zone, local_days

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LONGEST = 3650 * UNITS["d"]
DURATIONS = ("size", "every", "max_delay", "max_age", "early")
MOST_SLICES = 10_000
NAMES = (*DURATIONS, "time_zone", "week_start", "late_growth")
"""The keys of a file."""
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS_CHECKED = np.arange(10_957, 84_006)
"""From 2000 to 2199: the days of a zone that windows shorter than a day must fit into."""


def parse_duration(name: str, text: object) -> int:
    """Milliseconds from a text such as '90s', '2m', '1h' or '1d'.

    >>> parse_duration("size", "1h")
    3600000
    """
    match = re.fullmatch(r"([0-9]{1,12})\s*(ms|s|m|h|d|w)", text) if isinstance(text, str) else None
    if match is None or int(match[1]) * UNITS[match[2]] > LONGEST:
        refuse(name, text, "a whole number with a unit, such as 500ms, 30s, 2m, 1h, 1d, 1w; ten years at most")
    return int(match[1]) * UNITS[match[2]]


def format_duration(milliseconds: int) -> str:
    """A duration as `parse_duration` reads it, in the largest unit that takes a whole number.

    >>> format_duration(90_000), format_duration(86_400_000), format_duration(0)
    ('90s', '1d', '0ms')
    """
    fitting = [unit for unit in UNITS if milliseconds and milliseconds % UNITS[unit] == 0]
    return f"{milliseconds // UNITS[fitting[-1]]}{fitting[-1]}" if fitting else "0ms"


def parse_share(name: str, value: object) -> float:
    """A share, as a number or as a text such as '1%' or '2.5 %'.

    >>> parse_share("late_growth", "1%"), parse_share("late_growth", 0.025)
    (0.01, 0.025)
    """
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,12})?)\s*%", value) if isinstance(value, str) else None
    number = float(match[1]) / 100 if match else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        refuse(name, value, "a share from 0 to 1, such as 0.01 or 1%")
    return float(number) + 0.0


@dataclass(frozen=True)
class Windows:
    """All times in milliseconds; `every` below `size` makes sliding windows, `early` None asks for no early panes.

    Windows whose `every` is a whole number of weeks begin on `week_start`. With a `time_zone`, days and weeks run from
    midnight to midnight on its clocks, so that a day may have 23 or 25 hours; windows that begin more than once a day
    are of equal length in every zone, and must divide its days evenly.
    """

    size: int = 3_600_000
    """How long a window is."""
    every: int = 3_600_000
    """How often one begins; less than `size` makes sliding windows. Left out of a file, it is `size`."""
    max_delay: int = 120_000
    """How much later than its event a report may come and still be in the on-time pane."""
    max_age: int = 86_400_000
    """How old a report may be when it is received; older ones are refused."""
    early: int | None = 60_000
    """How often a stream writes an early pane; null writes none."""
    time_zone: str | None = None
    """Days and weeks run from midnight to midnight of this zone; left out, of UTC."""
    week_start: str = "monday"
    """The day that windows of whole weeks begin on."""
    late_growth: float = 0.01
    """After its on-time pane, a stream estimates a window anew when its reports have grown by this share, such as 1%,
    and once more when no more can come; 0 does so whenever there is a late report."""
    days: LocalDays | None = field(init=False, repr=False, compare=False, default=None)
    """The zone's days, where windows follow them. They travel with the rest of it, so that a worker whose time zone
    database is of another version finds the same windows."""

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("every", 1), ("max_delay", 0), ("max_age", 0), ("early", 1)):
            if name != "early" or self.early is not None:
                _validation.check_whole(f"windows.{name} in milliseconds", getattr(self, name), least, LONGEST)
        if self.every > self.size:
            raise CollectionError(
                f"windows.every: got {format_duration(self.every)}, allowed: at most windows.size, "
                f"{format_duration(self.size)}, or reports between two windows would be lost"
            )
        if self.size // self.slice > MOST_SLICES:
            raise CollectionError(
                f"windows.every: got {format_duration(self.every)} for windows of {format_duration(self.size)}, "
                f"which makes slices of {format_duration(self.slice)}; "
                f"allowed: at most {MOST_SLICES:,} slices in a window"
            )
        _validation.check_one_of("windows.week_start", self.week_start, WEEKDAYS)
        object.__setattr__(self, "late_growth", parse_share("windows.late_growth", self.late_growth))
        if self.time_zone is not None:
            self._check_time_zone(check_time_zone("windows.time_zone", self.time_zone))

    def _check_time_zone(self, zone: str) -> None:
        days = local_days(zone)
        if self.every < DAY_MS:
            between = days.begins(DAYS_CHECKED) % self.every
            if between.any():
                fitting = math.gcd(self.every, int(np.gcd.reduce(between)))
                raise CollectionError(
                    f"windows.every: got {format_duration(self.every)}, which does not divide the days of {zone} "
                    f"evenly; allowed: whole days, or {format_duration(fitting)} and what divides it"
                )
            return
        for name, length in (("size", self.size), ("every", self.every)):
            if length % DAY_MS:
                raise CollectionError(
                    f"windows.{name}: got {format_duration(length)} in time zone {zone}, allowed: whole days or weeks, "
                    "or windows that begin more than once a day"
                )
        object.__setattr__(self, "days", days)

    def __str__(self) -> str:
        """A text that differs between settings: a job finds its state by it after an upgrade.

        >>> str(Windows(size=3_600_000, every=60_000, early=None))
        'windows of 1h every 1m, delay 2m, age 1d'
        """
        early = "" if self.early is None else f", early {format_duration(self.early)}"
        delay, age = format_duration(self.max_delay), format_duration(self.max_age)
        zone = "" if self.days is None else f", days of {self.time_zone}"
        weeks = f", weeks from {self.week_start}" if self._weekly and self.week_start != "monday" else ""
        growth = "" if self.late_growth == Windows.late_growth else f", late growth {self.late_growth}"
        lengths = f"{format_duration(self.size)} every {format_duration(self.every)}"
        return f"windows of {lengths}, delay {delay}, age {age}{early}{zone}{weeks}{growth}"

    @property
    def slice(self) -> int:
        """The longest span that no window's edge divides: reports are tallied per slice."""
        return math.gcd(self.size, self.every)

    # Windows and slices are laid along a ruler: of milliseconds since 1970, or of a zone's days since then -----------

    @property
    def _weekly(self) -> bool:
        return self.every % UNITS["w"] == 0

    @property
    def _unit(self) -> int:
        return DAY_MS if self.days else 1

    @property
    def first(self) -> int:
        """How long after the beginning of 1970, a Thursday, the first window begins, counting days of 24 hours."""
        return (WEEKDAYS.index(self.week_start) - 3) % 7 * DAY_MS if self._weekly else 0

    def _place(self, times: IntArray) -> IntArray:
        return self.days.numbers(times) if self.days else times

    def _moment(self, place: int) -> int:
        return int(self.days.begins(np.array([place]))[0]) if self.days else place

    def slice_numbers(self, times: IntArray) -> IntArray:
        """The slice that each time lies in."""
        return (self._place(times) - self.first // self._unit) // (self.slice // self._unit)

    def slice_start(self, number: int) -> int:
        """When a slice begins."""
        return self._moment((number * self.slice + self.first) // self._unit)

    def holding(self, time: int) -> list[tuple[int, int]]:
        """Start and end of each window that a time lies in, the latest first.

        >>> Windows(size=60, every=20).holding(70)
        [(60, 120), (40, 100), (20, 80)]
        """
        size, every, first = (length // self._unit for length in (self.size, self.every, self.first))
        place = int(self._place(np.array([time]))[0])
        latest = (place - first) // every * every + first
        return [(self._moment(start), self._moment(start + size)) for start in range(latest, place - size, -every)]

    def between(self, start: int, end: int) -> int:
        """How long it is from one time to another; where windows follow a zone's days, a day counts as 24 hours."""
        first, last = self._place(np.array([start, end])).tolist()
        return (last - first) * self._unit

    @classmethod
    def parse(cls, entry: object) -> Windows:
        """Windows from the `windows` entry of a collection file."""
        if not isinstance(entry, Mapping):
            refuse("windows", entry, "a mapping such as {size: 1h, max_delay: 2m}")
        for key in entry:
            if key not in NAMES:
                allowed = ", ".join(NAMES) + suggest(key, NAMES)
                raise CollectionError(f"windows.{_validation.describe_key(key)}: unknown, allowed: {allowed}")
        values: dict[str, Any] = {
            key: parse_duration(f"windows.{key}", value)
            if key in DURATIONS and not (key == "early" and value is None)
            else value
            for key, value in entry.items()
        }
        return cls(**{"every": values.get("size", cls.every), **values})
