"""Long tables in Iceberg, each replaced as a whole in one commit: readers see one export, or the next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from hushgram.schemas.long_tables import Kind, LongTable
from hushgram.transforms.sinks.iceberg_expiry import clean_up
from hushgram.transforms.sinks.iceberg_tables import (
    IcebergError,
    TableName,
    open_catalog,
    prepare_table,
    without_own_attempts,
)

TYPES: dict[Kind, IcebergType] = {
    "text": StringType(),
    "whole": LongType(),
    "number": DoubleType(),
    "flag": BooleanType(),
    "time": TimestamptzType(),
}


def table_schema(table: LongTable) -> Schema:
    """The columns as Iceberg describes them. Rows are identified where it allows the columns: numbers may not be."""
    fields = {
        column.name: NestedField(place, column.name, TYPES[column.kind], not column.nullable, column.meaning)
        for place, column in enumerate(table.columns, start=1)
    }
    unique = [fields[name] for name in table.unique]
    allowed = not any(isinstance(field.field_type, DoubleType) for field in unique)
    return Schema(*fields.values(), identifier_field_ids=[field.field_id for field in unique] if allowed else [])


class RowWriter:
    """Adds rows to what a transaction will commit."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction

    def write_table(self, rows: pa.Table) -> None:
        theirs = self.transaction.table_metadata.schema().select(*rows.schema.names).as_arrow()
        self.transaction.append(rows.select(theirs.names).cast(theirs))


@contextmanager
def replacing(name: TableName, table: LongTable) -> Iterator[RowWriter]:
    """What is written within takes the place of all rows when the block ends; after an error, nothing does.

    If somebody else changes the table meanwhile, their rows stay, and an IcebergError says so.
    """
    prepare_table(name, table_schema(table))
    with closing(open_catalog(name.catalog)) as catalog:
        present = without_own_attempts(catalog.load_table(name.identifier))
        try:
            with present.transaction() as transaction:
                if present.current_snapshot() is not None:
                    transaction.delete(AlwaysTrue())
                yield RowWriter(transaction)
        except CommitFailedException:
            raise IcebergError(f"table {name} was changed by somebody else meanwhile: run it again") from None
        clean_up(present, f"iceberg:{name}")
