"""The benchmarks of ids measure what they say: sets that agree with the product, and messages with ids of their own."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.ids import SetsOfIds, batches_of, fill, ids_to_know, time_batches, time_forgetting
from benchmarks.streams import encode_messages, repeat_messages
from hushgram import Collection
from hushgram.schemas.columns import ID_BYTES
from hushgram.schemas.messages import decode_reports
from hushgram.transforms.seen_ids import EXPIRY, SeenIds


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5000)), max_size=100), max_size=6))
def test_sets_and_arrays_know_the_same_ids(batches):
    sets, arrays = SetsOfIds(1000), SeenIds(1000)
    for batch in batches:
        ids = np.array([(number % 3, number) for number, _ in batch], dtype=np.uint64).reshape(-1, 2)
        expiries = np.array([expiry for _, expiry in batch], dtype=np.int64)
        (expected, old_chunks), (is_new, chunks) = sets.add(ids, expiries), arrays.add(ids, expiries)
        assert is_new.tolist() == expected.tolist()
        assert sorted(map(len, chunks)) == sorted(map(len, old_chunks))


def test_what_is_filled_knows_as_many_ids_as_it_should():
    seen, size, most = fill(SeenIds, 25_000)
    assert len(seen) == 25_000
    assert 16 <= size <= 24 <= most
    assert seen.add(np.concatenate(list(ids_to_know(25_000))), np.zeros(25_000, dtype=np.int64))[0].sum() == 0


def test_batches_have_the_share_of_known_ids_that_they_should():
    known = np.concatenate(list(ids_to_know(1000)))
    for share, expected in ((0.0, 30), (0.5, 15), (1.0, 0)):
        seen, *_ = fill(SeenIds, 1000)
        batch = next(batches_of(30, share, known, np.random.default_rng(3)))
        assert batch.new == expected
        time_batches(seen, [batch])  # which asserts that as many are new


def test_sets_and_arrays_forget_the_same_ids_and_write_down_the_others():
    left = []
    for kind in (SetsOfIds, SeenIds):
        seen, *_ = fill(kind, 20_000)
        time_forgetting(seen, 3000)
        left.append(sorted(chunk[: EXPIRY.size] + bytes(one) for chunk in seen.chunks() for one in ids_in(chunk)))
    assert left[0] == left[1]
    assert len(left[0]) == 10_000


def ids_in(chunk):
    return np.frombuffer(chunk[EXPIRY.size :], dtype=np.uint8).reshape(-1, ID_BYTES)


def test_repeated_batches_have_ids_of_their_own_and_the_same_reports():
    commute = Collection(name="commute", low=0, high=180, buckets=16, epsilon=1)
    messages = encode_messages(commute, 3000, packed=True, ids=True)
    [(_, once)], _ = decode_reports(messages)
    [(_, columns)], refused = decode_reports(list(repeat_messages(messages, 3, fresh_ids=True)))
    assert refused == []
    assert columns.packed == 3 * once.packed
    assert columns.has_id.all()
    assert len(np.unique(columns.id, axis=0)) == 3 * len(messages)
    assert list(repeat_messages(messages, 2, fresh_ids=False)) == 2 * messages
