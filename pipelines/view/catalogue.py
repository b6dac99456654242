"""What a directory holds, in order: collections, their windows and groups, of each the panes and the best of them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, TypeVar

from hushgram.pipelines.formatting import (
    NOTES,
    REASONS_IN_WORDS,
    ahead_of_utc,
    clocks_of,
    cut_details,
    shown,
    span,
    warnings,
)
from hushgram.pipelines.partial_windows import WHOLE, Cut, Window, cut_windows
from hushgram.schemas.records import DeadLetter, Key, Snapshot

Chunk = tuple[str, str | None] | tuple[str, Window]
"""What a page asks for at once: a collection and a group of it, or a collection and a window of it."""
Value = TypeVar("Value")
EXAMPLE_LENGTH = 160
NAMELESS = "(no name)"


@dataclass(frozen=True)
class PaneFile:
    """A snapshot's numbers, and the file that has its distribution. `serial` grows with every file that is read."""

    numbers: Snapshot
    path: str
    serial: int


@dataclass(frozen=True)
class Problem:
    """A file that could not be used."""

    file: str
    what: str


@dataclass
class RefusedReports:
    """The dead letters of one reason."""

    reports: int = 0
    letters_of_unknown_number: int = 0
    example: str = ""

    def add(self, letter: DeadLetter) -> None:
        if letter.reports is None:
            self.letters_of_unknown_number += 1
        else:
            self.reports += letter.reports
        where = letter.source if letter.position is None else f"{letter.source} at {letter.position}"
        self.example = self.example or shown(f"{where}: {letter.detail}")[:EXAMPLE_LENGTH]

    def merge(self, other: RefusedReports) -> None:
        self.reports += other.reports
        self.letters_of_unknown_number += other.letters_of_unknown_number
        self.example = self.example or other.example


@dataclass
class CollectionResults:
    """One collection: by group and by window its panes, the best at last."""

    name: str
    panes: dict[str | None, dict[Window, list[PaneFile]]] = field(default_factory=dict)

    @property
    def groups(self) -> list[str | None]:
        """All together first."""
        return sorted(self.panes, key=lambda group: (group is not None, group or ""))

    @property
    def windows(self) -> list[Window]:
        return sorted({window for by_window in self.panes.values() for window in by_window})

    @property
    def newest(self) -> Snapshot:
        """Of all groups together, where there is such a snapshot."""
        return next(reversed(self.of_group(self.groups[0]).values()))[-1].numbers

    @property
    def clocks(self) -> tzinfo:
        """Those of the newest window, for all windows."""
        return clocks_of(self.newest.time_zone)

    def of_group(self, group: str | None) -> dict[Window, list[PaneFile]]:
        return dict(sorted(self.panes.get(group, {}).items()))

    def of_window(self, window: Window) -> dict[str | None, list[PaneFile]]:
        return {group: self.panes[group][window] for group in self.groups if window in self.panes[group]}


@dataclass(frozen=True)
class Catalogue:
    """All of it, as of one reading. It is never changed: the next reading makes another."""

    version: int = 0
    collections: Mapping[str, CollectionResults] = field(default_factory=dict)
    refused: Mapping[str, RefusedReports] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    unread: int = 0

    @staticmethod
    def arrange(panes: Iterable[PaneFile]) -> dict[str, CollectionResults]:
        collections: dict[str, CollectionResults] = {}
        for pane in panes:
            key = pane.numbers.key
            results = collections.setdefault(key.collection, CollectionResults(key.collection))
            by_window = results.panes.setdefault(key.group, {})
            by_window.setdefault((key.window_start, key.window_end), []).append(pane)
        for results in collections.values():
            for by_window in results.panes.values():
                for window, together in by_window.items():
                    # Each once: a pane may be in two files while one is folded into the other.
                    once = {pane.numbers.rank: pane for pane in reversed(together)}
                    by_window[window] = sorted(once.values(), key=lambda pane: pane.numbers.rank)
        return dict(sorted(collections.items()))

    def outline(self, ids: Mapping[Chunk, int], tallied: Container[str] = ()) -> dict[str, Any]:
        """What the page needs to know first; the rest it asks for by the ids in here.

        Of the collections `tallied`, there are tallies to ask, too.
        """
        return {
            "unread": self.unread,
            "collections": [
                {**_outline(results, ids), "tallied": results.name in tallied} for results in self.collections.values()
            ],
            "refused": [
                {
                    "reason": shown(reason),
                    "words": REASONS_IN_WORDS.get(reason, ""),
                    "reports": refused.reports,
                    "unknown": refused.letters_of_unknown_number,
                    "example": refused.example,
                }
                for reason, refused in sorted(self.refused.items(), key=lambda item: (-item[1].reports, item[0]))
            ],
            "problems": [vars(problem) for problem in self.problems],
            "notes": {name: vars(note) for name, note in NOTES.items()},
        }


def _outline(results: CollectionResults, ids: Mapping[Chunk, int]) -> dict[str, Any]:
    windows, groups = results.windows, results.groups
    total, newest, clocks = results.of_group(groups[0]), results.newest, results.clocks
    cuts = cut_windows(panes[-1].numbers for by_window in results.panes.values() for panes in by_window.values())
    return {
        "name": results.name,
        "label": shown(results.name) or NAMELESS,
        "unit": shown(newest.unit),
        "low": newest.low,
        "high": newest.high,
        "scale": newest.scale,
        "integer": newest.integer,
        "estimator": shown(newest.estimator),
        "clocks": str(clocks),
        "reports": newest.reports,
        "warned": sum(bool(warnings(panes[-1].numbers, cuts.get(at, WHOLE))) for at, panes in total.items()),
        "opens_at": ids[results.name, _opening(results, cuts)],
        "windows": [
            {
                "id": ids[results.name, window],
                **described(results.name, window, clocks),
                "cut": cut_details(Key(results.name, None, *window), cuts.get(window, WHOLE), clocks),
                "stamp": stamp_of(pane for panes in results.of_window(window).values() for pane in panes),
            }
            for window in windows
        ],
        "groups": [
            {
                "id": ids[results.name, group],
                "name": group,
                "label": (shown(group) or NAMELESS)
                if group is not None
                else "all groups"
                if len(groups) > 1
                else "all",
                "stamp": stamp_of(pane for panes in results.panes[group].values() for pane in panes),
            }
            for group in groups
        ],
    }


def _opening(results: CollectionResults, cuts: Mapping[Window, Cut]) -> Window:
    """The window that is shown first: the latest that is whole, neither cut by the log's ends nor still open."""
    whole = [
        window
        for window in results.windows
        if window not in cuts
        and any(panes[-1].numbers.pane.timing != "early" for panes in results.of_window(window).values())
    ]
    return (whole or results.windows)[-1]


def described(collection: str, window: Window, clocks: tzinfo) -> dict[str, Any]:
    """A window for the page: `ahead` is how many milliseconds the clocks are ahead of UTC in the middle of it."""
    start, end = window
    ahead = ahead_of_utc((start + end) // 2, clocks)
    return {"start": start, "end": end, "ahead": ahead, "label": span(Key(collection, None, start, end), clocks)}


def stamp_of(panes: Iterable[PaneFile]) -> str:
    """Changes when a pane comes, changes or goes."""
    serials = [pane.serial for pane in panes]
    return f"{max(serials)}-{len(serials)}"
