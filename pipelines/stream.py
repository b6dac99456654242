"""`hushgram stream`: counts reports as they come, and estimates every window early, on time and late."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PBegin

from hushgram import Collection, CollectionError
from hushgram.pipelines.cli import registry, sinks
from hushgram.pipelines.cli.console import (
    UsageError,
    check_generation,
    check_letters_target,
    collections_in,
    command_parser,
    dead_letter_topic,
    say,
    start_in,
)
from hushgram.pipelines.cli.options import parse
from hushgram.pipelines.cli.outputs import RESULTS, check_directory
from hushgram.pipelines.cli.registry import registry_in
from hushgram.pipelines.runners import DATAFLOW, Engine, for_stream, job_errors, only_translated, pipeline_with
from hushgram.pipelines.stable_ids import NamedIds
from hushgram.pipelines.staging import staged_requirements
from hushgram.transforms.aggregate import AggregateReports
from hushgram.transforms.filesystem import check_file_system
from hushgram.transforms.run_store import committed_runs
from hushgram.transforms.schema_registry import SchemaRegistry
from hushgram.transforms.sinks.dead_letter_topic import PublishDeadLetters
from hushgram.transforms.sinks.files import FORMATS
from hushgram.transforms.sinks.result_files import WriteDeadLetters, WriteHistograms, WriteSnapshots
from hushgram.transforms.sources.directory import PATIENCE_MS, WatchReports
from hushgram.transforms.sources.kafka import ReadKafka
from hushgram.transforms.sources.pubsub import ReadReportsFromPubSub
from hushgram.windows import parse_duration

EXAMPLE = "hushgram stream --collections collections.yaml --kafka localhost:9092 --topic reports --output results"
LONGEST_PAUSE_MS = 60_000


@dataclass(frozen=True)
class StreamJob:
    """A stream, its options checked."""

    collections: Mapping[str, Collection]
    source: beam.PTransform[PBegin, Any]
    source_name: str
    output: str
    format: str
    generation: int
    sinks: tuple[sinks.Sink, ...]
    registry: SchemaRegistry | None = None
    refused: PublishDeadLetters | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--kafka", metavar="ADDRESS", help="brokers to read from, such as localhost:9092")
    source.add_argument("--watch", metavar="DIR", help="a directory that report files are moved into")
    parser.add_argument(
        "--watch-patience",
        metavar="TIME",
        help="with --watch: a file that cannot be read for this long becomes a dead letter (default: 10m)",
    )
    source.add_argument("--pubsub", metavar="SUBSCRIPTION", help="a subscription, such as projects/p/subscriptions/s")
    parser.add_argument("--topic", metavar="NAME", help="with --kafka: the topic of reports")
    parser.add_argument(
        "--from", dest="first", choices=("earliest", "latest"), default="earliest", help="with --kafka: where to begin"
    )
    parser.add_argument(
        "--kafka-properties",
        metavar="FILE",
        help=f"with --kafka: {registry.PROPERTIES}; for TLS, SASL and the like",
    )
    registry.add_arguments(parser, "snapshots of --sink kafka:")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="the folder for snapshots, histograms and dead letters"
    )
    parser.add_argument(
        "--dead-letters",
        metavar="kafka:TOPIC",
        help="with --kafka: a topic that refused messages go to, too, whole, with the reason in headers",
    )
    sinks.add_argument(parser)
    parser.add_argument("--format", choices=FORMATS, default="avro", help="the format of the results (default: avro)")
    parser.add_argument("--generation", type=int, default=0, help="higher for a corrected rerun (default: 0)")


def job_of(options: argparse.Namespace, engine: Engine) -> StreamJob:
    """The checked job, or a `UsageError` that a person can act on: before any worker starts."""
    collections = collections_in(options.collections)
    check_generation(options.generation)
    if "://" not in options.output and committed_runs(options.output):
        raise UsageError(f"--output {options.output}: has batch runs; give a stream a folder of its own")
    if not options.kafka:
        for name in ("topic", "kafka_properties"):
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')}: only with --kafka")
    registry.check_combination(options)
    _check_topics(options)
    kafka = _kafka(options) if options.kafka else None
    patience = sinks.patience_in(options)
    source, named = _source(options, collections, engine, kafka)
    refused = _refused(options, kafka, patience)
    looked_up = (
        registry_in(options.schema_registry, kafka.file, patience) if kafka and options.schema_registry else None
    )
    here = not engine.outlives_command
    if here or "://" in options.output:
        check_directory("--output", options.output, RESULTS)
    framed_by = looked_up if options.framed else None
    context = sinks.SinkContext(
        streaming=True,
        here=here,
        kafka=kafka,
        patience_seconds=patience,
        pause_seconds=file_pause(collections.values()),
        framed_by=framed_by,
    )
    others = sinks.sinks_of(options.sink, context)
    results = (_absolute(options.output), options.format, options.generation, others)
    return StreamJob(collections, source, named, *results, looked_up, refused)


def _check_topics(options: argparse.Namespace) -> None:
    """That no topic is for two things, and no option without effect."""
    snapshots = [name.removeprefix("kafka:") for name in options.sink if name.startswith("kafka:")]
    if options.framed and not snapshots:
        raise UsageError("--framed: only with --sink kafka:TOPIC, whose snapshots name their schema then")
    refused = dead_letter_topic(options.dead_letters) if options.dead_letters else None
    if refused and refused == options.topic:
        raise UsageError(f"--dead-letters: got {refused!r}, which is the topic of reports, allowed: another one")
    for topic, of in ((options.topic, "reports"), (refused, "dead letters")):
        if topic in snapshots:
            raise UsageError(f"--sink: got 'kafka:{topic}', which is the topic of {of}, allowed: another one")


def _refused(options: argparse.Namespace, kafka: sinks.Kafka | None, patience: float) -> PublishDeadLetters | None:
    """The topic of `--dead-letters`, which must be there and take messages."""
    if not options.dead_letters:
        return None
    topic = dead_letter_topic(options.dead_letters)
    if kafka is None:
        raise UsageError("--dead-letters: only with --kafka, to the same brokers")
    check_letters_target(topic, kafka.properties, kafka.file, f"--dead-letters {options.dead_letters}")
    return PublishDeadLetters(topic, kafka.properties, kafka.file, patience)


def _kafka(options: argparse.Namespace) -> sinks.Kafka:
    file = options.kafka_properties and _absolute(options.kafka_properties)
    return sinks.Kafka({"bootstrap.servers": options.kafka, "group.id": "hushgram"}, file)


def _absolute(path: str) -> str:
    """Workers have working directories of their own."""
    return path if "://" in path else str(Path(path).absolute())


def _source(
    options: argparse.Namespace, collections: Mapping[str, Collection], engine: Engine, kafka: sinks.Kafka | None
) -> tuple[beam.PTransform[PBegin, Any], str]:
    max_delay = max(collection.windows.max_delay for collection in collections.values())
    if options.watch_patience and not options.watch:
        raise UsageError("--watch-patience: only with --watch")
    if options.watch:
        if "://" not in options.watch and not Path(options.watch).is_dir():
            raise UsageError(f"--watch {options.watch}: no such directory")
        if "://" in options.watch and set(options.watch) & set("*?["):
            raise UsageError(f"--watch {options.watch}: allowed: a directory whose name has none of * ? [")
        try:
            check_file_system(options.watch)
        except OSError as error:
            raise UsageError(f"--watch {options.watch}: cannot be read: {error}") from None
        return WatchReports(_absolute(options.watch), max_delay, _watch_patience_ms(options)), options.watch
    if options.pubsub:
        _check_subscription(options.pubsub, engine)
        return ReadReportsFromPubSub(options.pubsub), options.pubsub
    if not options.topic:
        raise UsageError("--topic: missing; --kafka needs it")
    assert kafka is not None
    topic_id, offsets = start_in(options.topic, kafka.properties, kafka.file, latest=options.first == "latest")
    together = engine.partitions_together
    asked = bool(options.schema_registry), bool(options.dead_letters)
    source = ReadKafka(options.topic, offsets, kafka.properties, kafka.file, max_delay, together, topic_id, *asked)
    return source, f"{options.topic} at {options.kafka}, {len(offsets)} partitions"


def _watch_patience_ms(options: argparse.Namespace) -> int:
    if not options.watch_patience:
        return PATIENCE_MS
    try:
        return parse_duration("--watch-patience", options.watch_patience)
    except CollectionError as error:
        raise UsageError(str(error)) from None


def _check_subscription(name: str, engine: Engine) -> None:
    if engine is not DATAFLOW:
        raise UsageError(f"--pubsub: not with {engine.name}; allowed: --runner=DataflowRunner")
    try:
        from apache_beam.io.gcp.pubsub import parse_subscription

        parse_subscription(name)
    except ImportError:
        raise UsageError("--pubsub: Beam's part for it is not installed; pip install 'hushgram[gcp]'") from None
    except ValueError:
        raise UsageError(f"--pubsub: got {name!r}, allowed: such as projects/a-project/subscriptions/reports") from None


def file_pause(collections: Iterable[Collection]) -> int:
    """For how many seconds panes are collected for a file: as often as early panes come, and every minute at least."""
    early = [collection.windows.early for collection in collections if collection.windows.early is not None]
    return math.ceil(min([*early, LONGEST_PAUSE_MS]) / 1000)


def build(pipeline: beam.Pipeline, job: StreamJob) -> None:
    """The pipeline as a sentence."""
    reads = pipeline | "Read" >> job.source
    results = reads | "Aggregate" >> AggregateReports(
        job.collections,
        generation=job.generation,
        schema_registry=job.registry,
        refused_messages=job.refused,
    )
    pause = file_pause(job.collections.values())
    results.snapshots | "Write snapshots" >> WriteSnapshots(job.output, job.format, pause)
    results.histograms | "Write histograms" >> WriteHistograms(job.output, job.format, pause)
    results.dead_letters | "Write dead letters" >> WriteDeadLetters(job.output, job.format)
    sinks.write_to(job.sinks, results)


def run(argv: Sequence[str]) -> int:
    """Runs with the command line's options; those it does not know are Beam's, which must know them."""
    parser = command_parser("stream", __doc__, EXAMPLE)
    add_arguments(parser)
    options, rest = parse(parser, argv, runner="PrismRunner")
    engine, for_beam = for_stream(rest)
    return execute(job_of(options, engine), engine, for_beam)


def execute(job: StreamJob, engine: Engine, for_beam: Sequence[str]) -> int:
    """Until the job ends. A signal ends it too, where this command is all that keeps it; a cluster keeps its own."""
    options = PipelineOptions(list(for_beam), save_main_session=False)
    pipeline = pipeline_with(options)
    pipeline.component_id_map = NamedIds()
    build(pipeline, job)
    engine.submitting()
    with staged_requirements(pipeline.options):
        result = pipeline.run()
    if only_translated(options):
        say("the job is translated, and was not started")
        return 0
    engine.submitted()
    refused = [] if job.refused is None else [f"kafka:{job.refused.topic}"]
    places = ", ".join([job.output, *(sink.name for sink in job.sinks), *refused])
    say(f"reading {job.source_name}, on {engine.name}; results go to {places}")
    try:
        with job_errors():
            state = result.wait_until_finish()
    except RuntimeError as error:
        raise UsageError(f"the job ended: {error}") from None
    say(f"the job ended: {state}")
    return 0
