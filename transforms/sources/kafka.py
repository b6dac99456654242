"""Kafka as an unbounded source: the reports of a topic.

On Flink an element is one partition, since the stage is keyed by its element. On Prism it is all of them: Prism keeps
one watermark for a stage, that of the last bundle, so that several elements would not wait for each other and lose
reports to lateness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PBegin, PCollection

from hushgram.transforms.kafka_client import first_offsets, topic_id
from hushgram.transforms.sources.kafka_polls import ReadPolls
from hushgram.transforms.sources.kafka_positions import Element
from hushgram.transforms.sources.message_batch import Gap, MessageBatch


@dataclass
class ReadKafka(beam.PTransform[PBegin, PCollection[MessageBatch | Gap]]):
    """The messages of a topic, from the given offset of each partition on; `max_delay` in milliseconds.

    Clients take `properties`, and what the file says, which is read where they run.
    """

    topic: str
    offsets: Mapping[int, int]
    properties: Mapping[str, str]
    properties_file: str | None
    max_delay: int
    together: bool
    """All partitions in one element, or each in one of its own."""
    topic_id: str = ""
    """As brokers report it; without one, a topic that is created again is taken for the same."""
    headers: bool = False
    """With headers: one of them may name the schema."""
    whole: bool = False
    """With keys and headers: a topic of dead letters has them too."""

    def expand(self, pipeline: PBegin) -> PCollection[MessageBatch | Gap]:
        read = ReadPolls(self.properties, self.properties_file, self.max_delay, self.headers, self.whole)
        return (
            pipeline
            | "Partitions" >> beam.Create(self.elements())
            | "Spread" >> beam.Reshuffle()
            | "Poll" >> beam.ParDo(read).with_output_types(MessageBatch | Gap)
        )

    def elements(self) -> list[Element]:
        starts = tuple(sorted(self.offsets.items()))
        if self.together:
            return [(self.topic, self.topic_id, (0, 1), starts)]
        return [(self.topic, self.topic_id, (start[0], len(starts)), (start,)) for start in starts]


@dataclass
class ReadReportsFromKafka(beam.PTransform[PBegin, PCollection[MessageBatch | Gap]]):
    """The reports of a Kafka topic, for ever. The topic is looked at when the pipeline is constructed.

    Args:
        bootstrap_servers: Brokers to begin with, such as localhost:9092.
        topic: Its messages are Avro's single-object encoding of a Report or a ReportBatch, or name their schema by its
            id in a registry.
        start: earliest or latest: where to begin, unless an engine resumes from a checkpoint.
        max_delay_ms: How long after its event a report usually arrives, at most; the watermark waits for it, and what
            comes later is in late panes.
        properties_file: Properties of librdkafka, one name=value a line, for TLS, SASL and the like. It is read where
            clients run, so that secrets are in no job graph.
        headers: With headers, for `AggregateReports` with a schema registry: one of them may name the schema.
        whole: With keys and headers, for `AggregateReports` with a topic of dead letters.

    >>> ReadReportsFromKafka("localhost:9092", "reports", start="first")
    Traceback (most recent call last):
    ValueError: start: got 'first', allowed: earliest, latest
    """

    bootstrap_servers: str
    topic: str
    start: str = "earliest"
    max_delay_ms: int = 120_000
    properties_file: str | None = None
    headers: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        if self.start not in ("earliest", "latest"):
            raise ValueError(f"start: got {self.start!r}, allowed: earliest, latest")

    def expand(self, pipeline: PBegin) -> PCollection[MessageBatch | Gap]:
        properties = {"bootstrap.servers": self.bootstrap_servers, "group.id": "hushgram"}
        known_id = topic_id(self.topic, properties, self.properties_file)
        # After the id: were the topic created again in between, the source would find another id than this one.
        offsets = first_offsets(self.topic, properties, self.properties_file, self.start == "latest")
        runner = (pipeline.pipeline.options.view_as(StandardOptions).runner or "").lower()
        by_partition = any(name in runner for name in ("flink", "portable", "dataflow"))
        return pipeline | "Topic" >> ReadKafka(
            self.topic,
            offsets,
            properties,
            self.properties_file,
            self.max_delay_ms,
            not by_partition,
            known_id,
            self.headers,
            self.whole,
        )
