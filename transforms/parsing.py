"""What a source has read, to uploads: what cannot be used comes out as a dead letter, and nothing raises on data.

A report, or a batch of them, is accepted or refused as a whole, for the first reason that applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushgram.schemas.avro_schemas import REPORT_KINDS, Definition
from hushgram.schemas.columns import DamagedRecordError, ReportColumns, decode
from hushgram.schemas.container import LARGEST_BLOCK, Block, DamagedError, inflate
from hushgram.schemas.framing import Headers, id_in_headers
from hushgram.schemas.messages import Decoded, RefusedMessage, decode_reports
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.dead_messages import DeadMessage, dead_message
from hushgram.transforms.judging import Refusal, accept, judge
from hushgram.transforms.schema_registry import SchemaRegistry, client_of
from hushgram.transforms.sources.avro_files import BlockRun, Damage
from hushgram.transforms.sources.message_batch import Gap, MessageBatch, Read
from hushgram.transforms.uploads import Uploads


@dataclass(frozen=True)
class Parser:
    """In batch everything counts as received at one time, `as_of`, in milliseconds; a stream knows the time itself."""

    index: CollectionIndex
    as_of: int = 0
    registry: SchemaRegistry | None = None
    """Where schemas are looked up that messages name by id; without it, such messages are refused."""
    whole: bool = False
    """Whether messages that are refused come out as they are, too, for a topic of dead letters."""

    def received(self, read: Read) -> int:
        """When the last of what was read was received."""
        if isinstance(read, MessageBatch):
            return self.as_of if read.received is None else int(read.received[-1])
        return self.as_of if read.received is None else read.received

    def parse(self, read: Read) -> Iterator[Uploads | DeadLetter | DeadMessage]:
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
        name = full_name(read.schema)
        definition, start = REPORT_KINDS.get(name), read.blocks[0].offset
        if definition is None:
            count = sum(block.count for block in read.blocks)
            yield DeadLetter("unknown_schema", count, f"records of {name!r}", read.source, start, received)
            return
        yield from self._parse_blocks(read, definition, received)

    def _parse_blocks(self, run: BlockRun, definition: Definition, received: int) -> Iterator[Uploads | DeadLetter]:
        """Many blocks at once; if that fails, block by block. In a damaged one, the records before the damage count."""
        for part, plain in _inflated(run):
            try:
                if isinstance(plain, DamagedError):
                    raise plain
                columns = decode(definition, part.schema, sum(block.count for block in part.blocks), plain)
            except DamagedError as error:
                if len(part.blocks) > 1:
                    for block in part.blocks:
                        yield from self._parse_blocks(replace(part, blocks=(block,)), definition, received)
                    continue
                [block], before = part.blocks, 0
                if isinstance(error, DamagedRecordError):
                    before = len(error.before)
                    yield from self._judge_blocks(part, error.before, received)
                count = block.count - before if definition.counts_reports else None
                yield DeadLetter("undecodable", count, str(error), part.source, block.offset, received, block.data)
                continue
            yield from self._judge_blocks(part, columns, received)

    def _judge_blocks(self, run: BlockRun, columns: ReportColumns, received: int) -> Iterator[Uploads | DeadLetter]:
        uploads, refusals = accept(self.index, columns, received, aged=run.received is not None)
        if len(uploads):
            yield uploads
        for refusal in refusals:
            yield _dead_letter(refusal, run.source, run.blocks[0].offset, received)

    def _parse_messages(self, batch: MessageBatch) -> Iterator[Uploads | DeadLetter | DeadMessage]:
        count, is_stream = len(batch.messages), batch.received is not None
        received = np.full(count, self.as_of) if batch.received is None else batch.received
        decoded, refused = self.decode(batch.messages, batch.headers)
        for places, columns in decoded:
            judgement = judge(self.index, columns, received[places], aged=is_stream)
            uploads = judgement.accepted
            if len(uploads):
                yield uploads
            for refusal in judgement.refusals():
                first = int(places[refusal.first_row])
                yield _dead_letter(refusal, batch.source, batch.position(first), int(received[first]))
            for row in np.flatnonzero(judgement.reason >= 0).tolist() if self.whole else ():
                own = judgement.refusal(np.array([row]))
                yield dead_message(batch, int(places[row]), own.reason, own.detail, decoded=True)
        for part in refused:
            position, payload = batch.position(part.index), batch.messages[part.index] or b""
            when = int(received[part.index])
            yield DeadLetter(part.reason, part.reports, part.detail, batch.source, position, when, payload)
            if self.whole:
                yield dead_message(batch, part.index, part.reason, part.detail, decoded=False)

    def decode(
        self, messages: Sequence[bytes | None], headers: Sequence[Headers | None] | None
    ) -> tuple[list[Decoded], list[RefusedMessage]]:
        """The reports of messages as columns, and the messages that are no reports; may wait for the registry."""
        if self.registry is None:
            return decode_reports(messages)
        ids = [id_in_headers(part) for part in headers] if headers is not None and any(headers) else None
        return decode_reports(messages, client_of(self.registry).schema, ids)


def _inflated(run: BlockRun) -> Iterator[tuple[BlockRun, bytes | DamagedError]]:
    """A run in parts of one block's worth at most, however little they are when compressed; a damaged block by itself.

    So no more than two such parts are in memory at once.
    """
    blocks: list[Block] = []
    plain: list[bytes | bytearray] = []
    size = 0
    for block in run.blocks:
        data: bytes | bytearray | DamagedError
        try:
            data = inflate(block.data, run.codec)
        except DamagedError as error:
            data = error
        if blocks and (isinstance(data, DamagedError) or size + len(data) > LARGEST_BLOCK):
            yield replace(run, blocks=tuple(blocks)), b"".join(plain)
            blocks, plain, size = [], [], 0
        if isinstance(data, DamagedError):
            yield replace(run, blocks=(block,)), data
        else:
            blocks.append(block)
            plain.append(data)
            size += len(data)
    if blocks:
        yield replace(run, blocks=tuple(blocks)), b"".join(plain)


def _dead_letter(refusal: Refusal, source: str, position: int | None, received: int) -> DeadLetter:
    return DeadLetter(refusal.reason, refusal.reports, refusal.detail, source, position, received)


def full_name(schema: dict[str, object]) -> str:
    """The name of a schema with its namespace, of a header that may be anyone's."""
    name, space = str(schema.get("name", "")), str(schema.get("namespace", ""))
    return name if "." in name or not space else f"{space}.{name}"
