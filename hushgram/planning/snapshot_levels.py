"""The snapshots that a collection's reports end up in: of one group or all, of one window or many rolled up."""

from __future__ import annotations

from dataclasses import dataclass

from hushgram.windows import Windows


@dataclass(frozen=True)
class Level:
    """A kind of snapshot: what it is of, and the share of all reports that each has."""

    name: str
    reports: int
    share: float


def levels(reports: int, groups: int, windows: int, kind: Windows) -> list[Level]:
    """From the smallest to the largest, reports spread evenly; windows that overlap share theirs.

    >>> for level in levels(50_000, groups=10, windows=24, kind=Windows.parse({"size": "1h"})):
    ...     print(level.name, level.reports)
    one group, one window 208
    all groups, one window 2083
    one group, all 24 windows 5000
    all groups, all 24 windows 50000
    """
    in_window = min(1.0, kind.size / kind.every / windows)
    every_window = f"all {windows:,} windows"
    shares = {
        ("one group", "one window"): in_window / groups,
        ("all groups", "one window"): in_window,
        ("one group", every_window): 1 / groups,
        ("all groups", every_window): 1.0,
    }
    return [
        Level(f"{who}, {when}" if groups > 1 else when, int(reports * share), share)
        for (who, when), share in shares.items()
        if (groups > 1 or who == "all groups") and (windows > 1 or when == "one window")
    ]
