"""The windows of a collection: how long they are, how often they begin, how late a report may come."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hushgram import checks
from hushgram.checks import CollectionError, hint, refuse

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LONGEST = 3650 * UNITS["d"]
MOST_SLICES = 10_000


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


@dataclass(frozen=True)
class Windows:
    """All times in milliseconds; `every` below `size` makes sliding windows, `early` None asks for no early panes."""

    size: int = 3_600_000
    every: int = 3_600_000
    max_delay: int = 120_000
    max_age: int = 86_400_000
    early: int | None = 60_000

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("every", 1), ("max_delay", 0), ("max_age", 0), ("early", 1)):
            if name != "early" or self.early is not None:
                checks.whole(f"windows.{name} in milliseconds", getattr(self, name), least, LONGEST)
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

    def __str__(self) -> str:
        """
        >>> str(Windows(size=3_600_000, every=60_000, early=None))
        'windows of 1h every 1m, delay 2m, age 1d'
        """
        early = "" if self.early is None else f", early {format_duration(self.early)}"
        size, every, delay, age = map(format_duration, (self.size, self.every, self.max_delay, self.max_age))
        return f"windows of {size} every {every}, delay {delay}, age {age}{early}"

    @property
    def slice(self) -> int:
        """The longest time that lies in one window or the other as a whole: reports are tallied per slice."""
        return math.gcd(self.size, self.every)

    def holding(self, time: int) -> range:
        """Where the windows begin that a time lies in, the latest first.

        >>> list(Windows(size=60, every=20).holding(70))
        [60, 40, 20]
        """
        return range(time // self.every * self.every, time - self.size, -self.every)

    @classmethod
    def parse(cls, given: object) -> Windows:
        """Windows from the `windows` entry of a collection file."""
        if not isinstance(given, Mapping):
            refuse("windows", given, "a mapping such as {size: 1h, max_delay: 2m}")
        names = ("size", "every", "max_delay", "max_age", "early")
        for key in given:
            if key not in names:
                raise CollectionError(
                    f"windows.{checks.key(key)}: unknown, allowed: {', '.join(names)}{hint(key, names)}"
                )
        times = {
            key: None if key == "early" and value is None else parse_duration(f"windows.{key}", value)
            for key, value in given.items()
        }
        return cls(**{"every": times.get("size", cls.every), **times})  # type: ignore[arg-type]
