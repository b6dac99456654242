"""Results read back from files: snapshots and histograms, of each window the best."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import fastavro
import pyarrow.parquet as pq
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from pipelines.console import UsageError
from schemas.container import DamagedError, inflate, read_block, read_header
from schemas.definitions import without_dates
from schemas.records import Histogram, Key, Snapshot

Result = TypeVar("Result", Snapshot, Histogram)

ENDINGS = (".avro", ".parquet", ".jsonl")


def read_results(directory: str, kind: str, make: Callable[[Mapping[str, Any]], Result]) -> list[Result]:
    """All results in a directory's folder `kind`, or in the directory itself; of several about one window, the best."""
    paths = result_files(directory, kind) or _paths(directory)
    if not paths:
        raise UsageError(f"{directory}: {none_there(directory, kind)}")
    try:
        return best(make(record) for path in paths for record in read_records(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{directory}: files that hold something else than {kind}: no {error}") from None


def none_there(directory: str, kind: str) -> str:
    """Why there are no results of a kind, and what writes them."""
    if "://" not in directory and not Path(directory).exists():
        return "no such directory"
    kinds = ", ".join(ENDINGS)
    return f"no {kind} there, as {kinds} files below a folder for each collection; `hushgram aggregate` writes them"


def result_files(directory: str, kind: str) -> list[str]:
    return _paths(FileSystems.join(directory, kind))


def _paths(directory: str) -> list[str]:
    return [file.path for file in matching(FileSystems.join(directory, "*", "*"))]


def matching(pattern: str) -> list[FileMetadata]:
    """The files of results that a pattern finds, by name."""
    found = [file for match in FileSystems.match([pattern]) for file in match.metadata_list]
    return sorted((file for file in found if file.path.endswith(ENDINGS)), key=lambda file: file.path)


def best(results: Iterable[Result]) -> list[Result]:
    """One result for each collection, group and window: by generation, then reports, then pane."""
    chosen: dict[Key, Result] = {}
    for result in results:
        if result.key not in chosen or result.rank > chosen[result.key].rank:
            chosen[result.key] = result
    return [
        chosen[key] for key in sorted(chosen, key=lambda k: (k.collection, k.window_start, k.window_end, k.group or ""))
    ]


def read_records(path: str) -> list[Any]:
    """The records of one file of results."""
    with FileSystems.open(path) as file:
        data = file.read()
    try:
        if path.endswith(".parquet"):
            return pq.read_table(io.BytesIO(data)).to_pylist()
        if path.endswith(".jsonl"):
            return [json.loads(line) for line in data.splitlines()]
        return list(_avro_records(data))
    except Exception as error:  # a foreign or damaged file may raise what its reader happens to raise
        raise UsageError(f"{path}: cannot be read: {error}") from None


def _avro_records(data: bytes) -> Iterator[Any]:
    """Block by block, so that nothing grows beyond bounds; times stay numbers, since not every one is a date."""
    stream = io.BytesIO(data)
    header = read_header(stream)
    schema = fastavro.parse_schema(without_dates(header.schema))
    while (block := read_block(stream, header.sync)) is not None:
        plain = inflate(block.data, header.codec)
        if block.count > len(plain):
            raise DamagedError(f"a block of {block.count} records in {len(plain)} bytes")
        rest = io.BytesIO(plain)
        for _ in range(block.count):
            yield fastavro.schemaless_reader(rest, schema, None)
        if rest.tell() != len(plain):
            raise DamagedError("a block with bytes behind its last record")
