"""Decoded reports, judged by the collections they name: accepted, or refused for the first reason that applies.

A report, or a batch of them, is accepted or refused as a whole. Then a batch whose reports have ids is taken apart:
each of them is an upload of its own, as if it had been sent alone. Nothing here needs Beam.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress

import numpy as np

from hushgram import Collection
from hushgram._arrays import BoolArray, IntArray
from hushgram._native import NUMBER, POINTER, address, function
from hushgram.revisions import explain_unknown
from hushgram.schemas.columns import ID_BYTES, ReportColumns, id_numbers
from hushgram.schemas.records import Reason
from hushgram.transforms.collection_index import EARLIEST, FUTURE_ALLOWED, CollectionIndex, cell_width
from hushgram.transforms.uploads import Uploads

ORDER: tuple[Reason, ...] = (
    "unknown_collection",
    "unknown_revision",
    "ragged_cells",
    "cell_out_of_range",
    "conflicting_ids",
    "ragged_ids",
    "unknown_group",
    "from_the_future",
    "too_old",
    "too_large",
)


NO_GROUP = -2
LONGEST_NAME = 80
"""Characters of a name that a detail quotes."""


@dataclass(frozen=True)
class Refusal:
    """Uploads refused for one reason. `reports` is None if the number of reports in one of them is unknown."""

    reason: Reason
    reports: int | None
    detail: str
    first_row: int


FINE = -1
IN_C: tuple[Reason, ...] = (
    "unknown_collection",
    "unknown_revision",
    "cell_out_of_range",
    "unknown_group",
    "from_the_future",
    "too_old",
)
"""The reasons that judging.c finds, by its numbers."""
NUMBERS_OF_C = np.array([*map(ORDER.index, IN_C), FINE])


class _Named(ctypes.Structure):
    _fields_ = [
        ("number", NUMBER),
        ("revisions", POINTER),
        ("alphabets", POINTER),
        ("many", NUMBER),
        ("groups", POINTER),
        ("max_age", NUMBER),
    ]


class _Reports(ctypes.Structure):
    _fields_ = [
        *((name, POINTER) for name in ("collection", "group", "revision", "cell", "event_time", "received")),
        ("receipts", NUMBER),
    ]


class _Judged(ctypes.Structure):
    _fields_ = [(name, POINTER) for name in ("collection", "revision", "group", "alphabet", "reason")]


_judge = function("hushgram_judge", POINTER, NUMBER, POINTER, POINTER, NUMBER, NUMBER, POINTER, result=NUMBER)


@dataclass(frozen=True)
class Judgement:
    """Uploads, accepted or not, and for each the number of the first reason against it; -1 is none."""

    index: CollectionIndex
    columns: ReportColumns
    received: IntArray
    uploads: Uploads
    reason: IntArray
    sizes: IntArray
    """How many reports each has; -1 where that cannot be known."""
    alphabet: IntArray

    @property
    def accepted(self) -> Uploads:
        """Batches whose reports have ids are taken apart: each report is an upload of its own."""
        fine = self.reason < 0
        return _each_with_its_id(self.uploads.take(fine), self.columns, fine)

    def refusals(self) -> list[Refusal]:
        """One for each reason, with the first upload as the example."""
        return [
            self.refusal(np.flatnonzero(self.reason == code))
            for code in np.unique(self.reason[self.reason >= 0]).tolist()
        ]

    def refusal(self, rows: IntArray) -> Refusal:
        """Of some uploads that were refused for the same reason."""
        first = int(rows[0])
        known = bool((self.sizes[rows] >= 0).all())
        reason = ORDER[int(self.reason[first])]
        detail = _detail(self.index, reason, self.columns, self.received, first, int(self.alphabet[first]))
        more = f", and {rows.size - 1} more" if rows.size > 1 else ""
        reports = int(self.sizes[rows].sum()) if known else None
        return Refusal(reason, reports, detail + more, first)


def accept(
    index: CollectionIndex, columns: ReportColumns, received: int | IntArray, aged: bool = False
) -> tuple[Uploads, list[Refusal]]:
    """The reports that are accepted, and why the others are not; as `judge` says."""
    judgement = judge(index, columns, received, aged)
    return judgement.accepted, judgement.refusals()


def judge(index: CollectionIndex, columns: ReportColumns, received: int | IntArray, aged: bool = False) -> Judgement:
    """Judge decoded reports, received at a time in milliseconds or each at its own.

    `aged` says that they may also be too old for their collection: so it is in a stream, where windows come to an end.
    """
    times = np.broadcast_to(received, len(columns))
    collection, revision, group, alphabet, reason = _found(index, columns, times, aged)
    sizes, cells = _cells(columns, alphabet, reason)
    _judge_ids(columns, sizes, reason)
    everything = Uploads(
        collection, revision, group, columns.event_time, columns.has_id, columns.id, np.maximum(sizes, 0), cells
    )
    return Judgement(index, columns, times, everything, reason, sizes, alphabet)


def _found(index: CollectionIndex, columns: ReportColumns, received: IntArray, aged: bool) -> IntArray:
    """By row the number of the collection, of its revision and of the group, how many cells the revision has, and the
    first reason to refuse it, of those that need no look into a batch."""
    places = [index.places.get(name, -1) if name is not None else -1 for name in columns.collection.names]
    found = {place: number for number, place in enumerate(dict.fromkeys(place for place in places if place >= 0))}
    names = np.array([found.get(place, -1) for place in places], dtype=np.int64)
    groups = [_group_numbers(index.collections[place], columns.group.names) for place in found]
    named = (_Named * len(found))(
        *(
            _Named(
                place,
                address(index.revision_numbers[place], np.uint64),
                address(index.alphabets[place]),
                index.alphabets[place].size,
                address(of_place),
                int(index.max_ages[place]) if aged else -1,
            )
            for place, of_place in zip(found, groups, strict=True)
        )
    )
    is_one_for_all = not any(received.strides)
    receipts = np.ascontiguousarray(received[:1] if is_one_for_all else received, dtype=np.int64)
    reports = _Reports(
        address(columns.collection.codes),
        address(columns.group.codes),
        address(columns.revision, np.uint64),
        None if columns.cells is None else address(columns.cells),
        address(columns.event_time),
        address(receipts),
        int(not is_one_for_all),
    )
    judged = np.empty((5, len(columns)), dtype=np.int64)
    results = ctypes.byref(_Judged(*map(address, judged)))
    if _judge(ctypes.byref(reports), len(columns), address(names), named, FUTURE_ALLOWED, EARLIEST, results):
        judged[-1] = NUMBERS_OF_C[judged[-1]]
    return judged


def _group_numbers(collection: Collection, labels: Sequence[str | None]) -> IntArray:
    """By code of a label the number of a collection's group, -1 for none, NO_GROUP where it has no such group."""
    numbers: dict[str | None, int] = {None: -1, **{label: number for number, label in enumerate(collection.groups)}}
    return np.array([numbers.get(label, NO_GROUP) for label in labels], dtype=np.int64)


def _refuse(reason: IntArray, name: Reason, rows: BoolArray) -> None:
    """For this reason, where there is none that goes before it."""
    if rows.any():  # seldom
        number = ORDER.index(name)
        reason[rows & ((reason < 0) | (reason > number))] = number


def _cells(columns: ReportColumns, alphabet: IntArray, reason: IntArray) -> tuple[IntArray, IntArray]:
    """How many cells each row has, -1 where that cannot be known, and all cells end to end; bad ones are judged."""
    if columns.cells is not None:
        return np.ones(len(columns), dtype=np.int64), columns.cells
    assert columns.packed is not None
    lengths = np.array([len(part) for part in columns.packed], dtype=np.int64)
    widths = np.ones(len(columns), dtype=np.int64)
    for cells_of_one in np.unique(alphabet[alphabet > 0]).tolist():
        widths[alphabet == cells_of_one] = cell_width(cells_of_one)
    is_ragged = lengths % widths != 0
    _refuse(reason, "ragged_cells", is_ragged & (alphabet > 0))
    sizes = np.where((alphabet > 0) & ~is_ragged, lengths // widths, -1)
    filled = np.flatnonzero(sizes > 0)
    found = np.unique(widths[filled]).tolist()
    if len(found) == 1:
        cells = _unpacked(columns.packed, filled, found[0])
    else:
        owner = np.repeat(widths[filled], sizes[filled])
        cells = np.empty(owner.size, dtype=np.int64)
        for width in found:
            cells[owner == width] = _unpacked(columns.packed, filled[widths[filled] == width], width)
    if filled.size:
        greatest = np.maximum.reduceat(cells, np.cumsum(sizes[filled]) - sizes[filled])
        is_beyond = np.zeros(len(columns), dtype=bool)
        is_beyond[filled] = greatest >= alphabet[filled]
        _refuse(reason, "cell_out_of_range", is_beyond)
    return sizes, cells


def _judge_ids(columns: ReportColumns, sizes: IntArray, reason: IntArray) -> None:
    """A batch has an id, or its reports have one each; as many as there are cells."""
    if columns.ids is not None:
        lengths = np.array([-1 if ids is None else len(ids) for ids in columns.ids], dtype=np.int64)
        _refuse(reason, "conflicting_ids", (lengths >= 0) & columns.has_id)
        _refuse(reason, "ragged_ids", (lengths >= 0) & (lengths != ID_BYTES * sizes))


def _each_with_its_id(accepted: Uploads, columns: ReportColumns, rows: BoolArray) -> Uploads:
    """The accepted rows, of which batches with ids are taken apart."""
    if columns.ids is None:
        return accepted
    of_rows = list(compress(columns.ids, rows))
    apart = np.array([ids is not None for ids in of_rows], dtype=bool)
    if not apart.any():
        return accepted
    return accepted.take_apart(apart, id_numbers(b"".join(ids for ids in of_rows if ids is not None)))


def _unpacked(packed: Sequence[bytes], rows: IntArray, width: int) -> IntArray:
    """The cells of some rows, of `width` bytes each."""
    cells = np.frombuffer(b"".join(map(packed.__getitem__, rows.tolist())), dtype=f"<u{width}")
    # Beyond 63 bits there is no alphabet; such a cell is out of range, and must not wrap around into it.
    return (np.minimum(cells, np.uint64(2**63 - 1)) if width == 8 else cells).astype(np.int64)


def _detail(
    index: CollectionIndex, reason: Reason, columns: ReportColumns, received: IntArray, row: int, alphabet: int
) -> str:
    name = columns.collection.names[columns.collection.codes[row]]
    quoted, group = _quoted(name), _quoted(columns.group.names[columns.group.codes[row]])
    revision = f"{int(columns.revision[row]):016x}"
    if reason == "cell_out_of_range" and columns.cells is not None:
        return f"cell {int(columns.cells[row])} of {quoted}, which has 0 to {alphabet - 1}"
    if reason == "unknown_revision":
        explained = explain_unknown(index.collections[index.places[name]], revision, index.collections)
        return f"revision {revision} of {quoted}: {explained}"
    times = f"event time {_moment(int(columns.event_time[row]))} of {quoted}, received at {_moment(int(received[row]))}"
    return {
        "unknown_collection": f"collection {quoted}",
        "ragged_cells": f"a batch of {quoted} whose bytes are no whole number of cells",
        "cell_out_of_range": f"a batch of {quoted} with a cell beyond {alphabet - 1}",
        "conflicting_ids": f"a batch of {quoted} with both id and ids, allowed: one of them",
        "ragged_ids": f"a batch of {quoted} whose ids are not {ID_BYTES} bytes for each cell",
        "unknown_group": f"group {group} of {quoted}",
        "from_the_future": times,
        "too_old": times,
        "too_large": f"a batch of {name!r} under one id, which is larger than one message may be",
    }[reason]


def _quoted(name: str | None) -> str:
    """A name may be as long as a message; its beginning will do.

    >>> _quoted("commute"), len(_quoted("x" * 10**6))
    ("'commute'", 85)
    """
    return repr(name) if name is None or len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]!r}..."


def _moment(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):  # a date that is none
        return f"{milliseconds} ms after 1970"
