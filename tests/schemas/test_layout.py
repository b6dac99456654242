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
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.columns import decode
from hushgram.schemas.container import SYNC_SIZE, DamagedError
from hushgram.schemas.layout import can_be_followed
from hushgram.schemas.messages import decode_reports, encode_message
from tests.helpers.reports import make_batch_rows, make_report_rows

COLLECTION = Collection(name="c", low=0, high=1, buckets=4, epsilon=1, groups=("DE", "FR"))
ROWS = make_report_rows(COLLECTION, 30, 1, ids=True) + make_report_rows(COLLECTION, 30, 2)
KINDS = {"reports": (REPORT, ROWS), "batches": (REPORT_BATCH, make_batch_rows(COLLECTION, ROWS))}


def bodies(definition, rows):
    made = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, definition.parsed, row)
        made.append(stream.getvalue())
    return made


def followed(definition, parts, known, count=None):
    data, lengths = b"".join(parts), np.array([len(part) for part in parts])
    count = len(parts) if count is None else count
    padded = data + bytes(SYNC_SIZE)
    return can_be_followed(padded, len(data), count, definition is REPORT_BATCH, lengths if known else None)


def test_the_layout_is_that_of_the_schemas():
    """What `ends` goes through; a field more, and it must go through that, or every block takes the slow way."""
    for definition, cells in ((REPORT, "cell"), (REPORT_BATCH, "cells")):
        fields = definition.undated["fields"]
        assert [field["name"] for field in fields] == ["collection", "revision", cells, "event_time", "group", "id"]
    assert layout.PADDING <= SYNC_SIZE


texts = st.text(max_size=3) | st.sampled_from(["", "x" * 63, "x" * 64, "ü" * 5000])
longs = st.integers(-(2**54), 2**54 - 1)  # of up to eight bytes
same = {
    "collection": texts,
    "revision": st.binary(min_size=8, max_size=8),
    "event_time": longs,
    "group": st.none() | texts,
    "id": st.none() | st.binary(min_size=16, max_size=16),
}
reports = st.fixed_dictionaries({**same, "cell": longs})
batches = st.fixed_dictionaries({**same, "cells": st.binary(max_size=300)})


rows_of_a_kind = st.one_of(
    st.tuples(st.just(REPORT), st.lists(reports, min_size=1, max_size=9)),
    st.tuples(st.just(REPORT_BATCH), st.lists(batches, min_size=1, max_size=9)),
)


@given(rows_of_a_kind, st.integers(1, 20))
@settings(max_examples=50)
def test_records_of_every_kind_are_followed_where_lengths_are_known_and_decoded_anyway(kind, times):
    """Where they are not, zeros for example look like a beginning everywhere; then the slow way is taken."""
    definition, rows = kind
    parts = bodies(definition, rows) * times
    assert followed(definition, parts, known=True)
    assert len(decode(definition, definition.parsed, len(parts), b"".join(parts))) == len(parts)
    for known, wrong in itertools.product((True, False), (len(parts) - 1, len(parts) + 1)):
        assert not followed(definition, parts, known, wrong)


def test_collections_one_after_the_other_and_all_mixed_up_are_followed():
    others = [Collection(name=f"c{n}", low=0, high=1, buckets=4, epsilon=1) for n in range(6)]
    parts = [part for other in others for part in bodies(REPORT, make_report_rows(other, 400, 1))]
    assert followed(REPORT, parts, False)
    random.Random(1).shuffle(parts)
    assert followed(REPORT, parts, False)


def test_what_cannot_be_followed_quickly_is_decoded_slowly():
    """Every record of a collection of its own, and times that take more than eight bytes."""
    rows = [{**ROWS[0], "collection": f"c{number}"} for number in range(1000)]
    parts = bodies(REPORT, rows)
    assert not followed(REPORT, parts, False)
    assert len(decode(REPORT, REPORT.parsed, len(rows), b"".join(parts))) == len(rows)
    far = bodies(REPORT, [ROWS[0], {**ROWS[1], "event_time": 2**62}])
    assert not followed(REPORT, far, False)
    assert decode(REPORT, REPORT.parsed, 2, b"".join(far)).event_time.tolist() == [ROWS[0]["event_time"], 2**62]
    decoded, refused = decode_reports([encode_message(REPORT, {**ROWS[1], "event_time": 2**62})])
    assert (decoded[0][1].event_time.tolist(), refused) == ([2**62], [])


def test_a_record_in_which_another_seems_to_begin_is_followed():
    """Whoever makes cells may write the beginning of a record into them."""
    [row] = make_batch_rows(COLLECTION, ROWS[:3], 3)
    [part] = bodies(REPORT_BATCH, [row])
    parts = bodies(REPORT_BATCH, [{**row, "cells": part * 50}, row] * 50)
    assert len(decode(REPORT_BATCH, REPORT_BATCH.parsed, 100, b"".join(parts))) == 100


def damaged(part, rng):
    place = rng.randrange(len(part))
    return rng.choice(
        [
            part[:place],
            part[:place] + bytes([part[place] ^ 1 << rng.randrange(8)]) + part[place + 1 :],
            part[:place] + rng.randbytes(len(part) - place),
            part[:place] + b"\xff" * rng.randrange(1, 12) + part[place:],
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_messages_and_blocks_print_nothing(kind, capfd):
    """A panic is written to the terminal by native code, whoever catches it: hundreds of lines where backtraces are on.

    Seeded. Before records were followed, one in six of these panicked.
    """
    definition, rows = KINDS[kind]
    parts, rng, refused = bodies(definition, rows), random.Random(1), 0
    prefix = encode_message(definition, rows[0])[:10]
    for _ in range(40):
        hurt = list(parts)
        place = rng.randrange(len(hurt))
        hurt[place] = damaged(hurt[place], rng)
        refused += len(decode_reports([prefix + part for part in hurt])[1])
        try:
            decode(definition, definition.parsed, len(hurt), b"".join(hurt))
        except DamagedError:
            refused += 1
    assert refused > 30
    assert capfd.readouterr() == ("", "")
