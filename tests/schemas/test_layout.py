"""Records are followed from the bytes alone: blocks that are whole, none that is not, and no panic on the way."""

import io
import itertools
import random

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection
from hushgram.schemas import layout
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH, field_names
from hushgram.schemas.columns import decode
from hushgram.schemas.container import SYNC_SIZE, DamagedError
from hushgram.schemas.layout import can_be_followed
from hushgram.schemas.messages import MARKER, decode_reports, encode_message
from tests.helpers.reports import make_batch_rows, make_report_rows

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


def can_follow(schema, records, lengths_known, count=None):
    data, lengths = b"".join(records), np.array([len(record) for record in records])
    count = len(records) if count is None else count
    padded = data + bytes(SYNC_SIZE)
    return can_be_followed(padded, len(data), count, field_names(schema), lengths if lengths_known else None)


def test_the_record_layout_is_that_of_the_schemas():
    """The fields that `ends` goes through: a new one must be added there, or every block takes the slow way."""
    first, last = ("collection", "revision"), ("event_time", "group", "id")
    assert field_names(REPORT.parsed) == (*first, "cell", *last)
    assert field_names(FIRST_BATCH) == (*first, "cells", *last)
    assert field_names(BATCH) == (*first, "cells", *last, "ids")
    assert layout.PADDING <= SYNC_SIZE


texts = st.text(max_size=3) | st.sampled_from(["", "x" * 63, "x" * 64, "ü" * 5000])
longs = st.integers(-(2**54), 2**54 - 1)  # of up to eight bytes
common_fields = {
    "collection": texts,
    "revision": st.binary(min_size=8, max_size=8),
    "event_time": longs,
    "group": st.none() | texts,
    "id": st.none() | st.binary(min_size=16, max_size=16),
}
reports = st.fixed_dictionaries({**common_fields, "cell": longs})
batches = st.fixed_dictionaries(
    {**common_fields, "cells": st.binary(max_size=300), "ids": st.none() | st.binary(max_size=300)}
)


records_of_a_kind = st.one_of(
    st.tuples(st.just(REPORT), st.just(REPORT.parsed), st.lists(reports, min_size=1, max_size=9)),
    st.tuples(st.just(REPORT_BATCH), st.sampled_from([FIRST_BATCH, BATCH]), st.lists(batches, min_size=1, max_size=9)),
)


@given(records_of_a_kind, st.integers(1, 20))
@settings(max_examples=50)
def test_records_of_every_kind_are_followed_where_lengths_are_known_and_decoded_anyway(kind, times):
    """Where they are not, zeros for example look like a beginning everywhere; then the slow way is taken."""
    definition, schema, rows = kind
    records = encode_records(schema, rows) * times
    assert can_follow(schema, records, lengths_known=True)
    assert len(decode(definition, schema, len(records), b"".join(records))) == len(records)
    for lengths_known, count in itertools.product((True, False), (len(records) - 1, len(records) + 1)):
        assert not can_follow(schema, records, lengths_known, count)


def test_collections_one_after_the_other_and_all_mixed_up_are_followed():
    others = [Collection(name=f"c{n}", low=0, high=1, buckets=4, epsilon=1) for n in range(6)]
    records = [record for other in others for record in encode_records(REPORT.parsed, make_report_rows(other, 400, 1))]
    assert can_follow(REPORT.parsed, records, False)
    random.Random(1).shuffle(records)
    assert can_follow(REPORT.parsed, records, False)


def test_records_that_cannot_be_followed_quickly_are_decoded_slowly():
    """Every record of a collection of its own, and times that take more than eight bytes."""
    rows = [{**ROWS[0], "collection": f"c{number}"} for number in range(1000)]
    records = encode_records(REPORT.parsed, rows)
    assert not can_follow(REPORT.parsed, records, False)
    assert len(decode(REPORT, REPORT.parsed, len(rows), b"".join(records))) == len(rows)
    far = encode_records(REPORT.parsed, [ROWS[0], {**ROWS[1], "event_time": 2**62}])
    assert not can_follow(REPORT.parsed, far, False)
    assert decode(REPORT, REPORT.parsed, 2, b"".join(far)).event_time.tolist() == [ROWS[0]["event_time"], 2**62]
    decoded, refused = decode_reports([encode_message(REPORT, {**ROWS[1], "event_time": 2**62})])
    assert (decoded[0][1].event_time.tolist(), refused) == ([2**62], [])


def test_a_record_in_which_another_seems_to_begin_is_followed():
    """Whoever makes cells and ids may write the beginning of a record into them."""
    [row] = make_batch_rows(COLLECTION, ROWS[:3], 3)
    [record] = encode_records(BATCH, [row])
    records = encode_records(BATCH, [{**row, "cells": record * 50}, {**row, "ids": record * 50}, row] * 50)
    assert len(decode(REPORT_BATCH, BATCH, 150, b"".join(records))) == 150


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_messages_and_blocks_print_nothing(kind, capfd):
    """Native code writes a panic to the terminal even if it is caught: hundreds of lines where backtraces are on.

    Seeded. Before records were followed, one in six of these panicked.
    """
    definition, schema, rows = KINDS[kind]
    records, rng, refused = encode_records(schema, rows), random.Random(1), 0
    prefix = MARKER + next(name for name, version in definition.versions.items() if version is schema)
    for _ in range(40):
        damaged_records = list(records)
        index = rng.randrange(len(damaged_records))
        damaged_records[index] = damage_record(damaged_records[index], rng)
        refused += len(decode_reports([prefix + record for record in damaged_records])[1])
        try:
            decode(definition, schema, len(damaged_records), b"".join(damaged_records))
        except DamagedError:
            refused += 1
    assert refused > 30
    assert capfd.readouterr() == ("", "")
