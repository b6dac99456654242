"""Reports as columns: a block of thousands of records, or a poll of messages, decoded at once.

Records of our own schemas are decoded by `decoder`; those of other writers by fastavro, one by one.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np

from hushgram._arrays import BoolArray, IntArray, UIntArray
from hushgram.schemas.avro_schemas import Definition, field_names, without_dates
from hushgram.schemas.container import DamagedError
from hushgram.schemas.decoder import DAMAGES, Decoded, Spans, Texts, decode_records

LEAST_RECORD = 1 + 8 + 1 + 1 + 1 + 1
"""The shortest record of any schema: an empty name, a revision, an empty cell or none, a time, two nulls."""
ID_BYTES = 16


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


class DamagedRecordError(DamagedError):
    """A block with a damaged record in it; `before` are the records before that one, which are whole."""

    def __init__(self, detail: str, before: ReportColumns) -> None:
        super().__init__(detail)
        self.before = before


def revision_number(revision: str) -> int:
    """The 16 hexadecimal digits of a collection's revision as the number that columns hold.

    >>> hex(revision_number("bee7fcbcb7cce993"))
    '0xbee7fcbcb7cce993'
    """
    return int(revision, 16)


def id_numbers(ids: bytes, count: int = 2) -> UIntArray:
    """Ids that stand end to end as columns hold them: a row of two numbers for each, or of another count.

    >>> id_numbers(bytes(7) + b"\\x01" + bytes(7) + b"\\x02").tolist()
    [[1, 2]]
    """
    return np.frombuffer(ids, dtype=">u8").astype(np.uint64).reshape(-1, count)


def decode(definition: Definition, writer: dict[str, Any], count: int, data: bytes) -> ReportColumns:
    """The records of one decompressed block, written with the schema `writer`; `DamagedError` if it is not that.

    What is of our own schemas takes at most sixteen times the memory of the data, whatever is in them.
    """
    if count * LEAST_RECORD > len(data) or (count == 0 and data):
        raise DamagedError(f"{count} records cannot be in {len(data)} bytes")
    version = definition.canonical_versions.get(canonical_form(writer))
    if version is None:
        return from_records(definition, decode_one_by_one(definition, writer, count, data))
    decoded = decode_records(data, count, field_names(version))
    columns = _columns(data, decoded)
    if len(columns) < count:
        detail = f"record {len(columns) + 1} of {count}: {DAMAGES[decoded.damage[len(columns)]]}"
        raise DamagedRecordError(detail, columns)
    return columns


def decode_each(version: dict[str, Any], bodies: Sequence[bytes]) -> tuple[ReportColumns, dict[int, str]]:
    """Records of one of our own schemas, each in bytes of its own; by place what is wrong with those left out."""
    lengths = np.fromiter(map(len, bodies), dtype=np.int64, count=len(bodies))
    data = b"".join(bodies)
    decoded = decode_records(data, len(bodies), field_names(version), lengths)
    damaged = np.flatnonzero(decoded.damage).tolist()
    return _columns(data, decoded), {place: DAMAGES[decoded.damage[place]] for place in damaged}


def resolve_each(
    definition: Definition, writer: dict[str, Any], bodies: Sequence[bytes]
) -> tuple[ReportColumns, dict[int, str]]:
    """The same for records of another writer, whose schema is one without dates, which are resolved into ours."""
    records: list[dict[str, Any]] = []
    damaged: dict[int, str] = {}
    for place, body in enumerate(bodies):
        try:
            [record] = _resolved(definition, writer, 1, body)
            from_records(definition, [record])
        except DamagedError as error:
            damaged[place] = str(error)
        else:
            records.append(record)
    return from_records(definition, records), damaged


def canonical_form(writer: dict[str, Any]) -> str:
    """A schema's parsing canonical form, empty if it is no schema."""
    try:
        return fastavro.schema.to_parsing_canonical_form(writer)
    except Exception:  # a damaged header may hold a schema that is none; the slow way will say so
        return ""


def decode_one_by_one(definition: Definition, writer: dict[str, Any], count: int, data: bytes) -> list[dict[str, Any]]:
    """Record by record; also for another version of the schema: fields may have come or gone, if they have defaults."""
    written = definition.undated if writer is definition.parsed else without_dates(writer)
    return _resolved(definition, written, count, data)


def _resolved(definition: Definition, written: dict[str, Any], count: int, data: bytes) -> list[dict[str, Any]]:
    stream = io.BytesIO(data)
    try:
        records = [fastavro.schemaless_reader(stream, written, definition.undated) for _ in range(count)]
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except Exception as error:  # fastavro raises what its parts happen to raise on damaged input
        raise DamagedError(f"records that cannot be decoded: {type(error).__name__} {error}"[:200]) from None
    if stream.tell() != len(data):
        raise DamagedError(f"records of {stream.tell()} bytes in a block of {len(data)}")
    return records  # type: ignore[return-value]


def from_records(definition: Definition, records: Sequence[dict[str, Any]]) -> ReportColumns:
    """Records that were decoded one by one, as columns."""
    names, ids = field_names(definition.parsed), [record["id"] for record in records]
    try:
        return ReportColumns(
            collection=_labels([record["collection"] for record in records]),
            revision=id_numbers(b"".join(record["revision"] for record in records), 1)[:, 0],
            group=_labels([record["group"] for record in records]),
            event_time=_integers([record["event_time"] for record in records]),
            has_id=np.array([octets is not None for octets in ids], dtype=bool),
            id=id_numbers(b"".join(octets or bytes(ID_BYTES) for octets in ids)),
            cells=_integers([record["cell"] for record in records]) if "cell" in names else None,
            packed=tuple(record["cells"] for record in records) if "cells" in names else None,
            ids=tuple(record.get("ids") for record in records) if "ids" in names else None,
        )
    except OverflowError as error:  # numbers of more than 64 bits
        raise DamagedError(f"records that cannot be held: {error}"[:200]) from None


def _integers(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _labels(texts: Sequence[str | None]) -> Labels:
    places: dict[str | None, int] = {}
    codes = [places.setdefault(text, len(places)) for text in texts]
    return Labels(tuple(places), _integers(codes))


def _columns(data: bytes, decoded: Decoded) -> ReportColumns:
    return ReportColumns(
        collection=_named(data, decoded.collection),
        revision=decoded.revision,
        group=_named(data, decoded.group),
        event_time=decoded.event_time,
        has_id=decoded.has_id,
        id=decoded.id,
        cells=decoded.cells if decoded.packed is None else None,
        packed=None if decoded.packed is None else tuple(part or b"" for part in _parts(data, decoded.packed)),
        ids=None if decoded.ids is None else _parts(data, decoded.ids),
    )


def _named(data: bytes, texts: Texts) -> Labels:
    return Labels(tuple(None if name is None else name.decode() for name in _parts(data, texts.names)), texts.codes)


def _parts(data: bytes, spans: Spans) -> tuple[bytes | None, ...]:
    places = zip(spans.starts.tolist(), spans.sizes.tolist(), strict=True)
    return tuple(None if size < 0 else data[start : start + size] for start, size in places)
