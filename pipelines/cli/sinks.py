"""`--sink`: where snapshots go beside the files of `--output`, each named as `scheme:target`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam

from hushgram._validation import CollectionError
from hushgram.pipelines.cli.console import UsageError, check_target
from hushgram.pipelines.cli.prometheus_file import prometheus_file
from hushgram.pipelines.cli.registry import schema_id
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.records import Snapshot
from hushgram.transforms.aggregate import AggregatedReports
from hushgram.transforms.schema_registry import SchemaRegistry
from hushgram.transforms.sinks.kafka import PublishToKafka
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS, duration
from hushgram.transforms.sinks.prometheus import ExposeToPrometheus
from hushgram.windows import parse_duration


@dataclass(frozen=True)
class Kafka:
    """The broker of `--kafka`, and the file of `--kafka-properties`."""

    properties: Mapping[str, str]
    file: str | None


@dataclass(frozen=True)
class SinkContext:
    """What sinks need to know of the run they belong to."""

    streaming: bool
    here: bool
    """Whether the workers are on this machine, and see its files."""
    temp_location: str | None = None
    kafka: Kafka | None = None
    patience_seconds: float = DEFAULT_SECONDS
    """How long a sink whose server is away is waited for."""
    pause_seconds: int = 60
    """How long a stream's panes are collected for a file."""
    framed_by: SchemaRegistry | None = None
    """Where snapshots that go to Kafka find the id of their schema; None is for the single-object encoding."""


Write = Callable[[Sequence[Snapshot]], int]


@dataclass(frozen=True)
class Sink:
    """A sink by its name on the command line, with the transform that writes to it."""

    name: str
    transform: beam.PTransform[Any, Any]
    write: Write | None = None
    """The same without a pipeline, where that can be; returns how many were better than what was there."""


def add_argument(parser: argparse.ArgumentParser) -> None:
    text = f"where snapshots go, too; may be repeated: {_forms()} (docs/tables.md)"
    parser.add_argument("--sink", action="append", default=[], metavar="SINK", help=text)
    add_patience(parser)


def add_patience(parser: argparse.ArgumentParser) -> None:
    default = duration(DEFAULT_SECONDS)
    text = f"how long a sink, or a schema registry, that is away is waited for (default: {default})"
    parser.add_argument("--sink-patience", default=default, metavar="TIME", help=text)


def patience_in(options: argparse.Namespace) -> float:
    """Seconds, or the line that says what is wrong with `--sink-patience`."""
    try:
        return parse_duration("--sink-patience", options.sink_patience) / 1000
    except CollectionError as error:
        raise UsageError(str(error)) from None


def sinks_of(names: Sequence[str], context: SinkContext) -> tuple[Sink, ...]:
    """The sinks, each checked before any worker starts: first their names, then the servers behind them."""
    parsed = [_parse(text, context) for text in names]
    if len(set(names)) < len(names):
        raise UsageError("--sink: named twice: " + next(name for name in names if names.count(name) > 1))
    return tuple(check() for check in parsed)


def writable_at_once(names: Sequence[str], patience_seconds: float) -> tuple[Sink, ...]:
    """Sinks of a command that is no pipeline."""
    for text in names:
        if text.partition(":")[0] not in AT_ONCE:
            forms = " or ".join(dict.fromkeys(SCHEMES[name].form for name in AT_ONCE))
            allowed = f"{forms} only, since this is no pipeline"
            raise UsageError(f"--sink: got {_without_secret(text)!r}, allowed: {allowed}")
    return sinks_of(names, SinkContext(streaming=False, here=True, patience_seconds=patience_seconds))


def write_to(sinks: Sequence[Sink], results: AggregatedReports) -> None:
    for index, sink in enumerate(sinks):
        takes_both = isinstance(sink.transform, ExposeToPrometheus)
        taken = (results.snapshots, results.dead_letters) if takes_both else results.snapshots
        taken | step_name(index, sink) >> sink.transform


def step_name(index: int, sink: Sink) -> str:
    """The step of the pipeline that writes to a sink; engines find its state by this name."""
    return f"Sink {index}, {sink.name.partition(':')[0]}"


def closing_line(name: str, sent: int, no_better: int) -> str:
    """What a sink was sent.

    >>> closing_line("kafka:snapshots", 1200, 0)
    '1,200 snapshots to kafka:snapshots'
    """
    known = f", of which {no_better:,} were no better than what is there" if no_better else ""
    return f"{sent:,} snapshots to {name}{known}"


def _without_secret(text: str) -> str:
    """The name of a sink for a message; what follows the scheme may hold a secret."""
    scheme, colon, _ = text.partition(":")
    return f"{scheme}:…" if colon else text


def _forms() -> str:
    return ", ".join(dict.fromkeys(known.form for known in SCHEMES.values()))


Check = Callable[[], Sink]
"""Asks the server behind a sink, if there is one."""


def _parse(text: str, context: SinkContext) -> Check:
    scheme, colon, target = text.partition(":")
    if not colon or scheme not in SCHEMES:
        raise UsageError(f"--sink: got {_without_secret(text)!r}, allowed: {_forms()}")
    return SCHEMES[scheme].parse(text, target, context)


def _bigquery(text: str, target: str, context: SinkContext) -> Check:
    try:
        import google.cloud.bigquery  # noqa: F401 - Beam's own part can be imported without it, and fails later
        from apache_beam.io.gcp.bigquery_tools import parse_table_reference

        from hushgram.transforms.sinks.bigquery import InsertIntoBigQuery
    except ImportError:
        raise UsageError("--sink bigquery: Beam's part for it is not installed; pip install 'hushgram[gcp]'") from None
    try:
        table = parse_table_reference(target)
    except ValueError:
        table = None
    if table is None or table.projectId is None:
        raise UsageError(f"--sink: got {text!r}, allowed: {SCHEMES['bigquery'].form}")
    if not context.streaming and not (context.temp_location or "").startswith("gs://"):
        raise UsageError(f"--sink {text}: load jobs take files from Cloud Storage: give --temp_location=gs://…")
    full = f"{table.projectId}:{table.datasetId}.{table.tableId}"
    return lambda: Sink(text, InsertIntoBigQuery(full))


def _postgresql(text: str, target: str, context: SinkContext) -> Check:
    try:
        import psycopg
        from psycopg.pq import Conninfo

        from hushgram.transforms.sinks.postgresql import UpsertIntoPostgreSQL, prepare_tables, write_all
        from hushgram.transforms.sinks.postgresql_table import PostgreSQLError
    except ImportError:
        raise UsageError("--sink postgresql: psycopg is not installed; pip install 'hushgram[postgresql]'") from None
    elsewhere = "put it into PGPASSWORD, or into a file that PGPASSFILE or ?service=… names"
    try:
        options = Conninfo.parse(text.encode()) if target.startswith("//") else None
    except (psycopg.Error, UnicodeError):  # whose text may hold a piece of a password
        options = None
    if options is None:
        raise UsageError(f"--sink postgresql: no such address can be, allowed: {SCHEMES['postgresql'].form}")
    for option in options:
        if option.val and option.dispchar == b"*":  # what libpq itself would not show
            exposed = "in the address it would be seen in lists of processes and in job graphs"
            raise UsageError(f"--sink postgresql: {option.keyword.decode()}: {exposed}; {elsewhere}")

    def check() -> Sink:
        try:
            prepare_tables(text)
        except PostgreSQLError as error:
            raise UsageError(f"--sink {text}: {error}") from None
        except psycopg.Error as error:
            reason = " ".join((error.diag.message_primary or str(error)).split())
            missing = f"; {elsewhere}" if "no password supplied" in reason else ""
            raise UsageError(f"--sink {text}: {reason}{missing}") from None
        write = _with_usage_errors(partial(write_all, text, context.patience_seconds), PostgreSQLError)
        return Sink(text, UpsertIntoPostgreSQL(text, context.patience_seconds), write)

    return check


def _iceberg(text: str, target: str, context: SinkContext) -> Check:
    try:
        from hushgram.transforms.sinks.iceberg import SHORTEST_PAUSE, UpsertIntoIceberg, write_all
        from hushgram.transforms.sinks.iceberg_tables import IcebergError, TableName, prepare_table
    except ImportError:
        raise UsageError("--sink iceberg: pyiceberg is not installed; pip install 'hushgram[iceberg]'") from None
    try:
        name = TableName.parse(target)
    except ValueError:
        raise UsageError(f"--sink: got {text!r}, allowed: {SCHEMES['iceberg'].form}") from None

    def check() -> Sink:
        try:
            prepare_table(name)
        except IcebergError as error:
            raise UsageError(f"--sink {text}: {error}") from None
        write = _with_usage_errors(partial(write_all, name, context.patience_seconds), IcebergError)
        pause = max(context.pause_seconds, SHORTEST_PAUSE)  # a commit is several files
        return Sink(text, UpsertIntoIceberg(target, context.patience_seconds, pause), write)

    return check


def _with_usage_errors(write: Write, kind: type[Exception]) -> Write:
    """The same, whose errors of one kind end the command with their line."""

    def write_or_end(snapshots: Sequence[Snapshot]) -> int:
        try:
            return write(snapshots)
        except kind as error:
            raise UsageError(str(error)) from None

    return write_or_end


def _prometheus(text: str, path: str, context: SinkContext) -> Check:
    file = prometheus_file("--sink", text, path, SCHEMES["prometheus"].form, context.here)
    return lambda: Sink(text, ExposeToPrometheus(file))


def _kafka(text: str, topic: str, context: SinkContext) -> Check:
    kafka = context.kafka
    if kafka is None:
        raise UsageError(f"--sink {text}: only with `hushgram stream --kafka`, to the same brokers")
    if not topic:
        raise UsageError(f"--sink: got {text!r}, allowed: {SCHEMES['kafka'].form}")

    def check() -> Sink:
        check_target(topic, kafka.properties, kafka.file, f"--sink {text}")
        number = None if context.framed_by is None else schema_id(context.framed_by, SNAPSHOT)
        return Sink(text, PublishToKafka(topic, kafka.properties, kafka.file, context.patience_seconds, number))

    return check


@dataclass(frozen=True)
class Scheme:
    form: str
    parse: Callable[[str, str, SinkContext], Check]


_POSTGRESQL = Scheme("postgresql://USER@HOST/DATABASE", _postgresql)
SCHEMES = {
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "iceberg": Scheme("iceberg:CATALOG/NAMESPACE.TABLE", _iceberg),
    "bigquery": Scheme("bigquery:PROJECT.DATASET.TABLE", _bigquery),
    "prometheus": Scheme("prometheus:FILE.prom", _prometheus),
    "kafka": Scheme("kafka:TOPIC (with --kafka)", _kafka),
}
AT_ONCE = ("postgresql", "postgres", "iceberg")
"""Those that need no pipeline."""
