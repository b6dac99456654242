"""Whether the results are those of the uploads sent: each function returns differences; an empty list is a pass."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.chaos.ledger import Tallies, WindowKey
from hushgram.schemas.records import Snapshot

PANE = ("pane_index", "pane_timing")
"""Fields in which two equally good snapshots of a window may differ: after a failure the engine renumbers panes, and a
pane of the lost timeline may have reached one sink and not the other."""
TOLERANCE = 1e-9
"""Estimates are solved many at a time, and rounding depends on which ones were solved together."""


def find_overcounted(counted: Tallies, sent: Tallies) -> list[str]:
    """Cells that were counted more often than they were sent."""
    return [
        f"{describe(key)}: counted {int(counts.sum()):,} and sent {_total(sent, key):,}; too many of cell {cell}"
        for key, counts in counted.items()
        if (cell := _first_above(counts, sent, key)) is not None
    ]


def find_undercounted(counted: Tallies, sent: Tallies) -> list[str]:
    """Cells that were sent more often than they were counted."""
    return [
        f"{describe(key)}: sent {int(counts.sum()):,} and counted {_total(counted, key):,}; too few of cell {cell}"
        for key, counts in sent.items()
        if (cell := _first_above(counts, counted, key)) is not None
    ]


def find_wrong_letters(letters: Counter[str], at_least: Counter[str], at_most: Counter[str]) -> list[str]:
    """Reasons whose dead letters stand for fewer reports than are due, or for more than were sent."""
    return [
        f"dead letters {reason}: {letters[reason]:,} reports, expected {_between(at_least[reason], at_most[reason])}"
        for reason in sorted(letters.keys() | at_least.keys() | at_most.keys())
        if not at_least[reason] <= letters[reason] <= at_most[reason]
    ]


def find_wrong_rows(rows: Sequence[Snapshot], files: Sequence[Snapshot]) -> list[str]:
    """Windows whose row in the table is not the best snapshot among the files."""
    table, best = ({snapshot.key: snapshot for snapshot in part} for part in (rows, files))
    problems = [f"table: {len(rows) - len(table):,} windows have a row too many"] if len(table) < len(rows) else []
    for key in sorted(table.keys() | best.keys(), key=str):
        window = f"table: {key.collection}, {key.group or 'all groups'}, {key.window_start}"
        if key not in table:
            problems.append(f"{window}: no row")
        elif key not in best:
            problems.append(f"{window}: a row, and no file")
        else:
            row, file = table[key].to_avro(), best[key].to_avro()
            fields = [field for field in file if field not in PANE and not _is_same(row[field], file[field])]
            if fields:
                problems.append(f"{window}: {', '.join(f'{f} {row[f]!r:.60}, not {file[f]!r:.60}' for f in fields)}")
    return problems


def describe(key: WindowKey) -> str:
    collection, group, start, revision = key
    return f"{collection}, {group or 'all groups'}, window {start}, revision {revision}"


def _first_above(counts: Any, bound: Tallies, key: WindowKey) -> int | None:
    above = np.flatnonzero(counts > bound.get(key, np.zeros_like(counts)))
    return int(above[0]) if above.size else None


def _total(tallies: Tallies, key: WindowKey) -> int:
    return int(tallies[key].sum()) if key in tallies else 0


def _between(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)
