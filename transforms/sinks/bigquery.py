"""Snapshots appended to a BigQuery table, whose columns are those of the Avro schema.

In batch a load job brings them, whole or not at all; in a stream they are inserted as they come. Both are parts of Beam
in Python: the newer Storage Write API would need a Java service wherever a pipeline is built. A row that comes twice,
or an older pane, does no harm: readers take the best pane of each window (`docs/tables.md`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.bigquery import WriteToBigQuery
from apache_beam.io.gcp.bigquery_tools import RetryStrategy
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from schemas.definitions import SNAPSHOT
from schemas.records import Snapshot

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TYPES = {"string": "STRING", "int": "INTEGER", "long": "INTEGER", "double": "FLOAT", "boolean": "BOOLEAN"}
CLUSTERED_BY = ["collection", "window_start"]


class BigQueryError(Exception):
    """Rows that BigQuery has refused."""


def table_schema() -> dict[str, Any]:
    """The columns of a snapshot, as BigQuery wants to be told."""
    return {"fields": [_column(field) for field in SNAPSHOT.parsed["fields"]]}


def _column(field: dict[str, Any]) -> dict[str, Any]:
    avro = field["type"]
    mode = "NULLABLE" if isinstance(avro, list) else "REQUIRED"
    avro = avro[1] if isinstance(avro, list) else avro
    if isinstance(avro, dict) and avro["type"] == "array":
        avro, mode = avro["items"], "REPEATED"
    column = {"name": field["name"], "mode": mode, "description": field.get("doc", "")}
    if isinstance(avro, str):
        return {**column, "type": TYPES[avro]}
    if avro.get("logicalType") == "timestamp-millis":
        return {**column, "type": "TIMESTAMP"}
    return {**column, "type": "RECORD", "fields": [_column(part) for part in avro["fields"]]}


def row(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON for its table; what the mechanism cannot know is null, and an empty array where it is one."""
    return _json(snapshot.to_avro(), table_schema()["fields"])


def _json(record: dict[str, Any], columns: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for column in columns:
        value = record[column["name"]]
        if column["mode"] == "REPEATED":  # BigQuery has no array that is null
            made[column["name"]] = [_value(part, column) for part in value or ()]
        else:
            made[column["name"]] = None if value is None else _value(value, column)
    return made


def _value(value: Any, column: dict[str, Any]) -> Any:
    if column["type"] == "RECORD":
        return _json(value, column["fields"])
    if column["type"] == "TIMESTAMP":
        return (EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds")
    if column["type"] == "FLOAT" and not math.isfinite(value):  # JSON has no such number; BigQuery reads these words
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@dataclass
class InsertIntoBigQuery(beam.PTransform[Any, Any]):
    """Answers and letters in; each snapshot becomes a row of `table` (PROJECT:DATASET.TABLE), made if need be."""

    name: str
    table: str
    streaming: bool

    def expand(self, results: tuple[PCollection[Any], PCollection[Any]]) -> None:
        rows = results[0] | "Rows" >> beam.Map(self.row)
        method = WriteToBigQuery.Method
        written = rows | "Insert" >> WriteToBigQuery(
            self.table,
            schema=table_schema(),
            method=method.STREAMING_INSERTS if self.streaming else method.FILE_LOADS,
            insert_retry_strategy=RetryStrategy.RETRY_ON_TRANSIENT_ERROR,
            additional_bq_parameters={"clustering": {"fields": CLUSTERED_BY}},
        )
        if self.streaming:  # a load job that fails raises by itself
            written.failed_rows_with_errors | "Refused" >> beam.Map(refused)

    def row(self, answer: tuple[Snapshot, Any]) -> dict[str, Any]:
        Metrics.counter("sinks", self.name).inc()
        return row(answer[0])


def refused(failed: tuple[str, dict[str, Any], Any]) -> None:
    """All rows are made alike, so one that is refused for good tells of the table: a column that is missing or of
    another type. Raised, so that the engine inserts it again, until somebody has mended the table; nothing is lost."""
    table, made, errors = failed
    what = f"{made['collection']}, window from {made['window_start']}"
    raise BigQueryError(f"BigQuery's table {table} refuses a snapshot of {what}: {errors}")
