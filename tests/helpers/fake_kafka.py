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
    content: bytes = b""
    failure: FakeError | None = None

    def error(self) -> FakeError | None:
        return self.failure

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, self.stamp

    def value(self) -> bytes:
        return self.content

    def leader_epoch(self) -> None:
        return None

    def __len__(self) -> int:
        return len(self.content)


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

    def values(self) -> list[bytes]:
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
