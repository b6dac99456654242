"""Messages that were refused to a Kafka topic of dead letters, whole."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from hushgram.transforms.dead_messages import DeadMessage, without_content, without_value
from hushgram.transforms.kafka_client import KafkaError, producer
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS
from hushgram.transforms.sinks.topic_writer import MARGIN_SECONDS, TopicWriter

LOG = logging.getLogger(__name__)

LARGEST_DEAD_MESSAGE = 1 << 28
"""Bytes. What brokers take is theirs to say."""
TOO_LARGE = "MSG_SIZE_TOO_LARGE"


@dataclass
class PublishDeadLetters(beam.PTransform[PCollection[Any], PCollection[None]]):
    """Messages that were refused become messages of a topic: value, key and headers as they were, and in headers with
    the names of Kafka Connect's dead letter queue the reason and where they came from.

    It is given to `AggregateReports`, which refuses them. `properties` are those of librdkafka; `properties_file` is
    read where clients run. A message arrives once or, after a failure, several times. One that is larger than the topic
    allows arrives without its value, and if need be without its key and its own headers.

    >>> PublishDeadLetters("refused", {"bootstrap.servers": "localhost:9092"}).topic
    'refused'
    """

    topic: str
    properties: Mapping[str, str]
    properties_file: str | None = None
    patience_seconds: float = DEFAULT_SECONDS

    def expand(self, messages: PCollection[Any]) -> PCollection[None]:
        write = WriteDeadMessages(
            "--dead-letters", self.topic, self.properties, self.properties_file, self.patience_seconds
        )
        return messages | "Publish" >> beam.ParDo(write).with_output_types(None)


class WriteDeadMessages(TopicWriter):
    """Each element is the tuple of a `DeadMessage`.

    A broker refuses a whole batch of messages if that is larger than it takes. So each of them is sent once more, and
    alone; one that is too large even then is sent without its value, or without all that its sender chose.
    """

    what = "dead letters"

    def setup(self) -> None:
        super().setup()
        self.sending_alone: Any = None

    def start_bundle(self) -> None:
        super().start_bundle()
        self.in_too_large_batches: list[DeadMessage] = []

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "message.max.bytes": LARGEST_DEAD_MESSAGE}

    def process(self, element: tuple[Any, ...]) -> None:
        dead = DeadMessage(*element)
        self.send(dead.value, dead.key, headers=dead.headers, on_delivery=partial(self._delivered_together, dead))

    def _delivered_together(self, dead: DeadMessage, error: Any, message: Any) -> None:
        if error is not None and error.name() == TOO_LARGE:
            self.in_too_large_batches.append(dead)
        else:
            self.delivered(error, message)

    def finish_bundle(self) -> None:
        super().finish_bundle()
        if self.in_too_large_batches and self.sending_alone is None:
            settings = {**self.settings(), "batch.num.messages": 1}
            self.sending_alone = producer(self.properties, self.properties_file, **settings)
        for dead in self.in_too_large_batches:
            if not self._takes(dead):
                LOG.warning("%s: %d bytes are more than max.message.bytes", self.name, len(dead.value or b""))
                if not self._takes(without_value(dead)) and not self._takes(without_content(dead)):
                    raise KafkaError(f"{self.name}: max.message.bytes is too small even for a reason; raise it")

    def _takes(self, dead: DeadMessage) -> bool:
        """Whether the topic takes a message that is sent alone, or finds it too large."""
        errors: list[Any] = []

        def delivered(error: Any, _: Any) -> None:
            errors.append(error)

        self.sending_alone.produce(self.topic, dead.value, dead.key, headers=dead.headers, on_delivery=delivered)
        left = self.sending_alone.flush(self.patience_seconds + MARGIN_SECONDS)
        error = errors[0] if errors else None
        if left or (error is not None and error.name() != TOO_LARGE):
            reason = "no answer" if error is None else error.str()
            raise KafkaError(f"{self.name}: a dead letter was not taken (--sink-patience): {reason}")
        return error is None
