"""Blocks and messages as columns: equal to the reference decoder where that is sure, refused where it is not."""

import contextlib
import io
import json
from pathlib import Path

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram.schemas import avro_schemas
from hushgram.schemas.avro_schemas import BY_FINGERPRINT, REPORT, REPORT_BATCH
from hushgram.schemas.columns import Labels, decode, revision_number
from hushgram.schemas.container import DamagedError, inflate, read_block, read_header, write_long
from hushgram.schemas.messages import (
    LARGEST_MESSAGE,
    MARKER,
    decode_message,
    decode_reports,
    encode_message,
    encode_report,
)
from hushgram.schemas.writer import encode_reports, pack_batch, write_container

texts = st.text(max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
times = st.integers(-62_135_596_800_000, 253_402_300_799_999)
common = {
    "collection": texts,
    "revision": st.binary(min_size=8, max_size=8),
    "event_time": times,
    "group": st.none() | texts,
    "id": st.none() | st.binary(min_size=16, max_size=16),
}
reports = st.fixed_dictionaries({**common, "cell": longs})
first_batches = st.fixed_dictionaries({**common, "cells": st.binary(max_size=40)})
batches = st.fixed_dictionaries({**common, "cells": st.binary(max_size=40), "ids": st.none() | st.binary(max_size=70)})
FIRST_BATCH, BATCH = REPORT_BATCH.versions.values()
VERSIONS = {
    "reports": (REPORT, REPORT.parsed, reports),
    "batches of version 1": (REPORT_BATCH, FIRST_BATCH, first_batches),
    "batches": (REPORT_BATCH, BATCH, batches),
}


def encode_body(definition, rows, schema=None):
    stream = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(stream, schema or definition.parsed, row)
    return stream.getvalue()


def to_rows(columns):
    """Columns as the records they were."""
    rows = []
    for index in range(len(columns)):
        cell_field = (
            {"cell": int(columns.cells[index])} if columns.cells is not None else {"cells": columns.packed[index]}
        )
        ids_field = {} if columns.ids is None else {"ids": columns.ids[index]}
        id_bytes = b"".join(int(half).to_bytes(8, "big") for half in columns.id[index])
        rows.append(
            {
                "collection": columns.collection.names[columns.collection.codes[index]],
                "revision": int(columns.revision[index]).to_bytes(8, "big"),
                "event_time": int(columns.event_time[index]),
                "group": columns.group.names[columns.group.codes[index]],
                "id": id_bytes if columns.has_id[index] else None,
                **cell_field,
                **ids_field,
            }
        )
    return rows


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(list(VERSIONS.values())))
def test_columns_hold_the_records_that_were_written(data, kind):
    definition, version, records = kind
    rows = data.draw(st.lists(records, max_size=8))
    block = encode_body(definition, rows, version)
    assert to_rows(decode(definition, version, len(rows), block)) == rows
    header_schema = json.loads(definition.text)  # as in a file's header, with docs and defaults
    names = [field["name"] for field in version["fields"]]
    header_schema["fields"] = [field for field in header_schema["fields"] if field["name"] in names]
    assert to_rows(decode(definition, header_schema, len(rows), block)) == rows


def _make_sample(count=12):
    rng = np.random.default_rng(1)
    return [
        {
            "collection": ["commute", "age"][i % 2],
            "revision": bytes.fromhex("bee7fcbcb7cce993"),
            "cell": int(rng.integers(0, 1500)),
            "event_time": 1_767_225_600_000 + i,
            "group": [None, "DE", "FR"][i % 3],
            "id": rng.bytes(16) if i % 2 else None,
        }
        for i in range(count)
    ]


def _make_batch_sample(count=12):
    """Batches of none to three reports; of three, one has no ids, one an id for all, and one an id for each."""
    rng = np.random.default_rng(2)
    return [
        {
            **{name: value for name, value in row.items() if name != "cell"},
            "cells": rng.bytes(2 * (i % 4)),
            "id": rng.bytes(16) if i % 3 == 1 else None,
            "ids": rng.bytes(16 * (i % 4)) if i % 3 == 2 else None,
        }
        for i, row in enumerate(_make_sample(count))
    ]


@pytest.mark.parametrize("kind", ["batches of version 1", "batches"])
def test_a_flipped_bit_of_a_batch_is_refused_or_still_a_batch(kind):
    definition, version, _ = VERSIONS[kind]
    rows = _make_batch_sample(8)
    block = encode_body(definition, rows, version)
    accepted = refused = 0
    for position in range(len(block)):
        for bit in (0, 1, 7):
            damaged = bytearray(block)
            damaged[position] ^= 1 << bit
            try:
                columns = decode(definition, version, len(rows), bytes(damaged))
            except DamagedError:
                refused += 1
                continue
            accepted += 1
            stream = io.BytesIO(bytes(damaged))
            reference = [fastavro.schemaless_reader(stream, version, None) for _ in rows]
            assert stream.tell() == len(block)
            assert [(row["cells"], row.get("ids")) for row in reference] == [
                (row["cells"], row.get("ids")) for row in to_rows(columns)
            ]
    assert accepted > 100
    assert refused > 100


def test_a_flipped_bit_is_refused_or_still_a_report():
    rows = _make_sample()
    block = encode_body(REPORT, rows)
    accepted = refused = 0
    for position in range(len(block)):
        for bit in (0, 3, 7):
            damaged = bytearray(block)
            damaged[position] ^= 1 << bit
            try:
                columns = decode(REPORT, REPORT.parsed, len(rows), bytes(damaged))
            except DamagedError:
                refused += 1
                continue
            accepted += 1
            # Accepted columns are exactly those that the reference decoder reads from the same bytes, to the last one.
            stream = io.BytesIO(bytes(damaged))
            reference = [fastavro.schemaless_reader(stream, REPORT.parsed, None) for _ in rows]
            assert stream.tell() == len(block)
            assert [row["cell"] for row in reference] == columns.cells.tolist()
    assert accepted > 100
    assert refused > 100


@pytest.mark.parametrize("count", [0, 1, 11, 13, 10**6, 2**40, 2**62])
def test_a_wrong_count_is_refused(count):
    block = encode_body(REPORT, _make_sample(12))
    with pytest.raises(DamagedError):
        decode(REPORT, REPORT.parsed, count, block)


@pytest.mark.parametrize("power", [20, 31, 33, 40, 47, 62])
def test_absurd_lengths_take_no_memory_and_end_no_process(power):
    """Of a name, cells, a group and ids: a decoder that believed them would be killed by its first allocation."""
    start = b"\x02c" + bytes(8)
    for definition, version, _ in VERSIONS.values():
        for prefix in (b"", start, start + b"\x02\x00\x02", start + bytes(4) + b"\x02"):
            for length in (2**power, -(2**power)):
                with pytest.raises(DamagedError):
                    decode(definition, version, 2, prefix + write_long(length) + bytes(100))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 12))
def test_random_bytes_are_refused_or_decoded_completely(data, count):
    for definition, version, _ in VERSIONS.values():
        try:
            columns = decode(definition, version, count, data)
        except DamagedError:
            continue
        assert len(encode_body(definition, to_rows(columns), version)) == len(data)


def _make_extended_schema():
    """Report as a later version might be: one more field with a default, one in another place."""
    schema = json.loads(REPORT.text)
    schema["fields"].insert(0, {"name": "client", "type": "string", "default": ""})
    return fastavro.schema.parse_schema(schema)


def test_blocks_of_an_extended_schema_are_still_read():
    rows = _make_sample(5)
    block = encode_body(REPORT, [{**row, "client": "phone"} for row in rows], _make_extended_schema())
    assert to_rows(decode(REPORT, _make_extended_schema(), 5, block)) == rows
    for position in range(0, len(block), 3):
        damaged = bytearray(block)
        damaged[position] ^= 0x81
        with contextlib.suppress(DamagedError):
            assert len(decode(REPORT, _make_extended_schema(), 5, bytes(damaged))) == 5


def test_a_schema_without_a_needed_field_is_refused():
    schema = json.loads(REPORT.text)
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "cell"]
    parsed = fastavro.schema.parse_schema(schema)
    block = encode_body(REPORT, _make_sample(3), parsed)
    with pytest.raises(DamagedError):
        decode(REPORT, parsed, 3, block)


@pytest.mark.parametrize("definition", [REPORT, REPORT_BATCH], ids=lambda definition: definition.name)
def test_report_files_of_version_1_are_read(definition):
    with (Path(__file__).parent / "golden" / "1" / definition.file.replace("avsc", "avro")).open("rb") as stream:
        header = read_header(stream)
        block = read_block(stream, header.sync)
    columns = decode(definition, header.schema, block.count, bytes(inflate(block.data, header.codec)))
    rows = to_rows(columns)
    if definition is REPORT_BATCH:
        for row in rows:
            row["cell"] = int.from_bytes(row.pop("cells"), "little")
    assert rows == _make_sample(12)


def test_batch_files_of_version_2_are_read():
    with (Path(__file__).parent / "golden" / "2" / "report_batch.avro").open("rb") as stream:
        header = read_header(stream)
        block = read_block(stream, header.sync)
    columns = decode(REPORT_BATCH, header.schema, block.count, bytes(inflate(block.data, header.codec)))
    assert to_rows(columns) == _make_batch_sample(12)


def test_schema_fingerprints_are_golden():
    # Messages in the field carry these: a change of one is a new version of its schema.
    names = {name.hex(): definition.name for name, definition in BY_FINGERPRINT.items()}
    assert names == {
        "8d51ac06d359ba88": "hushgram.Report",
        "f5c4f5368c715f19": "hushgram.ReportBatch",  # version 1, which clients write
        "0580311cd73006ce": "hushgram.ReportBatch",
        "de8ace491189a7f3": "hushgram.Histogram",  # version 1
        "c70c8832deeea172": "hushgram.Histogram",
        "d295ac9764069cca": "hushgram.Histogram",
        "1f4e7e8186349f12": "hushgram.Snapshot",  # version 1
        "ab8aad9bcf1c8cbb": "hushgram.Snapshot",  # version 2
        "998c4c7f25f0b1bd": "hushgram.Snapshot",
        "bafb5b97b5110b6b": "hushgram.Snapshot",
        "a68efb50aa2ae94a": "hushgram.DeadLetter",
    }
    assert revision_number("bee7fcbcb7cce993") == 0xBEE7FCBCB7CCE993
    assert avro_schemas.REPORT_KINDS["hushgram.Report"] is REPORT


@settings(max_examples=60, deadline=None)
@given(st.lists(reports | batches, max_size=8))
def test_a_batch_of_messages_decodes_to_its_records(rows):
    definitions = [REPORT if "cell" in row else REPORT_BATCH for row in rows]
    messages = [encode_message(definition, row) for definition, row in zip(definitions, rows, strict=True)]
    assert [decode_message(message)[0] for message in messages] == definitions
    decoded, refused = decode_reports(messages)
    assert refused == []
    rows_by_place = {
        int(place): row for places, columns in decoded for place, row in zip(places, to_rows(columns), strict=True)
    }
    assert [rows_by_place[index] for index in range(len(rows))] == rows


def encode_first_version(row):
    """A message as clients write it, and as every earlier version of the library did."""
    message = encode_message(REPORT_BATCH, row, bytes.fromhex("f5c4f5368c715f19"))
    assert message == MARKER + bytes.fromhex("f5c4f5368c715f19") + encode_body(REPORT_BATCH, [row], FIRST_BATCH)
    return message


@pytest.mark.parametrize("damaged", [False, True])
def test_messages_of_both_versions_are_read_from_one_poll(damaged):
    """Where one is damaged, they are read message by message."""
    rows = _make_batch_sample(12)
    messages = [encode_first_version(row) if i % 2 else encode_message(REPORT_BATCH, row) for i, row in enumerate(rows)]
    places = range(12)
    if damaged:
        messages[4], messages[5], places = messages[4][:-1], messages[5][:-1], [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    decoded, refused = decode_reports(messages)
    assert [refusal.index for refusal in refused] == ([5, 4] if damaged else [])
    found = {int(place): row for group, columns in decoded for place, row in zip(group, to_rows(columns), strict=True)}
    expected = {place: rows[place] if place % 2 == 0 else {**rows[place], "ids": None} for place in places}
    assert {place: {"ids": None, **row} for place, row in found.items()} == expected
    assert decode_message(messages[1])[1]["ids"] is None


def test_records_of_batches_may_hold_ids():
    row = _make_batch_sample(3)[2]
    assert decode_message(encode_report(row))[1]["ids"] == row["ids"]
    assert decode_message(encode_report({**row, "ids": row["ids"].hex()}))[1]["ids"] == row["ids"]
    assert encode_report({**row, "ids": None}) == encode_first_version({**row, "ids": None}), "as devices write it"
    with pytest.raises(DamagedError, match="ids: got a value of type list, allowed: bytes"):
        encode_report({**row, "ids": [row["ids"]]})


def test_packed_batches_hold_their_cells_and_ids():
    cells, ids = np.array([0, 255, 256, 65_535]), np.arange(64, dtype=np.uint8).reshape(-1, 16)
    batch = pack_batch("commute", "bee7fcbcb7cce993", cells, 2, 5, None, ids)
    record = decode_message(encode_message(REPORT_BATCH, batch))[1]
    assert np.frombuffer(record["cells"], "<u2").tolist() == cells.tolist()
    assert record["ids"] == bytes(range(64))
    assert pack_batch("commute", "bee7fcbcb7cce993", cells, 2, 5)["ids"] is None
    for wrong_ids in (ids[:3], ids.reshape(-1), ids[:0]):
        with pytest.raises(ValueError, match="a row for each cell"):
            pack_batch("commute", "bee7fcbcb7cce993", cells, 2, 5, None, wrong_ids)
    for wrong_cells in (cells + 1, cells - 1):
        with pytest.raises(ValueError, match="what 2 bytes hold"):
            pack_batch("commute", "bee7fcbcb7cce993", wrong_cells, 2, 5)


def test_damaged_messages_cost_only_themselves():
    rows = _make_sample(30)
    messages = [encode_message(REPORT, row) for row in rows]
    messages[3] = messages[3][:-1]
    messages[7] = b""
    messages[11] = MARKER + b"unknownf" + messages[11][10:]
    messages[13] = messages[13] + b"\x00"
    messages[17] = encode_message(avro_schemas.DEAD_LETTER, {
        "reason": "too_old", "reports": 1, "detail": "", "source": "", "position": None, "received_at": 0,
        "payload": b"",
    })  # fmt: skip
    # Cut at the wrong place, but of the right length together: the joined block would decode.
    messages[23] = None
    messages[24] = messages[24] + bytes(LARGEST_MESSAGE)
    messages[20], messages[21] = messages[20] + messages[21][10:20], messages[21][:10] + messages[21][20:]
    decoded, refused = decode_reports(messages)
    places = [int(place) for group, _ in decoded for place in group]
    assert {refusal.reports for refusal in refused} == {None, 1}
    assert {refusal.index: refusal.reason for refusal in refused} == {
        3: "undecodable",
        7: "undecodable",
        11: "undecodable",
        13: "undecodable",
        17: "unknown_schema",
        20: "undecodable",
        21: "undecodable",
        23: "undecodable",
        24: "too_large",
    }
    assert places == [index for index in range(30) if index not in {3, 7, 11, 13, 17, 20, 21, 23, 24}]
    assert [row for _, columns in decoded for row in to_rows(columns)] == [rows[index] for index in places]


@settings(max_examples=80, deadline=None)
@given(st.lists(reports, max_size=12), texts, st.booleans())
def test_columns_are_written_as_the_reference_writer_does(rows, name, with_ids):
    revision = "bee7fcbcb7cce993"
    fixed = {"collection": name, "revision": bytes.fromhex(revision)}
    rows = [{**row, **fixed, "id": (row["id"] or bytes(16)) if with_ids else None} for row in rows]
    labels = tuple(dict.fromkeys(row["group"] for row in rows))
    group = Labels(labels, np.array([labels.index(row["group"]) for row in rows], dtype=np.int64))
    ids = np.frombuffer(b"".join(row["id"] for row in rows), np.uint8).reshape(-1, 16) if with_ids else None
    cells, event_times = (np.array([row[key] for row in rows], dtype=np.int64) for key in ("cell", "event_time"))
    block = encode_reports(name, revision, cells, event_times, group, ids)
    assert block == encode_body(REPORT, rows)
    stream = io.BytesIO()
    write_container(stream, REPORT, [(len(rows), block)] if rows else [])
    stream.seek(0)
    assert [row["cell"] for row in fastavro.reader(stream)] == cells.tolist()
