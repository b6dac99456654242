"""The thread that sends uploads at a steady rate, whatever happens to the broker, and enters each in the ledger."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer

from benchmarks.chaos.fleet import ChaosFleet, Upload
from benchmarks.chaos.ledger import Ledger

TICK_SECONDS = 0.1


class SenderError(RuntimeError):
    """The sender itself failed, so that nobody knows what the broker has."""


class Sender:
    """Sends while it is not paused. A message is sent until the broker has it: exactly once, by an idempotent producer
    that never gives up."""

    def __init__(
        self, fleet: ChaosFleet, ledger: Ledger, address: str, topic: str, partitions: int, rate: float
    ) -> None:
        self._fleet, self._ledger, self._topic, self._partitions, self._rate = fleet, ledger, topic, partitions, rate
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "message.timeout.ms": 0}
        self._producer = Producer({**settings, "linger.ms": 20, "reconnect.backoff.max.ms": 1000, "log_level": 0})
        self._partition_rng = random.Random(0)
        self._repeats: list[tuple[float, int, Upload]] = []
        self._numbers = itertools.count()
        self._failures: list[str] = []
        self._unpaused, self._ended = threading.Event(), threading.Event()
        self._working = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def __enter__(self) -> Self:
        self._unpaused.set()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._unpaused.set()
        self._thread.join()
        self._producer.purge()

    def pause(self) -> None:
        """Returns when nothing more is handed to the producer."""
        self._unpaused.clear()
        with self._working:
            pass

    def resume(self) -> None:
        self._unpaused.set()

    def flush(self, seconds: float) -> None:
        """Returns when the broker has everything that was sent so far."""
        end = time.monotonic() + seconds
        with self._working:
            while remaining := self._producer.flush(1):
                self.check()
                if time.monotonic() > end:
                    raise SenderError(f"the broker has not taken {remaining:,} messages within {seconds:.0f} s")
        self.check()

    def check(self) -> None:
        if self._failures:
            raise SenderError(f"{len(self._failures):,} messages were not taken: {self._failures[0]}")
        if not self._thread.is_alive():
            raise SenderError("the sender's thread has ended")

    def _run(self) -> None:
        due, last = 0.0, time.monotonic()
        while not self._ended.is_set():
            self._unpaused.wait()
            with self._working:
                now = time.monotonic()
                # A pause is not made up for.
                due += min(now - last, 10 * TICK_SECONDS) * self._rate
                last = now
                if self._unpaused.is_set():  # a pause may have come since the wait
                    self._send_due(int(due), now)
                    due %= 1
                self._producer.poll(0)
            self._ended.wait(TICK_SECONDS)

    def _send_due(self, count: int, now: float) -> None:
        for _ in range(count):
            self._send(self._fleet.upload(time.time_ns() // 1_000_000))
        while self._repeats and self._repeats[0][0] <= now:
            self._send_again(heapq.heappop(self._repeats)[2])

    def _send(self, upload: Upload) -> None:
        if upload.reports is not None:
            self._ledger.accept(upload.reports)
        if upload.refusal is not None:
            self._ledger.refuse(*upload.refusal)
        self._produce(upload.message, upload.refusal, upload)

    def _send_again(self, upload: Upload) -> None:
        assert upload.reports is not None
        refusal = ("duplicate", len(upload.reports.cells))
        self._ledger.refuse(*refusal)
        self._produce(upload.message, refusal, None)

    def _produce(self, message: bytes | None, refusal: tuple[str, int] | None, upload: Upload | None) -> None:
        def on_delivery(error: Any, record: Any) -> None:
            if error is not None:
                self._failures.append(str(error))
                return
            if refusal is not None:
                self._ledger.refusal_received(*refusal, record.timestamp()[1])
            if upload is not None and upload.repeat_after_seconds is not None:
                entry = (time.monotonic() + upload.repeat_after_seconds, next(self._numbers), upload)
                heapq.heappush(self._repeats, entry)

        partition = self._partition_rng.randrange(self._partitions)
        self._producer.produce(self._topic, message, partition=partition, on_delivery=on_delivery)
