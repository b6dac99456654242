"""Snapshots to a Kafka topic, keyed by collection, group and window: compacted, it holds the newest pane of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import Snapshot
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS
from hushgram.transforms.sinks.topic_writer import TopicWriter


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
    schema_id: int | None = None
    """Of the Snapshot in a schema registry, to frame messages by; without it they are in the single-object encoding."""

    def expand(self, snapshots: PCollection[Snapshot]) -> PCollection[None]:
        write = WriteToTopic(self.topic, self.properties, self.properties_file, self.patience_seconds, self.schema_id)
        return snapshots | "Publish" >> beam.ParDo(write).with_output_types(None)


class WriteToTopic(TopicWriter):
    """Each snapshot one message: in Avro's single-object encoding, or framed by the id of its schema."""

    what = "snapshots"

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, str],
        properties_file: str | None,
        patience_seconds: float = DEFAULT_SECONDS,
        schema_id: int | None = None,
    ) -> None:
        super().__init__("--sink", topic, properties, properties_file, patience_seconds)
        self.schema_id = schema_id

    def process(self, element: Snapshot) -> None:
        self.send(encode_message(SNAPSHOT, element.to_avro(), schema_id=self.schema_id), element.key.text.encode())
        Metrics.counter("sinks", "snapshots").inc()
