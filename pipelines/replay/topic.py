"""A topic of dead letters, read to where it ended when the run began, each step in one transaction.

What is sent again, what stays, and the position behind both are committed together or not at all. What stays is written
to the end of the topic, for the next run: so nothing is sent twice, and nothing is forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hushgram.pipelines.replay.verdicts import Choice, Counts, Letter, Origin, Sorter
from hushgram.transforms.dead_messages import original_headers
from hushgram.transforms.kafka_client import TIMEOUT, KafkaError, consumer, first_offsets, producer
from hushgram.transforms.sinks.dead_letter_topic import LARGEST_DEAD_MESSAGE, TOO_LARGE

STEP = 1000
"""Messages of one transaction, at most."""
SILENCE_SECONDS = 60.0
"""Brokers that say nothing for longer end the run; another one goes on where it stood."""
POLL_SECONDS = 0.5

SILENT = logging.Logger("nobody")
SILENT.addHandler(logging.NullHandler())
"""What the client would print of a fatal error, beside the exception that says it."""

Positions = dict[int, int]


@dataclass(frozen=True)
class DeadLetterTopic:
    """A topic of dead letters, and the group whose position says what of it was replayed."""

    name: str
    group: str
    properties: Mapping[str, str]
    properties_file: str | None

    def survey(self, choice: Choice) -> Counts:
        """What a run would do, without doing it."""
        client = self._consumer()
        try:
            first, starts, ends = self._range(client)
            seen = self._origins(client, first, starts)
            return Counts.together(self._survey(client, Sorter(choice, seen), starts, ends).values())
        finally:
            client.close()

    def replay(self, choice: Choice) -> Counts:
        """Sends what is chosen to the topic of reports. A run that fails or is killed has done whole steps."""
        from confluent_kafka import KafkaException

        # One message a batch: brokers refuse batches that are larger than a topic's messages may be.
        own = {"transactional.id": self.group, "message.max.bytes": LARGEST_DEAD_MESSAGE, "batch.num.messages": 1}
        own["logger"] = SILENT
        sender, client = producer(self.properties, self.properties_file, **own), self._consumer()
        try:
            sender.init_transactions(TIMEOUT)  # ends what another run of the group has begun, before it is looked at
            first, starts, ends = self._range(client)
            seen = self._origins(client, first, starts)
            surveyed = self._survey(client, Sorter(choice, set(seen)), starts, ends)
            # Partitions of which all stays are left as they are: their letters need not be written anew.
            untouched = {partition: counts for partition, counts in surveyed.items() if counts.all_stay}
            sorter, done = Sorter(choice, seen), Counts()
            rest = {partition: end for partition, end in ends.items() if partition not in untouched}
            for messages in self._read(client, starts, rest):
                self._step(sender, client, sorter, messages, done)
            return Counts.together([done, *untouched.values()])
        except (KafkaException, SystemError) as raised:
            if not isinstance(error := _origin(raised), KafkaException):
                raise
            fenced = error.args[0].name() in ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
            reason = "another run of the same --group has begun" if fenced else error.args[0].str()
            raise KafkaError(f"topic {self.name!r}: {reason}; what was done is committed, run it again") from None
        finally:
            client.close()

    def _step(self, sender: Any, client: Any, sorter: Sorter, messages: list[Any], done: Counts) -> None:
        from confluent_kafka import TopicPartition

        send, stay = sorter.sort([Letter.of(message) for message in messages], now(), done)
        behind: Positions = {}
        for message in messages:
            behind[message.partition()] = message.offset() + 1
        refused: list[str] = []
        sender.begin_transaction()
        for letter in send:
            _produce(sender, refused, sorter.choice.topic, letter, original_headers(letter.header_list))
        for letter in stay:  # with its own time: retention would never remove what each run makes younger
            _produce(sender, refused, self.name, letter, letter.passed_over(), timestamp=letter.stamp)
        sender.flush(SILENCE_SECONDS)
        if refused:
            sender.abort_transaction(TIMEOUT)
            raise KafkaError(f"topic {self.name!r}, {refused[0]}; what was done before is committed")
        offsets = [TopicPartition(self.name, partition, offset) for partition, offset in behind.items()]
        sender.send_offsets_to_transaction(offsets, client.consumer_group_metadata(), TIMEOUT)
        sender.commit_transaction(SILENCE_SECONDS)

    def _origins(self, client: Any, first: Positions, starts: Positions) -> set[Origin]:
        """Of the letters that earlier runs have dealt with: a stream that fails may write them once more."""
        letters = (Letter.of(message) for messages in self._read(client, first, starts) for message in messages)
        return {letter.origin for letter in letters if letter.origin is not None}

    def _survey(self, client: Any, sorter: Sorter, starts: Positions, ends: Positions) -> dict[int, Counts]:
        """What is in each partition of the topic."""
        counts = {partition: Counts() for partition in ends}
        for messages in self._read(client, starts, ends):
            for partition in {message.partition() for message in messages}:
                own = [Letter.of(message) for message in messages if message.partition() == partition]
                sorter.sort(own, now(), counts[partition])
        return counts

    def _consumer(self) -> Any:
        return consumer(self.properties, self.properties_file, **{"group.id": self.group})

    def _range(self, client: Any) -> tuple[Positions, Positions, Positions]:
        """The first position of each partition, the one to begin with, and the end as of now."""
        from confluent_kafka import KafkaException, TopicPartition

        first, ends = (first_offsets(self.name, self.properties, self.properties_file, late) for late in (False, True))
        try:
            found = client.committed([TopicPartition(self.name, partition) for partition in ends], TIMEOUT)
        except KafkaException as error:
            raise KafkaError(f"group {self.group!r}: {error.args[0].str()}") from None
        starts = {}
        for place in found:
            low, end = first.setdefault(place.partition, 0), ends[place.partition]
            # A position beyond the end is one of another topic of this name.
            starts[place.partition] = place.offset if low <= place.offset <= end else low
        return first, starts, ends

    def _read(self, client: Any, starts: Positions, ends: Positions) -> Iterator[list[Any]]:
        """The messages between, some at a time. Behind the last one there may be marks of transactions only."""
        from confluent_kafka import TopicPartition

        left = {partition for partition, end in ends.items() if starts[partition] < end}
        client.assign([TopicPartition(self.name, partition, starts[partition]) for partition in left])
        heard = time.monotonic()
        while left:
            wanted = []
            for message in client.consume(STEP, POLL_SECONDS):
                heard, partition, error = time.monotonic(), message.partition(), message.error()
                if error is not None:
                    if error.name() != "_PARTITION_EOF":
                        raise KafkaError(f"{self.name}[{partition}]: {error.str()}")
                    left.discard(partition)
                elif partition in left:
                    if message.offset() < ends[partition]:
                        wanted.append(message)
                    if message.offset() >= ends[partition] - 1:
                        left.discard(partition)
            if wanted:
                yield wanted
                heard = time.monotonic()  # what others did meanwhile is no silence of the brokers
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise KafkaError(f"topic {self.name!r}: no answer for {SILENCE_SECONDS:.0f} s; run it again")


def _produce(sender: Any, refused: list[str], topic: str, letter: Letter, headers: list[Any], **more: Any) -> None:
    """Hands a letter to the client; if brokers find it too large, `refused` gets a line that names it."""

    def delivered(error: Any, _: Any) -> None:
        if error is not None and error.name() == TOO_LARGE:
            refused.append(f"{letter.place}: {topic} does not take it; let max.message.bytes there be a few KiB more")

    own = {"headers": headers, "on_delivery": delivered, **more}
    produce = partial(sender.produce, topic, letter.value, letter.key, **own)
    try:
        produce()
    except BufferError:  # memory has a bound
        sender.flush(SILENCE_SECONDS)
        produce()


def _origin(error: BaseException) -> BaseException:
    """The client raises a fatal error, and reports the messages that it gives up: if that happens in one call, Python
    finds a function that returned while an exception was set."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def now() -> int:
    return time.time_ns() // 1_000_000
