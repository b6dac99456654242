"""Many reports to few batches: those of one collection, revision, group and slice go together, in random order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, IntArray
from hushgram.schemas.writer import pack_batch
from hushgram.transforms.collection_index import CollectionIndex, cell_width
from hushgram.transforms.uploads import Uploads

LARGEST_BATCH = 20_000
"""Reports in a batch: with ids half a megabyte, where brokers take one."""

Batch = dict[str, Any]
"""The record of a ReportBatch."""


def random_order(count: int) -> IntArray:
    """A permutation by the randomness of the operating system, so that from no order anything follows for another."""
    return np.argsort(np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64))


def pack(index: CollectionIndex, uploads: Uploads, shuffle: Callable[[int], IntArray] = random_order) -> list[Batch]:
    """The batches that hold all reports of some uploads, whose event times have been cut to slices.

    Each report keeps its own id; those without one are in batches without. An upload of several reports with one id for
    all stays together, since it counts as a whole or not at all; only the order of its reports is lost.
    """
    batches = list(_batches(index, uploads, shuffle))
    return [batches[place] for place in shuffle(len(batches)).tolist()]


def _batches(index: CollectionIndex, uploads: Uploads, shuffle: Callable[[int], IntArray]) -> Iterator[Batch]:
    """By kind; of each kind in random order."""
    if not uploads.cells.size:
        return
    whole = uploads.has_id & (uploads.sizes > 1)
    row_of = np.repeat(np.arange(len(uploads)), uploads.sizes)
    kind = _kinds(uploads, whole)[row_of]
    order = shuffle(row_of.size)
    order = order[np.argsort(kind[order], kind="stable")]
    begins = np.flatnonzero(np.diff(kind[order], prepend=-1)).tolist()
    for begin, end in zip(begins, [*begins[1:], order.size], strict=True):
        row = int(row_of[order[begin]])
        size = end - begin if whole[row] else LARGEST_BATCH
        for start in range(begin, end, size):
            part = order[start : min(end, start + size)]
            yield _batch(index, uploads, row_of[part], uploads.cells[part], bool(whole[row]))


def _kinds(uploads: Uploads, whole: BoolArray) -> IntArray:
    """A number for each upload: equal where collection, revision, group and slice are, and both have an id or none.

    Those that stay whole have each a kind of their own.
    """
    kind, kinds = np.zeros(uploads.sizes.size, dtype=np.int64), 1
    has_id: IntArray = uploads.has_id.astype(np.int64)
    for column in (uploads.collection, uploads.revision, uploads.group, has_id, uploads.event_time):
        codes, count = _codes(column)
        if kinds * count >= 2**62:
            kind, kinds = _codes(np.unique(kind, return_inverse=True)[1].astype(np.int64))
        kind, kinds = kind * count + codes, kinds * count
    alone = np.flatnonzero(whole)
    kind[alone] = np.arange(kinds, kinds + alone.size)
    # Few kinds are sorted in a time that does not grow faster than the number of reports.
    narrow: Any = np.int16 if kinds + alone.size < 2**15 else np.int64
    return kind.astype(narrow)


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


def _batch(index: CollectionIndex, uploads: Uploads, rows: IntArray, cells: IntArray, whole: bool) -> Batch:
    """Cells of some rows, which have all but their ids in common; in a whole batch these, too."""
    row = int(rows[0])
    place, revision, group = int(uploads.collection[row]), int(uploads.revision[row]), int(uploads.group[row])
    ids = uploads.id.take(rows[:1] if whole else rows, axis=0).astype(">u8").view(np.uint8).reshape(-1, 16)
    batch = pack_batch(
        index.collections[place].name,
        index.revisions[place][revision].revision,
        cells,
        cell_width(int(index.alphabets[place][revision])),
        int(uploads.event_time[row]),
        None if group < 0 else index.collections[place].groups[group],
        ids if uploads.has_id[row] and not whole else None,
    )
    return {**batch, "id": ids.tobytes()} if whole else batch
