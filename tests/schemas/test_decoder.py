"""The decoder in C, record by record: damage is reported at its record, and costs no other."""

import ctypes
import io
import itertools
import random
import subprocess
import tracemalloc
from pathlib import Path

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devtools import fuzz
from hushgram import Collection, _native
from hushgram.pipelines.cli.command import main
from hushgram.schemas import decoder
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH, field_names
from hushgram.schemas.columns import DamagedRecordError, decode, decode_each
from hushgram.schemas.container import DamagedError, write_long
from hushgram.schemas.decoder import DAMAGES, decode_records
from hushgram.schemas.messages import MARKER, decode_reports
from tests.helpers.reports import make_batch_rows, make_report_rows

SOURCE = Path(decoder.__file__).with_suffix(".c").resolve()
COLLECTION = Collection(name="c", low=0, high=1, buckets=4, epsilon=1, groups=("DE", "FR"))
ROWS = make_report_rows(COLLECTION, 30, 1, ids=True) + make_report_rows(COLLECTION, 30, 2)
BATCHES = [{**row, "id": None, "ids": bytes(range(16)) * 7} for row in make_batch_rows(COLLECTION, ROWS)]
FIRST_BATCH, BATCH = REPORT_BATCH.versions.values()
KINDS = {
    "reports": (REPORT, REPORT.parsed, ROWS),
    "batches of version 1": (REPORT_BATCH, FIRST_BATCH, BATCHES),
    "batches": (REPORT_BATCH, BATCH, BATCHES[:4] + make_batch_rows(COLLECTION, ROWS)[4:]),
}


def encode_records(schema, rows):
    encoded = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        encoded.append(stream.getvalue())
    return encoded


def test_the_fields_are_those_of_the_schemas():
    """The order in which `read_record` goes through them: a new one must be added there."""
    first, last = ("collection", "revision"), ("event_time", "group", "id")
    assert field_names(REPORT.parsed) == (*first, "cell", *last)
    assert field_names(FIRST_BATCH) == (*first, "cells", *last)
    assert field_names(BATCH) == (*first, "cells", *last, "ids")


@pytest.fixture(scope="module")
def hash_text(tmp_path_factory):
    """The hash of a text under two secret numbers, which nothing else shows."""
    folder = tmp_path_factory.mktemp("hash")
    (folder / "hash.c").write_text(
        f"""#include "{SOURCE}"
        uint64_t hash_text(const uint8_t *text, int64_t size, const uint64_t *secret) {{
            const Bytes bytes = {{text, size}};
            return hash(&bytes, (Span){{0, size}}, word(&bytes, 0, size), secret);
        }}"""
    )
    subprocess.run(["cc", "-std=c99", "-shared", "-fPIC", "-o", folder / "hash.so", folder / "hash.c"], check=True)
    function = ctypes.CDLL(str(folder / "hash.so")).hash_text
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_uint64)]
    return lambda text, secret: function(text, len(text), (ctypes.c_uint64 * 2)(*secret))


@pytest.mark.parametrize("flips", [((1 << 63), (1 << 63) | (1 << 31)), (1 << 63, 1 << 63), (1 << 31, 1 << 63)])
def test_changes_of_texts_that_cancel_out_in_a_product_do_not_make_texts_collide(hash_text, flips):
    """The top bit of a number is that of its product with any odd one. In 20 * 1024 hashes of 64 bits, two are equal by
    chance once in 10^12 runs; the low ten bits of 1024 leave at least 500 different ones but once in 10^20."""
    rng = random.Random(1)
    for _ in range(20):
        secret, words = [rng.getrandbits(64), rng.getrandbits(64)], [rng.getrandbits(64) for _ in range(20)]
        hashes = [
            hash_text(
                b"".join(
                    (word ^ (flips[place % 2] if chosen[place // 2] else 0)).to_bytes(8, "big")
                    for place, word in enumerate(words)
                ),
                secret,
            )
            for chosen in itertools.product([False, True], repeat=10)
        ]
        assert len(set(hashes)) == len(hashes)
        assert len({number % 1024 for number in hashes}) > 500


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_cut_anywhere_keeps_the_records_before_the_cut(kind):
    definition, schema, rows = KINDS[kind]
    records = encode_records(schema, rows[:6])
    block, ends = b"".join(records), np.cumsum([len(record) for record in records])
    for size in range(len(records) * 14, len(block)):
        with pytest.raises(DamagedRecordError, match=DAMAGES[1]) as raised:
            decode(definition, schema, len(records), block[:size])
        assert len(raised.value.before) == np.count_nonzero(ends <= size)
    before = raised.value.before
    assert before.event_time.tolist() == [row["event_time"] for row in rows[:5]]
    assert [before.group.names[code] for code in before.group.codes] == [row["group"] for row in rows[:5]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_message_costs_no_other(kind):
    _, schema, rows = KINDS[kind]
    records = encode_records(schema, rows)
    for cut in range(len(records[3])):
        columns, damaged = decode_each(schema, [*records[:3], records[3][:cut], *records[4:], records[0] + b"\x00"])
        assert damaged == {3: DAMAGES[1], len(records): DAMAGES[6]}
        assert columns.event_time.tolist() == [row["event_time"] for row in rows[:3] + rows[4:]]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=9) | st.text(max_size=4).map(str.encode) | st.text(max_size=4).map(lambda t: t.encode()[:-1]))
def test_a_text_is_one_exactly_where_python_says_so(octets):
    record = write_long(len(octets)) + octets + bytes(12)
    try:
        expected = octets.decode()
    except UnicodeDecodeError:
        with pytest.raises(DamagedRecordError, match="UTF-8"):
            decode(REPORT, REPORT.parsed, 1, record)
    else:
        columns = decode(REPORT, REPORT.parsed, 1, record)
        assert columns.collection.names == (expected,)


@given(st.integers(0, 2**64 - 1), st.integers(0, 3))
def test_a_number_is_read_in_the_bytes_that_it_takes_and_in_no_more(zigzag, more):
    octets, left = bytearray(), zigzag
    while left > 0x7F:
        octets.append(left & 0x7F | 0x80)
        left >>= 7
    octets.append(left)
    if more:
        octets[-1] |= 0x80
        octets += b"\x80" * (more - 1) + b"\x00"
    record = bytes(9) + bytes(octets) + bytes(3)
    if more:
        with pytest.raises(DamagedRecordError, match="number"):
            decode(REPORT, REPORT.parsed, 1, record)
    else:
        assert decode(REPORT, REPORT.parsed, 1, record).cells.tolist() == [(zigzag >> 1) ^ -(zigzag & 1)]


@pytest.mark.parametrize("last", [0x02, 0x7F, 0x81, 0xFF])
def test_a_number_of_more_than_64_bits_is_refused(last):
    with pytest.raises(DamagedRecordError, match="number"):
        decode(REPORT, REPORT.parsed, 1, bytes(9) + b"\xff" * 9 + bytes([last]) + bytes(5))


@pytest.mark.parametrize("bad", ["collection", "group"])
def test_a_record_with_a_text_that_is_none_leaves_no_name_behind(bad):
    """Neither that of its other text: names are those of rows."""
    rows = [{**ROWS[0], "collection": "first", "group": "DE"}, {**ROWS[0], "collection": "second", "group": "FR"}]
    records = encode_records(REPORT.parsed, [rows[0], rows[1], rows[0]])
    text = rows[1][bad].encode()
    records[1] = records[1].replace(text, b"\xff" + text[1:])
    columns, damaged = decode_each(REPORT.parsed, records)
    assert damaged == {1: DAMAGES[5]}
    assert columns.collection.names == ("first",)
    assert columns.group.names == ("DE",)
    with pytest.raises(DamagedRecordError, match=DAMAGES[5]) as raised:
        decode(REPORT, REPORT.parsed, 3, b"".join(records))
    assert raised.value.before.collection.names == ("first",)
    assert raised.value.before.group.names == ("DE",)


def test_a_collection_that_returns_after_others_has_its_code_again():
    names = ["long enough to be compared", "long enough to be confused", "", "commute"]
    rows = [{**ROWS[0], "collection": names[place]} for place in (0, 0, 1, 1, 0, 2, 2, 3, 0, 3, 3)]
    columns = decode(REPORT, REPORT.parsed, len(rows), b"".join(encode_records(REPORT.parsed, rows)))
    assert columns.collection.names == tuple(names)
    assert columns.collection.codes.tolist() == [0, 0, 1, 1, 0, 2, 2, 3, 0, 3, 3]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("reports", {}),
        ("batches of version 1", {}),
        ("batches of version 1", {"cells": b"ab"}),
        ("batches", {"cells": b"ab", "ids": b"ab"}),
    ],
)
def test_decoding_takes_at_most_sixteen_times_the_memory_of_the_data(kind, fields):
    """The smallest records need the most. All that is asked for counts here; a process counts only what is written to,
    and took 300 MB for 67 MB of reports of thirteen bytes."""
    definition, schema, _ = KINDS[kind]
    least = {"collection": "", "revision": bytes(8), "event_time": 0, "group": None, "id": None}
    [record] = encode_records(schema, [{**least, "cell": 0, "cells": b"", **fields}])
    count = (1 << 16) + 1
    data = record * count
    tracemalloc.start()
    try:
        assert len(decode(definition, schema, count, data)) == count
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= 16 * len(data)


def test_texts_of_every_length_are_told_apart():
    """Also those that share their first eight bytes, or all but their last, and null from the empty text."""
    names = [prefix[:size] + end for prefix in ("x" * 40, "xy" * 20) for size in range(40) for end in ("", "a", "b")]
    names = list(dict.fromkeys(names))
    rows = [{**ROWS[0], "collection": name, "group": group} for name in names for group in (name, None)] * 2
    random.Random(1).shuffle(rows)
    columns = decode(REPORT, REPORT.parsed, len(rows), b"".join(encode_records(REPORT.parsed, rows)))
    assert sorted(columns.collection.names) == sorted(names)
    assert sorted(columns.group.names, key=str) == sorted([*names, None], key=str)
    assert [columns.collection.names[code] for code in columns.collection.codes] == [row["collection"] for row in rows]
    assert [columns.group.names[code] for code in columns.group.codes] == [row["group"] for row in rows]


def test_every_record_may_have_a_collection_of_its_own():
    rows = [{**ROWS[0], "collection": f"collection number {number}", "group": str(number)} for number in range(50_000)]
    columns = decode(REPORT, REPORT.parsed, len(rows), b"".join(encode_records(REPORT.parsed, rows)))
    assert columns.collection.names == tuple(row["collection"] for row in rows)
    assert columns.group.codes.tolist() == list(range(50_000))


def test_a_record_in_which_another_seems_to_begin_is_read():
    """Whoever makes cells and ids may write the beginning of a record into them."""
    [row] = make_batch_rows(COLLECTION, ROWS[:3], 3)
    [record] = encode_records(BATCH, [row])
    records = encode_records(BATCH, [{**row, "cells": record * 50}, {**row, "ids": record * 50}, row] * 50)
    assert len(decode(REPORT_BATCH, BATCH, 150, b"".join(records))) == 150


@pytest.mark.parametrize("lengths", [[1], [1, 1], [3, -1], [1, 2, -1], []])
def test_lengths_that_are_not_those_of_the_records_reach_no_native_code(lengths):
    with pytest.raises(ValueError, match="lengths"):
        decode_records(bytes(3), 2, field_names(REPORT.parsed), np.array(lengths, dtype=np.int64))


def damage_record(record, rng):
    position = rng.randrange(len(record))
    return rng.choice(
        [
            record[:position],
            record[:position] + bytes([record[position] ^ 1 << rng.randrange(8)]) + record[position + 1 :],
            record[:position] + rng.randbytes(len(record) - position),
            record[:position] + b"\xff" * rng.randrange(1, 12) + record[position:],
        ]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_messages_and_blocks_print_nothing(kind, capfd):
    definition, schema, rows = KINDS[kind]
    records, rng, refused = encode_records(schema, rows), random.Random(1), 0
    prefix = MARKER + next(name for name, version in definition.versions.items() if version is schema)
    for _ in range(40):
        damaged_records = list(records)
        index = rng.randrange(len(damaged_records))
        damaged_records[index] = damage_record(damaged_records[index], rng)
        refusals = decode_reports([prefix + record for record in damaged_records])[1]
        assert {refusal.index for refusal in refusals} <= {index}
        refused += len(refusals)
        try:
            decode(definition, schema, len(damaged_records), b"".join(damaged_records))
        except DamagedError:
            refused += 1
    assert refused > 30
    assert capfd.readouterr() == ("", "")


def test_without_the_decoder_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(_native, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="without its decoder of reports"):
        _native.load()

    def import_module(name):
        return _native.load()

    monkeypatch.setattr("importlib.import_module", import_module)
    assert main(["aggregate"]) == 2
    assert "install one, such as gcc, and then hushgram again" in capsys.readouterr().err


def test_the_fuzzer_finds_nothing_in_a_second_and_reaches_both_ends():
    """`python -m devtools.fuzz` goes on for minutes."""
    inputs, whole, damaged = (int(word) for word in fuzz.fuzz_decoder(1, start=7).split() if word.isdigit())
    assert inputs >= 1000
    assert whole > inputs / 10
    assert damaged > inputs / 10
