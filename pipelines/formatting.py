"""Numbers, times and warnings in words: the same in the terminal and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from hushgram.pipelines.partial_windows import WHOLE, Cut
from hushgram.schemas.records import Key, Snapshot

UNLIKELY_FIT = 0.001
"""A p-value of the test of fit below which there is a warning."""


def number(value: float, digits: int = 4) -> str:
    """A number for people: some significant digits, no exponent where it is not needed.

    >>> number(15112.3), number(0.1234567), number(14.3), number(1.2e12)
    ('15,112', '0.1235', '14.30', '1.2e+12')
    """
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    places = digits - 1 - (Decimal(value).adjusted() if value else 0)  # exact, where a logarithm may round up
    return f"{value:,.{max(0, places)}f}"


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "window"), count(28_000, "window")
    ('1 window', '28,000 windows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown(text: str) -> str:
    """A name from outside: nothing in it may move a cursor, or turn the direction of what stands beside it."""
    return "".join(character if character.isprintable() else "�" for character in text)


def clock(time: int, key: Key, clocks: tzinfo = UTC) -> str:
    """A time inside a window: as exact as the window is long.

    >>> clock(1_767_244_321_000, Key("c", None, 1_767_225_600_000, 1_767_312_000_000))
    '05:12'
    >>> clock(1_767_244_321_000, Key("c", None, 1_767_225_600_000, 1_767_830_400_000))
    '2026-01-01 05:12'
    """
    length = key.window_end - key.window_start
    form = "%H:%M:%S" if length < 3_600_000 else "%H:%M" if length <= 90_000_000 else "%Y-%m-%d %H:%M"
    try:
        return f"{datetime.fromtimestamp(time / 1000, UTC).astimezone(clocks):{form}}"
    except (OverflowError, OSError, ValueError):
        return f"{time} ms"


def share(value: float) -> str:
    """A share of values in percent; only all of them are 100 %.

    >>> share(0.974), share(0.9996), share(1.0), share(0.0031)
    ('97 %', 'more than 99 %', '100 %', '0.31 %')
    """
    if 0.99 < value < 1:
        return "more than 99 %"
    return f"{100 * value:.0f} %" if value >= 0.01 else f"{100 * value:.2g} %"


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
        "the reports do not fit the mechanism, or the values are very spiky",
        "Where values are spread out, devices that follow the collection's rules send such reports in less than one "
        "window of a thousand. Where most values are one number, or a few, they may do so in most windows; a mechanism "
        "without smoothing then suits the values better. Otherwise some devices may use another ε, reports may be "
        "damaged, or somebody invents them. Find out why before relying on this estimate.",
    ),
    "heavy_low": Note(
        "very many values at the low end: check the unit",
        "Far more values seem to lie at the low end of the domain, or below it, than next to it; what lies below "
        "counts as the low end. Check that devices measure in the unit of the domain, and that it begins low enough; "
        "where so many values really are there, such as zeros, all is well.",
    ),
    "heavy_high": Note(
        "very many values at the high end: check the unit",
        "Far more values seem to lie at the high end of the domain, or above it, than next to it; what lies above "
        "counts as the high end. Check that devices measure in the unit of the domain, and that it ends high enough; "
        "where so many values really are there, all is well.",
    ),
    "begins_inside": Note(
        "the log begins inside this window",
        "There are no reports from before that time: this window holds a part of its reports only, and the values of "
        "that part of its time. Do not compare it with whole windows.",
    ),
    "ends_inside": Note(
        "the log ends inside this window",
        "There are no reports from after that time: this window holds a part of its reports only, and the values of "
        "that part of its time. Do not compare it with whole windows.",
    ),
}


def warnings(snapshot: Snapshot, cut: Cut = WHOLE) -> list[str]:
    """What a reader should know before trusting the numbers, as keys of `NOTES`."""
    found = [snapshot.status] if snapshot.status in ("no_reports", "too_few") else []
    if not snapshot.converged:
        found.append("unsettled")
    if snapshot.fit is not None and snapshot.fit < UNLIKELY_FIT:
        found.append("misfit")
    return found + list(details(snapshot, cut))


def details(snapshot: Snapshot, cut: Cut = WHOLE) -> dict[str, str]:
    """Of warnings that come with a number or a time, the sentence with it."""
    return {**end_details(snapshot), **cut_details(snapshot.key, cut, clocks_of(snapshot.time_zone))}


def end_details(snapshot: Snapshot) -> dict[str, str]:
    ends = {"low": snapshot.heavy_low_end, "high": snapshot.heavy_high_end}
    return {
        f"heavy_{end}": f"{share(value)} of values seem to lie at the {end} end of the domain or beyond it: "
        "check the unit and the domain"
        for end, value in ends.items()
        if value is not None
    }


def cut_details(key: Key, cut: Cut, clocks: tzinfo) -> dict[str, str]:
    return {
        f"{verb}_inside": f"the log {verb} at {clock(time, key, clocks)}, inside this window"
        for verb, time in (("begins", cut.begins), ("ends", cut.ends))
        if time is not None
    }


def notes(snapshot: Snapshot, cut: Cut = WHOLE) -> list[str]:
    """The same in a few words each, or in a sentence where there is more to say."""
    sentences = details(snapshot, cut)
    return [sentences.get(warning, NOTES[warning].short) for warning in warnings(snapshot, cut)]


REASONS_IN_WORDS = {
    "unreadable": "a file that could not be opened, or not read to its end",
    "undecodable": "bytes that are no report, or damaged",
    "unknown_schema": "records of another kind than reports",
    "unknown_collection": "a collection that was not defined",
    "unknown_revision": "parameters (domain, ε, mechanism) that the collection neither has nor lists under `previous`",
    "cell_out_of_range": "an answer that no device could have drawn",
    "ragged_cells": "a batch whose length is no whole number of answers",
    "conflicting_ids": "a batch with an id for all of it and ids for its reports",
    "ragged_ids": "a batch with fewer or more ids than reports",
    "unknown_group": "a group that the collection does not list",
    "from_the_future": "an event time later than its receipt",
    "too_old": "received later after its event than the collection allows",
    "duplicate": "an upload that had been counted already",
    "too_large": "an upload larger than the limit",
    "deleted_unread": "messages that Kafka deleted before they were read",
}
"""Why a report was refused, for a person who reads the page."""
