"""The frame of an Avro container file: a header, then blocks, each between its sizes and a sync marker.

Everything here is hostile until parsed. Sizes are bounded before memory is taken, and a damaged block does not cost the
ones behind it: readers look for the next sync marker.
"""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import cramjam
import deflate
import zstandard

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
LARGEST_HEADER = 1 << 20
LARGEST_BLOCK = 1 << 26
"""Of a block's bytes, compressed or not: 64 MiB, a thousand times what writers make by default."""
USUAL_EXPANSION = 8
"""How many times as large a block may become when decompressed, before it takes the slower way; reports stay below."""


CODEC_ERRORS = (
    ValueError,
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    cramjam.DecompressionError,
)


class DamagedError(ValueError):
    """Bytes that are no container, or no block of one."""


class OversizedError(DamagedError):
    """What would take more memory or time than the reader allows."""


@dataclass(frozen=True)
class Header:
    """What a file says of itself, and the bytes that say it."""

    schema: dict[str, Any]
    codec: str
    sync: bytes
    size: int


@dataclass(frozen=True)
class Block:
    """`count` records, still compressed, and where in the file they were."""

    count: int
    data: bytes
    offset: int


def read_header(stream: BinaryIO) -> Header:
    """The header at the start of a file; the stream is left at the first block."""
    if _exactly(stream, len(MAGIC)) != MAGIC:
        raise DamagedError("not an Avro file: it does not begin with Obj and 1")
    size, metadata = len(MAGIC), {}
    while (entries := read_long(stream)) != 0:
        if entries < 0:  # followed by the entries' size in bytes, which nobody needs
            entries = -entries
            read_long(stream)
        if entries > 1000:
            raise DamagedError(f"a header of {entries} entries")
        for _ in range(entries):
            key, value = (_bounded(stream) for _ in range(2))
            size += len(key) + len(value)
            if size > LARGEST_HEADER:
                raise DamagedError(f"a header of more than {LARGEST_HEADER} bytes")
            metadata[key] = value
    sync = _exactly(stream, SYNC_SIZE)
    try:
        schema = json.loads(metadata[b"avro.schema"].decode())
        codec = metadata.get(b"avro.codec", b"null").decode("ascii")
    except (KeyError, ValueError, RecursionError) as error:
        raise DamagedError(f"a header without a readable schema: {error}") from None
    if not isinstance(schema, dict):
        raise DamagedError("a schema that is no record")
    return Header(schema, codec, sync, stream.tell())


def write_header(schema: str, codec: str, sync: bytes) -> bytes:
    """The bytes that `read_header` reads.

    >>> import io
    >>> read_header(io.BytesIO(write_header('{"type": "record"}', "null", bytes(SYNC_SIZE)))).codec
    'null'
    """
    entries = {b"avro.schema": schema.encode(), b"avro.codec": codec.encode()}
    body = b"".join(write_long(len(part)) + part for entry in entries.items() for part in entry)
    return MAGIC + write_long(len(entries)) + body + write_long(0) + sync


def read_block(stream: BinaryIO, sync: bytes) -> Block | None:
    """The block at the stream's position, or None at the end of the file."""
    offset = stream.tell()
    first = stream.read(1)
    if not first:
        return None
    count, size = read_long(stream, first), read_long(stream)
    if count < 0 or not 0 <= size <= LARGEST_BLOCK:
        raise DamagedError(f"a block of {count} records in {size} bytes")
    data = _exactly(stream, size)
    if _exactly(stream, SYNC_SIZE) != sync:
        raise DamagedError("a block that does not end at a sync marker")
    return Block(count, data, offset)


def skip_to_sync(stream: BinaryIO, sync: bytes) -> bool:
    """Move the stream behind the next sync marker; False if there is none."""
    tail = b""
    while chunk := stream.read(1 << 16):
        found = (tail + chunk).find(sync)
        if found >= 0:
            stream.seek(found + len(sync) - len(tail) - len(chunk), 1)
            return True
        tail = chunk[-(len(sync) - 1) :] if len(chunk) >= len(sync) else (tail + chunk)[-(len(sync) - 1) :]
    return False


def inflate(data: bytes, codec: str, limit: int = LARGEST_BLOCK) -> bytes | bytearray:
    """A block's bytes without their compression; whatever would grow beyond the limit is refused before it does.

    So is what needs much more memory than the limit meanwhile: zstd's frames may do with a window of 8 MiB (RFC 8878).
    """
    window = 1 << max(23, limit.bit_length())
    try:
        if codec == "null":
            return data
        if codec == "deflate":
            return _inflate_all(data, limit)
        if codec == "bzip2":
            return _all_of(bz2.BZ2Decompressor(), data, limit)
        if codec == "xz":
            return _all_of(lzma.LZMADecompressor(memlimit=2 * window), data, limit)
        if codec == "zstandard":
            with zstandard.ZstdDecompressor(max_window_size=window).stream_reader(data) as reader:
                return _within(reader.read(limit + 1), limit)
        if codec == "snappy":
            return _unsnap(data, limit)
    except DamagedError:
        raise
    except CODEC_ERRORS as error:
        raise DamagedError(f"a block that {codec} cannot read: {error}") from None
    raise DamagedError(f"unknown codec {codec!r}")


def read_long(stream: BinaryIO, first: bytes = b"") -> int:
    """A zigzag number of up to ten bytes of seven bits each, the lowest first."""
    value = shift = 0
    byte = (first or _exactly(stream, 1))[0]
    while byte & 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise DamagedError("a number of more than 64 bits")
        byte = _exactly(stream, 1)[0]
    value |= byte << shift
    return (value >> 1) ^ -(value & 1)


def write_long(value: int) -> bytes:
    """The bytes that `read_long` reads."""
    zigzag = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise DamagedError("the file ends in the middle")
    return data


def _bounded(stream: BinaryIO) -> bytes:
    size = read_long(stream)
    if not 0 <= size <= LARGEST_HEADER:
        raise DamagedError(f"a header entry of {size} bytes")
    return _exactly(stream, size)


def _inflate_all(data: bytes, limit: int) -> bytes | bytearray:
    """By libdeflate, in half the time of zlib. Where the data are damaged, or larger than expected, zlib goes on: it
    stops at the limit, and says what is wrong."""
    room = min(limit, USUAL_EXPANSION * len(data))
    if room:  # with none, libdeflate's wrapper would take anything for nothing
        with suppress(deflate.DeflateError):
            return deflate.deflate_decompress(data, room)
    return _all_of(zlib.decompressobj(-zlib.MAX_WBITS), data, limit)


def _all_of(decompressor: Any, data: bytes, limit: int) -> bytes:
    """What a decompressor of the standard library makes of the data, and that it came to its end."""
    result = _within(decompressor.decompress(data, limit + 1), limit)
    if not decompressor.eof:
        raise DamagedError("a compressed block that does not end")
    return result


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise OversizedError(f"a block of more than {limit} bytes when decompressed")
    return data


def _unsnap(data: bytes, limit: int) -> bytes:
    """Snappy puts the length first; four bytes of CRC-32 follow it."""
    length = shift = 0
    for byte in data[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > limit:
        raise OversizedError(f"a block of {length} bytes when decompressed, {limit} are allowed")
    plain = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise DamagedError("a block whose checksum does not hold")
    return plain
