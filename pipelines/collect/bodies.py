"""The body of a request to reports, judged: pure, and within bounds whatever a stranger sends.

What is refused is refused for the reasons of dead letters. The place of a refusal is the number of the report, or
batch, in its body. The details of a refusal are for the answer only: they may quote what was sent.
"""

from __future__ import annotations

import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hushgram._arrays import IntArray
from hushgram.manifest.event_times import device_slice
from hushgram.pipelines.collect.limits import LARGEST_JSON
from hushgram.schemas.avro_schemas import REPORT_KINDS
from hushgram.schemas.columns import ReportColumns, canonical_form, decode
from hushgram.schemas.container import DamagedError, Header, OversizedError, inflate, read_block, read_header
from hushgram.schemas.messages import decode_reports, encode_report
from hushgram.schemas.records import Reason
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.judging import ORDER, Judgement, judge
from hushgram.transforms.uploads import Uploads

SCHEMAS = {
    canonical: (definition, version)
    for definition in REPORT_KINDS.values()
    for canonical, version in definition.canonical_versions.items()
}
"""The schemas that files may be written with: those of other people's making may describe any amount of memory."""
MOST_BLOCKS = 4096
"""Of a file; writers make blocks of thousands of bytes."""
MOST_ONE_BY_ONE = 16_384
"""What a body may hold of things that take time one by one: reports in JSON, and batches under an id of their own."""
LARGEST_WHOLE = 1 << 19
"""Bytes of the cells of a batch under one id, which becomes one message: by default brokers take twice as many."""
ON_THE_WAY_MS = 60_000
"""A report may take this long from here to where it is counted, and must not become too old meanwhile."""


class TooLargeError(Exception):
    """A body of more bytes than are allowed, as it is or when it is decompressed, or of more of something else."""

    def __init__(self, limit: int, what: str = "bytes, as it is or decompressed") -> None:
        super().__init__(f"a body of more than {limit} {what}")


@dataclass(frozen=True)
class Refused:
    """Reports that are not taken. `reports` is None if their number cannot be known; they count as one then."""

    reason: Reason
    reports: int | None
    detail: str
    place: int = 0
    collection: str | None = None
    """The name of the collection, if it is one of ours."""

    @property
    def counted(self) -> int:
        return 1 if self.reports is None else self.reports


@dataclass(frozen=True)
class Judged:
    """A body: what is accepted of it, and what is not."""

    accepted: tuple[Uploads, ...] = ()
    refused: tuple[Refused, ...] = ()

    @cached_property
    def reports(self) -> int:
        """How many are accepted."""
        return sum(part.reports for part in self.accepted)


@dataclass(frozen=True)
class StricterIndex(CollectionIndex):
    """Collections whose reports may be a little less old than they say."""

    @cached_property
    def max_ages(self) -> IntArray:
        ages = np.array([collection.windows.max_age for collection in self.collections], dtype=np.int64)
        return ages - np.minimum(ON_THE_WAY_MS, ages // 10)

    @cached_property
    def slices(self) -> dict[str, tuple[int, int]]:
        """By collection, the length of the slices that times are cut to, and where one of them begins."""
        return {collection.name: device_slice(collection.windows) for collection in self.collections}


def cut_times(index: StricterIndex, columns: ReportColumns) -> ReportColumns:
    """Event times cut to the slices of their collections, as devices should have done."""
    times = columns.event_time.copy()
    for code, name in enumerate(columns.collection.names):
        if name in index.slices:
            length, first = index.slices[name]
            rows = columns.collection.codes == code
            # Times that far away are refused in any case, and must not wrap around.
            since = np.clip(times[rows], -(2**62), 2**62) - first
            times[rows] = since // length * length + first
    return replace(columns, event_time=times)


def judge_columns(index: StricterIndex, columns: ReportColumns, now: int) -> Judgement:
    """By what will be kept: a time that is too old once it is cut is too old; and it must fit into a message."""
    judgement = judge(index, cut_times(index, columns), now, aged=True)
    if columns.packed is None:
        return judgement
    large = columns.has_id & np.array([len(cells) > LARGEST_WHOLE for cells in columns.packed], dtype=bool)
    reason = np.where(large & (judgement.reason < 0), ORDER.index("too_large"), judgement.reason)
    return replace(judgement, reason=reason)


def judge_messages(
    index: StricterIndex, messages: Sequence[bytes], now: int
) -> tuple[list[Uploads], dict[int, Refused]]:
    """Messages, each of a sender of its own: what is accepted of all, and by number those that are not."""
    accepted, refused = list[Uploads](), dict[int, Refused]()
    decoded, unreadable = decode_reports(messages)
    for part in unreadable:
        refused[part.index] = Refused(part.reason, part.reports, part.detail)
    for places, columns in decoded:
        judgement = judge_columns(index, columns, now)
        if len(found := judgement.accepted):
            accepted.append(found)
        for row in np.flatnonzero(judgement.reason >= 0).tolist():
            refused[int(places[row])] = _refused(judgement, np.array([row]))
    return accepted, refused


def judge_message(index: StricterIndex, message: bytes, now: int) -> Judged:
    """One message: a Report or a ReportBatch."""
    accepted, refused = judge_messages(index, [message], now)
    return _nonempty(Judged(tuple(accepted), tuple(refused.values())))


def judge_json(index: StricterIndex, body: bytes, now: int) -> Judged:
    """One report, or a list of them, as objects with the fields of a Report; revision and id are hexadecimal digits.

    >>> from hushgram import Collection
    >>> index = StricterIndex((Collection(name="c", low=0, high=1, epsilon=1.0),))
    >>> [refused] = judge_json(index, b'{"collection": "c", "cell": "3"}', 0).refused
    >>> refused.reason, refused.detail
    ('undecodable', 'revision: got none, allowed: 8 bytes, or their hexadecimal digits')
    """
    if len(body) > LARGEST_JSON:
        raise TooLargeError(LARGEST_JSON)
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return Judged(refused=(Refused("undecodable", None, "a body that is no JSON"),))
    records: list[Any] = parsed if isinstance(parsed, list) else [parsed]
    if len(records) > MOST_ONE_BY_ONE:
        raise TooLargeError(MOST_ONE_BY_ONE, "reports in JSON")
    messages, places, refused = list[bytes](), list[int](), list[Refused]()
    for place, record in enumerate(records):
        try:
            if not isinstance(record, dict):
                raise DamagedError("a report that is no object")
            messages.append(encode_report(record))
            places.append(place)
        except DamagedError as error:
            refused.append(Refused("undecodable", 1, str(error), place))
    accepted, wrong = judge_messages(index, messages, now)
    refused += [replace(part, place=places[number]) for number, part in wrong.items()]
    return _nonempty(Judged(tuple(accepted), _by_reason(refused)))


def judge_file(index: StricterIndex, body: bytes, now: int, limit: int) -> Judged:
    """An Avro file of Reports or ReportBatches, written with one of the published schemas.

    All blocks are decoded at once, however small they are; a file with damage in it is refused as a whole.
    """
    try:
        header, count, plain = _read_file(body, limit)
        known = SCHEMAS.get(canonical_form(header.schema))
        if known is None:
            detail = "another schema than that of Report or ReportBatch, as published"
            return Judged(refused=(Refused("unknown_schema", None, detail),))
        columns = decode(*known, count, plain)
        if columns.packed is not None and np.count_nonzero(columns.has_id) > MOST_ONE_BY_ONE:
            raise TooLargeError(MOST_ONE_BY_ONE, "batches under an id of their own")
        judgement = judge_columns(index, columns, now)
    except DamagedError as error:
        return Judged(refused=(Refused("undecodable", None, str(error)),))
    return _nonempty(Judged((judgement.accepted,), tuple(_refusals(judgement))))


def _read_file(body: bytes, limit: int) -> tuple[Header, int, bytes]:
    """The header of a file, and the number and the bytes of its records."""
    stream, blocks, count, size = io.BytesIO(body), list[bytes](), 0, 0
    header = read_header(stream)
    while (block := read_block(stream, header.sync)) is not None:
        if len(blocks) == MOST_BLOCKS:
            raise DamagedError(f"more than {MOST_BLOCKS} blocks")
        blocks.append(_inflated(block.data, header.codec, limit, size))
        count, size = count + block.count, size + len(blocks[-1])
    return header, count, b"".join(blocks)


def _inflated(data: bytes, codec: str, limit: int, before: int) -> bytes:
    """A block, unless that makes more than the limit with those before it."""
    try:
        plain = inflate(data, codec, limit - before)
    except OversizedError:
        raise TooLargeError(limit) from None
    if before + len(plain) > limit:
        raise TooLargeError(limit)
    return bytes(plain)  # no more memory than it has bytes


def gunzip(body: bytes, limit: int) -> bytes:
    """A body without its content encoding; `DamagedError` if it is not all of one gzip stream."""
    decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = decompressor.decompress(body, limit + 1)
    except zlib.error:
        raise DamagedError("a body that is no gzip") from None
    if len(plain) > limit:
        raise TooLargeError(limit)
    if not decompressor.eof or decompressor.unused_data:
        raise DamagedError("a body that is not one whole gzip stream")
    return plain


def _refused(judgement: Judgement, rows: IntArray) -> Refused:
    refusal = judgement.refusal(rows)
    name = judgement.columns.collection.names[judgement.columns.collection.codes[refusal.first_row]]
    known = name if name in judgement.index.places else None
    return Refused(refusal.reason, refusal.reports, refusal.detail, refusal.first_row, known)


def _refusals(judgement: Judgement) -> Iterator[Refused]:
    """One for each reason and collection, with the first row as the example."""
    refused = np.flatnonzero(judgement.reason >= 0)
    reason, place = judgement.reason[refused], judgement.uploads.collection[refused]  # of no collection: -1
    kind = reason * (len(judgement.index.collections) + 1) + place + 1
    rows = refused[np.argsort(kind, kind="stable")]
    counts = np.unique(kind, return_counts=True)[1]
    for end, count in zip(np.cumsum(counts).tolist(), counts.tolist(), strict=True):
        yield _refused(judgement, rows[end - count : end])


def _by_reason(refused: Sequence[Refused]) -> tuple[Refused, ...]:
    """One for each reason and collection, with the first of them as the example."""
    first: dict[tuple[str, str | None], Refused] = {}
    counts: Counter[tuple[str, str | None]] = Counter()
    for part in sorted(refused, key=lambda part: part.place):
        key = part.reason, part.collection
        first.setdefault(key, part)
        counts[key] += part.counted
    return tuple(replace(part, reports=counts[key]) for key, part in first.items())


def _nonempty(judged: Judged) -> Judged:
    if judged.reports or judged.refused:
        return judged
    return Judged(refused=(Refused("undecodable", None, "a body without reports"),))
