"""Many reports to few batches: those of one collection, revision, group and slice go together, in random order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hushgram._arrays import IntArray
from hushgram.schemas.writer import pack_batch
from hushgram.transforms.collection_index import CollectionIndex, cell_width
from hushgram.transforms.uploads import Uploads

LARGEST_BATCH = 20_000
"""Reports in a batch: with ids half a megabyte, where brokers take one."""

Batch = dict[str, Any]
"""The record of a ReportBatch."""


def pack(index: CollectionIndex, uploads: Uploads, rng: np.random.Generator) -> list[Batch]:
    """The batches that hold all reports of some uploads, whose event times have been cut to slices.

    Each report keeps its own id; those without one are in batches without. An upload of several reports with one id for
    all stays together, since it counts as a whole or not at all; only the order of its reports is lost.
    """
    whole = uploads.has_id & (uploads.sizes > 1)
    batches = list(_mixed(index, uploads, np.flatnonzero(~whole), rng))
    for row in np.flatnonzero(whole).tolist():
        batch = _batch(index, uploads, row, rng.permutation(uploads.cells[uploads.cells_of(np.array([row]))]), None)
        batches.append({**batch, "id": uploads.id[row].astype(">u8").tobytes()})
    rng.shuffle(batches)
    return batches


def _mixed(index: CollectionIndex, uploads: Uploads, rows: IntArray, rng: np.random.Generator) -> Iterator[Batch]:
    """The reports of some uploads, whoever sent them, put together anew."""
    if not uploads.sizes[rows].any():
        return
    cells = uploads.cells[uploads.cells_of(rows)]
    row_of = np.repeat(rows, uploads.sizes[rows])
    kind = _kinds(uploads, row_of)
    order = rng.permutation(row_of.size)
    order = order[np.argsort(kind[order], kind="stable")]
    begins = np.flatnonzero(np.diff(kind[order], prepend=-1)).tolist()
    for begin, end in zip(begins, [*begins[1:], order.size], strict=True):
        for start in range(begin, end, LARGEST_BATCH):
            part = order[start : min(end, start + LARGEST_BATCH)]
            row = int(row_of[part[0]])
            yield _batch(index, uploads, row, cells[part], row_of[part] if uploads.has_id[row] else None)


def _kinds(uploads: Uploads, row_of: IntArray) -> IntArray:
    """A number for each report: equal where collection, revision, group and slice are, and both have an id or none."""
    kind, kinds = np.zeros(uploads.sizes.size, dtype=np.int64), 1
    has_id: IntArray = uploads.has_id.astype(np.int64)
    for column in (uploads.collection, uploads.revision, uploads.group, has_id, uploads.event_time):
        codes, count = _codes(column)
        if kinds * count >= 2**62:
            kind, kinds = _codes(np.unique(kind, return_inverse=True)[1].astype(np.int64))
        kind, kinds = kind * count + codes, kinds * count
    # Few kinds are sorted in a time that does not grow faster than the number of reports.
    narrow: Any = np.int16 if kinds < 2**15 else np.int64
    return kind.astype(narrow)[row_of]


def _codes(column: IntArray) -> tuple[IntArray, int]:
    """Numbers below a count, equal where the column is; without sorting, where few steps lead from least to greatest.

    >>> _codes(np.array([7_200_000, 0, 3_600_000, 0]))
    (array([2, 0, 1, 0]), 3)
    """
    above = column - column.min()
    above //= np.gcd.reduce(above) or 1
    if int(above.max()) >= above.size + 2**15:
        above = np.unique(above, return_inverse=True)[1].astype(np.int64)
    return above, int(above.max()) + 1


def _batch(index: CollectionIndex, uploads: Uploads, row: int, cells: IntArray, ids_of: IntArray | None) -> Batch:
    """A batch of some cells, with all that its reports have in common from one of them, and the ids of some rows."""
    place, revision, group = int(uploads.collection[row]), int(uploads.revision[row]), int(uploads.group[row])
    ids = None if ids_of is None else uploads.id.take(ids_of, axis=0).astype(">u8").view(np.uint8).reshape(-1, 16)
    return pack_batch(
        index.collections[place].name,
        index.revisions[place][revision].revision,
        cells,
        cell_width(int(index.alphabets[place][revision])),
        int(uploads.event_time[row]),
        None if group < 0 else index.collections[place].groups[group],
        ids,
    )
