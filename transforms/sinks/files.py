"""Records as files, in Avro, JSON lines or Parquet, and the names of files.

A file appears whole or not at all: it is written under another name and renamed. A batch run that is repeated writes
the same names; a stream's files have names of their own, and readers count a pane once.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection
from apache_beam.typehints import Tuple

from hushgram.schemas.avro_schemas import Definition
from hushgram.schemas.field_types import TIMESTAMP, Field, FieldType, fields_of
from hushgram.schemas.records import DeadLetter, Histogram, Key, Snapshot
from hushgram.transforms.filesystem import write_atomically

Record = Snapshot | Histogram | DeadLetter


def safe_name(text: str) -> str:
    """A text from outside as part of a file name: no separator, no dots that climb, no name too long for a disk.

    >>> safe_name("commute"), safe_name("../../etc/passwd"), safe_name("..")
    ('commute', '..%2F..%2Fetc%2Fpasswd', '%2E%2E')
    """
    quoted = quote(text, safe="")
    if not quoted.strip("."):
        return quoted.replace(".", "%2E")
    if len(quoted) > 100:
        return f"{quoted[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return quoted


def file_name(record: Record) -> str:
    """The file that a record belongs in, below its directory and without its ending."""
    if isinstance(record, DeadLetter):
        return f"{safe_name(record.reason)}"
    return f"{window_name(record.key)}-g{record.pane.generation}"


def window_name(key: Key) -> str:
    """A collection's window, of whichever group, as a part of a path.

    >>> window_name(Key("commute", None, 1_767_225_600_000, 1_767_229_200_000))
    'commute/20260101T000000-20260101T010000'
    """
    times = "-".join(format_time(edge) for edge in (key.window_start, key.window_end))
    return posixpath.join(safe_name(key.collection), times)


def format_time(milliseconds: int) -> str:
    """A time for a file name; what lies outside the calendar stays a number."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(milliseconds)
    return moment.strftime("%Y%m%dT%H%M%S") + (f".{milliseconds % 1000:03d}" if milliseconds % 1000 else "")


def as_avro(definition: Definition, records: Sequence[Record]) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, definition.parsed, [record.to_avro() for record in records], codec="deflate")
    return stream.getvalue()


def as_json_lines(definition: Definition, records: Sequence[Record]) -> bytes:
    lines = (json.dumps(_readable(record.to_avro()), ensure_ascii=False, allow_nan=False) for record in records)
    return "".join(f"{line}\n" for line in lines).encode()


def as_parquet(definition: Definition, records: Sequence[Record]) -> bytes:
    stream = io.BytesIO()
    table = pa.Table.from_pylist([record.to_avro() for record in records], schema=arrow_schema(definition))
    pq.write_table(table, stream)
    return stream.getvalue()


FORMATS: dict[str, Callable[[Definition, Sequence[Record]], bytes]] = {
    "avro": as_avro,
    "jsonl": as_json_lines,
    "parquet": as_parquet,
}


def check_format(name: str) -> None:
    if name not in FORMATS:
        raise ValueError(f"format: got {name!r}, allowed: {', '.join(FORMATS)}")


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _readable(part) for key, part in value.items()}
    return [_readable(part) for part in value] if isinstance(value, list) else value


def arrow_schema(definition: Definition) -> pa.Schema:
    """The schema of Parquet files, from the Avro one."""
    return pa.schema([_arrow_field(field) for field in fields_of(definition)])


ARROW_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
    TIMESTAMP: pa.timestamp("ms", tz="UTC"),
}


def _arrow_field(field: Field) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.type), nullable=field.type.nullable)


def _arrow_type(kind: FieldType) -> pa.DataType:
    if kind.items is not None:
        return pa.list_(_arrow_type(kind.items))
    if kind.fields:
        return pa.struct([_arrow_field(field) for field in kind.fields])
    return ARROW_TYPES[kind.kind] if kind.size is None else pa.binary(kind.size)


@dataclass
class WriteRecords(beam.PTransform[PCollection[Any], PCollection[str]]):
    """Records of one kind to a directory, in one format; the paths written come out."""

    directory: str
    definition: Definition
    format: str

    def expand(self, records: PCollection[Any]) -> PCollection[str]:
        return (
            records
            | "By file" >> beam.Map(_with_name).with_output_types(Tuple[str, records.element_type])
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.FlatMapTuple(self.write).with_output_types(str)
        )

    def write(self, name: str, records: Iterable[Any]) -> list[str]:
        path = FileSystems.join(self.directory, *f"{name}.{self.format}".split("/"))
        ordered = sorted(records, key=_order)
        write_atomically(path, FORMATS[self.format](self.definition, ordered))
        return [path]


def _with_name(record: Record) -> tuple[str, Record]:
    return file_name(record), record


def _order(record: Record) -> tuple[Any, ...]:
    return (record.source, record.position or 0, record.detail) if isinstance(record, DeadLetter) else by_group(record)


def by_group(record: Snapshot | Histogram) -> tuple[bool, str]:
    """What the results of a window are sorted by: all groups together come first."""
    return record.key.group is not None, record.key.group or ""
