"""Report files read as runs of blocks: split at sync markers, in bounded memory, from any of Beam's file systems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from apache_beam.io import iobase
from apache_beam.io.filebasedsource import FileBasedSource

from schemas.container import CODEC_ERRORS, SYNC_SIZE, Block, DamagedError, read_block, read_header, skip_to_sync

RUN_BYTES = 1 << 20
"""Blocks are handed on in runs of about so many compressed bytes: decoding has a price per run, whatever its length."""


@dataclass(frozen=True)
class Run:
    """Consecutive blocks of one file, with what its header says; `received` where a stream knows it."""

    source: str
    schema: dict[str, Any]
    codec: str
    blocks: tuple[Block, ...]
    received: int | None = None


@dataclass(frozen=True)
class Damage:
    """A place in a file where no block could be read."""

    source: str
    position: int
    detail: str
    received: int | None = None


class AvroBlocks(FileBasedSource):
    """A source of `Run` and `Damage`: what is damaged costs itself and nothing behind it."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern, validate=False)

    def read_records(self, file_name: str, range_tracker: Any) -> Iterator[Run | Damage]:
        range_tracker.set_split_points_unclaimed_callback(lambda _: iobase.RangeTracker.SPLIT_POINTS_UNKNOWN)
        with self.open_file(file_name) as stream:
            yield from read_file(file_name, stream, range_tracker.start_position() or 0, range_tracker.try_claim)


def read_file(name: str, stream: BinaryIO, start: int, claim: Any) -> Iterator[Run | Damage]:
    """The blocks that begin at or after `start`, while `claim` takes their positions.

    A block is claimed at the byte behind the sync marker before it, so that every block belongs to one range. Behind a
    damaged block reading goes on; where the compression of a whole file is damaged there is nothing to go on with.
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
    while True:
        position = stream.tell()
        if not claim(position):
            break
        try:
            block = read_block(stream, header.sync)
        except CODEC_ERRORS as error:
            _only_damage(error)
            if blocks:
                yield Run(name, header.schema, header.codec, tuple(blocks))
                blocks = []
            found, passed_over = _skip(stream, position, header.sync, error)
            yield Damage(name, position, f"{error}; {passed_over}")
            if not found:
                return
            continue
        if block is None:
            break
        blocks.append(block)
        if sum(len(part.data) for part in blocks) >= RUN_BYTES:
            yield Run(name, header.schema, header.codec, tuple(blocks))
            blocks = []
    if blocks:
        yield Run(name, header.schema, header.codec, tuple(blocks))


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
