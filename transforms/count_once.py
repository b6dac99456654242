"""Uploads of a stream that carry an id, each counted once: the ids seen are keyed state, forgotten by a timer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.metrics.metric import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from transforms.deduplicate import duplicates, unpack
from transforms.emit import Emitting
from transforms.plan import Plan
from transforms.seen_ids import SeenIds, ids_of

GRAINS = 8
"""Ids are forgotten in so many steps for each max_age; each step writes the kept ones anew."""
LEAST_GRAIN = 1000

_IN_MEMORY: dict[tuple[str, int], tuple[bytes, SeenIds]] = {}
"""By job and shard, what the state holds, and the mark it had then. One for the process, since any of its threads may
get a shard's next bundle."""


class CountOnce(Emitting):
    """Blocks of one shard of ids in; what is new is tallied, what came before is a letter.

    The bag of ids is only added to, and read when memory does not hold the same: every change leaves a fresh mark in
    the state, so that after a failure, when the state is that of a checkpoint, memory is known to be of another time.
    """

    MARK = ReadModifyWriteStateSpec("mark", BytesCoder())
    IDS = BagStateSpec("ids", BytesCoder())
    FORGET = TimerSpec("forget", TimeDomain.WATERMARK)

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.job = secrets.token_hex(8)
        self.grain = max(LEAST_GRAIN, int(plan.max_ages.max(initial=0)) // GRAINS)

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
        expiries = uploads.event_time + self.plan.max_ages[uploads.collection] + 1
        is_new, chunks = seen.add(ids_of(uploads.id), expiries)
        for chunk in chunks:
            ids.add(chunk)
        self._remember(shard, mark, seen)
        if chunks and (before is None or seen.next_expiry < before):  # type: ignore[operator]
            forget.set(Timestamp(micros=1000 * seen.next_expiry))  # type: ignore[operator]
        if not is_new.all():
            yield self.refuse(duplicates(uploads.take(~is_new), received))
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
        # Taken out until it has its fresh mark: what a bundle adds before it fails, or while the engine has given it up
        # and does it again, must be nobody else's.
        left, held = _IN_MEMORY.pop((self.job, shard), (None, None))
        if held is None or mark.read() != left:
            held = SeenIds(self.grain, ids.read())
        return held

    def _remember(self, shard: int, mark: Any, seen: SeenIds) -> None:
        fresh = secrets.token_bytes(8)
        mark.write(fresh)
        _IN_MEMORY[self.job, shard] = fresh, seen
        Metrics.distribution("ids", "kept in a shard").update(len(seen))
