"""What a source has read, to uploads: what cannot be used comes out as a dead letter, and nothing raises on data.

A report, or a batch of them, is accepted or refused as a whole, for the first reason that applies. Then a batch whose
reports have ids is taken apart: each of them is an upload of its own, as if it had been sent alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import compress
from typing import Any

import numpy as np

from hushgram._arrays import BoolArray, IntArray
from hushgram.revisions import explain_unknown
from hushgram.schemas.avro_schemas import REPORT_KINDS, Definition
from hushgram.schemas.columns import ID_BYTES, Labels, ReportColumns, decode, id_numbers
from hushgram.schemas.container import LARGEST_BLOCK, DamagedError, inflate
from hushgram.schemas.messages import decode_reports
from hushgram.schemas.records import DeadLetter, Reason
from hushgram.transforms.collection_index import EARLIEST, FUTURE_ALLOWED, CollectionIndex, cell_width
from hushgram.transforms.sources.avro_files import BlockRun, Damage
from hushgram.transforms.sources.message_batch import Gap, MessageBatch, Read
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
)


@dataclass(frozen=True)
class Parser:
    """In batch everything counts as received at one time, `as_of`, in milliseconds; a stream knows the time itself."""

    index: CollectionIndex
    as_of: int = 0

    def received(self, read: Read) -> int:
        """When the last of what was read was received."""
        if isinstance(read, MessageBatch):
            return self.as_of if read.received is None else int(read.received[-1])
        return self.as_of if read.received is None else read.received

    def parse(self, read: Read) -> Iterator[Uploads | DeadLetter]:
        if isinstance(read, MessageBatch):
            yield from self._parse_messages(read)
            return
        received = self.received(read)
        if isinstance(read, Damage):
            yield DeadLetter(read.reason, read.reports, read.detail, read.source, read.position, received)
            return
        if isinstance(read, Gap):
            yield DeadLetter("deleted_unread", None, read.detail, read.source, read.position, received)
            return
        name = _full_name(read.schema)
        definition, start = REPORT_KINDS.get(name), read.blocks[0].offset
        if definition is None:
            count = sum(block.count for block in read.blocks)
            yield DeadLetter("unknown_schema", count, f"records of {name!r}", read.source, start, received)
            return
        yield from self._parse_blocks(read, definition, received)

    def _parse_blocks(self, run: BlockRun, definition: Definition, received: int) -> Iterator[Uploads | DeadLetter]:
        """All blocks at once; if that fails, block by block, so that only damaged ones are refused."""
        try:
            plain = [inflate(block.data, run.codec) for block in run.blocks]
            if sum(map(len, plain)) > LARGEST_BLOCK:
                raise DamagedError("more than one block's worth at once")
            columns = decode(definition, run.schema, sum(block.count for block in run.blocks), b"".join(plain))
        except DamagedError as error:
            if len(run.blocks) > 1:
                for block in run.blocks:
                    yield from self._parse_blocks(replace(run, blocks=(block,)), definition, received)
                return
            [block] = run.blocks
            count = block.count if definition.counts_reports else None
            yield DeadLetter("undecodable", count, str(error), run.source, block.offset, received, block.data)
            return
        uploads, refusals = accept(self.index, columns, received, aged=run.received is not None)
        if len(uploads):
            yield uploads
        for refusal in refusals:
            yield _dead_letter(refusal, run.source, run.blocks[0].offset, received)

    def _parse_messages(self, batch: MessageBatch) -> Iterator[Uploads | DeadLetter]:
        count, is_stream = len(batch.messages), batch.received is not None
        received = np.full(count, self.as_of) if batch.received is None else batch.received
        decoded, refused = decode_reports(batch.messages)
        for places, columns in decoded:
            uploads, refusals = accept(self.index, columns, received[places], aged=is_stream)
            if len(uploads):
                yield uploads
            for refusal in refusals:
                first = int(places[refusal.first_row])
                yield _dead_letter(refusal, batch.source, batch.position(first), int(received[first]))
        for part in refused:
            position, payload = batch.position(part.index), batch.messages[part.index] or b""
            when = int(received[part.index])
            yield DeadLetter(part.reason, part.reports, part.detail, batch.source, position, when, payload)


def _dead_letter(refusal: Refusal, source: str, position: int | None, received: int) -> DeadLetter:
    return DeadLetter(refusal.reason, refusal.reports, refusal.detail, source, position, received)


def _full_name(schema: dict[str, object]) -> str:
    name, space = str(schema.get("name", "")), str(schema.get("namespace", ""))
    return name if "." in name or not space else f"{space}.{name}"


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
        self.reason[rows & (self.reason < 0)] = ORDER.index(reason)

    @property
    def fine(self) -> BoolArray:
        return self.reason < 0


def accept(
    index: CollectionIndex, columns: ReportColumns, received: int | IntArray, aged: bool = False
) -> tuple[Uploads, list[Refusal]]:
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
    accepted = _each_with_its_id(everything.take(judged.fine), columns, judged.fine)
    times = np.broadcast_to(received, rows)
    return accepted, _refusals(index, columns, times, judged.reason, sizes, alphabet)


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


def _refusals(
    index: CollectionIndex,
    columns: ReportColumns,
    received: IntArray,
    reason: IntArray,
    sizes: IntArray,
    alphabet: IntArray,
) -> list[Refusal]:
    """One refusal for each reason, with the first upload as the example."""
    refusals = []
    for code in np.unique(reason[reason >= 0]).tolist():
        rows = np.flatnonzero(reason == code)
        known = bool((sizes[rows] >= 0).all())
        detail = _detail(index, ORDER[code], columns, received, int(rows[0]), int(alphabet[rows[0]]))
        more = f", and {rows.size - 1} more" if rows.size > 1 else ""
        reports = int(sizes[rows].sum()) if known else None
        refusals.append(Refusal(ORDER[code], reports, detail + more, int(rows[0])))
    return refusals


def _detail(
    index: CollectionIndex, reason: Reason, columns: ReportColumns, received: IntArray, row: int, alphabet: int
) -> str:
    name = columns.collection.names[columns.collection.codes[row]]
    revision = f"{int(columns.revision[row]):016x}"
    group = columns.group.names[columns.group.codes[row]]
    if reason == "cell_out_of_range" and columns.cells is not None:
        return f"cell {int(columns.cells[row])} of {name!r}, which has 0 to {alphabet - 1}"
    if reason == "unknown_revision":
        explained = explain_unknown(index.collections[index.places[name]], revision, index.collections)
        return f"revision {revision} of {name!r}: {explained}"
    times = f"event time {_moment(int(columns.event_time[row]))} of {name!r}, received at {_moment(int(received[row]))}"
    return {
        "unknown_collection": f"collection {name!r}",
        "ragged_cells": f"a batch of {name!r} whose bytes are no whole number of cells",
        "cell_out_of_range": f"a batch of {name!r} with a cell beyond {alphabet - 1}",
        "conflicting_ids": f"a batch of {name!r} with both id and ids, allowed: one of them",
        "ragged_ids": f"a batch of {name!r} whose ids are not {ID_BYTES} bytes for each cell",
        "unknown_group": f"group {group!r} of {name!r}",
        "from_the_future": times,
        "too_old": times,
    }[reason]


def _moment(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):  # a date that is none
        return f"{milliseconds} ms after 1970"
