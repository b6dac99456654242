"""What waits to be kept, and who waits for it: an answer is given once everything in its request is kept, or is not.

All that waits is kept at once, by one thread, when enough waits or the first of it has waited long enough; meanwhile
the next lot gathers. So the price of a disk's or a broker's word is shared by all who wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from hushgram.pipelines.collect.bodies import Judged, Refused, StricterIndex, judge_messages
from hushgram.pipelines.collect.counts import Counts
from hushgram.pipelines.collect.limits import Limits
from hushgram.pipelines.collect.log import log_line
from hushgram.pipelines.collect.packing import pack
from hushgram.pipelines.collect.sink import AwayError, Sink
from hushgram.schemas.records import DeadLetter, Reason
from hushgram.transforms.uploads import Uploads

PROBE_SECONDS = 1.0
LETTER_SECONDS = 60.0
"""How often dead letters are written; of the time they say no more than the hour."""
HOUR_MS = 3_600_000

OWN_ERROR = AwayError("an error of the collector")
Value = TypeVar("Value")
Outcome = Refused | AwayError | None
"""Of a message: why it is refused, why it could not be kept, or that it is kept."""


@dataclass
class Lot:
    """What is kept at once."""

    messages: list[bytes] = field(default_factory=list)
    senders: list[asyncio.Future[Outcome]] = field(default_factory=list)
    """Of the messages, in their order."""
    uploads: list[Uploads] = field(default_factory=list)
    uploaders: list[asyncio.Future[Outcome]] = field(default_factory=list)
    """Those who wait for any of the uploads."""
    reports: int = 0
    due: float = 0.0
    """By the clock of the event loop: then the first that came has waited long enough."""

    def __bool__(self) -> bool:
        return bool(self.senders or self.uploaders)


@dataclass(frozen=True)
class Kept:
    """What became of a lot."""

    refused: dict[int, Refused]
    """By number of the message."""
    accepted: Counter[str]
    """Reports by collection."""
    batches: int
    away: AwayError | None = None


class Intake:
    """Belongs to one event loop; the work is done in threads."""

    def __init__(self, index: StricterIndex, sink: Sink, limits: Limits, counts: Counts) -> None:
        self.index, self.sink, self.limits, self.counts = index, sink, limits, counts
        self.away: AwayError | None = None
        self._lot, self._letters = Lot(), Counter[tuple[Reason, str | None]]()
        self._arrived, self._full, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._at_once = self._stopping = False
        self._keeper = ThreadPoolExecutor(1, "keep")
        self._keeping: asyncio.Task[None] | None = None
        self._writing_letters: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._keeping = loop.create_task(self._keep_lots())
        self._writing_letters = loop.create_task(self._write_letters())

    def stop_waiting(self) -> None:
        """From now on nothing waits for more; what comes is kept at once."""
        self._at_once = True
        self._full.set()

    async def stop(self) -> None:
        """Once nothing more will come: returns when nothing waits any more, and all letters are written."""
        self.stop_waiting()
        self._stopping = True
        self._arrived.set()
        if self._keeping is not None:
            await self._keeping
        self._ended.set()
        if self._writing_letters is not None:
            await self._writing_letters
        if self._probing is not None:
            self._probing.cancel()
        await self._in_keeper(self.sink.close)
        self._keeper.shutdown()

    @property
    def works(self) -> bool:
        """False if nothing will be kept any more, through an error of ours."""
        return self._keeping is None or self._stopping or not self._keeping.done()

    def keep_message(self, message: bytes) -> asyncio.Future[Outcome]:
        """One message, judged when it is kept, together with the others that wait."""
        sender: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        lot = self._lot
        lot.messages.append(message)
        lot.senders.append(sender)
        self._added(lot, 1)
        return sender

    def keep_uploads(self, judged: Judged) -> asyncio.Future[Outcome]:
        """What a body was judged to hold."""
        uploader: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        lot = self._lot
        lot.uploads += judged.accepted
        lot.uploaders.append(uploader)
        self._added(lot, judged.reports)
        return uploader

    def refuse(self, refused: Refused) -> None:
        """Counts what is refused, for the metrics and for its letter."""
        self.counts.refuse(refused)
        self._letters[refused.reason, refused.collection] += refused.counted

    def _added(self, lot: Lot, reports: int) -> None:
        if not lot.due:
            lot.due = asyncio.get_running_loop().time() + self.limits.wait_seconds
            self._arrived.set()
        lot.reports += reports
        self.counts.waiting += reports
        if lot.reports >= self.limits.reports:
            self._full.set()

    async def _keep_lots(self) -> None:
        while True:
            if not self._lot:
                if self._stopping:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._lot.due):
                    await self._full.wait()
            lot, self._lot = self._lot, Lot()
            if not self._at_once:
                self._full.clear()
            await self._keep(lot)

    async def _keep(self, lot: Lot) -> None:
        started = time.monotonic()
        try:
            kept = await self._in_keeper(lambda: keep(self.index, self.sink, lot, now_ms()))
        except Exception as error:  # ours to fix: what waited was not kept, and its senders must hear of it
            log_line(f"keeping failed: {type(error).__name__}")
            kept = Kept({}, Counter(), 0, OWN_ERROR)
        self.counts.commit_seconds += time.monotonic() - started
        self._count(lot, kept)
        for number, sender in enumerate(lot.senders):
            if not sender.done():  # a sender that has left is not waiting any more
                sender.set_result(kept.refused.get(number) or kept.away)
        for uploader in lot.uploaders:
            if not uploader.done():
                uploader.set_result(kept.away)
        if kept.away is not None and kept.away is not OWN_ERROR:
            self._sink_is_away(kept.away)

    def _count(self, lot: Lot, kept: Kept) -> None:
        counts = self.counts
        counts.waiting -= lot.reports
        for refused in kept.refused.values():
            self.refuse(refused)
        counts.read += kept.accepted.total()
        if kept.away is not None:
            counts.given_back += kept.accepted.total()
            return
        counts.accepted += kept.accepted
        counts.batches += kept.batches
        counts.commits += bool(kept.batches)

    def _sink_is_away(self, away: AwayError) -> None:
        """Until a probe finds the sink again, nobody need wait for it."""
        if self.away is None:
            log_line(f"{self.sink.name}: away, clients are asked to come back: {away}")
            self._probing = asyncio.get_running_loop().create_task(self._wait_for_sink())
        self.away, self.counts.away = away, True

    async def _wait_for_sink(self) -> None:
        while self.away is not None:
            await asyncio.sleep(PROBE_SECONDS)
            try:
                await self._in_keeper(self.sink.probe)
            except AwayError as error:
                self.away = error
            except Exception as error:  # ours to fix: whether the sink is back is not known, so it is asked again
                log_line(f"{self.sink.name}: asking for it failed: {type(error).__name__}")
            else:
                self.away, self.counts.away = None, False
                log_line(f"{self.sink.name}: back")

    async def _write_letters(self) -> None:
        """Now and then, and once more in the end."""
        last = False
        while not last:
            with suppress(TimeoutError):
                async with asyncio.timeout(LETTER_SECONDS):
                    await self._ended.wait()
            last = self._ended.is_set()
            await self._write_letters_now()

    async def _write_letters_now(self) -> None:
        """Letters that cannot be written now are written later, or stay counts."""
        if not self._letters or self.away is not None:
            return
        letters, self._letters = self._letters, Counter()
        try:
            await self._in_keeper(lambda: self.sink.write_dead_letters(dead_letters(letters, now_ms())))
        except Exception as error:
            self._letters += letters
            if isinstance(error, AwayError):
                self._sink_is_away(error)
            else:
                log_line(f"writing dead letters failed: {type(error).__name__}")

    async def _in_keeper(self, work: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._keeper, work)


def keep(index: StricterIndex, sink: Sink, lot: Lot, now: int) -> Kept:
    """Judges the messages of a lot, packs all of it, and returns when the sink has it, or has not."""
    accepted, refused = judge_messages(index, lot.messages, now)
    parts = [*lot.uploads, *accepted]
    if not parts:
        return Kept(refused, Counter(), 0)
    uploads = Uploads.together(parts)
    by_collection = np.bincount(uploads.collection, weights=uploads.sizes, minlength=len(index.collections))
    names = [collection.name for collection in index.collections]
    reports = +Counter(dict(zip(names, by_collection.astype(int).tolist(), strict=True)))
    batches = pack(index, uploads)
    try:
        if batches:
            sink.keep(batches)
    except AwayError as error:
        return Kept(refused, reports, 0, error)
    return Kept(refused, reports, len(batches))


def dead_letters(counts: Counter[tuple[Reason, str | None]], now: int) -> Sequence[DeadLetter]:
    """One for each reason and collection. None quotes what was sent, which may be anything about anyone.

    >>> [letter] = dead_letters(Counter({("too_old", "commute"): 3}), 7_200_005)
    >>> letter.reports, letter.detail, letter.received_at, letter.payload
    (3, "of 'commute'", 7200000, b'')
    """
    return [
        DeadLetter(reason, reports, "" if name is None else f"of {name!r}", "collector", None, now // HOUR_MS * HOUR_MS)
        for (reason, name), reports in sorted(counts.items(), key=str)
    ]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
