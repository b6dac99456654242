"""What each step of a batch run costs a report, in one process without Beam: our own code, step by step."""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushgram import Collection
from hushgram._arrays import IntArray
from hushgram.schemas.avro_schemas import REPORT_KINDS, field_names
from hushgram.schemas.columns import decode
from hushgram.schemas.container import inflate
from hushgram.schemas.decoder import decode_records
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.counting import MAX_BUFFERED_CELLS, tally
from hushgram.transforms.deduplication import first_of_each_id, write_ids
from hushgram.transforms.judging import accept
from hushgram.transforms.memory import keep_freed_memory
from hushgram.transforms.parsing import full_name
from hushgram.transforms.sources.avro_files import BlockRun, Damage, ranges, read_range
from hushgram.transforms.spilling import Place, SpillPieces, read_pieces
from hushgram.transforms.uploads import Uploads, ids_of, pieces, unpack

NOW = 2_000_000_000_000
TALLIED_TOGETHER = 8
"""Pieces of a shard: about as many reports as the pipeline counts together."""


def runs_of(paths: Sequence[Path]) -> Iterator[BlockRun]:
    """The files as the pipeline reads them."""
    for path in paths:
        for part in ranges(str(path), path.stat().st_size):
            for run in read_range(*part):
                assert not isinstance(run, Damage)
                yield run


class Stages:
    """Seconds by step, of reports that are read from files, deduplicated and tallied as the pipeline does it."""

    def __init__(self, collections: Sequence[Collection], paths: Sequence[Path]) -> None:
        keep_freed_memory()
        self.index = CollectionIndex.of(collections)
        self.seconds: dict[str, float] = defaultdict(float)
        self.reports = 0
        self.counts = np.zeros(0, dtype=np.int64)
        with tempfile.TemporaryDirectory() as folder:
            self._count(paths, SpillPieces(folder))

    def _count(self, paths: Sequence[Path], spill: SpillPieces) -> None:
        spill.start_bundle()
        shards: dict[int, list[Place]] = defaultdict(list)
        waiting: list[Uploads] = []
        for run in self._each("read", runs_of(paths)):
            uploads = self._uploads(run)
            self.reports += uploads.reports
            identified, anonymous = uploads.by_id
            if len(identified):
                waiting.append(identified)
            self._tally([anonymous])
            if sum(len(part) for part in waiting) > MAX_BUFFERED_CELLS:
                self._send(waiting, spill, shards)
                waiting = []
        if waiting:
            self._send(waiting, spill, shards)
        self._timed("spill", spill.finish_bundle)
        for shard, places in shards.items():
            blocks = self._timed("read back", read_pieces, spill.folder, places)
            masks = self._timed("first of each id", first_of_each_id, [ids_of(block) for block in blocks])
            unique = [
                self._timed("unpack", lambda block, is_first: unpack(block)[0].take(is_first), block, is_first)
                for block, is_first in zip(blocks, masks, strict=True)
            ]
            for first in range(0, len(unique), TALLIED_TOGETHER):
                self._tally(unique[first : first + TALLIED_TOGETHER])
            self._timed("keep ids", write_ids, os.path.join(spill.folder, "ids", str(shard)), blocks, masks)

    def _uploads(self, run: BlockRun) -> Uploads:
        definition = REPORT_KINDS[full_name(run.schema)]
        plain = self._timed("inflate", lambda: b"".join([inflate(block.data, run.codec) for block in run.blocks]))
        count = sum(block.count for block in run.blocks)
        columns = self._timed("decode", decode, definition, run.schema, count, plain)
        return self._timed("judge", accept, self.index, columns, NOW)[0]

    def _send(self, waiting: Sequence[Uploads], spill: SpillPieces, shards: dict[int, list[Place]]) -> None:
        for piece in self._timed("pack by shard", lambda: list(pieces(waiting, NOW))):
            for shard, place in self._timed("spill", lambda piece: list(spill.process(piece)), piece):
                shards[shard].append(place)

    def _tally(self, parts: Sequence[Uploads]) -> None:
        for _, tallies in self._timed("tally", lambda: list(tally(self.index, Uploads.together(parts)))):
            for _, counts in tallies.parts.values():
                self.counts = counts + self.counts if self.counts.size else counts

    def _timed(self, step: str, work: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = work(*arguments)
        self.seconds[step] += time.perf_counter() - start
        return result

    def _each(self, step: str, elements: Iterator[BlockRun]) -> Iterator[BlockRun]:
        while (element := self._timed(step, next, elements, None)) is not None:
            yield element

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def shares(self, seconds: float) -> dict[str, float]:
        """Of each step in a run that took some seconds for each report; Beam has the rest, and the start."""
        shares = {step: cost / self.reports / seconds for step, cost in self.seconds.items()}
        return {**shares, "Beam and the start": 1 - sum(shares.values())}

    def nanoseconds(self) -> dict[str, float]:
        """Of each step, for each report."""
        return {step: 1e9 * seconds / self.reports for step, seconds in self.seconds.items()}


def time_native_alone(paths: Sequence[Path], cells: int) -> tuple[float, IntArray]:
    """Seconds to inflate single reports, decode them and count their cells, all of it native code; and the counts."""
    start = time.perf_counter()
    total = np.zeros(cells, dtype=np.int64)
    for run in runs_of(paths):
        plain = b"".join([inflate(block.data, run.codec) for block in run.blocks])
        count = sum(block.count for block in run.blocks)
        total += np.bincount(decode_records(plain, count, field_names(run.schema)).cells, minlength=cells)
    return time.perf_counter() - start, total
