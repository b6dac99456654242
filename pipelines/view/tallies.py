"""What the page asks of tallies, since snapshots cannot tell it: all groups but one together, and changes over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from apache_beam.io.filesystems import FileSystems

from hushgram import Collection
from hushgram.changes import FALSE_ALARM_RATE, find_changes
from hushgram.pipelines.changes.definitions import recognise_collection
from hushgram.pipelines.changes.verdicts import Verdict, timed_tallies
from hushgram.pipelines.partial_windows import Window
from hushgram.pipelines.results import matching, read_records
from hushgram.pipelines.view.catalogue import CollectionResults, PaneFile
from hushgram.pipelines.view.data import LARGEST_FILE, check_snapshot, picture
from hushgram.schemas.records import Histogram, Key, Pane
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.tallies import Tallies

SNAPSHOTS, HISTOGRAMS = "/snapshots/", "/histograms/"
MOST_TALLIES = 2048
"""Windows of groups in which changes are looked for: reading and testing them takes some ten seconds."""


class NoTallyError(Exception):
    """Tallies that are not there, not those of the snapshots beside them, or too many."""


def lie_beside(results: CollectionResults) -> bool:
    """Whether tallies are looked for beside the snapshots of a collection: both lie in folders of these names."""
    return all(SNAPSHOTS in panes[-1].path for by_window in results.panes.values() for panes in by_window.values())


def estimate_others(collection: Collection, results: CollectionResults, group: str, window: Window) -> dict[str, Any]:
    """The picture of all groups of a window but one, from the sum of their tallies."""
    panes = [panes[-1] for name, panes in results.of_window(window).items() if name not in (None, group)]
    if not panes:
        raise NoTallyError("there are no other groups in this window")
    merged = Tallies.merge(Tallies(dict(part.tallies), part.events) for part in read_tallies(panes))
    try:
        [snapshot] = snapshots(collection, [(Key(results.name, None, *window), Pane(), merged)])
    except (ValueError, KeyError):  # a foreign file may hold any revision, and counts of any length
        raise NoTallyError("the tallies are not of this collection") from None
    early = any(pane.numbers.pane.timing == "early" for pane in panes)
    return {**picture(replace(snapshot, time_zone=panes[0].numbers.time_zone)), "early": early}


def changes_in(collection: Collection, results: CollectionResults, ids: Mapping[Any, int]) -> dict[str, Any]:
    """The windows that differ from those before them, of all groups, by the ids of groups and windows."""
    panes = closed_panes(results)
    if len(panes) > MOST_TALLIES:
        raise NoTallyError(f"these are more than {MOST_TALLIES:,} windows and groups; hushgram changes judges them")
    changes = find_changes(collection, timed_tallies(read_tallies(panes)))  # passes over what is foreign or damaged
    verdicts = [Verdict(collection, change) for change in changes.found]
    return {
        "comparisons": len(changes.comparisons),
        "rate": FALSE_ALARM_RATE,
        "found": [
            {
                "group": ids[results.name, verdict.key.group],
                "window": ids[results.name, (verdict.key.window_start, verdict.key.window_end)],
                "sentence": verdict.sentence,
            }
            for verdict in verdicts
        ],
    }


def closed_panes(results: CollectionResults) -> list[PaneFile]:
    """The best panes of windows that are no longer open, of all groups."""
    best = [panes[-1] for by_window in results.panes.values() for panes in by_window.values()]
    return [pane for pane in best if pane.numbers.pane.timing != "early"]


def find_definition(results: CollectionResults, defined: Mapping[str, Collection]) -> Collection:
    """The collection behind results: the one that is given, or as far as its snapshots tell."""
    if results.name in defined:
        return defined[results.name]
    panes = [panes[-1] for by_window in results.panes.values() for panes in by_window.values()]
    newest = max(panes, key=lambda pane: pane.numbers.key.window_start)
    try:  # of the newest the distribution, too: it has as many buckets as the collection
        records = [check_snapshot(record) for record in read_records(newest.path)]
    except Exception:  # it was readable once: removed, or overwritten by something else
        raise NoTallyError("the snapshots have changed") from None
    collection = recognise_collection([*records, *(pane.numbers for pane in panes if pane.path != newest.path)])
    if collection is None:
        raise NoTallyError("results do not tell mechanism and ε, as they are unusual; give --collections FILE")
    return collection


def read_tallies(panes: Sequence[PaneFile]) -> list[Histogram]:
    """The histograms that the snapshots of some panes were estimated from, each file read once.

    They lie in the same folder below `histograms`, and in a file of the same name if batch wrote them.
    """
    by_folder: dict[str, list[PaneFile]] = {}
    for pane in panes:
        by_folder.setdefault(FileSystems.split(pane.path)[0], []).append(pane)
    found: dict[tuple[Key, tuple[int, int, int]], Histogram] = {}
    for folder, members in by_folder.items():
        found |= _tallies_beside(folder, members)
    wanted = [(pane.numbers.key, pane.numbers.rank) for pane in panes]
    if not set(wanted) <= found.keys():
        raise NoTallyError("the tallies beside the snapshots are not theirs")
    return [found[pane] for pane in wanted]


def _tallies_beside(folder: str, panes: Sequence[PaneFile]) -> dict[tuple[Key, tuple[int, int, int]], Histogram]:
    before, there, place = f"{folder}/".rpartition(SNAPSHOTS)
    beside = f"{before}{HISTOGRAMS}{place}"
    listed = matching(beside, "*").files if there else ()
    own = {f"{before}{HISTOGRAMS}{pane.path.rpartition(SNAPSHOTS)[2]}" for pane in panes}
    same_names = [file for file in listed if file.path in own]
    files = same_names if len(same_names) == len(own) else listed
    if not files:
        raise NoTallyError("there are no tallies beside the snapshots")
    try:
        if any(file.size > LARGEST_FILE for file in files):
            raise ValueError("too large")
        parts = [Histogram.from_avro(record) for file in files for record in read_records(file.path)]
    except Exception:  # whatever a foreign or damaged file makes its reader raise
        raise NoTallyError("the tallies beside the snapshots cannot be read") from None
    return {(part.key, part.rank): part for part in parts}
