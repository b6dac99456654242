"""Report files read as runs of blocks: split at sync markers, in bounded memory, from any of Beam's file systems."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.pvalue import PBegin, PCollection

from hushgram.schemas.container import (
    CODEC_ERRORS,
    SYNC_SIZE,
    Block,
    DamagedError,
    read_block,
    read_header,
    skip_to_sync,
)
from hushgram.schemas.records import Reason
from hushgram.transforms.arguments import AnyPath, check_path
from hushgram.transforms.filesystem import as_text, match_files, open_file

RUN_BYTES = 1 << 19
"""Blocks are handed on in runs of about this many compressed bytes. Each run has a fixed cost, for which a second
thread waits; longer runs gain nothing, since their arrays leave the processor's cache."""

RANGE_BYTES = 64 << 20
"""Large files are split into ranges of this length."""


@dataclass(frozen=True)
class BlockRun:
    """Consecutive blocks of one file, with what its header says; `received` where a stream knows it."""

    source: str
    schema: dict[str, Any]
    codec: str
    blocks: tuple[Block, ...]
    received: int | None = None


@dataclass(frozen=True)
class Damage:
    """A place where nothing could be read, such as a damaged block."""

    source: str
    position: int | None
    detail: str
    received: int | None = None
    reason: Reason = "undecodable"
    reports: int | None = None
    """How many reports it stands for, where that can be known."""


Range = tuple[bytes, int, int]
"""The path of a file, which need not be text, the first byte of a range of it, and the byte behind the last."""


def ranges(path: str, size: int) -> Iterator[Range]:
    """A file in ranges that workers read by themselves.

    A compressed file is one range, of unknown length. An empty file is one range, too: it has no header, and a
    dead letter must say so.
    """
    if CompressionTypes.detect_compression_type(path) != CompressionTypes.UNCOMPRESSED:
        yield os.fsencode(path), 0, sys.maxsize
        return
    for start in range(0, max(size, 1), RANGE_BYTES):
        yield os.fsencode(path), start, max(1, min(start + RANGE_BYTES, size))


def read_range(path: bytes, start: int, end: int) -> Iterator[BlockRun | Damage]:
    """The blocks of a file that begin in a range. Blocks that were appended since it was listed are left alone."""
    with _opened(os.fsdecode(path)) as stream:
        yield from read_file(as_text(os.fsdecode(path)), stream, start, lambda position: position < end)


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """A file to read; an error of its disk names the file."""
    try:
        with open_file(path) as stream:
            yield stream
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, as_text(path)) from None


def fingerprint(path: str) -> str | None:
    """A digest of a file's header and first block, which stay the same when the file is moved, copied, compressed or
    appended to; its random sync marker makes it one of a kind. None where there is no first block."""
    try:
        with _opened(path) as stream:
            header = read_header(stream)
            block = read_block(stream, header.sync)
    except CODEC_ERRORS as error:
        _only_damage(error)
        return None
    return None if block is None else hashlib.sha256(header.sync + block.data).hexdigest()[:32]


@dataclass
class ReadReportFiles(beam.PTransform[PBegin, PCollection[BlockRun | Damage]]):
    """Files, given as (path, size). A damaged block is skipped; later blocks are still read."""

    files: Sequence[tuple[str, int]]

    def expand(self, pipeline: PBegin) -> PCollection[BlockRun | Damage]:
        parts = [part for path, size in self.files for part in ranges(path, size)]
        return (
            pipeline
            | "Ranges" >> beam.Create(parts, reshuffle=False)
            | "Spread" >> beam.Reshuffle()
            | "Blocks" >> beam.FlatMapTuple(read_range).with_output_types(BlockRun | Damage)
        )


@dataclass
class ReadReports(beam.PTransform[PBegin, PCollection[BlockRun | Damage]]):
    """The report files that match a pattern, on any file system that Beam knows; for `AggregateReports`.

    Files are listed when the pipeline is constructed. They hold records of the schemas Report or ReportBatch; a damaged
    block is skipped and becomes a dead letter. Raises FileNotFoundError if nothing matches.

    >>> import apache_beam as beam
    >>> beam.Pipeline() | ReadReports("no/such/folder/*.avro")
    Traceback (most recent call last):
    FileNotFoundError: no file matches no/such/folder/*.avro
    """

    pattern: AnyPath

    def __post_init__(self) -> None:
        super().__init__()
        self.pattern = check_path("pattern", self.pattern)

    def expand(self, pipeline: PBegin) -> PCollection[BlockRun | Damage]:
        files = match_files(os.fspath(self.pattern)).files
        if not files:
            raise FileNotFoundError(f"no file matches {self.pattern}")
        absolute = [(file.path if "://" in file.path else os.path.abspath(file.path), file.size) for file in files]
        return pipeline | "Files" >> ReadReportFiles(absolute)


def read_file(name: str, stream: BinaryIO, start: int, claim: Any) -> Iterator[BlockRun | Damage]:
    """The blocks that begin at or after `start`, while `claim` takes their positions.

    A block is claimed at the byte behind the sync marker before it, so that every block belongs to one range. Behind a
    damaged block reading goes on; where the compression of a whole file is damaged there is nothing to go on with.
    Before a disk's error is raised, what was read is handed out: of the blocks claimed, all but the last.
    """
    try:
        header = read_header(stream)
    except CODEC_ERRORS as error:
        _only_damage(error)
        if claim(start) and start == 0:
            yield Damage(name, 0, str(error))
        return
    if start > header.size:
        stream.seek(start - SYNC_SIZE)
        if not skip_to_sync(stream, header.sync):
            return
    blocks: list[Block] = []
    size = 0
    while True:
        position = stream.tell()
        if not claim(position):
            break
        try:
            block = read_block(stream, header.sync)
        except CODEC_ERRORS as error:
            if blocks:
                yield BlockRun(name, header.schema, header.codec, tuple(blocks))
                blocks, size = [], 0
            _only_damage(error)
            found, passed_over = _skip(stream, position, header.sync, error)
            yield Damage(name, position, f"{error}; {passed_over}")
            if not found:
                return
            continue
        if block is None:
            break
        blocks.append(block)
        size += len(block.data)
        if size >= RUN_BYTES:
            yield BlockRun(name, header.schema, header.codec, tuple(blocks))
            blocks, size = [], 0
    if blocks:
        yield BlockRun(name, header.schema, header.codec, tuple(blocks))


def _only_damage(error: Exception) -> None:
    """A disk or network that fails is no damage: it is raised, for the engine to try again."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _skip(stream: BinaryIO, position: int, sync: bytes, error: Exception) -> tuple[bool, str]:
    """Whether there is a block behind the damaged one, and what was passed over to get there."""
    if isinstance(error, DamagedError):
        try:
            stream.seek(position)
            return skip_to_sync(stream, sync), f"{stream.tell() - position} bytes passed over"
        except CODEC_ERRORS as broken:
            _only_damage(broken)
    return False, "the rest of the file cannot be decompressed"
