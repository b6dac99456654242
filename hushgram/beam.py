"""hushgram in Apache Beam pipelines: reports in; snapshots, histograms and dead letters out.

    import apache_beam as beam
    import hushgram.beam as hg

    with beam.Pipeline() as pipeline:
        reports = pipeline | hg.ReadReports("reports/*.avro")
        snapshots, histograms, dead_letters = reports | hg.AggregateReports("collections.yaml")
        snapshots | hg.WriteSnapshots("results")

    for snapshot in hg.read_snapshots("results"):
        print(snapshot.key, snapshot.mean)

`AggregateReports` also takes any PCollection of messages (bytes) or of records (dicts), bounded or not. Beam and what
else is needed come with `pip install 'hushgram[beam]'`; Kafka, PostgreSQL and Iceberg are extras of their own. What
needs a package that is not installed is not listed.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if find_spec("apache_beam") is None:
    raise ModuleNotFoundError("hushgram.beam needs Apache Beam: pip install 'hushgram[beam]'", name="apache_beam")

from hushgram.schemas.records import DeadLetter, Histogram, Key, Pane, Snapshot
from hushgram.transforms.aggregate import AggregatedReports, AggregateReports
from hushgram.transforms.schema_registry import SchemaRegistry
from hushgram.transforms.sinks.result_files import WriteDeadLetters, WriteHistograms, WriteSnapshots
from hushgram.transforms.sources.avro_files import ReadReports
from hushgram.transforms.sources.directory import WatchReports
from hushgram.transforms.sources.result_files import ResultsError, read_histograms, read_snapshots

if TYPE_CHECKING:
    from hushgram.transforms.sinks.bigquery import InsertIntoBigQuery as InsertIntoBigQuery
    from hushgram.transforms.sinks.dead_letter_topic import PublishDeadLetters as PublishDeadLetters
    from hushgram.transforms.sinks.iceberg import UpsertIntoIceberg as UpsertIntoIceberg
    from hushgram.transforms.sinks.kafka import PublishToKafka as PublishToKafka
    from hushgram.transforms.sinks.postgresql import UpsertIntoPostgreSQL as UpsertIntoPostgreSQL
    from hushgram.transforms.sinks.prometheus import ExposeToPrometheus as ExposeToPrometheus
    from hushgram.transforms.sources.kafka import ReadReportsFromKafka as ReadReportsFromKafka
    from hushgram.transforms.sources.pubsub import ReadReportsFromPubSub as ReadReportsFromPubSub

_EXTRAS = {
    "ExposeToPrometheus": ("sinks.prometheus", "prometheus_client", "prometheus"),
    "InsertIntoBigQuery": ("sinks.bigquery", "google.cloud.bigquery", "gcp"),
    "PublishDeadLetters": ("sinks.dead_letter_topic", "confluent_kafka", "kafka"),
    "PublishToKafka": ("sinks.kafka", "confluent_kafka", "kafka"),
    "ReadReportsFromKafka": ("sources.kafka", "confluent_kafka", "kafka"),
    "ReadReportsFromPubSub": ("sources.pubsub", "google.cloud.pubsub", "gcp"),
    "UpsertIntoIceberg": ("sinks.iceberg", "pyiceberg", "iceberg"),
    "UpsertIntoPostgreSQL": ("sinks.postgresql", "psycopg", "postgresql"),
}
"""Transforms that are imported when they are first used: the module of each, the package that it needs, and the extra
that brings it."""

__all__ = [
    "AggregateReports",
    "AggregatedReports",
    "DeadLetter",
    "ExposeToPrometheus",
    "Histogram",
    "InsertIntoBigQuery",
    "Key",
    "Pane",
    "PublishDeadLetters",
    "PublishToKafka",
    "ReadReports",
    "ReadReportsFromKafka",
    "ReadReportsFromPubSub",
    "ResultsError",
    "SchemaRegistry",
    "Snapshot",
    "UpsertIntoIceberg",
    "UpsertIntoPostgreSQL",
    "WatchReports",
    "WriteDeadLetters",
    "WriteHistograms",
    "WriteSnapshots",
    "read_histograms",
    "read_snapshots",
]


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package that it is a part of
        return False


for _name, (_, _package, _) in _EXTRAS.items():
    if not _installed(_package):
        __all__.remove(_name)


def __getattr__(name: str) -> object:
    if name not in _EXTRAS:
        raise AttributeError(f"module 'hushgram.beam' has no attribute {name!r}")
    module, package, extra = _EXTRAS[name]
    try:
        import_module(package)
    except ImportError as error:
        raise ImportError(f"hushgram.beam.{name} needs {package}: pip install 'hushgram[{extra}]'") from error
    value = getattr(import_module(f"hushgram.transforms.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
