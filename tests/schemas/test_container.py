"""The frame of Avro files: every writer's blocks are read; nothing damaged, huge or foreign gets through."""

import bz2
import contextlib
import io
import lzma
import zlib

import cramjam
import fastavro
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.container import (
    LARGEST_BLOCK,
    DamagedError,
    OversizedError,
    inflate,
    read_block,
    read_header,
    read_long,
    skip_to_sync,
    write_long,
)


def compress(codec, plain):
    if codec == "deflate":
        compressor = zlib.compressobj(wbits=-15)
        return compressor.compress(plain) + compressor.flush()
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(plain)) + zlib.crc32(plain).to_bytes(4, "big")
    return {
        "null": lambda data: data,
        "bzip2": bz2.compress,
        "xz": lzma.compress,
        "zstandard": zstandard.ZstdCompressor().compress,
    }[codec](plain)


CODECS = ["null", "deflate", "bzip2", "xz", "zstandard", "snappy"]


def _make_file(records=500, codec="deflate", sync_interval=2000):
    stream = io.BytesIO()
    rows = [
        {"collection": "c", "revision": b"12345678", "cell": i, "event_time": 1000 * i, "group": None, "id": None}
        for i in range(records)
    ]
    fastavro.writer(stream, REPORT.parsed, rows, codec=codec, sync_interval=sync_interval)
    return stream.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy"])
def test_files_of_the_reference_writer_are_read_block_by_block(codec):
    stream = io.BytesIO(_make_file(codec=codec))
    header = read_header(stream)
    assert header.codec == codec
    assert header.size == stream.tell()
    blocks = []
    while block := read_block(stream, header.sync):
        blocks.append(block)
    assert len(blocks) > 3
    assert sum(block.count for block in blocks) == 500
    plain = b"".join(inflate(block.data, codec) for block in blocks)
    stream = io.BytesIO(plain)
    assert [fastavro.schemaless_reader(stream, REPORT.parsed, None)["cell"] for _ in range(500)] == list(range(500))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_restores_the_data(codec):
    plain = bytes(range(256)) * 40
    assert inflate(compress(codec, plain), codec) == plain
    assert inflate(compress(codec, b""), codec) == b""


@pytest.mark.slow
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "null"])
def test_a_compression_bomb_is_refused(codec):
    with pytest.raises(DamagedError):
        inflate(compress(codec, bytes(LARGEST_BLOCK + 1)), codec)
    with pytest.raises(DamagedError):
        inflate(compress(codec, bytes(2000)), codec, limit=1999)
    assert len(inflate(compress(codec, bytes(2000)), codec, limit=2000)) == 2000


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "null"])
def test_a_limit_of_nothing_lets_nothing_through(codec):
    with pytest.raises(OversizedError):
        inflate(compress(codec, b"plain"), codec, limit=0)


def test_damaged_deflate_is_read_as_zlib_reads_it_and_a_cut_is_refused():
    """Every cut and every bit. Nothing in a block tells that it is damaged, so zlib reads some of them, as other bytes;
    libdeflate also takes a code that leaves symbols out, which zlib refuses."""
    plain = b"".join(b"commute" + bytes([number, 7 * number % 256]) for number in range(40))
    whole, read = compress("deflate", plain), 0
    for size in range(len(whole)):
        with pytest.raises(DamagedError):
            inflate(whole[:size], "deflate")
    for place in range(8 * len(whole)):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
        with contextlib.suppress(zlib.error):
            expected = decompressor.decompress(data)
            if decompressor.eof:
                read += 1
                assert inflate(bytes(data), "deflate") == expected
    assert read > 100


def test_memory_for_decompression_goes_with_the_limit():
    """A window of 128 MiB, or a dictionary of 64, for a few bytes."""
    wide = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    packed = {"zstandard": stream.compress(b"plain") + stream.flush(), "xz": lzma.compress(b"plain", preset=9)}
    for codec, data in packed.items():
        assert inflate(data, codec) == b"plain"
        with pytest.raises(DamagedError, match="emory"):
            inflate(data, codec, limit=1 << 22)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"\x00", b"garbage" * 10, b"\xff" * 40])
def test_data_that_is_not_compressed_is_refused_or_empty(codec, data):
    with contextlib.suppress(DamagedError):
        assert isinstance(inflate(data, codec), bytes)


def test_a_block_cut_short_is_refused():
    plain = bytes(range(256)) * 40
    for codec in ("deflate", "bzip2", "xz", "snappy"):
        whole = compress(codec, plain)
        with pytest.raises(DamagedError):
            inflate(whole[: len(whole) // 2], codec)
    with pytest.raises(DamagedError, match="unknown codec 'lz77'"):
        inflate(plain, "lz77")


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_survive_a_round_trip(value):
    assert read_long(io.BytesIO(write_long(value))) == value


def test_a_long_of_more_than_ten_bytes_is_refused():
    with pytest.raises(DamagedError, match="64 bits"):
        read_long(io.BytesIO(b"\xff" * 11))


def test_every_truncation_is_refused_or_ends_between_blocks():
    whole = _make_file(60, sync_interval=500)
    for length in range(len(whole)):
        stream = io.BytesIO(whole[:length])
        total = 0
        try:
            header = read_header(stream)
            while block := read_block(stream, header.sync):
                total += block.count
        except DamagedError:
            continue
        assert total in {0, *_cumulate_counts(whole)}


def _cumulate_counts(whole):
    stream = io.BytesIO(whole)
    header, total, totals = read_header(stream), 0, []
    while block := read_block(stream, header.sync):
        totals.append(total := total + block.count)
    return totals


@given(st.binary(max_size=300))
def test_random_bytes_are_not_an_avro_file(data):
    for start in (b"", b"Obj\x01", _make_file(1)[:60]):
        stream = io.BytesIO(start + data)
        with pytest.raises(DamagedError):
            read_header(stream)


def test_avro_headers_are_bounded():
    huge_entry = b"Obj\x01" + write_long(1) + write_long(1 << 40)
    many_entries = b"Obj\x01" + write_long(1 << 40)
    endless = b"Obj\x01" + (write_long(1) + write_long(1) + b"k" + write_long(200_000) + bytes(200_000)) * 8
    for data, message in ((huge_entry, "header entry"), (many_entries, "entries"), (endless, "more than 1048576")):
        with pytest.raises(DamagedError, match=message):
            read_header(io.BytesIO(data))
    for schema in (b"[1]", b"{", b'"string"', b"\xff", b"[" * 100_000):
        data = b"Obj\x01" + write_long(1) + write_long(11) + b"avro.schema" + write_long(len(schema)) + schema
        with pytest.raises(DamagedError, match="schema"):
            read_header(io.BytesIO(data + b"\x00" + bytes(16)))
    with pytest.raises(DamagedError, match="without a readable schema"):
        read_header(io.BytesIO(b"Obj\x01\x00" + bytes(16)))


def test_avro_blocks_are_bounded():
    for data in (write_long(5) + write_long(1 << 50), write_long(-5) + write_long(3), write_long(1) + write_long(-1)):
        with pytest.raises(DamagedError, match="a block of"):
            read_block(io.BytesIO(data + bytes(50)), bytes(16))


@pytest.mark.parametrize("before", [0, 1, 15, 16, 17, 65_520, 65_535, 65_536, 65_537, 200_000])
def test_the_next_marker_is_found_wherever_it_lies(before):
    sync = bytes(range(1, 17))
    stream = io.BytesIO(bytes(before) + sync + b"rest")
    assert skip_to_sync(stream, sync)
    assert stream.read() == b"rest"
    assert not skip_to_sync(io.BytesIO(bytes(before) + sync[:-1]), sync)


def test_a_damaged_block_does_not_cost_those_behind_it():
    whole = bytearray(_make_file(300, codec="null", sync_interval=1000))
    stream = io.BytesIO(whole)
    header = read_header(stream)
    second = (read_block(stream, header.sync), stream.tell())[1]
    whole[second] ^= 0xFF
    stream = io.BytesIO(whole)
    read_header(stream)
    first = read_block(stream, header.sync)
    with pytest.raises(DamagedError):
        read_block(stream, header.sync)
    stream.seek(second)
    assert skip_to_sync(stream, header.sync)
    rest = 0
    while block := read_block(stream, header.sync):
        rest += block.count
    damaged = _cumulate_counts(bytes(_make_file(300, codec="null", sync_interval=1000)))
    assert first.count + rest == 300 - (damaged[1] - damaged[0])
