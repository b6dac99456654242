"""What a source has read, to uploads: what cannot be used comes out as a letter, and nothing raises on data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hushgram.arrays import IntArray
from schemas.columns import ReportColumns, decode
from schemas.container import LARGEST_BLOCK, DamagedError, inflate
from schemas.definitions import REPORT_KINDS, Definition
from schemas.messages import decode_reports
from schemas.records import DeadLetter
from transforms.plan import Plan
from transforms.sources.avro_files import Damage, Run
from transforms.sources.poll import Gap, Poll
from transforms.uploads import Refusal, Uploads, accept

Read = Run | Damage | Poll | Gap


@dataclass(frozen=True)
class Parser:
    """In batch everything counts as received at one time, `as_of`, in milliseconds; a stream knows the time itself."""

    plan: Plan
    as_of: int = 0

    def received(self, read: Read) -> int:
        """When the last of what was read was received."""
        if isinstance(read, Poll):
            return int(read.received[-1])
        return self.as_of if read.received is None else read.received

    def parse(self, read: Read) -> Iterator[Uploads | DeadLetter]:
        if isinstance(read, Poll):
            yield from self._parse_poll(read)
            return
        received = self.received(read)
        if isinstance(read, Damage):
            yield DeadLetter(read.reason, None, read.detail, read.source, read.position, received)
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

    def _parse_blocks(self, run: Run, definition: Definition, received: int) -> Iterator[Uploads | DeadLetter]:
        """Joined if all is well; block by block if not, so that a damaged one costs itself alone."""
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
        uploads, refusals = accept(self.plan, columns, received, aged=run.received is not None)
        if len(uploads):
            yield uploads
        for refusal in refusals:
            yield _letter(refusal, run.source, run.blocks[0].offset, received)

    def _parse_poll(self, poll: Poll) -> Iterator[Uploads | DeadLetter]:
        decoded, refused = decode_reports(poll.messages)
        for places, columns in decoded:
            yield from self._judge(poll, places, columns)
        for part in refused:
            position, received = poll.position(part.index), int(poll.received[part.index])
            payload = poll.messages[part.index] or b""
            yield DeadLetter(part.reason, part.reports, part.detail, poll.source, position, received, payload)

    def _judge(self, poll: Poll, places: IntArray, columns: ReportColumns) -> Iterator[Uploads | DeadLetter]:
        uploads, refusals = accept(self.plan, columns, poll.received[places], aged=True)
        if len(uploads):
            yield uploads
        for refusal in refusals:
            first = int(places[refusal.first_row])
            yield _letter(refusal, poll.source, poll.position(first), int(poll.received[first]))


def _letter(refusal: Refusal, source: str, position: int | None, received: int) -> DeadLetter:
    return DeadLetter(refusal.reason, refusal.reports, refusal.detail, source, position, received)


def _full_name(schema: dict[str, object]) -> str:
    name, space = str(schema.get("name", "")), str(schema.get("namespace", ""))
    return name if "." in name or not space else f"{space}.{name}"
