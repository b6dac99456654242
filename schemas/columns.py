"""Reports as columns: a block of thousands of records decoded at once.

polars decodes several times as fast as anything that makes Python objects, but trusts its input: it may panic, which
writes to the terminal, or read past a damaged record without complaint. So it is given only blocks whose records can be
followed to the end, and the decoded values must account for every byte. What fails is refused as a whole.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import polars as pl

from hushgram._arrays import BoolArray, IntArray
from hushgram.schemas.avro_schemas import Definition, field_names, without_dates
from hushgram.schemas.container import SYNC_SIZE, DamagedError, OversizedError, write_header, write_long
from hushgram.schemas.layout import can_be_followed

UIntArray = np.ndarray[tuple[int, ...], np.dtype[np.uint64]]

LEAST_RECORD = 1 + 8 + 1 + 1 + 1 + 1
"""The shortest record of any schema: an empty name, a revision, an empty cell or none, a time, two nulls."""


ID_BYTES = 16
FEW_LABELS = 8
"""Up to this many distinct texts are found faster by comparing with each than by a join."""


@dataclass(frozen=True)
class Labels:
    """A column of texts with few distinct ones: where in `names` each row's text stands."""

    names: tuple[str | None, ...]
    codes: IntArray


@dataclass(frozen=True)
class ReportColumns:
    """Many reports, or many batches of them. Either `cells` has a number for each row, or `packed` has its bytes.

    `ids` has the ids of a batch's reports, end to end, None for a batch without; it is None where there is no such
    field.
    """

    collection: Labels
    revision: UIntArray
    group: Labels
    event_time: IntArray
    has_id: BoolArray
    id: UIntArray
    cells: IntArray | None = None
    packed: tuple[bytes, ...] | None = None
    ids: tuple[bytes | None, ...] | None = None

    def __len__(self) -> int:
        return self.event_time.size


def revision_number(revision: str) -> int:
    """The 16 hexadecimal digits of a collection's revision as the number that columns hold.

    >>> hex(revision_number("bee7fcbcb7cce993"))
    '0xbee7fcbcb7cce993'
    """
    return int(revision, 16)


def id_numbers(ids: bytes) -> UIntArray:
    """Ids that stand end to end as columns hold them: a row of two numbers for each.

    >>> id_numbers(bytes(7) + b"\\x01" + bytes(7) + b"\\x02").tolist()
    [[1, 2]]
    """
    return np.frombuffer(ids, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def decode(
    definition: Definition,
    writer: dict[str, Any],
    count: int,
    data: bytes,
    lengths: IntArray | None = None,
    most_one_by_one: int | None = None,
) -> ReportColumns:
    """The records of one decompressed block, written with the schema `writer`; `DamagedError` if it is not that.

    Where the length of each record is known, each must have its own. `most_one_by_one` is how many records at most may
    be decoded one by one, in many times the time and memory, where they cannot be decoded at once.
    """
    if count * LEAST_RECORD > len(data) or (count == 0 and data):
        raise DamagedError(f"{count} records cannot be in {len(data)} bytes")
    canonical = canonical_form(writer)
    version = definition.canonical_versions.get(canonical)
    if not count or version is None:
        return from_records(definition, decode_one_by_one(definition, writer, count, data, lengths))
    padded, fields = data + bytes(SYNC_SIZE), field_names(version)
    if can_be_followed(padded, len(data), count, fields, lengths):
        columns = _decode_fast(canonical, count, padded)
    elif lengths is None:
        if most_one_by_one is not None and count > most_one_by_one:
            raise OversizedError(f"{count} records that must be decoded one by one, allowed: {most_one_by_one}")
        columns = from_records(definition, decode_one_by_one(definition, writer, count, data), fields)
    else:
        raise DamagedError("a record that does not end where it should")
    found = encoded_lengths(columns, data)
    if int(found.sum()) != len(data) or (lengths is not None and not np.array_equal(found, lengths)):
        raise DamagedError(f"records of {int(found.sum())} bytes in a block of {len(data)}, or cut at other places")
    return columns


def canonical_form(writer: dict[str, Any]) -> str:
    """A schema's parsing canonical form, empty if it is no schema."""
    try:
        return fastavro.schema.to_parsing_canonical_form(writer)
    except Exception:  # a damaged header may hold a schema that is none; the slow way will say so
        return ""


def _decode_fast(schema: str, count: int, padded: bytes) -> ReportColumns:
    """The records of a block that is followed by a sync marker of zeros."""
    size = len(padded) - SYNC_SIZE
    header = write_header(schema, "null", bytes(SYNC_SIZE))
    container = b"".join([header, write_long(count), write_long(size), padded])
    try:
        frame = pl.read_avro(io.BytesIO(container))
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic in polars is no Exception
        raise DamagedError(f"records that cannot be decoded: {' '.join(str(error).split())[:200]}") from None
    if frame.height != count:
        raise DamagedError(f"{frame.height} records in a block of {count}")
    return _columns(frame)


def decode_one_by_one(
    definition: Definition, writer: dict[str, Any], count: int, data: bytes, lengths: IntArray | None = None
) -> list[dict[str, Any]]:
    """Record by record; also for another version of the schema: fields may have come or gone, if they have defaults.

    Where the length of each record is known, each must have its own.
    """
    stream, ends = io.BytesIO(data), None if lengths is None else np.cumsum(lengths).tolist()
    records = []
    try:
        written = definition.undated if writer is definition.parsed else without_dates(writer)
        for place in range(count):
            records.append(fastavro.schemaless_reader(stream, written, definition.undated))
            if ends is not None and stream.tell() != ends[place]:
                raise DamagedError("a record that does not end where it should")
    except DamagedError:
        raise
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as error:  # fastavro raises what its parts happen to raise on damaged input
        raise DamagedError(f"records that cannot be decoded: {type(error).__name__} {error}"[:200]) from None
    if stream.tell() != len(data):
        raise DamagedError(f"records of {stream.tell()} bytes in a block of {len(data)}")
    return records  # type: ignore[return-value]


TYPES: dict[str, type[pl.DataType]] = {
    "collection": pl.String,
    "revision": pl.Binary,
    "cell": pl.Int64,
    "cells": pl.Binary,
    "event_time": pl.Int64,
    "group": pl.String,
    "id": pl.Binary,
    "ids": pl.Binary,
}


def from_records(
    definition: Definition, records: Sequence[dict[str, Any]], fields: Sequence[str] | None = None
) -> ReportColumns:
    """Records that were decoded one by one, as columns; with the `fields` of an earlier version, as that had them."""
    names = field_names(definition.parsed) if fields is None else fields
    try:
        return _columns(pl.DataFrame(records, schema={name: TYPES[name] for name in names}))
    except (OverflowError, pl.exceptions.PolarsError) as error:  # numbers of more than 64 bits
        raise DamagedError(f"records that cannot be held: {type(error).__name__} {error}"[:200]) from None


def encoded_lengths(columns: ReportColumns, data: bytes | None = None) -> IntArray:
    """How many bytes Avro takes for each row, from its values alone.

    Given the bytes, those that distinguish null from a value must be in their place: polars does not check them.
    """
    start = 8 + _text_lengths(columns.collection) + long_lengths(columns.event_time)
    if columns.cells is not None:
        start += long_lengths(columns.cells)
    else:
        assert columns.packed is not None
        start += _with_prefix(_octet_lengths(columns.packed))
    nullable = [_text_lengths(columns.group), ID_BYTES * columns.has_id.astype(np.int64)]
    if columns.ids is not None:
        present = np.array([ids is not None for ids in columns.ids], dtype=bool)
        nullable.append(np.where(present, _with_prefix(_octet_lengths(columns.ids)), 0))
    lengths = start + sum(nullable) + len(nullable)
    if data is not None and int(lengths.sum()) == len(data):
        octets, place = np.frombuffer(data, dtype=np.uint8), np.cumsum(lengths) - lengths + start
        for part in nullable:
            if not np.array_equal(octets[place], 2 * (part > 0).view(np.uint8)):
                raise DamagedError("a record that is neither null nor a value where it must be one")
            place = place + 1 + part
    return lengths


def _octet_lengths(column: Sequence[bytes | None]) -> IntArray:
    """How many bytes each row has; null has none."""
    return np.array([len(octets or b"") for octets in column], dtype=np.int64)


def _text_lengths(labels: Labels) -> IntArray:
    """Of each row's text; null has none, not even the number of its bytes."""
    sizes = np.array([len((name or "").encode()) for name in labels.names], dtype=np.int64)
    return np.where([name is not None for name in labels.names], _with_prefix(sizes), 0)[labels.codes]


def _with_prefix(sizes: IntArray) -> IntArray:
    """Texts and bytes stand behind the number of their bytes."""
    return sizes + long_lengths(sizes)


SEVENS = 2 ** np.arange(7, 64, 7, dtype=np.uint64)


def long_lengths(values: IntArray) -> IntArray:
    """How many bytes Avro takes for each number."""
    if values.size == 0:
        return np.zeros(0, dtype=np.int64)
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    # Lengths in a column differ little, so a comparison for each that occurs is faster than a search for each number.
    shortest, longest = np.searchsorted(SEVENS, [zigzag.min(), zigzag.max()], side="right")
    lengths = np.full(values.size, shortest + 1)
    for least in SEVENS[shortest:longest]:
        lengths += zigzag >= least
    return lengths


def _columns(frame: pl.DataFrame) -> ReportColumns:
    return ReportColumns(
        collection=_labels(frame["collection"]),
        revision=_numbers(frame["revision"], 1)[:, 0],
        group=_labels(frame["group"]),
        event_time=frame["event_time"].to_physical().to_numpy(),
        has_id=frame["id"].is_not_null().to_numpy(),
        id=_numbers(frame["id"], 2),
        cells=frame["cell"].to_numpy() if "cell" in frame.columns else None,
        packed=tuple(frame["cells"].to_list()) if "cells" in frame.columns else None,
        ids=tuple(frame["ids"].to_list()) if "ids" in frame.columns else None,
    )


def _numbers(octets: pl.Series, count: int) -> UIntArray:
    """Each row's bytes as `count` numbers of eight bytes, the first byte highest; null as zeros."""
    if octets.null_count() == len(octets):
        return np.zeros((len(octets), count), dtype=np.uint64)
    filled = octets.fill_null(bytes(8 * count)) if octets.null_count() else octets
    return filled.bin.reinterpret(dtype=pl.Array(pl.UInt64, count), endianness="big").to_numpy()


def _labels(texts: pl.Series) -> Labels:
    """Peels off the first text that is left, wherever it stands, until none is; a join where that would take long."""
    codes, left = np.zeros(len(texts), dtype=np.int64), np.ones(len(texts), dtype=bool)
    names: list[str | None] = []
    while left.any():
        if len(names) == FEW_LABELS:
            return _many_labels(texts)
        name = texts[int(left.argmax())]
        matches = texts.eq_missing(pl.Series([name], dtype=pl.String)).to_numpy()
        codes += len(names) * matches
        left ^= matches
        names.append(name)
    return Labels(tuple(names), codes)


def _many_labels(texts: pl.Series) -> Labels:
    distinct = texts.unique(maintain_order=True)
    codes = pl.DataFrame({"text": distinct, "code": np.arange(len(distinct))})
    joined = pl.DataFrame({"text": texts}).join(codes, on="text", how="left", nulls_equal=True, maintain_order="left")
    return Labels(tuple(distinct.to_list()), joined["code"].to_numpy())
