"""Where results lie below `snapshots` and `histograms`: by collection and by day, in folders that name both.

Tools for tables know such folders as Hive's, and read only those that a question is about.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hushgram.schemas.records import Key
from hushgram.transforms.sinks.files import safe_name

PATTERNS = ("*/*", "collection=*/date=*/*")
"""Files of results: those of versions that had a folder for each collection alone, and those of this one.

In this order, since results move from the one to the other: what is gone when the first is listed is there when the
second is."""


def folder_of(key: Key) -> str:
    """The folder of a window, by the day in UTC on which it begins.

    >>> folder_of(Key("commute", None, 1_767_225_600_000, 1_767_229_200_000))
    'collection=commute/date=2026-01-01'
    """
    return f"{collection_folders(key.collection)[1]}/date={_date(key.window_start)}"


def collection_folders(name: str) -> tuple[str, str]:
    """The folders of a collection, in the order of `PATTERNS`; no name makes the one look like the other.

    >>> collection_folders("commute"), collection_folders("collection=commute")[0]
    (('commute', 'collection=commute'), 'collection%3Dcommute')
    """
    return safe_name(name), f"collection={safe_name(name)}"


def _date(milliseconds: int) -> str:
    """What lies outside the calendar stays a number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d")
    except (OverflowError, OSError, ValueError):
        return str(milliseconds)
