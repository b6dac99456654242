"""Numbers, times and warnings in words: the same in the terminal and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from schemas.records import Key, Snapshot

UNLIKELY_FIT = 0.001
"""A p-value of the test of fit below which a person is told."""


def number(value: float, digits: int = 4) -> str:
    """A number for people: some significant digits, no exponent where it is not needed.

    >>> number(15112.3), number(0.1234567), number(14.3), number(1.2e12)
    ('15,112', '0.1235', '14.30', '1.2e+12')
    """
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    places = digits - 1 - (Decimal(value).adjusted() if value else 0)  # exact, where a logarithm may round up
    return f"{value:,.{max(0, places)}f}"


def shown(text: str) -> str:
    """A name from outside: nothing in it may move a cursor, or turn the direction of what stands beside it."""
    return "".join(character if character.isprintable() else "�" for character in text)


@lru_cache(maxsize=256)
def clocks_of(time_zone: str | None) -> tzinfo:
    """The clocks that the windows of a snapshot are shown by; UTC where this machine does not know the zone."""
    try:
        return UTC if time_zone is None else ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        return UTC


def span(key: Key, clocks: tzinfo = UTC) -> str:
    """A window by some clocks; times outside the calendar stay numbers.

    >>> span(Key("c", None, 1_767_225_600_000, 1_767_229_200_000))
    '2026-01-01 00:00 – 01:00'
    >>> span(Key("c", None, 1_774_738_800_000, 1_774_821_600_000), clocks_of("Europe/Berlin"))
    '2026-03-29 00:00 – 03-30 00:00'
    >>> span(Key("c", None, 1_792_886_400_000, 1_792_890_000_000), clocks_of("Europe/Berlin"))
    '2026-10-25 02:00+0200 – 02:00+0100'
    >>> span(Key("c", None, -(10**15), 0))
    '-1000000000000000 ms – 0 ms'
    """
    times = key.window_start, key.window_end
    try:
        start, end = (datetime.fromtimestamp(time / 1000, UTC).astimezone(clocks) for time in times)
    except (OverflowError, OSError, ValueError):
        return f"{times[0]} ms – {times[1]} ms"
    clock = "%H:%M" if all(time % 60_000 == 0 for time in times) else "%H:%M:%S"
    if _shown_twice(start) or _shown_twice(end):
        clock += "%z"
    same_day = start.date() == end.date()
    return f"{start:%Y-%m-%d {clock}} – {end:{clock if same_day else f'%m-%d {clock}'}}"


def ahead_of_utc(time: int, clocks: tzinfo) -> int:
    """By how many milliseconds clocks are ahead of UTC at a time; none outside the calendar."""
    try:
        ahead = datetime.fromtimestamp(time / 1000, UTC).astimezone(clocks).utcoffset()
    except (OverflowError, OSError, ValueError):
        return 0
    return 0 if ahead is None else ahead // timedelta(milliseconds=1)


def _shown_twice(moment: datetime) -> bool:
    """Whether clocks that were set back show this time once more."""
    return moment.utcoffset() != moment.replace(fold=1 - moment.fold).utcoffset()


@dataclass(frozen=True)
class Note:
    """A warning: in a few words, and what it means for a person who does not know the method."""

    short: str
    long: str


NOTES = {
    "no_reports": Note(
        "no reports",
        "Nothing was reported here. What is drawn is the flat line of knowing nothing.",
    ),
    "too_few": Note(
        "too few reports to trust",
        "There are fewer reports than the collection asks for: what looks like a shape may be noise. "
        "Wait for more, or merge windows with hushgram rollup.",
    ),
    "unsettled": Note(
        "the estimate did not settle",
        "The estimator came to its limit of steps while its answer still moved. Details of the shape may be wrong.",
    ),
    "misfit": Note(
        "the reports do not fit the mechanism",
        "Devices that follow the collection's rules send such reports in less than one window of a thousand. "
        "Some may use another ε, reports may be damaged, or somebody invents them. "
        "Find out why before relying on this estimate.",
    ),
}


def warnings(snapshot: Snapshot) -> list[str]:
    """What a reader should know before trusting the numbers, as keys of `NOTES`."""
    said = [snapshot.status] if snapshot.status in ("no_reports", "too_few") else []
    if not snapshot.converged:
        said.append("unsettled")
    if snapshot.fit is not None and snapshot.fit < UNLIKELY_FIT:
        said.append("misfit")
    return said


def notes(snapshot: Snapshot) -> list[str]:
    """The same in a few words each."""
    return [NOTES[warning].short for warning in warnings(snapshot)]


REASONS_IN_WORDS = {
    "undecodable": "bytes that are no report, or damaged",
    "unknown_schema": "records of another kind than reports",
    "unknown_collection": "a collection that was not defined",
    "unknown_revision": "parameters that the collection neither has nor had",
    "cell_out_of_range": "an answer that no device could have drawn",
    "ragged_cells": "a batch whose length is no whole number of answers",
    "unknown_group": "a group that the collection does not list",
    "from_the_future": "an event time later than its receipt",
    "too_old": "received later after its event than the collection allows",
    "duplicate": "an upload that had been counted already",
    "too_large": "an upload larger than the limit",
}
"""Why a report was refused, for a person who reads the page."""
