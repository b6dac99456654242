"""Decoded reports, judged by the collections they name: accepted, or refused for the first reason that applies.

A report, or a batch of them, is accepted or refused as a whole. Then a batch whose reports have ids is taken apart:
each of them is an upload of its own, as if it had been sent alone. Nothing here needs Beam.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import compress
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, IntArray
from hushgram.revisions import explain_unknown
from hushgram.schemas.columns import ID_BYTES, Labels, ReportColumns, id_numbers
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


LONGEST_NAME = 80
"""Characters of a name that a detail quotes."""


@dataclass(frozen=True)
class Refusal:
    """Uploads refused for one reason. `reports` is None if the number of reports in one of them is unknown."""

    reason: Reason
    reports: int | None
    detail: str
    first_row: int


@dataclass
class _Judged:
    """Rows with what is known of them so far; the first reason that applies to a row stays."""

    reason: IntArray

    def refuse(self, reason: Reason, rows: BoolArray) -> None:
        if rows.any():  # seldom
            self.reason[rows & (self.reason < 0)] = ORDER.index(reason)

    @property
    def fine(self) -> BoolArray:
        return self.reason < 0


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
    rows = len(columns)
    judged = _Judged(np.full(rows, -1, dtype=np.int64))
    collection = _translate(columns.collection, index.places)
    judged.refuse("unknown_collection", collection < 0)

    revision, group = np.full(rows, -1, dtype=np.int64), np.full(rows, -1, dtype=np.int64)
    alphabet = np.zeros(rows, dtype=np.int64)
    for place in {index.places[name] for name in columns.collection.names if name in index.places}:
        of_place, own = collection == place, np.full(rows, -1, dtype=np.int64)
        for position, number in enumerate(index.revision_numbers[place]):
            own = np.where(columns.revision == number, position, own)
        known = of_place & (own >= 0)
        revision = np.where(known, own, revision)
        alphabet = np.where(known, index.alphabets[place][own], alphabet)
        labels = {label: code for code, label in enumerate(index.collections[place].groups)}
        group = np.where(of_place, _translate(columns.group, {None: -1, **labels}, unknown=-2), group)
    judged.refuse("unknown_revision", revision < 0)

    sizes, cells = _cells(columns, alphabet, judged)
    _judge_ids(columns, sizes, judged)
    judged.refuse("unknown_group", group == -2)
    judged.refuse("from_the_future", columns.event_time > received + FUTURE_ALLOWED)
    judged.refuse("too_old", columns.event_time < EARLIEST)
    if aged and len(index.collections):
        # Compared so that no time from outside can overflow.
        judged.refuse("too_old", columns.event_time < received - index.max_ages[np.maximum(collection, 0)])

    everything = Uploads(
        collection, revision, group, columns.event_time, columns.has_id, columns.id, np.maximum(sizes, 0), cells
    )
    return Judgement(index, columns, np.broadcast_to(received, rows), everything, judged.reason, sizes, alphabet)


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


def _judge_ids(columns: ReportColumns, sizes: IntArray, judged: _Judged) -> None:
    """A batch has an id, or its reports have one each; as many as there are cells."""
    if columns.ids is not None:
        lengths = np.array([-1 if ids is None else len(ids) for ids in columns.ids], dtype=np.int64)
        judged.refuse("conflicting_ids", (lengths >= 0) & columns.has_id)
        judged.refuse("ragged_ids", (lengths >= 0) & (lengths != ID_BYTES * sizes))


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
