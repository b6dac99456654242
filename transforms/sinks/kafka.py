"""Snapshots to a Kafka topic, keyed by collection, group and window: compacted, it holds the newest pane of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import Snapshot
from hushgram.transforms.kafka_client import KafkaError, producer
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS, OUTAGES, duration

QUIET_SECONDS = 5.0
"""A longer wait for the brokers is logged."""
MARGIN_SECONDS = 5.0
"""The client gives up a message by itself, and reports it a moment later."""


@dataclass
class PublishToKafka(beam.PTransform[PCollection[Snapshot], PCollection[None]]):
    """Each snapshot becomes a message of a topic, keyed by collection, group and window.

    `properties` are those of librdkafka, such as bootstrap.servers; `properties_file` is read where clients run, so
    that secrets are in no job graph. Brokers that are away are waited for.

    >>> publish = PublishToKafka("snapshots", {"bootstrap.servers": "localhost:9092"})
    >>> snapshots | publish  # doctest: +SKIP
    """

    topic: str
    properties: Mapping[str, str]
    properties_file: str | None = None
    patience_seconds: float = DEFAULT_SECONDS

    def expand(self, snapshots: PCollection[Snapshot]) -> PCollection[None]:
        write = WriteToTopic(self.topic, self.properties, self.properties_file, self.patience_seconds)
        return snapshots | "Publish" >> beam.ParDo(write).with_output_types(None)


class WriteToTopic(beam.DoFn):
    """Each snapshot one message, in Avro's single-object encoding; a bundle ends when the broker has them all.

    The client itself tries again while brokers are away, until its patience is over, and keeps messages in their order.
    """

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, str],
        properties_file: str | None,
        patience_seconds: float = DEFAULT_SECONDS,
    ) -> None:
        self.name, self.topic, self.patience_seconds = f"kafka:{topic}", topic, patience_seconds
        self.properties, self.properties_file = dict(properties), properties_file

    def setup(self) -> None:
        self.client: Any = None

    def start_bundle(self) -> None:
        self.failed: list[str] = []
        if self.client is None:
            # Zero would be without end, and less than a second no time to connect.
            milliseconds = min(2**31 - 1, max(1000, round(1000 * self.patience_seconds)))
            more = {"message.timeout.ms": milliseconds}
            self.client = producer(self.properties, self.properties_file, **more)

    def process(self, element: Snapshot) -> None:
        message = self.topic, encode_message(SNAPSHOT, element.to_avro()), element.key.text.encode()
        try:
            self.client.produce(*message, on_delivery=self._delivered)
        except BufferError:  # the client holds as many as it may: memory has a bound
            self._flush()
            self.client.produce(*message, on_delivery=self._delivered)
        self.client.poll(0)
        Metrics.counter("sinks", "snapshots").inc()

    def finish_bundle(self) -> None:
        self._flush()

    def _flush(self) -> None:
        left = self.client.flush(QUIET_SECONDS)
        if left:
            OUTAGES.begin(self.name, self.patience_seconds, f"{left} snapshots not taken yet")
            left = self.client.flush(self.patience_seconds + MARGIN_SECONDS)
        if left or self.failed:
            # Raised, so that the engine does the bundle again: a snapshot must not be lost in silence.
            reasons = "; ".join(dict.fromkeys(self.failed[:3])) or f"no answer for {duration(self.patience_seconds)}"
            count = max(left, len(self.failed))
            raise KafkaError(f"--sink {self.name}: {count} snapshots not taken (--sink-patience): {reasons}")
        OUTAGES.end(self.name)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error.str())
