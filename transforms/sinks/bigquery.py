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

from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.field_types import TIMESTAMP, Field, fields_of
from hushgram.schemas.records import Snapshot

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TYPES = {
    "string": "STRING",
    "int": "INTEGER",
    "long": "INTEGER",
    "double": "FLOAT",
    "boolean": "BOOLEAN",
    TIMESTAMP: "TIMESTAMP",
}
CLUSTERED_BY = ["collection", "window_start"]


class BigQueryError(Exception):
    """Rows that BigQuery has refused."""


def table_schema() -> dict[str, Any]:
    """The columns of a snapshot, as BigQuery describes tables."""
    return {"fields": [_column(field) for field in fields_of(SNAPSHOT)]}


def _column(field: Field) -> dict[str, Any]:
    kind = field.type if field.type.items is None else field.type.items
    mode = "REPEATED" if field.type.items is not None else "NULLABLE" if kind.nullable else "REQUIRED"
    column = {"name": field.name, "mode": mode, "description": field.doc}
    if kind.fields:
        return {**column, "type": "RECORD", "fields": [_column(part) for part in kind.fields]}
    return {**column, "type": TYPES[kind.kind]}


def row(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON for its table; what the mechanism cannot know is null, and an empty array where it is one."""
    return _json(snapshot.to_avro(), table_schema()["fields"])


def _json(record: dict[str, Any], columns: list[dict[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in columns:
        value = record[column["name"]]
        if column["mode"] == "REPEATED":  # BigQuery has no array that is null
            values[column["name"]] = [_value(part, column) for part in value or ()]
        else:
            values[column["name"]] = None if value is None else _value(value, column)
    return values


def _value(value: Any, column: dict[str, Any]) -> Any:
    if column["type"] == "RECORD":
        return _json(value, column["fields"])
    if column["type"] == "TIMESTAMP":
        return (EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds")
    if column["type"] == "FLOAT" and not math.isfinite(value):  # JSON has no such number; BigQuery reads these words
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


@dataclass
class InsertIntoBigQuery(beam.PTransform[PCollection[Snapshot], Any]):
    """Each snapshot becomes a row of `table` (PROJECT:DATASET.TABLE), which is created if it is missing.

    >>> insert = InsertIntoBigQuery("a-project:results.snapshots")
    >>> snapshots | insert  # doctest: +SKIP
    """

    table: str

    def expand(self, snapshots: PCollection[Snapshot]) -> Any:
        streaming = not snapshots.is_bounded
        rows = snapshots | "Rows" >> beam.Map(_counted_row)
        method = WriteToBigQuery.Method
        written = rows | "Insert" >> WriteToBigQuery(
            self.table,
            schema=table_schema(),
            method=method.STREAMING_INSERTS if streaming else method.FILE_LOADS,
            insert_retry_strategy=RetryStrategy.RETRY_ON_TRANSIENT_ERROR,
            additional_bq_parameters={"clustering": {"fields": CLUSTERED_BY}},
        )
        if streaming:  # a load job that fails raises by itself
            written.failed_rows_with_errors | "Refused" >> beam.Map(refused)
        return written


def _counted_row(snapshot: Snapshot) -> dict[str, Any]:
    Metrics.counter("sinks", "snapshots").inc()
    return row(snapshot)


def refused(failed: tuple[str, dict[str, Any], Any]) -> None:
    """All rows have the same form, so a row that is refused for good means that the table has a missing column or one
    of another type. The error is raised so that the engine inserts the row again until the table is repaired."""
    table, values, errors = failed
    what = f"{values['collection']}, window from {values['window_start']}"
    raise BigQueryError(f"BigQuery's table {table} refuses a snapshot of {what}: {errors}")
