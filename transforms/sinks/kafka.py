"""Snapshots to a Kafka topic, keyed by collection, group and window: compacted, it holds the newest pane of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from schemas.definitions import SNAPSHOT
from schemas.messages import encode_message
from schemas.records import Histogram, Key, Snapshot
from transforms.kafka_client import KafkaError, producer

FLUSH_SECONDS = 60.0


def message_key(key: Key) -> bytes:
    """The same for every pane of a window.

    >>> message_key(Key("commute", None, 0, 3600000))
    b'["commute", null, 0, 3600000]'
    """
    return json.dumps([key.collection, key.group, key.window_start, key.window_end]).encode()


@dataclass
class PublishToKafka(beam.PTransform[Any, Any]):
    """Answers and letters in; each snapshot becomes a message of `topic`."""

    name: str
    topic: str
    properties: Mapping[str, str]
    properties_file: str | None

    def expand(self, results: tuple[PCollection[Any], PCollection[Any]]) -> None:
        write = WriteToTopic(self.name, self.topic, self.properties, self.properties_file)
        results[0] | "Publish" >> beam.ParDo(write)


class WriteToTopic(beam.DoFn):
    """Each snapshot one message, in Avro's single-object encoding; a bundle ends when the broker has them all."""

    def __init__(self, name: str, topic: str, properties: Mapping[str, str], properties_file: str | None) -> None:
        self.name, self.topic = name, topic
        self.properties, self.properties_file = dict(properties), properties_file

    def setup(self) -> None:
        self.client: Any = None

    def start_bundle(self) -> None:
        self.failed: list[str] = []
        if self.client is None:
            self.client = producer(self.properties, self.properties_file)

    def process(self, element: tuple[Snapshot, Histogram]) -> None:
        snapshot = element[0]
        value = encode_message(SNAPSHOT, snapshot.to_avro())
        self.client.produce(self.topic, value, message_key(snapshot.key), on_delivery=self._delivered)
        self.client.poll(0)
        Metrics.counter("sinks", self.name).inc()

    def finish_bundle(self) -> None:
        left = self.client.flush(FLUSH_SECONDS)
        if left or self.failed:
            # Raised, so that the engine does the bundle again: a snapshot must not be lost in silence.
            raise KafkaError(f"topic {self.topic!r}: {left} snapshots not taken; {'; '.join(self.failed[:3])}")

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error.str())
