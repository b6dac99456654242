"""`hushgram export`: writes results as long tables for BI tools: one row for each window, quantile and bucket."""

from __future__ import annotations

import argparse
import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
from hushgram.transforms.run_store import listed_again_if_gone
from hushgram.transforms.sinks.long_tables import arrow_schema, record_batch

EXAMPLE = "hushgram export results --output tables"
FORMATS = ("parquet", "csv")
ROWS_AT_ONCE = 1 << 16
"""Rows of a table that wait in memory to be written together: a row group of Parquet."""
SOURCES, DICTIONARY = "sources.yml", "columns.csv"
"""The tables as a source of dbt; their columns and what they mean, for who reads CSV."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a folder of results")
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder for the tables")
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="of the tables (default: parquet)")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("export", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    check_directory("--output", options.output)
    with writing("--output", options.output):
        try:
            counts = listed_again_if_gone(lambda: export(options.directory, options.output, options.format))
        except FileNotFoundError:
            raise UsageError(f"{options.directory}: results change faster than they are read; try again") from None
    rows = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    say(f"{rows}, in {options.output}")
    return 0


def export(directory: str, output: str, kind: str) -> dict[str, int]:
    """Writes the tables of a folder of results; how many rows each has.

    Files take their names when all of them are complete: until then, those of an earlier export stay as they are.
    """
    with ExitStack() as files:

        def file(name: str) -> BinaryIO:
            return files.enter_context(atomically(FileSystems.join(output, name)))

        file(SOURCES).write(dbt_sources(output if "://" in output else os.path.abspath(output), kind).encode())
        if kind == "csv":
            file(DICTIONARY).write(data_dictionary())
        outputs = {table.name: file(f"{table.name}.{kind}") for table in LONG_TABLES}
        return _write_tables(directory, outputs, kind)


def _write_tables(directory: str, outputs: Mapping[str, BinaryIO], kind: str) -> dict[str, int]:
    with ExitStack() as open_tables:
        writers = [open_tables.enter_context(writing_table(table, outputs[table.name], kind)) for table in LONG_TABLES]
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
def writing_table(table: LongTable, file: BinaryIO, kind: str) -> Iterator[TableWriter]:
    """Writes the rows of a table to a file, which is complete when the block ends."""
    schema = arrow_schema(table)
    with pq.ParquetWriter(file, schema) if kind == "parquet" else pyarrow.csv.CSVWriter(file, schema) as writer:
        rows = TableWriter(schema, writer)
        yield rows
        rows.flush()


def data_dictionary() -> bytes:
    """Every column of every table and what it means, as CSV."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["table", "column", "type", "may_be_null", "meaning"])
    for table in LONG_TABLES:
        lines.writerows([table.name, c.name, c.kind, str(c.nullable).lower(), c.meaning] for c in table.columns)
    return text.getvalue().encode()
