"""Long tables in Arrow: what Parquet and CSV files hold, and what any table format that takes Arrow may hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hushgram.schemas.long_tables import Kind, LongTable
from hushgram.schemas.records import Snapshot

ARROW_TYPES: dict[Kind, Any] = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "time": pa.timestamp("ms", tz="UTC"),
}
MEANING = "doc"
"""The key of a field's metadata, as Iceberg's own library reads it."""


def arrow_schema(table: LongTable) -> pa.Schema:
    """The columns with their types, and what they mean as metadata of the fields and of the whole."""
    fields = [
        pa.field(column.name, ARROW_TYPES[column.kind], column.nullable, {MEANING: column.meaning})
        for column in table.columns
    ]
    return pa.schema(fields, {MEANING: table.meaning})


def record_batch(table: LongTable, snapshot: Snapshot) -> pa.RecordBatch:
    """The rows that a snapshot gives."""
    schema, columns = arrow_schema(table), table.of_snapshot(snapshot)
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema)
