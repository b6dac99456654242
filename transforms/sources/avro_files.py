"""Report files read as runs of blocks: split at sync markers, in bounded memory, from any of Beam's file systems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

from apache_beam.io import iobase
from apache_beam.io.concat_source import ConcatSource
from apache_beam.io.filesystem import CompressionTypes, FileMetadata
from apache_beam.io.range_trackers import OffsetRangeTracker, UnsplittableRangeTracker
from apache_beam.io.restriction_trackers import OffsetRange

from schemas.container import CODEC_ERRORS, SYNC_SIZE, Block, DamagedError, read_block, read_header, skip_to_sync
from schemas.records import Reason
from transforms.matching import as_text, match_files, open_file

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
    reason: Reason = "undecodable"


class AvroBlocks(iobase.BoundedSource):
    """A source of `Run` and `Damage` of all files that a pattern finds: what is damaged costs itself and nothing behind
    it. Files are looked for where the source is split, so that workers find what they can read."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def files(self) -> ConcatSource:
        return ConcatSource([AvroFile.whole(file) for file in match_files(self.pattern).files])

    def estimate_size(self) -> int:
        return int(self.files.estimate_size())

    def split(
        self, desired_bundle_size: float, start_position: Any = None, stop_position: Any = None
    ) -> Iterator[iobase.SourceBundle]:
        yield from self.files.split(desired_bundle_size, start_position, stop_position)

    def get_range_tracker(self, start_position: Any, stop_position: Any) -> iobase.RangeTracker:
        return self.files.get_range_tracker(start_position, stop_position)

    def read(self, range_tracker: iobase.RangeTracker) -> Iterator[Run | Damage]:
        yield from self.files.read(range_tracker)


class AvroFile(iobase.BoundedSource):
    """The blocks of one file that begin in a range of its bytes."""

    def __init__(self, path: str, start: int, stop: int) -> None:
        self.path, self.start, self.stop = path, start, stop

    @classmethod
    def whole(cls, file: FileMetadata) -> AvroFile:
        """Also of an empty file something is to be read: that it is no Avro file."""
        return cls(file.path, 0, max(1, file.size_in_bytes))

    @property
    def splittable(self) -> bool:
        """Into a compressed file nobody can jump."""
        return bool(CompressionTypes.detect_compression_type(self.path) == CompressionTypes.UNCOMPRESSED)

    def estimate_size(self) -> int:
        return self.stop - self.start

    def split(
        self, desired_bundle_size: float, start_position: int | None = None, stop_position: int | None = None
    ) -> Iterator[iobase.SourceBundle]:
        start, stop = self._range(start_position, stop_position)
        if not self.splittable:
            yield iobase.SourceBundle(stop - start, self, start, stop)
            return
        for part in OffsetRange(start, stop).split(desired_bundle_size):
            source = AvroFile(self.path, part.start, part.stop)
            yield iobase.SourceBundle(part.stop - part.start, source, part.start, part.stop)

    def get_range_tracker(self, start_position: int | None, stop_position: int | None) -> iobase.RangeTracker:
        start, stop = self._range(start_position, stop_position)
        if self.splittable:
            return OffsetRangeTracker(start, stop)
        # Positions are those of the plain bytes, of which there may be any number.
        return UnsplittableRangeTracker(OffsetRangeTracker(start, OffsetRangeTracker.OFFSET_INFINITY))

    def read(self, range_tracker: Any) -> Iterator[Run | Damage]:
        range_tracker.set_split_points_unclaimed_callback(lambda _: iobase.RangeTracker.SPLIT_POINTS_UNKNOWN)
        name, start = as_text(self.path), range_tracker.start_position() or 0
        try:
            with open_file(self.path) as stream:
                yield from read_file(name, stream, start, range_tracker.try_claim)
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, name) from None

    def _range(self, start: int | None, stop: int | None) -> tuple[int, int]:
        return self.start if start is None else start, self.stop if stop is None else stop


def read_file(name: str, stream: BinaryIO, start: int, claim: Any) -> Iterator[Run | Damage]:
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
    while True:
        position = stream.tell()
        if not claim(position):
            break
        try:
            block = read_block(stream, header.sync)
        except CODEC_ERRORS as error:
            if blocks:
                yield Run(name, header.schema, header.codec, tuple(blocks))
                blocks = []
            _only_damage(error)
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
