"""`hushgram export`: writes results as long tables for BI tools: one row for each window, quantile and bucket."""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from hushgram.pipelines.cli.console import UsageError, command_parser, say
from hushgram.pipelines.cli.outputs import check_directory, writing
from hushgram.pipelines.dbt_sources import dbt_sources
from hushgram.pipelines.results import each_best
from hushgram.pipelines.view.data import check_snapshot
from hushgram.schemas.long_tables import LONG_TABLES, LongTable
from hushgram.transforms.filesystem import atomically
from hushgram.transforms.sinks.long_tables import arrow_schema, record_batch

EXAMPLE = "hushgram export results --output tables"
FORMATS = ("parquet", "csv")
ICEBERG = "iceberg:"
ROWS_AT_ONCE = 1 << 16
"""Rows of a table that wait in memory to be written together: a row group of Parquet."""
SOURCES, DICTIONARY = "sources.yml", "columns.csv"
"""The tables as a source of dbt; their columns and what they mean, for who reads CSV."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a folder of results")
    parser.add_argument(
        "--output",
        required=True,
        metavar="DIR",
        help="the folder for the tables; or iceberg:CATALOG/NAMESPACE, where the tables of these names are replaced",
    )
    parser.add_argument("--format", choices=FORMATS, help="of the files (default: parquet)")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("export", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    write = _to_iceberg(options) if options.output.startswith(ICEBERG) else _to_files(options)
    with writing("--output", options.output):
        counts = write()
    rows = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    say(f"{rows}, in {options.output}")
    return 0


def _to_files(options: argparse.Namespace) -> Callable[[], dict[str, int]]:
    kind, output = options.format or "parquet", options.output
    try:
        sources = dbt_sources(output if "://" in output else os.path.abspath(output), kind)
    except ValueError as error:
        raise UsageError(f"--output: {error}") from None
    check_directory("--output", output)
    return lambda: export(options.directory, output, kind, sources)


def _to_iceberg(options: argparse.Namespace) -> Callable[[], dict[str, int]]:
    if options.format is not None:
        raise UsageError(f"--format {options.format}: is of files, and --output {options.output} has none")
    return lambda: export_to_iceberg(options.directory, options.output)


def export(directory: str, output: str, kind: str, sources: str) -> dict[str, int]:
    """Writes the tables of a folder of results; how many rows each has.

    Files take their names when all of them are complete: until then, those of an earlier export stay as they are.
    """
    with ExitStack() as files:

        def file(name: str) -> BinaryIO:
            return files.enter_context(atomically(FileSystems.join(output, name)))

        file(SOURCES).write(sources.encode())
        if kind == "csv":
            file(DICTIONARY).write(data_dictionary())
        outputs = {table.name: file(f"{table.name}.{kind}") for table in LONG_TABLES}
        return _write_tables(directory, lambda table: file_writer(table, outputs[table.name], kind))


def export_to_iceberg(directory: str, output: str) -> dict[str, int]:
    """The same to tables of an Iceberg catalogue. Each is replaced in one commit, when the rows of all are written."""
    try:
        from hushgram.transforms.sinks.iceberg_long_tables import replacing
        from hushgram.transforms.sinks.iceberg_tables import IcebergError, TableName
    except ImportError:
        raise UsageError("--output iceberg: pyiceberg is not installed; pip install 'hushgram[iceberg]'") from None
    try:
        names = {table.name: TableName.parse(f"{output.removeprefix(ICEBERG)}.{table.name}") for table in LONG_TABLES}
    except ValueError:
        raise UsageError(f"--output: got {output!r}, allowed: a folder, or iceberg:CATALOG/NAMESPACE") from None
    try:
        return _write_tables(directory, lambda table: replacing(names[table.name], table))
    except IcebergError as error:
        raise UsageError(f"--output {output}: {error}") from None


def _write_tables(directory: str, open_writer: Callable[[LongTable], AbstractContextManager[Any]]) -> dict[str, int]:
    with ExitStack() as open_tables:
        writers = [open_tables.enter_context(writing_table(table, open_writer(table))) for table in LONG_TABLES]
        for path, snapshot in each_best(directory, "snapshots", check_snapshot):
            try:
                batches = [record_batch(table, snapshot) for table in LONG_TABLES]
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                raise UsageError(f"{path}: cannot be exported: {error}") from None
            for writer, batch in zip(writers, batches, strict=True):
                writer.add(batch)
    return {table.name: writer.rows for table, writer in zip(LONG_TABLES, writers, strict=True)}


class TableWriter:
    """Collects the rows of many small windows, and writes them together."""

    def __init__(self, schema: pa.Schema, writer: Any) -> None:
        self.schema, self.writer = schema, writer
        self.rows = self._waiting_rows = 0
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= ROWS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        if self._waiting_rows:
            self.writer.write_table(pa.Table.from_batches(self._waiting, self.schema))
        self._waiting, self._waiting_rows = [], 0


@contextmanager
def writing_table(table: LongTable, opened: AbstractContextManager[Any]) -> Iterator[TableWriter]:
    """Writes the rows of a table, which is complete when the block ends."""
    with opened as writer:
        rows = TableWriter(arrow_schema(table), writer)
        yield rows
        rows.flush()


def file_writer(table: LongTable, file: BinaryIO, kind: str) -> AbstractContextManager[Any]:
    """What writes the rows of a table to a file."""
    schema = arrow_schema(table)
    writer: AbstractContextManager[Any]
    writer = pq.ParquetWriter(file, schema) if kind == "parquet" else pyarrow.csv.CSVWriter(file, schema)
    return writer


def data_dictionary() -> bytes:
    """Every column of every table and what it means, as CSV."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["table", "column", "type", "may_be_null", "meaning"])
    for table in LONG_TABLES:
        lines.writerows([table.name, c.name, c.kind, str(c.nullable).lower(), c.meaning] for c in table.columns)
    return text.getvalue().encode()
