"""Avro files of results, record by record: files that may be anyone's, read within bounds."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import fastavro

from hushgram.schemas.avro_schemas import without_dates
from hushgram.schemas.container import DamagedError, inflate, read_block, read_header


def avro_records(data: bytes) -> Iterator[Any]:
    """The records of a file, block by block, so that memory stays bounded.

    Times stay numbers, since not every time is a date. Raises one of `CODEC_ERRORS` on a damaged file.
    """
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
