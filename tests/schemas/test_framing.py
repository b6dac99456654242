"""Messages that name their schema by an id: read as those that name a fingerprint, and bounded if it is hostile."""

import json

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.framing import BY_GUID, ID_HEADER, frame, id_in_headers, parse_id
from hushgram.schemas.messages import (
    LARGEST_MESSAGE,
    MARKER,
    PREFIX,
    Unusable,
    decode_reports,
    encode_message,
    reframe,
)
from hushgram.schemas.resolution import LARGEST_SCHEMA, UnusableSchemaError, parse_writer
from tests.helpers.reports import make_batch_rows, make_report_rows
from tests.helpers.schemas import encode_foreign, older_report, with_field

COLLECTION = Collection(name="commute", low=0, high=180, epsilon=1.0, groups=("DE", "FR"))
ROWS = [*make_report_rows(COLLECTION, 40, 1), *make_report_rows(COLLECTION, 40, 2, ids=True)]
BATCHES = make_batch_rows(COLLECTION, ROWS)
SINGLE = [encode_message(REPORT, row) for row in ROWS] + [encode_message(REPORT_BATCH, batch) for batch in BATCHES]
GUID = BY_GUID + bytes(range(16))
SCHEMAS = {
    frame(7): parse_writer(REPORT.text),
    frame(2**32 - 1): parse_writer(REPORT_BATCH.text),
    GUID: parse_writer(REPORT.text),
    frame(9): Unusable("unknown_schema", "schema id 9, which the registry does not have"),
}
FRAMES = {MARKER + REPORT.fingerprint: frame(7), MARKER + REPORT_BATCH.fingerprint: frame(2**32 - 1)}


def read_rows(messages, schemas=None, ids=None):
    """By place in the poll what a message says, and the refusals."""
    decoded, refused = decode_reports(messages, schemas and schemas.__getitem__, ids)
    rows = {}
    for places, columns in decoded:
        cells = columns.packed if columns.cells is None else columns.cells.tolist()
        groups = [columns.group.names[code] for code in columns.group.codes]
        each = zip(places.tolist(), cells, groups, columns.event_time.tolist(), columns.id.tolist(), strict=True)
        rows |= {place: rest for place, *rest in each}
    return rows, {part.index: (part.reason, part.detail) for part in refused}


def expected_rows():
    return read_rows(SINGLE)[0]


@settings(max_examples=20)
@given(st.lists(st.booleans(), min_size=len(SINGLE), max_size=len(SINGLE)), st.randoms())
def test_framed_messages_say_what_single_object_messages_say_in_any_mixture(framed, random):
    messages = [reframe(m, FRAMES) if is_framed else m for m, is_framed in zip(SINGLE, framed, strict=True)]
    order = list(range(len(messages)))
    random.shuffle(order)
    rows, refused = read_rows([messages[place] for place in order], SCHEMAS)
    assert not refused
    assert {order[place]: row for place, row in rows.items()} == expected_rows()


@pytest.mark.parametrize("schema_id", [frame(7), GUID])
def test_an_id_in_a_header_goes_before_what_the_message_begins_with(schema_id):
    bodies = [message[PREFIX:] for message in SINGLE[: len(ROWS)]]
    rows, refused = read_rows(bodies, SCHEMAS, [schema_id] * len(bodies))
    assert not refused
    assert rows == {place: row for place, row in expected_rows().items() if place < len(ROWS)}
    _, refused = read_rows(SINGLE[:1], SCHEMAS, [schema_id])
    assert refused[0][0] == "undecodable"


def test_ids_in_headers_have_the_forms_that_producers_write():
    assert id_in_headers(None) is None
    assert id_in_headers([("other", b"\0\0\0\7")]) is None
    for value in (b"\0\0\0\7", b"\0\0\0\0\7"):
        assert parse_id(id_in_headers([(ID_HEADER, value)])) == 7
    assert str(parse_id(id_in_headers([(ID_HEADER, GUID)]))) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    for value in (None, b"", b"\0", b"\2\0\0\0\7", GUID + b"\0", b"7"):
        assert parse_id(id_in_headers([(ID_HEADER, value)])) is None


def test_an_unknown_id_refuses_its_messages_only():
    messages = [reframe(SINGLE[0], FRAMES), frame(9) + b"anything", SINGLE[1], None, frame(7) + bytes(LARGEST_MESSAGE)]
    rows, refused = read_rows(messages, SCHEMAS)
    assert sorted(rows) == [0, 2]
    assert refused[1] == ("unknown_schema", "schema id 9, which the registry does not have")
    assert [refused[place][0] for place in (3, 4)] == ["undecodable", "too_large"]
    _, refused = read_rows([b"x"], SCHEMAS, [frame(9)])
    assert refused == {0: ("unknown_schema", "schema id 9, which the registry does not have")}


def test_without_a_registry_a_framed_message_is_refused_with_advice():
    [(reason, detail)] = read_rows([reframe(SINGLE[0], FRAMES)])[1].values()
    assert reason == "undecodable"
    assert "schema id 7" in detail
    assert "--schema-registry" in detail


@given(st.integers(0, len(ROWS) - 1), st.binary(max_size=30))
def test_a_damaged_framed_message_does_not_damage_its_neighbours(place, damage):
    messages = [reframe(message, FRAMES) for message in SINGLE[: len(ROWS)]]
    messages[place] = frame(7) + damage
    rows, refused = read_rows(messages, SCHEMAS)
    assert {index: row for index, row in rows.items() if index != place} == {
        index: row for index, row in expected_rows().items() if index < len(ROWS) and index != place
    }
    assert set(refused) <= {place}


NEWER = with_field(REPORT.text, {"name": "battery", "type": ["null", "int"], "default": None})


@pytest.mark.parametrize("text", [older_report(), NEWER], ids=["older", "newer"])
def test_other_versions_are_resolved_into_ours(text):
    schemas = {frame(3): parse_writer(text)}
    rows, refused = read_rows([frame(3) + encode_foreign(text, row) for row in ROWS[:40]], schemas)
    assert not refused
    groups = [row["group"] if text == NEWER else None for row in ROWS[:40]]
    assert [row[:3] for row in rows.values()] == [
        [row["cell"], group, row["event_time"]] for row, group in zip(ROWS[:40], groups, strict=True)
    ]


@given(st.integers(0, 39), st.integers(-3, 3).filter(bool))
def test_resolved_records_must_end_where_their_messages_do(place, shift):
    """Or a message that is too short would take from the next."""
    bodies = [encode_foreign(NEWER, {**row, "battery": 3}) for row in ROWS[:40]]
    bodies[place] = bodies[place][:shift] if shift < 0 else bodies[place] + bytes(shift)
    rows, refused = read_rows([frame(3) + body for body in bodies], {frame(3): parse_writer(NEWER)})
    assert set(refused) == {place}
    assert [rows[index][0] for index in sorted(rows)] == [
        row["cell"] for index, row in enumerate(ROWS[:40]) if index != place
    ]


NESTED = {"type": "record", "name": "Nested", "fields": [{"name": "more", "type": ["null", "Nested"]}]}
DOUBLED = "null"
for level in range(30):
    parts = [{"name": "a", "type": DOUBLED}, {"name": "b", "type": f"L{level - 1}" if level else "null"}]
    DOUBLED = {"type": "record", "name": f"L{level}", "fields": parts}
UNUSABLE = {
    "no JSON": "{",
    "no schema": "{}",
    "a number": "7",
    "a union": json.dumps(["null", json.loads(REPORT.text)]),
    "another record": REPORT.text.replace('"Report"', '"Reports"'),
    "unknown type": with_field(REPORT.text, {"name": "more", "type": "nothing"}),
    "recursive": with_field(REPORT.text, {"name": "more", "type": NESTED}),
    "doubled": with_field(REPORT.text, {"name": "more", "type": DOUBLED}),
    "nulls without end": with_field(REPORT.text, {"name": "more", "type": {"type": "array", "items": "null"}}),
    "array of records": with_field(
        REPORT.text, {"name": "more", "type": {"type": "map", "values": {**NESTED, "fields": []}}}
    ),
    "nested text": "[" * 30_000,
    **{
        f"fixed of {size}": with_field(
            REPORT.text, {"name": "more", "type": {"type": "fixed", "name": "F", "size": "SIZE"}}
        ).replace('"SIZE"', size)
        for size in ('"abc"', "null", "[1]", "1e400", "-1", "true")
    },
    "microseconds": REPORT.text.replace("timestamp-millis", "timestamp-micros"),
    "microseconds in a newer version": NEWER.replace("timestamp-millis", "timestamp-micros"),
    "huge": REPORT.text + " " * LARGEST_SCHEMA,
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
def test_a_schema_that_could_cost_more_than_its_message_is_not_used(text):
    with pytest.raises(UnusableSchemaError) as error:
        parse_writer(text)
    assert len(str(error.value)) < 300


def test_a_schema_with_plain_lists_is_used():
    text = with_field(REPORT.text, {"name": "more", "type": {"type": "array", "items": "long"}, "default": []})
    body = encode_foreign(text, {**ROWS[0], "more": [1, 2, 3]})
    rows, refused = read_rows([frame(3) + body], {frame(3): parse_writer(text)})
    assert not refused
    assert rows[0][0] == ROWS[0]["cell"]
    claimed = body[:-5] + fastavro_long(2**40) + body[-4:]
    assert read_rows([frame(3) + claimed], {frame(3): parse_writer(text)})[1]


def fastavro_long(number):
    import io

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    return stream.getvalue()


def test_a_schema_with_our_layout_and_other_words_is_decoded_as_columns(monkeypatch):
    """Docs and Java's properties do not change the layout, and so not the speed."""
    schema = json.loads(REPORT.text)
    schema["doc"] = "of another team"
    schema["fields"][0]["type"] = {"type": "string", "avro.java.string": "String"}
    monkeypatch.setattr("hushgram.schemas.columns._resolved", None)
    schemas = {frame(7): parse_writer(json.dumps(schema))}
    rows, refused = read_rows([reframe(message, FRAMES) for message in SINGLE[: len(ROWS)]], schemas)
    assert not refused
    assert np.array_equal([row[0] for row in rows.values()], [row["cell"] for row in ROWS])


def test_each_id_of_a_poll_is_looked_up_once():
    asked = []

    def look_up(named):
        asked.append(named)
        return SCHEMAS[named]

    framed = [reframe(message, FRAMES) for message in SINGLE]
    decode_reports([*framed, *([frame(9) + b"x"] * 5), *SINGLE, b"\0\0\0"], look_up)
    assert sorted(asked) == sorted([frame(7), frame(9), frame(2**32 - 1)])
