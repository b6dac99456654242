"""Kafka as an unbounded source: a splittable DoFn that polls, and checkpoints itself where it stands.

An element is (topic, ((partition, first offset), …)). On Flink it is one partition, since the stage is keyed by its
element. On Prism it is all of them: Prism keeps one watermark for a stage, that of the last bundle, so that several
elements would not wait for each other and lose reports to lateness.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from transforms.kafka_client import GIVE_UP, consumer
from transforms.sources.poll import UNKNOWN, Poll, polls, received_times
from transforms.sources.unbounded import (
    CALL_SECONDS,
    CLOCK_MARGIN,
    REST_SECONDS,
    NeverDone,
    NeverSplit,
    Watermarks,
    advance,
    now,
)

LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.2
FEWEST, MOST = 100, 10_000
POLL_BYTES = 1 << 21
"""A poll takes about so many bytes at most: its number of messages follows from the size of those before. Of larger
polls of packed reports the columns leave the processor's cache, and take longer."""
COMMIT_SECONDS = 5.0

Element = tuple[str, tuple[tuple[int, int], ...]]
Positions = dict[int, tuple[int, int]]
"""Of each partition, the next offset, and the latest received time."""


class Tracker(NeverDone):
    """Restrictions are ((partition, next offset, received), …)."""

    def __init__(self, restriction: Sequence[tuple[int, int, int]]) -> None:
        self.positions: Positions = {partition: (offset, received) for partition, offset, received in restriction}

    def position(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((partition, *rest) for partition, rest in sorted(self.positions.items()))

    def try_claim(self, position: tuple[int, int, int]) -> bool:
        if self.stopped:
            return False
        partition, offset, received = position
        self.positions[partition] = offset, received
        return True


class Partitions(NeverSplit):
    def initial_restriction(self, element: Element) -> tuple[tuple[int, int, int], ...]:
        return tuple((partition, offset, UNKNOWN) for partition, offset in element[1])

    def create_tracker(self, restriction: Any) -> Tracker:
        return Tracker(restriction)


@beam.DoFn.unbounded_per_element()
class ReadPolls(beam.DoFn):
    """Polls of the partitions of an element, for ever.

    The watermark is the least of the partitions' received times, less `max_delay` (milliseconds). A partition is empty
    only if the broker answered so: one that is down must not look like one that has nothing to say.
    """

    def __init__(self, properties: Mapping[str, str], properties_file: str | None, max_delay: int) -> None:
        self.properties, self.properties_file, self.max_delay = dict(properties), properties_file, max_delay

    def setup(self) -> None:
        self.lock = threading.Lock()
        self.spare: dict[Any, tuple[Any, dict[int, int]]] = {}
        self.committed: dict[Any, float] = {}

    def teardown(self) -> None:
        for client, _ in self.spare.values():
            client.close()

    def process(
        self,
        element: Element,
        tracker: Any = beam.DoFn.RestrictionParam(Partitions()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(Watermarks()),
    ) -> Iterator[Any]:
        topic = element[0]
        positions = {partition: (offset, received) for partition, offset, received in tracker.current_restriction()}
        client = self._open(topic, positions)
        try:
            self._commit(client, topic, positions)
            limit, deadline, caught_up = 1000, time.monotonic() + CALL_SECONDS, False
            while not caught_up and time.monotonic() < deadline:
                messages = client.consume(limit, POLL_SECONDS)
                for partition, offset, received, part in self._received(topic, messages, positions):
                    if not tracker.try_claim((partition, offset, received)):
                        return
                    positions[partition] = offset, received
                    for poll in part:
                        yield TimestampedValue(poll, Timestamp(micros=1000 * int(poll.received[0])))
                caught_up = len(messages) < limit and _unread(client, topic, positions) <= len(messages)
                size = sum(len(message) for message in messages) // max(1, len(messages))
                limit = min(MOST, max(FEWEST, POLL_BYTES // max(1, size)))
            if caught_up and not self._follow_the_clock(client, topic, positions, tracker):
                return
            advance(watermark, min(received for _, received in positions.values()), self.max_delay)
            # A rest of one second more than meant: Flink's runner cuts what is left of it to whole seconds.
            tracker.defer_remainder(Duration(REST_SECONDS if caught_up else 0))
            self._keep(topic, client, positions)
            client = None
        finally:
            if client is not None:
                client.close()

    def _open(self, topic: str, positions: Positions) -> Any:
        """A client that stands where the restriction says; one that was kept, if it does."""
        offsets = {partition: offset for partition, (offset, _) in positions.items()}
        with self.lock:
            client, at = self.spare.pop((topic, *offsets), (None, None))
        if client is None:
            client = consumer(self.properties, self.properties_file)
        if at != offsets:  # new, or a bundle was thrown away: back to where the checkpoint is
            from confluent_kafka import TopicPartition

            client.assign([TopicPartition(topic, partition, offset) for partition, offset in offsets.items()])
        return client

    def _keep(self, topic: str, client: Any, positions: Positions) -> None:
        with self.lock:
            offsets = {partition: offset for partition, (offset, _) in positions.items()}
            self.spare[(topic, *offsets)] = client, offsets

    def _received(
        self, topic: str, messages: Sequence[Any], positions: Positions
    ) -> Iterator[tuple[int, int, int, list[Poll]]]:
        """Of each partition that got on: partition, next offset, latest received time, and the polls."""
        by_partition: dict[int, list[Any]] = {}
        ends: dict[int, int] = {}
        for message in messages:
            error = message.error()
            if error is None:
                by_partition.setdefault(message.partition(), []).append(message)
            elif error.name() == "_PARTITION_EOF":
                ends[message.partition()] = message.offset()
            elif error.fatal() or error.name() in GIVE_UP:
                raise RuntimeError(f"{topic}[{message.partition()}]: {error}")
            else:
                LOG.warning("%s[%s]: %s", topic, message.partition(), error)
        for partition, mine in by_partition.items():
            Metrics.counter("source", "messages").inc(len(mine))
            stamps = np.array([message.timestamp()[1] for message in mine], dtype=np.int64)
            offsets = np.array([message.offset() for message in mine], dtype=np.int64)
            received = received_times(stamps, positions[partition][1], now())
            values = [message.value() for message in mine]
            made = list(polls(f"{topic}[{partition}]", offsets, received, values))
            yield partition, int(offsets[-1]) + 1, int(received[-1]), made
        for partition, end in ends.items():
            # Behind the last message there may be marks of transactions, which are never handed out.
            offset, latest = positions[partition]
            if end > offset:
                yield partition, end, latest, []

    def _follow_the_clock(self, client: Any, topic: str, positions: Positions, tracker: Any) -> bool:
        """Move the received time of empty partitions on; whether the restriction is still ours."""
        from confluent_kafka import KafkaException, TopicPartition

        for partition, (offset, received) in positions.items():
            asked = now()
            try:  # a round trip, so that it is the broker that answers
                answer = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=2, cached=False)
            except KafkaException as error:
                LOG.warning("%s[%s]: %s", topic, partition, error)
                continue
            if answer is not None and answer[1] <= offset and asked - CLOCK_MARGIN > received:
                if not tracker.try_claim((partition, offset, asked - CLOCK_MARGIN)):
                    return False
                positions[partition] = offset, asked - CLOCK_MARGIN
        return True

    def _commit(self, client: Any, topic: str, positions: Positions) -> None:
        """What was read before this call, told to the broker: for those who watch the lag, nothing rests on it."""
        key = topic, *positions
        if time.monotonic() - self.committed.get(key, -COMMIT_SECONDS) < COMMIT_SECONDS:
            return
        from confluent_kafka import KafkaException, TopicPartition

        self.committed[key] = time.monotonic()
        try:
            offsets = [TopicPartition(topic, partition, offset) for partition, (offset, _) in positions.items()]
            client.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            LOG.warning("%s: %s", topic, error)


def _unread(client: Any, topic: str, positions: Positions) -> float:
    """How many messages are known to be unread, from what came with the last fetch; before the first, without end."""
    from confluent_kafka import TopicPartition

    ends = [client.get_watermark_offsets(TopicPartition(topic, partition), cached=True)[1] for partition in positions]
    if min(ends) < 0:
        return math.inf
    return sum(max(0, end - offset) for end, (offset, _) in zip(ends, positions.values(), strict=True))


@dataclass
class ReadKafka(beam.PTransform[Any, Any]):
    """Polls of a topic, from the given offset of each partition on; `max_delay` in milliseconds.

    Clients take `properties`, and what the file says, which is read where they run.
    """

    topic: str
    offsets: Mapping[int, int]
    properties: Mapping[str, str]
    properties_file: str | None
    max_delay: int
    together: bool
    """All partitions in one element, or each in one of its own."""

    def expand(self, pipeline: Any) -> PCollection[Any]:
        starts = tuple(sorted(self.offsets.items()))
        elements = [(self.topic, starts)] if self.together else [(self.topic, (start,)) for start in starts]
        return (
            pipeline
            | "Partitions" >> beam.Create(elements)
            | "Spread" >> beam.Reshuffle()
            | "Poll" >> beam.ParDo(ReadPolls(self.properties, self.properties_file, self.max_delay))
        )
