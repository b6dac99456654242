"""Uploads that carry an id, each counted once: in a stream by keyed state, in batch also against earlier runs."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from hushgram._arrays import BoolArray, UIntArray
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.counting import TallyUploads
from hushgram.transforms.filesystem import atomically
from hushgram.transforms.ids import are_first
from hushgram.transforms.run_store import ids_paths
from hushgram.transforms.runs import Attempt
from hushgram.transforms.seen_ids import SeenIds
from hushgram.transforms.spilling import read_pieces
from hushgram.transforms.uploads import ids_of, unpack

NO_IDS: UIntArray = np.empty((0, 2), dtype=np.uint64)


def first_of_each_id(parts: Sequence[UIntArray], known: UIntArray = NO_IDS) -> list[BoolArray]:
    """Of the ids in each part, which come for the first time; `known` ids have come before.

    >>> a, b = (np.array(rows, dtype=np.uint64) for rows in ([[1, 2], [1, 3]], [[1, 4], [1, 2]]))
    >>> [is_first.tolist() for is_first in first_of_each_id([a, b])]
    [[True, True], [True, False]]
    """
    is_first = are_first(np.concatenate([known, *parts]))[len(known) :]
    return np.split(is_first, np.cumsum([len(part) for part in parts])[:-1])


def duplicates(uploads: int, reports: int, received: int) -> DeadLetter:
    """The dead letter for uploads that have come before."""
    detail = f"{uploads} uploads with an id that had come before"
    return DeadLetter("duplicate", reports, detail, "deduplication", None, received)


COUNTED_IDS = "counted_ids"


class DeduplicateBatch(TallyUploads):
    """All uploads of one shard of ids: each id counts once.

    With an attempt of a run, ids that other runs have counted count as seen, and those counted here are kept for the
    runs to come: (shard, when they expire, in milliseconds) comes out as `COUNTED_IDS`. With a folder, pieces are read
    from where they were spilled.
    """

    def __init__(self, index: CollectionIndex, attempt: Attempt | None = None, spilled: str | None = None) -> None:
        super().__init__(index)
        self.attempt = attempt
        self.spilled = spilled

    def process(self, element: tuple[int, Iterable[Any]]) -> Iterator[Any]:
        shard, pieces = element
        blocks = list(pieces) if self.spilled is None else read_pieces(self.spilled, pieces)
        known = NO_IDS if self.attempt is None else known_ids(self.attempt, shard)
        masks = first_of_each_id([ids_of(block) for block in blocks], known)
        repeated = repeated_reports = last_received = expire_ms = 0
        for block, is_first in zip(blocks, masks, strict=True):
            uploads, received = unpack(block)
            unique = uploads.take(is_first)
            repeated += len(uploads) - len(unique)
            repeated_reports += uploads.reports - unique.reports
            last_received = max(last_received, received)
            if len(unique):
                expire_ms = max(expire_ms, int((unique.event_time + self.index.max_ages[unique.collection]).max()))
                yield from self.count(unique)
        if repeated:
            yield self.refuse(duplicates(repeated, repeated_reports, last_received))
        if self.attempt is not None and any(is_first.any() for is_first in masks):
            [path] = ids_paths(self.attempt.folder, [shard])
            write_ids(path, blocks, masks)
            yield TaggedOutput(COUNTED_IDS, (shard, expire_ms))


def write_ids(path: str, blocks: Sequence[bytes], masks: Sequence[BoolArray]) -> None:
    """The ids of some pieces that come for the first time, piece by piece: together they are too many to copy."""
    with atomically(path) as file:
        for block, is_first in zip(blocks, masks, strict=True):
            ids = ids_of(block)
            file.write((ids if is_first.all() else ids[is_first]).tobytes())


def known_ids(attempt: Attempt, shard: int) -> UIntArray:
    """The ids of one shard that other runs have counted."""
    found = [NO_IDS]
    for folder, shards in attempt.known_ids:
        if shard in shards:
            [path] = ids_paths(folder, [shard])
            with FileSystems.open(path) as stream:
                found.append(np.frombuffer(stream.read(), "<u8").reshape(-1, 2))
    return np.concatenate(found)


GRAINS = 8
"""Ids are forgotten in this many steps for each max_age; each step writes those that stay again."""
LEAST_GRAIN = 1000


def grain_ms(max_age_ms: int) -> int:
    """The step in which ids are forgotten: the times at which they expire are rounded up to a multiple of it.

    >>> grain_ms(86_400_000), grain_ms(0)
    (10800000, 1000)
    """
    return max(LEAST_GRAIN, max_age_ms // GRAINS)


class ShardMemory:
    """By job and shard, the ids that the state holds, and the mark that the state had then.

    A shard is taken out until it has its fresh mark: what a bundle adds before it fails, or while the engine has given
    it up and repeats it, must not be seen by another.
    """

    def __init__(self) -> None:
        self._shards: dict[tuple[str, int], tuple[bytes, SeenIds]] = {}

    def take(self, job: str, shard: int) -> tuple[bytes, SeenIds] | None:
        return self._shards.pop((job, shard), None)

    def put(self, job: str, shard: int, mark: bytes, seen: SeenIds) -> None:
        self._shards[job, shard] = mark, seen

    def clear(self) -> None:
        self._shards.clear()


MEMORY = ShardMemory()
"""One for the process, since any of its threads may get the next bundle of a shard."""


class DeduplicateStream(TallyUploads):
    """Blocks of one shard of ids in; what is new is tallied, what came before becomes a dead letter.

    The bag of ids is only added to, and read when memory does not hold the same: every change leaves a fresh mark in
    the state, so that after a failure, when the state is that of a checkpoint, memory is known to be of another time.
    """

    MARK = ReadModifyWriteStateSpec("mark", BytesCoder())
    IDS = BagStateSpec("ids", BytesCoder())
    FORGET = TimerSpec("forget", TimeDomain.WATERMARK)

    def __init__(self, index: CollectionIndex) -> None:
        super().__init__(index)
        self.job = secrets.token_hex(8)
        self.grain = grain_ms(int(index.max_ages.max(initial=0)))

    def process(
        self,
        element: tuple[int, bytes],
        mark: Any = beam.DoFn.StateParam(MARK),
        ids: Any = beam.DoFn.StateParam(IDS),
        forget: Any = beam.DoFn.TimerParam(FORGET),
    ) -> Iterator[Any]:
        shard, block = element
        uploads, received = unpack(block)
        seen = self._seen(shard, mark, ids)
        before = seen.next_expiry
        # Received at the very max_age, a report still counts: ids are needed up to and with that millisecond.
        expiries = uploads.event_time + self.index.max_ages[uploads.collection] + 1
        is_new, chunks = seen.add(uploads.id, expiries)
        for chunk in chunks:
            ids.add(chunk)
        self._remember(shard, mark, seen)
        if chunks and (before is None or seen.next_expiry < before):  # type: ignore[operator]
            forget.set(Timestamp(micros=1000 * seen.next_expiry))  # type: ignore[operator]
        if not is_new.all():
            repeated = uploads.take(~is_new)
            yield self.refuse(duplicates(len(repeated), repeated.reports, received))
        yield from self.count(uploads if is_new.all() else uploads.take(is_new))

    @on_timer(FORGET)
    def forget_expired(
        self,
        shard: Any = beam.DoFn.KeyParam,
        now: Any = beam.DoFn.TimestampParam,
        mark: Any = beam.DoFn.StateParam(MARK),
        ids: Any = beam.DoFn.StateParam(IDS),
        forget: Any = beam.DoFn.TimerParam(FORGET),
    ) -> None:
        seen = self._seen(shard, mark, ids)
        seen.forget(now.micros // 1000)
        ids.clear()
        for chunk in seen.chunks():
            ids.add(chunk)
        self._remember(shard, mark, seen)
        if seen.next_expiry is not None:
            forget.set(Timestamp(micros=1000 * seen.next_expiry))

    def _seen(self, shard: int, mark: Any, ids: Any) -> SeenIds:
        remembered = MEMORY.take(self.job, shard)
        if remembered is not None and mark.read() == remembered[0]:
            return remembered[1]
        return SeenIds(self.grain, ids.read())

    def _remember(self, shard: int, mark: Any, seen: SeenIds) -> None:
        fresh = secrets.token_bytes(8)
        mark.write(fresh)
        MEMORY.put(self.job, shard, fresh, seen)
        Metrics.distribution("ids", "ids_in_shard").update(len(seen))
