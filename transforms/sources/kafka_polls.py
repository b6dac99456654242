"""The partitions of a Kafka topic, polled by a splittable DoFn that checkpoints itself where it stands."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.metrics.metric import Metrics
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from hushgram.transforms.kafka_client import (
    ABSENT,
    DENIED,
    OUT_OF_RANGE,
    TopicState,
    admin,
    consumer,
    describe,
    headers_of,
)
from hushgram.transforms.sources.kafka_positions import (
    NO_EPOCH,
    Element,
    Partitions,
    Position,
    Positions,
    TopicError,
    adapted,
    beyond,
    is_outdated,
)
from hushgram.transforms.sources.message_batch import Gap, MessageBatch, batch_by_minute, received_times
from hushgram.transforms.sources.splittable import CALL_SECONDS, CLOCK_MARGIN, REST_SECONDS, Watermarks, advance, now

LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.2
FEWEST, MOST = 100, 10_000
POLL_BYTES = 1 << 21
"""A poll takes about this many bytes at most: its number of messages follows from the size of those before. Of larger
polls of packed reports the columns leave the processor's cache, and take longer."""
COMMIT_SECONDS = 5.0
TROUBLE_SECONDS = 60.0
"""The same trouble is logged at most once in this time."""
ABSENT_SECONDS = 30.0
"""A topic that is deleted and created again is absent for a moment; one that stays away ends the call."""


class ReadPolls(beam.DoFn):
    """Polls of the partitions of an element, for ever, and gaps where messages were deleted before they were read.

    The watermark is the least of the partitions' received times, less `max_delay` (milliseconds). A partition is empty
    only if the broker answered so: one that is down must not look like one that has nothing to say.

    A consumer knows a topic by its name, and goes on at the same offset when the topic is deleted and created again. So
    the messages of a poll count only after a broker has confirmed that the topic still has its id.

    The same answer shows new partitions. A poll's messages were received before the question, and empty partitions
    follow the clock no further; so the watermark does not pass the messages of a partition that is yet to be found.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        properties_file: str | None,
        max_delay: int,
        headers: bool = False,
        whole: bool = False,
    ) -> None:
        self.properties, self.properties_file, self.max_delay = dict(properties), properties_file, max_delay
        self.headers, self.whole = headers, whole

    def setup(self) -> None:
        self.lock = threading.Lock()
        self.spare: dict[Any, tuple[Any, dict[int, int]]] = {}
        self.committed: dict[Any, float] = {}
        self.admin: Any = None
        self.silent: set[str] = set()
        self.last_logged: dict[Any, float] = {}
        self.absent_since: dict[str, float] = {}

    def teardown(self) -> None:
        for client, _ in self.spare.values():
            client.close()

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: Element,
        tracker: Any = beam.DoFn.RestrictionParam(Partitions()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(Watermarks()),
    ) -> Iterator[Any]:
        topic, _, share, _ = element
        positions = Positions.of(tracker.current_restriction())
        client = self._open(topic, positions)
        try:
            self._commit(client, topic, positions)
            limit, deadline, caught_up = 1000, time.monotonic() + CALL_SECONDS, False
            while not caught_up and time.monotonic() < deadline:
                messages = client.consume(limit, POLL_SECONDS)
                taken = sorted_out(topic, messages)
                self._log_troubles(topic, taken.troubles)
                asked_at = now()
                moved = self._moved(client, topic, share, positions, taken.missing)
                if moved is None:
                    tracker.defer_remainder(Duration(REST_SECONDS))
                    if not taken.by_partition and not taken.ends and not taken.missing:
                        self._keep(topic, client, positions)
                        client = None
                    return
                now_at, gaps = moved
                if now_at != positions:
                    # The client stands elsewhere; what it has brought is read again.
                    if tracker.try_claim(now_at.restriction()):
                        if new := sorted(now_at.partitions.keys() - positions.partitions.keys()):
                            LOG.warning("topic %s: new partitions, read from their beginning: %s", topic, new)
                        for gap in gaps:
                            LOG.warning("%s, offset %d: %s", gap.source, gap.position, gap.detail)
                            yield TimestampedValue(gap, Timestamp(micros=1000 * gap.received))
                        tracker.defer_remainder(Duration(0))
                    return
                size = 0
                for partition, position, part in received(topic, taken, positions, self.headers, self.whole):
                    positions = positions.moved(partition, position)
                    if not tracker.try_claim(positions.restriction()):
                        return
                    for poll in part:
                        size += poll.size
                        yield TimestampedValue(poll, Timestamp(micros=1000 * poll.first_received))
                caught_up = len(messages) < limit and _unread(client, topic, positions) <= len(messages)
                limit = min(MOST, max(FEWEST, POLL_BYTES * len(messages) // max(1, size)))
            if caught_up:
                positions = self._follow_the_clock(client, topic, positions, asked_at)
                if not tracker.try_claim(positions.restriction()):
                    return
            advance(watermark, positions.received, self.max_delay)
            # A rest of one second more than meant: Flink's runner cuts what is left of it to whole seconds.
            tracker.defer_remainder(Duration(REST_SECONDS if caught_up else 0))
            self._keep(topic, client, positions)
            client = None
        finally:
            if client is not None:
                client.close()

    def _open(self, topic: str, positions: Positions) -> Any:
        """A client that stands where the restriction says; one that was kept, if it does."""
        with self.lock:
            client, at = self.spare.pop(_key(topic, positions), (None, None))
        if client is None:
            client = consumer(self.properties, self.properties_file)
        if at != positions.offsets:  # new, or a bundle was thrown away: back to where the checkpoint is
            client.assign(_places(topic, positions))
        return client

    def _keep(self, topic: str, client: Any, positions: Positions) -> None:
        with self.lock:
            self.spare[_key(topic, positions)] = client, positions.offsets

    def _moved(
        self, client: Any, topic: str, share: tuple[int, int], positions: Positions, missing: Sequence[int]
    ) -> tuple[Positions, list[Gap]] | None:
        """Where to read on, and what was deleted unread: nothing, and where we are, while the topic is the same and has
        it all. None if no broker says so: then the messages may be those of another topic."""
        state = self._described(topic)
        if state is None:
            return None
        if is_outdated(state, positions):
            unheard = "the broker that answered has not heard of it yet"
            self._log_troubles(topic, {(max(positions.partitions), "_OUTDATED"): unheard})
            return None
        now_at, gaps = adapted(topic, share, positions, state)
        if now_at != positions:
            return now_at, gaps
        for partition in missing:
            ends = self._ends(client, topic, partition)
            if ends is None:
                return None
            position, gap = beyond(topic, partition, positions.partitions[partition], *ends)
            now_at = now_at.moved(partition, position)
            gaps.append(gap)
        return now_at, gaps

    def _described(self, topic: str) -> TopicState | None:
        """The topic as it is now, or None if no broker says so, or there is none at the moment."""
        from confluent_kafka import KafkaException

        try:
            if self.admin is None:
                self.admin = admin(self.properties, self.properties_file)
            state = describe(self.admin, topic)
        except (KafkaException, TimeoutError) as error:
            self._without_answer(topic, error.args[0] if isinstance(error, KafkaException) else None)
            return None
        self.absent_since.pop(topic, None)
        if topic in self.silent:
            self.silent.discard(topic)
            LOG.warning("topic %s: Kafka answers again", topic)
        return state

    def _without_answer(self, topic: str, error: Any) -> None:
        """Tells it once; raises what waiting does not mend, and what it has not mended."""
        reason = "no answer" if error is None else error.str()
        if error is not None and error.name() in DENIED:
            raise TopicError(f"topic {topic!r}: {reason}")
        if error is not None and error.name() in ABSENT:
            since = self.absent_since.setdefault(topic, time.monotonic())
            if time.monotonic() - since > ABSENT_SECONDS:
                advice = "if it was deleted, create it again, and resume: it is then read from its beginning"
                raise TopicError(f"topic {topic!r}: {reason} ({ABSENT_SECONDS:.0f} s): {advice}")
        if topic not in self.silent:
            self.silent.add(topic)
            LOG.warning("topic %s: waiting for Kafka: %s", topic, reason)

    def _log_troubles(self, topic: str, troubles: Mapping[tuple[int, str], str]) -> None:
        """Troubles by partition and name; one that lasts is logged again from time to time."""
        for trouble, text in troubles.items():
            key, at = (topic, *trouble), time.monotonic()
            if at - self.last_logged.get(key, -TROUBLE_SECONDS) >= TROUBLE_SECONDS:
                self.last_logged[key] = at
                LOG.warning("%s[%s]: %s", topic, trouble[0], text)

    def _ends(self, client: Any, topic: str, partition: int) -> tuple[int, int] | None:
        """The first offset of a partition and the one behind its last, as the broker says now, if it does."""
        from confluent_kafka import KafkaException, TopicPartition

        try:  # a round trip, so that it is the broker that answers
            answer = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=2, cached=False)
        except KafkaException as error:
            self._log_troubles(topic, {(partition, error.args[0].name()): error.args[0].str()})
            return None
        return None if answer is None else (answer[0], answer[1])

    def _follow_the_clock(self, client: Any, topic: str, positions: Positions, asked_at: int) -> Positions:
        """With the received time of empty partitions moved on, to a moment before the partitions were asked for."""
        ends = {partition: self._ends(client, topic, partition) for partition in positions.partitions}
        empty = [partition for partition, at in positions.offsets.items() if (end := ends[partition]) and end[1] <= at]
        return positions.followed(empty, asked_at - CLOCK_MARGIN)

    def _commit(self, client: Any, topic: str, positions: Positions) -> None:
        """Commits what was read before this call, for those who watch the lag; no count depends on it."""
        key = _key(topic, positions)
        if time.monotonic() - self.committed.get(key, -COMMIT_SECONDS) < COMMIT_SECONDS:
            return
        from confluent_kafka import KafkaException

        self.committed[key] = time.monotonic()
        try:
            client.commit(offsets=_places(topic, positions), asynchronous=True)
        except KafkaException as error:
            LOG.warning("%s: %s", topic, error)


@dataclass(frozen=True)
class Taken:
    """What a consumer has handed out, by partition."""

    by_partition: Mapping[int, Sequence[Any]]
    """Messages."""
    ends: Mapping[int, int]
    """The offset behind the last message, of partitions that were read to their end."""
    missing: Sequence[int]
    """Partitions whose position the broker does not have."""
    troubles: Mapping[tuple[int, str], str]
    """Errors that pass, by partition and name."""


def sorted_out(topic: str, messages: Sequence[Any]) -> Taken:
    """What is among the messages, which may be errors; those that do not pass are raised."""
    by_partition: dict[int, list[Any]] = {}
    taken = Taken(by_partition, ends := {}, missing := [], troubles := {})
    for message in messages:
        error, partition = message.error(), message.partition()
        if error is None:
            by_partition.setdefault(partition, []).append(message)
        elif error.name() == "_PARTITION_EOF":
            ends[partition] = message.offset()
        elif error.name() in OUT_OF_RANGE:
            missing.append(partition)
        elif error.fatal() or error.name() in DENIED:
            raise TopicError(f"{topic}[{partition}]: {error.str()}")
        else:
            troubles[partition, error.name()] = error.str()
    return taken


def received(
    topic: str, taken: Taken, positions: Positions, headers: bool = False, whole: bool = False
) -> Iterator[tuple[int, Position, list[MessageBatch]]]:
    """For each partition that moved on: its number, its new position, and the messages. Headers, and keys if these are
    to be `whole`, take a call for every message: only whoever needs them asks."""
    latest = dict(positions.partitions)
    for partition, own in taken.by_partition.items():
        Metrics.counter("source", "messages").inc(len(own))
        stamps = np.array([message.timestamp()[1] for message in own], dtype=np.int64)
        offsets = np.array([message.offset() for message in own], dtype=np.int64)
        times = received_times(stamps, latest[partition].received, now())
        values = [message.value() for message in own]
        keys = [message.key() for message in own] if whole else None
        found = headers_of(own) if headers or whole else []
        source = source_name(topic, partition)
        batches = list(
            batch_by_minute(source, offsets, times, values, keys, found if any(found) else None, positions.topic_id)
        )
        epoch = own[-1].leader_epoch()
        latest[partition] = Position(int(offsets[-1]) + 1, int(times[-1]), NO_EPOCH if epoch is None else epoch)
        yield partition, latest[partition], batches
    for partition, end in taken.ends.items():
        # Behind the last message there may be marks of transactions, which are never handed out.
        if end > latest[partition].offset:
            yield partition, replace(latest[partition], offset=end), []


def source_name(topic: str, partition: int) -> str:
    """How dead letters name a partition."""
    return f"{topic}[{partition}]"


def _key(topic: str, positions: Positions) -> tuple[Any, ...]:
    return topic, positions.topic_id, *positions.partitions


def _places(topic: str, positions: Positions) -> list[Any]:
    from confluent_kafka import TopicPartition

    return [
        TopicPartition(topic, partition, position.offset, leader_epoch=position.epoch)
        if position.epoch != NO_EPOCH
        else TopicPartition(topic, partition, position.offset)
        for partition, position in positions.partitions.items()
    ]


def _unread(client: Any, topic: str, positions: Positions) -> float:
    """How many messages are known to be unread, from what came with the last fetch; before the first, without end."""
    from confluent_kafka import TopicPartition

    offsets = positions.offsets
    ends = [client.get_watermark_offsets(TopicPartition(topic, partition), cached=True)[1] for partition in offsets]
    if min(ends) < 0:
        return math.inf
    return sum(max(0, end - offset) for end, offset in zip(ends, offsets.values(), strict=True))
