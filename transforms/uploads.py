"""Which of many decoded reports can be counted: columns in, uploads and refusals out.

An upload is one report or one batch. It is accepted or refused as a whole, for the first reason that applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np

from hushgram.arrays import BoolArray, IntArray
from hushgram.revisions import explain_unknown
from schemas.columns import Labels, ReportColumns, UIntArray
from schemas.records import Reason
from transforms.plan import EARLIEST, FUTURE_ALLOWED, Plan, cell_width

ORDER: tuple[Reason, ...] = (
    "unknown_collection",
    "unknown_revision",
    "ragged_cells",
    "cell_out_of_range",
    "unknown_group",
    "from_the_future",
    "too_old",
)


@dataclass(frozen=True)
class Uploads:
    """Accepted uploads: numbers in the plan's order, -1 for no group, and the cells of all uploads end to end."""

    collection: IntArray
    revision: IntArray
    group: IntArray
    event_time: IntArray
    has_id: BoolArray
    id: UIntArray
    sizes: IntArray
    cells: IntArray

    @property
    def reports(self) -> int:
        return int(self.sizes.sum())

    def __len__(self) -> int:
        return self.sizes.size

    @classmethod
    def together(cls, parts: Sequence[Uploads]) -> Uploads:
        """All uploads of several parts, in their order."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def take(self, rows: BoolArray) -> Uploads:
        """The uploads of some rows."""
        if rows.all():
            return self
        return Uploads(**self._rows(np.flatnonzero(rows)), cells=self.cells[np.repeat(rows, self.sizes)])

    def cells_of(self, rows: IntArray) -> IntArray:
        """Where the cells of some rows stand, one row after the other."""
        if (self.sizes == 1).all():  # single reports: each row is its cell
            return rows
        starts, sizes = np.cumsum(self.sizes) - self.sizes, self.sizes[rows]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(starts[rows], sizes) + within

    def between(self, start: int, end: int) -> Uploads:
        """The uploads of consecutive rows, without copying."""
        first = int(self.sizes[:start].sum())
        rows = {name: column[start:end] for name, column in self._columns()}
        return Uploads(**rows, cells=self.cells[first : first + int(rows["sizes"].sum())])

    def _rows(self, places: IntArray) -> dict[str, Any]:
        # `take` copies an id as a whole; an index would go number by number.
        return {name: column.take(places, axis=0) for name, column in self._columns()}

    def _columns(self) -> Iterator[tuple[str, Any]]:
        """All but the cells, of which an upload may have any number."""
        return ((field.name, getattr(self, field.name)) for field in fields(self) if field.name != "cells")


@dataclass(frozen=True)
class Refusal:
    """Uploads refused for one reason. `reports` is None where one of them does not tell how many it holds."""

    reason: Reason
    reports: int | None
    detail: str
    first_row: int


@dataclass
class _Judged:
    """Rows with what is known of them so far; the first reason that applies to a row stays."""

    reason: IntArray

    def refuse(self, reason: Reason, rows: BoolArray) -> None:
        self.reason[rows & (self.reason < 0)] = ORDER.index(reason)

    @property
    def fine(self) -> BoolArray:
        return self.reason < 0


def accept(
    plan: Plan, columns: ReportColumns, received: int | IntArray, aged: bool = False
) -> tuple[Uploads, list[Refusal]]:
    """Judge decoded reports, received at a time in milliseconds or each at its own.

    `aged` says that they may also be too old for their collection: so it is in a stream, where windows come to an end.
    """
    rows = len(columns)
    judged = _Judged(np.full(rows, -1, dtype=np.int64))
    collection = _translate(columns.collection, plan.places)
    judged.refuse("unknown_collection", collection < 0)

    revision, group = np.full(rows, -1, dtype=np.int64), np.full(rows, -1, dtype=np.int64)
    alphabet = np.zeros(rows, dtype=np.int64)
    for place in {plan.places[name] for name in columns.collection.names if name in plan.places}:
        mine, own = collection == place, np.full(rows, -1, dtype=np.int64)
        for index, number in enumerate(plan.revision_numbers[place]):
            own = np.where(columns.revision == number, index, own)
        known = mine & (own >= 0)
        revision = np.where(known, own, revision)
        alphabet = np.where(known, plan.alphabets[place][own], alphabet)
        labels = {label: index for index, label in enumerate(plan.collections[place].groups)}
        group = np.where(mine, _translate(columns.group, {None: -1, **labels}, unknown=-2), group)
    judged.refuse("unknown_revision", revision < 0)

    sizes, cells = _cells(columns, alphabet, judged)
    judged.refuse("unknown_group", group == -2)
    judged.refuse("from_the_future", columns.event_time > received + FUTURE_ALLOWED)
    judged.refuse("too_old", columns.event_time < EARLIEST)
    if aged and len(plan.collections):
        # Compared so that no time from outside can overflow.
        judged.refuse("too_old", columns.event_time < received - plan.max_ages[np.maximum(collection, 0)])

    everything = Uploads(
        collection, revision, group, columns.event_time, columns.has_id, columns.id, np.maximum(sizes, 0), cells
    )
    accepted = everything if judged.fine.all() else everything.take(judged.fine)
    return accepted, _refusals(plan, columns, judged.reason, sizes, alphabet)


def _translate(labels: Labels, numbers: Mapping[Any, int], unknown: int = -1) -> IntArray:
    table = np.array([numbers.get(name, unknown) for name in labels.names], dtype=np.int64)
    return table[labels.codes]


def _cells(columns: ReportColumns, alphabet: IntArray, judged: _Judged) -> tuple[IntArray, IntArray]:
    """How many cells each row has, -1 where that cannot be known, and all cells end to end; bad ones are judged."""
    if columns.cells is not None:
        judged.refuse("cell_out_of_range", (columns.cells < 0) | (columns.cells >= alphabet))
        return np.ones(len(columns), dtype=np.int64), columns.cells
    assert columns.packed is not None
    lengths = np.array([len(part) for part in columns.packed], dtype=np.int64)
    widths = np.ones(len(columns), dtype=np.int64)
    for cells_of_one in np.unique(alphabet[alphabet > 0]).tolist():
        widths[alphabet == cells_of_one] = cell_width(cells_of_one)
    judged.refuse("ragged_cells", lengths % widths != 0)
    sizes = np.where(judged.fine, lengths // widths, 0)
    filled = np.flatnonzero(sizes)
    found = np.unique(widths[filled]).tolist()
    if len(found) == 1:
        cells = _unpacked(columns.packed, filled, found[0])
    else:
        cells, owner = np.empty(int(sizes.sum()), dtype=np.int64), np.repeat(widths, sizes)
        for width in found:
            cells[owner == width] = _unpacked(columns.packed, filled[widths[filled] == width], width)
    if filled.size:
        greatest = np.maximum.reduceat(cells, (np.cumsum(sizes) - sizes)[filled])
        judged.reason[filled[greatest >= alphabet[filled]]] = ORDER.index("cell_out_of_range")
    return np.where(alphabet > 0, np.where(lengths % widths == 0, lengths // widths, -1), -1), cells


def _unpacked(packed: Sequence[bytes], rows: IntArray, width: int) -> IntArray:
    """The cells of some rows, of so many bytes each."""
    cells = np.frombuffer(b"".join(map(packed.__getitem__, rows.tolist())), dtype=f"<u{width}")
    # Beyond 63 bits there is no alphabet; such a cell is out of range, and must not wrap around into it.
    return (np.minimum(cells, np.uint64(2**63 - 1)) if width == 8 else cells).astype(np.int64)


def _refusals(
    plan: Plan, columns: ReportColumns, reason: IntArray, sizes: IntArray, alphabet: IntArray
) -> list[Refusal]:
    """One refusal for each reason, with the first upload as the example."""
    refusals = []
    for code in np.unique(reason[reason >= 0]).tolist():
        rows = np.flatnonzero(reason == code)
        known = bool((sizes[rows] >= 0).all())
        detail = _detail(plan, ORDER[code], columns, int(rows[0]), int(alphabet[rows[0]]))
        more = f", and {rows.size - 1} more" if rows.size > 1 else ""
        reports = int(sizes[rows].sum()) if known else None
        refusals.append(Refusal(ORDER[code], reports, detail + more, int(rows[0])))
    return refusals


def _detail(plan: Plan, reason: Reason, columns: ReportColumns, row: int, alphabet: int) -> str:
    name = columns.collection.names[columns.collection.codes[row]]
    revision = f"{int(columns.revision[row]):016x}"
    group = columns.group.names[columns.group.codes[row]]
    if reason == "cell_out_of_range" and columns.cells is not None:
        return f"cell {int(columns.cells[row])} of {name!r}, which has 0 to {alphabet - 1}"
    if reason == "unknown_revision":
        explained = explain_unknown(plan.collections[plan.places[name]], revision, plan.collections)
        return f"revision {revision} of {name!r}: {explained}"
    return {
        "unknown_collection": f"collection {name!r}",
        "ragged_cells": f"a batch of {name!r} whose bytes are no whole number of cells",
        "cell_out_of_range": f"a batch of {name!r} with a cell beyond {alphabet - 1}",
        "unknown_group": f"group {group!r} of {name!r}",
        "from_the_future": f"event time {_moment(int(columns.event_time[row]))} of {name!r}",
        "too_old": f"event time {_moment(int(columns.event_time[row]))} of {name!r}",
    }[reason]


def _moment(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):  # a date that is none
        return f"{milliseconds} ms after 1970"
