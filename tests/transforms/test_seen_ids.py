"""Ids that came before are known until they expire, however they come, are saved and are loaded: against a dict."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram.transforms import seen_ids
from hushgram.transforms.seen_ids import SeenIds, SortedIds

SMALL = {"CHUNK_IDS": 3, "FEW": 2, "RECENT": 4, "LEAST": 2, "RATIO": 2}
"""Few ids go every way that many would."""

# Halves that are equal, next to each other, or at the ends, as devices may choose them.
halves = st.sampled_from([0, 1, 2, 2**63, 2**64 - 2, 2**64 - 1])
numbers = st.builds(lambda high, low: high * 2**64 + low, halves, halves)
batches = st.lists(st.tuples(numbers, st.integers(-30, 30)), max_size=8)
steps = st.lists(st.one_of(batches, st.integers(-40, 60), st.just("reload"), st.just("compact")), max_size=20)


def make_ids(numbers):
    """Ids as columns hold them."""
    return np.array([divmod(number, 2**64) for number in numbers], dtype=np.uint64).reshape(-1, 2)


@pytest.mark.parametrize("limits", [SMALL, {**SMALL, "FEW": 0}, {**SMALL, "CHUNK_IDS": 1, "FEW": 99}, {}])
@settings(max_examples=150, deadline=None)
@given(steps, st.integers(1, 9))
def test_ids_are_known_until_they_expire_however_they_are_saved_and_loaded(limits, actions, grain):
    expected_ids, seen, saved = {}, SeenIds(grain), []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(seen_ids, name, value)
        for step in actions:
            if step == "reload":
                seen = SeenIds(grain, reversed(saved))
            elif step == "compact":
                saved = list(seen.chunks())
                assert all(0 < len(chunk) - 8 <= 16 * seen_ids.CHUNK_IDS for chunk in saved)
            elif isinstance(step, int):
                seen.forget(step)
                saved = list(seen.chunks())
                expected_ids = {id_: expiry for id_, expiry in expected_ids.items() if expiry > step}
            else:
                expected = []
                for number, expiry in step:
                    expected.append(number not in expected_ids)
                    while expiry % grain:
                        expiry += 1
                    expected_ids.setdefault(number, expiry)
                is_new, chunks = seen.add(
                    make_ids(number for number, _ in step), np.array([e for _, e in step], dtype=np.int64)
                )
                saved += chunks
                assert is_new.tolist() == expected
            assert len(seen) == len(expected_ids)
            assert seen.next_expiry == min(expected_ids.values(), default=None)


@pytest.mark.parametrize("bits", [2, 8, 64])
def test_many_ids_are_the_members_of_a_set(bits):
    """Of two bits each half is one of four numbers, so that most ids share theirs."""
    rng, seen, members, everything = np.random.default_rng(bits), SeenIds(1000), set(), []
    for count in [1, 3000, 7, 20_000, 64, 65, 40_000, 1, 500] + 40 * [50]:
        ids = rng.integers(0, 2**bits - 1, (count, 2), dtype=np.uint64, endpoint=True)
        is_new, chunks = seen.add(ids, rng.integers(0, 9000, count))
        pairs = list(map(tuple, ids.tolist()))
        assert set(map(tuple, ids[is_new].tolist())) == set(pairs) - members
        assert int(is_new.sum()) == len(set(pairs) - members)
        members.update(pairs)
        everything += chunks
        assert len(seen) == len(members)
    for known in (seen, SeenIds(1000, everything), SeenIds(1000, seen.chunks())):
        assert len(known) == len(members)
        is_new, _ = known.add(np.array(list(members), dtype=np.uint64), np.zeros(len(members), dtype=np.int64))
        assert not is_new.any()


@given(st.lists(numbers, min_size=1, unique=True), st.lists(numbers))
def test_an_id_is_found_at_its_place_in_the_order(members, others):
    ids = make_ids(members)
    array = SortedIds.of(ids, np.arange(len(ids), dtype=np.uint32))
    asked = make_ids(others)
    places, found = array.find(asked[:, 0], asked[:, 1])
    assert places.tolist() == [sum(member < other for member in members) for other in others]
    assert found.tolist() == [other in members for other in others]
    assert array.slot.tolist() == sorted(range(len(members)), key=members.__getitem__)


@given(st.lists(numbers, min_size=1, unique=True), st.lists(numbers, unique=True))
def test_merged_ids_are_in_order_and_keep_their_numbers(first, second):
    second = [number for number in second if number not in first]
    slots = {number: slot for slot, number in enumerate([*first, *second])}
    arrays = [SortedIds.of(make_ids(part), np.array([slots[n] for n in part], np.uint32)) for part in (first, second)]
    merged = arrays[0].merge(arrays[1])
    assert merged.ids.tolist() == make_ids(sorted(slots)).tolist()
    assert merged.slot.tolist() == [slots[number] for number in sorted(slots)]


def test_chunks_of_the_first_version_are_read():
    # The content of a checkpoint of the first version; a change here counts duplicates of a running job.
    golden = bytes.fromhex("e803000000000000" + "00" * 15 + "01" + "00" * 15 + "02")
    seen = SeenIds(1000, [golden])
    assert (len(seen), seen.next_expiry) == (2, 1000)
    ids = np.frombuffer(golden[8:], dtype="<u8").reshape(-1, 2)
    assert seen.add(ids, np.array([7, 1000]))[0].tolist() == [False, False]
    assert SeenIds(1000).add(ids, np.array([7, 1000]))[1] == [golden]


@pytest.mark.parametrize("batch", [10, 64, 5000])
def test_an_id_takes_at_most_24_bytes_of_memory(batch):
    rng, count = np.random.default_rng(1), 40_000
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    seen = SeenIds(1000)
    for _ in range(0, count, batch):
        seen.add(np.frombuffer(rng.bytes(16 * batch), dtype=np.uint64).reshape(-1, 2), rng.integers(0, 9000, batch))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(seen) == count
    assert after - before <= 24 * count
