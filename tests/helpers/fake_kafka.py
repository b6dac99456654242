"""A Kafka topic in memory, to which anything may happen between two calls of its clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hushgram.transforms.kafka_client import TopicState


@dataclass(frozen=True)
class FakeError:
    text: str

    def name(self) -> str:
        return self.text


@dataclass(frozen=True)
class FakeMessage:
    """As confluent-kafka's, with what the source asks of it."""

    at: tuple[int, int]
    stamp: int = 0
    content: bytes | None = b""
    failure: FakeError | None = None
    own_key: bytes | None = None
    own_headers: list[Any] | Exception | None = None

    def error(self) -> FakeError | None:
        return self.failure

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, self.stamp

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.own_key

    def headers(self) -> list[Any] | None:
        if isinstance(self.own_headers, Exception):
            raise self.own_headers
        return self.own_headers

    def leader_epoch(self) -> None:
        return None

    def __len__(self) -> int:
        return len(self.content or b"")


@dataclass
class FakeTopic:
    """Messages by partition, stamped by the clock when they are appended; `happen` is called before every answer."""

    happen: Callable[[], None]
    clock: int = 1_000_000
    id: str = "first"
    logs: list[list[FakeMessage]] = field(default_factory=list)

    def append(self, partition: int) -> None:
        log = self.logs[partition]
        log.append(FakeMessage((partition, len(log)), self.clock, b"%d/%d" % (partition, len(log))))

    def describe(self, partitions: int | None = None) -> TopicState:
        self.happen()
        return TopicState(self.id, len(self.logs) if partitions is None else partitions)

    def values(self) -> list[bytes | None]:
        return [message.content for log in self.logs for message in log]


class FakeConsumer:
    """A client that stands where it was assigned, and knows the ends of partitions from its last fetch."""

    def __init__(self, topic: FakeTopic) -> None:
        self.topic = topic
        self.offsets: dict[int, int] = {}
        self.known_ends: dict[int, int] = {}
        self.open = True

    def assign(self, places: list[Any]) -> None:
        self.offsets = {place.partition: place.offset for place in places}
        self.known_ends = {}

    def consume(self, limit: int, timeout: float) -> list[FakeMessage]:
        assert self.open
        self.topic.happen()
        messages: list[FakeMessage] = []
        for partition, offset in self.offsets.items():
            log = self.topic.logs[partition]
            taken = log[offset : offset + limit - len(messages)]
            messages += taken
            at = self.offsets[partition] = offset + len(taken)
            if at == len(log) and len(messages) < limit and self.known_ends.get(partition) != at:
                messages.append(FakeMessage((partition, at), failure=FakeError("_PARTITION_EOF")))
            self.known_ends[partition] = len(log)
        return messages

    def get_watermark_offsets(self, place: Any, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        if cached:
            return 0, self.known_ends.get(place.partition, -1001)
        self.topic.happen()
        return 0, len(self.topic.logs[place.partition])

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        pass

    def close(self) -> None:
        self.open = False


class FakeSender:
    """A producer whose messages are `taken` by topic, unless they are too large; those of a transaction with it."""

    def __init__(self, largest: int = 1 << 20) -> None:
        self.largest = largest
        self.taken: list[tuple[str, FakeMessage]] = []
        self.positions: dict[int, int] = {}
        self.open: list[tuple[str, FakeMessage]] | None = None
        self.reports: list[Callable[[], None]] = []

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: list[Any],
        on_delivery: Callable[[Any, Any], None],
        timestamp: int = 0,
    ) -> None:
        message = FakeMessage((0, -1), timestamp, value, own_key=key, own_headers=headers)
        size = len(value or b"") + len(key or b"") + sum(len(name) + len(text or b"") for name, text in headers)
        if size > self.largest:
            self.reports.append(lambda: on_delivery(FakeError("MSG_SIZE_TOO_LARGE"), message))
            return
        (self.taken if self.open is None else self.open).append((topic, message))
        self.reports.append(lambda: on_delivery(None, message))

    def poll(self, timeout: float) -> None:
        pass

    def flush(self, timeout: float) -> int:
        reports, self.reports = self.reports, []
        for report in reports:
            report()
        return 0

    def init_transactions(self, timeout: float) -> None:
        pass

    def begin_transaction(self) -> None:
        self.open = []

    def send_offsets_to_transaction(self, offsets: list[Any], group: object, timeout: float) -> None:
        self.offsets = {place.partition: place.offset for place in offsets}

    def commit_transaction(self, timeout: float) -> None:
        assert self.open is not None
        self.flush(timeout)
        self.taken += self.open
        self.positions |= self.offsets
        self.open = None

    def abort_transaction(self, timeout: float) -> None:
        self.open = None
