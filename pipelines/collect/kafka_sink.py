"""Batches to a topic: each is one message, kept when all replicas that must have it do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hushgram.pipelines.collect.packing import Batch
from hushgram.pipelines.collect.sink import AwayError
from hushgram.schemas.avro_schemas import DEAD_LETTER, REPORT_BATCH
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.kafka_client import KafkaError, producer

DELIVERY_SECONDS = 10.0
"""Brokers that have not taken a message by then are away, and clients had better come back later."""
MARGIN_SECONDS = 5.0
"""The client gives up a message by itself, and reports it a moment later."""


class KafkaSink:
    """Keeps batches in a topic; dead letters go to a topic of their own, if there is one."""

    def __init__(
        self, topic: str, properties: Mapping[str, str], properties_file: str | None, letters_topic: str | None = None
    ) -> None:
        self.name = f"{topic} at {properties.get('bootstrap.servers', '')}"
        self.topic, self.letters_topic = topic, letters_topic
        self.properties, self.properties_file = properties, properties_file
        self._producer: Any = self._connect()

    def keep(self, batches: Sequence[Batch]) -> None:
        self._send(self.topic, [encode_message(REPORT_BATCH, batch) for batch in batches])

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        if self.letters_topic is not None:
            self._send(self.letters_topic, [encode_message(DEAD_LETTER, letter.to_avro()) for letter in letters])

    def probe(self) -> None:
        from confluent_kafka import KafkaException

        try:
            found = self._connected().list_topics(self.topic, timeout=MARGIN_SECONDS).topics[self.topic]
        except KafkaException as error:
            raise AwayError(error.args[0].str()) from None
        if found.error is not None:
            raise AwayError(found.error.str())

    def close(self) -> None:
        self._producer = None

    def _send(self, topic: str, messages: Sequence[bytes]) -> None:
        from confluent_kafka import KafkaException

        client, errors, delivered = self._connected(), list[str](), 0

        def note(error: Any, _: Any) -> None:
            nonlocal delivered
            delivered += 1
            if error is not None:
                errors.append(error.str())

        end = time.monotonic() + DELIVERY_SECONDS + MARGIN_SECONDS
        left = list(reversed(messages))
        try:
            while delivered < len(messages) and not errors and time.monotonic() < end:
                with suppress(BufferError):  # the client holds as much as it can: until it has sent some, no more
                    while left:
                        client.produce(topic, left[-1], on_delivery=note)
                        left.pop()
                client.poll(0.1)
        except KafkaException as error:
            errors.append(error.args[0].str())
        if errors or delivered < len(messages):
            # With all that it still has to send: whether that arrives is not known, so clients will send it again.
            client.purge()
            self._producer = None
            raise AwayError(errors[0] if errors else "no answer")

    def _connected(self) -> Any:
        if self._producer is None:
            try:
                self._producer = self._connect()
            except KafkaError as error:
                raise AwayError(str(error)) from None
        return self._producer

    def _connect(self) -> Any:
        """Idempotent, which implies that all replicas must have a message; what waits here has waited enough."""
        more = {"linger.ms": 0, "message.timeout.ms": int(1000 * DELIVERY_SECONDS), "acks": "all"}
        return producer(self.properties, self.properties_file, **more)
