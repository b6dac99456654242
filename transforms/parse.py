"""Runs of blocks to uploads: what cannot be used comes out as a letter, and nothing raises on data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.columns import ReportColumns, decode
from schemas.container import LARGEST_BLOCK, DamagedError, inflate
from schemas.definitions import REPORT_KINDS, Definition
from schemas.records import DeadLetter, Reason
from transforms.plan import Plan
from transforms.sources.avro_files import Damage, Run
from transforms.uploads import Uploads, accept


@dataclass(frozen=True)
class Parser:
    """Everything from here on is judged as received at one time, in milliseconds."""

    plan: Plan
    received: int

    def parse(self, read: Run | Damage) -> Iterator[Uploads | DeadLetter]:
        if isinstance(read, Damage):
            yield self._letter("undecodable", None, read.detail, read.source, read.position)
            return
        definition = REPORT_KINDS.get(_full_name(read.schema))
        if definition is None:
            count = sum(block.count for block in read.blocks)
            detail = f"records of {_full_name(read.schema)!r}"
            yield self._letter("unknown_schema", count, detail, read.source, read.blocks[0].offset)
            return
        yield from self._parse_blocks(read, definition)

    def _parse_blocks(self, run: Run, definition: Definition) -> Iterator[Uploads | DeadLetter]:
        """Joined if all is well; block by block if not, so that a damaged one costs itself alone."""
        try:
            plain = [inflate(block.data, run.codec) for block in run.blocks]
            if sum(map(len, plain)) > LARGEST_BLOCK:
                raise DamagedError("more than one block's worth at once")
            columns = decode(definition, run.schema, sum(block.count for block in run.blocks), b"".join(plain))
        except DamagedError as error:
            if len(run.blocks) > 1:
                for block in run.blocks:
                    yield from self._parse_blocks(Run(run.source, run.schema, run.codec, (block,)), definition)
                return
            [block] = run.blocks
            count = block.count if definition.counts_reports else None
            yield self._letter("undecodable", count, str(error), run.source, block.offset, block.data)
            return
        yield from self._judge(columns, run)

    def _judge(self, columns: ReportColumns, run: Run) -> Iterator[Uploads | DeadLetter]:
        uploads, refusals = accept(self.plan, columns, self.received)
        if len(uploads):
            yield uploads
        for refusal in refusals:
            yield self._letter(refusal.reason, refusal.reports, refusal.detail, run.source, run.blocks[0].offset)

    def _letter(
        self, reason: Reason, reports: int | None, detail: str, source: str, position: int, payload: bytes = b""
    ) -> DeadLetter:
        return DeadLetter(reason, reports, detail, source, position, self.received, payload)


def _full_name(schema: dict[str, object]) -> str:
    name, space = str(schema.get("name", "")), str(schema.get("namespace", ""))
    return name if "." in name or not space else f"{space}.{name}"
