"""Bodies of requests: every report accepted or refused for its reason, and nothing that a stranger sends does harm."""

import gzip
import io
import json
import random
import zlib

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram import Collection, Windows
from hushgram.manifest.event_times import device_slice
from hushgram.pipelines.collect.bodies import (
    LARGEST_JSON,
    MOST_BLOCKS,
    MOST_ONE_BY_ONE,
    StricterIndex,
    TooLargeError,
    cut_times,
    gunzip,
    judge_file,
    judge_json,
    judge_message,
    judge_messages,
)
from hushgram.schemas.avro_schemas import DEAD_LETTER, REPORT, REPORT_BATCH
from hushgram.schemas.columns import from_records
from hushgram.schemas.container import DamagedError
from hushgram.schemas.messages import encode_message
from hushgram.transforms.collection_index import FUTURE_ALLOWED
from tests.helpers.collectors import COLLECTIONS, HOUR, as_json, make_message, make_row
from tests.helpers.reports import encode_avro_file

INDEX = StricterIndex.of(COLLECTIONS.values())
LIMIT = 1 << 22
NOW = 500_000 * HOUR + 1234
DAY = 24 * HOUR
WRONG = {
    "unknown_collection": {"collection": "nobody"},
    "unknown_revision": {"revision": bytes(8)},
    "cell_out_of_range": {"cell": 10**6},
    "unknown_group": {"group": "XX"},
    "from_the_future": {"event_time": NOW + 3 * HOUR},
    "too_old": {"event_time": NOW - 2 * DAY},
}


def row(number=1, **changes):
    return make_row(number, **{"event_time": NOW - HOUR, **changes})


@pytest.mark.parametrize("reason", WRONG)
def test_what_is_refused_is_refused_for_the_reason_of_dead_letters(reason):
    good, bad = row(1), row(2, **WRONG[reason])
    message = judge_message(INDEX, encode_message(REPORT, bad), NOW)
    listed = judge_json(INDEX, json.dumps([as_json(good), as_json(bad), as_json(bad)]).encode(), NOW)
    filed = judge_file(INDEX, encode_avro_file([good, bad, bad]), NOW, LIMIT)
    for judged, accepted, refused, place in ((message, 0, 1, 0), (listed, 1, 2, 1), (filed, 1, 2, 1)):
        assert judged.reports == accepted
        [refusal] = judged.refused
        assert (refusal.reason, refusal.reports, refusal.place) == (reason, refused, place)
        assert refusal.detail
        assert refusal.collection == (None if reason == "unknown_collection" else "commute")


def test_each_of_many_messages_has_its_own_verdict():
    wrong = list(WRONG)
    messages, expected = [], {}
    for number in range(1536):
        kind = number % 97
        if kind < len(wrong):
            messages.append(encode_message(REPORT, row(number, **WRONG[wrong[kind]])))
            expected[number] = wrong[kind]
        elif kind < 9:
            messages.append(make_message(number)[:-3])
            expected[number] = "undecodable"
        else:
            messages.append(encode_message(REPORT, row(number)))
    accepted, refused = judge_messages(INDEX, messages, NOW)
    assert {number: part.reason for number, part in refused.items()} == expected
    assert sum(part.reports for part in accepted) + len(refused) == len(messages)


windows = st.sampled_from(
    [
        Windows(size=HOUR, every=HOUR),
        Windows(size=DAY, every=DAY, max_age=3 * DAY),
        Windows(size=7 * DAY, every=DAY, max_age=2 * DAY, time_zone="Europe/Berlin"),
        Windows(size=10 * 60_000, every=5 * 60_000, max_age=HOUR),
    ]
)


@given(windows, st.integers(-(2**63), 2**63 - 1) | st.integers(NOW - DAY, NOW))
def test_times_are_cut_to_the_slices_that_devices_use(setting, time):
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, windows=setting)
    index, length = StricterIndex((collection,)), device_slice(setting)[0]
    record = {**row(), "collection": "c", "event_time": time}
    [cut] = cut_times(index, from_records(REPORT, [record])).event_time.tolist()
    if abs(time) < 2**61:
        assert 0 <= time - cut < length
        assert (cut - device_slice(setting)[1]) % length == 0
        again = cut_times(index, from_records(REPORT, [{**record, "event_time": cut}]))
        assert again.event_time.tolist() == [cut]


def test_a_report_that_would_become_too_old_on_its_way_is_refused_here():
    oldest = NOW - DAY  # cut to the hour it lies before that
    limits = {oldest + 2 * HOUR: 1, oldest: 0, NOW + FUTURE_ALLOWED: 1}
    for time, accepted in limits.items():
        assert judge_message(INDEX, encode_message(REPORT, row(event_time=time)), NOW).reports == accepted
    # Exactly a minute before it is too old where it is counted.
    edge = NOW // HOUR * HOUR - 23 * HOUR
    message = encode_message(REPORT, row(event_time=edge))
    assert judge_message(INDEX, message, edge + DAY - 60_000).reports == 1
    assert judge_message(INDEX, message, edge + DAY - 59_999).reports == 0


def test_batches_are_accepted_whole_with_their_ids():
    cells = np.arange(10, dtype="<u2").tobytes()
    batch = {**row(name="age"), "cells": cells, "ids": None}
    for body in (encode_message(REPORT_BATCH, batch),):
        judged = judge_message(INDEX, body, NOW)
        assert (judged.reports, judged.refused) == (10, ())
    assert judge_file(INDEX, encode_avro_file([batch, batch], REPORT_BATCH), NOW, LIMIT).reports == 20
    [refusal] = judge_message(INDEX, encode_message(REPORT_BATCH, {**batch, "cells": cells[:-1]}), NOW).refused
    assert refusal.reason == "ragged_cells"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[", b"{}", b"[]", b"null", b"[null]", b"3", b'"x"', b"[" * 100_000, b'{"a":' * 100_000),
        *(b"\xff\xfe{", b"[" + b"9" * 5000 + b"]", b'{"collection": 3}', b"NaN"),
    ],
    ids=lambda body: repr(body[:12]),
)
def test_json_that_is_no_report_is_refused(body):
    judged = judge_json(INDEX, body, NOW)
    assert judged.reports == 0
    assert {part.reason for part in judged.refused} == {"undecodable"}


def test_json_that_would_take_much_memory_is_refused_before_it_is_parsed():
    with pytest.raises(TooLargeError):
        judge_json(INDEX, b" " * (LARGEST_JSON + 1), NOW)


def test_json_of_more_reports_than_fit_into_the_limit_is_refused_before_they_are_looked_at():
    """A list of zeros is two bytes for each of what takes as long as a report."""
    with pytest.raises(TooLargeError, match="reports in JSON"):
        judge_json(INDEX, json.dumps([0] * (MOST_ONE_BY_ONE + 1)).encode(), NOW)
    shortest = {"collection": "c", "revision": "0" * 16, "cell": 0, "event_time": 1_767_225_600_000}
    assert len(json.dumps(shortest, separators=(",", ":"))) * MOST_ONE_BY_ONE > LARGEST_JSON


def test_a_file_of_very_many_collections_is_decoded():
    rows = [row(1, collection=f"c{number}") for number in range(20_000)]
    [refusal] = judge_file(INDEX, encode_avro_file(rows), NOW, LIMIT).refused
    assert (refusal.reason, refusal.reports) == ("unknown_collection", 20_000)


def test_a_file_of_more_batches_under_ids_than_can_be_kept_at_once_is_refused():
    batch = {**row(), "cells": b"\1\2", "ids": None}
    rows = [batch] * MOST_ONE_BY_ONE
    assert judge_file(INDEX, encode_avro_file(rows, REPORT_BATCH), NOW, LIMIT).reports == 2 * MOST_ONE_BY_ONE
    with pytest.raises(TooLargeError, match="batches"):
        judge_file(INDEX, encode_avro_file([*rows, batch], REPORT_BATCH), NOW, LIMIT)
    many = [*rows, {**batch, "id": None}]
    assert judge_file(INDEX, encode_avro_file(many, REPORT_BATCH), NOW, LIMIT).reports == 2 * MOST_ONE_BY_ONE + 2


def test_refusals_are_charged_to_their_own_collections_in_files_as_in_json():
    rows = [
        *(row(1, cell=10**6), row(2, name="age"), row(3, name="age", cell=10**6), row(4, cell=10**6)),
        *(row(5, collection="x"), row(6, collection="y"), row(7, group="XX")),
    ]
    expected = {
        ("cell_out_of_range", "commute", 2, 0),
        ("cell_out_of_range", "age", 1, 2),
        ("unknown_collection", None, 2, 4),
        ("unknown_group", "commute", 1, 6),
    }
    listed = judge_json(INDEX, json.dumps([as_json(part) for part in rows]).encode(), NOW)
    filed = judge_file(INDEX, encode_avro_file(rows), NOW, LIMIT)
    for judged in (listed, filed):
        assert {(part.reason, part.collection, part.reports, part.place) for part in judged.refused} == expected
        assert len(judged.refused) == 4


def test_a_detail_never_quotes_a_value_of_json():
    record = {**as_json(row()), "cell": "a person's own number"}
    [refusal] = judge_json(INDEX, json.dumps(record).encode(), NOW).refused
    assert "person" not in refusal.detail


def test_random_bytes_and_damaged_files_are_refused_and_never_raise():
    rng = random.Random(3)
    whole = encode_avro_file([row(number) for number in range(50)], sync=200)
    message = encode_message(REPORT, row())
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        cut = whole[: rng.randrange(len(whole))]
        for body in (rng.randbytes(rng.randint(0, 200)), bytes(damaged), cut):
            judged = judge_file(INDEX, body, NOW, LIMIT)
            assert judged.reports <= 50
            assert judged.reports == 50 or judged.refused
        damaged = bytearray(message)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        for body in (rng.randbytes(rng.randint(0, 60)), bytes(damaged), message[: rng.randrange(len(message))]):
            judged = judge_message(INDEX, body, NOW)
            assert judged.reports + len(judged.refused) == 1


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy"])
def test_files_of_every_codec_are_read_within_the_limit(codec):
    rows = [row(number, group="DE") for number in range(500)]
    body = encode_avro_file(rows, codec=codec)
    assert judge_file(INDEX, body, NOW, LIMIT).reports == 500
    with pytest.raises(TooLargeError):
        judge_file(INDEX, body, NOW, 10_000)


def test_a_block_that_is_a_bomb_is_refused_before_it_bursts():
    stream = io.BytesIO()
    fastavro.writer(stream, REPORT.parsed, [], codec="deflate", sync_marker=b"s" * 16)
    packer = zlib.compressobj(wbits=-15)
    data = packer.compress(bytes(200 << 20)) + packer.flush()
    from hushgram.schemas.container import write_long

    body = stream.getvalue() + write_long(10_000_000) + write_long(len(data)) + data + b"s" * 16
    with pytest.raises(TooLargeError):
        judge_file(INDEX, body, NOW, LIMIT)


def test_a_file_of_many_tiny_blocks_is_decoded_at_once_and_of_too_many_refused():
    rows = [row(number) for number in range(MOST_BLOCKS)]
    assert judge_file(INDEX, encode_avro_file(rows, codec="null", sync=1), NOW, LIMIT).reports == MOST_BLOCKS
    judged = judge_file(INDEX, encode_avro_file([*rows, rows[0]], codec="null", sync=1), NOW, LIMIT)
    assert (judged.reports, judged.refused[0].reason) == (0, "undecodable")


def test_a_file_with_a_schema_of_its_own_is_refused_unread():
    """One that describes an array of nulls would take any amount of memory for a few bytes."""
    bomb = {
        **REPORT.parsed,
        "fields": [*REPORT.parsed["fields"], {"name": "x", "type": {"type": "array", "items": "null"}}],
    }
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(bomb), [{**row(), "x": []}])
    letter = {"reason": "too_old", "reports": 1, "detail": "", "source": "", "position": None, "payload": b""}
    for body in (stream.getvalue(), encode_avro_file([{**letter, "received_at": 0}], DEAD_LETTER)):
        judged = judge_file(INDEX, body, NOW, LIMIT)
        assert (judged.reports, judged.refused[0].reason) == (0, "unknown_schema")


def test_gzip_is_read_within_the_limit_and_only_as_a_whole():
    packed = gzip.compress(b"x" * 1000)
    assert gunzip(packed, 1000) == b"x" * 1000
    with pytest.raises(TooLargeError):
        gunzip(packed, 999)
    with pytest.raises(TooLargeError):
        gunzip(gzip.compress(bytes(100 << 20)), LIMIT)
    for damaged in (packed[:-1], packed + b"more", b"", b"junk", packed[:5] + b"\xff" * 20):
        with pytest.raises(DamagedError):
            gunzip(damaged, 1000)
