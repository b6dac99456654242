"""Ids that came before are known until they expire, however they come, are saved and are loaded: against a dict."""

import ctypes
import random
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devtools import fuzz
from hushgram.transforms import ids, seen_ids
from hushgram.transforms.ids import SeveralSortedIds, SortedIds, are_first
from hushgram.transforms.seen_ids import SeenIds

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


@given(st.lists(numbers))
def test_of_equal_ids_the_first_is_the_first(members):
    expected = [number not in members[:place] for place, number in enumerate(members)]
    assert are_first(make_ids(members)).tolist() == expected


@given(st.lists(st.lists(numbers, unique=True), max_size=4), st.lists(numbers), st.data())
def test_an_id_is_found_in_any_of_several_arrays(parts, asked, data):
    """Ids at the ends, next to each other and far from where they would stand if they were spread evenly."""
    arrays = [SortedIds.of(make_ids(part), np.arange(len(part), dtype=np.uint32)) for part in parts]
    was_new = data.draw(st.lists(st.booleans(), min_size=len(asked), max_size=len(asked)))
    is_new = np.array(was_new, dtype=bool)
    SeveralSortedIds(arrays).unmark(make_ids(asked), is_new)
    assert is_new.tolist() == [
        was and not any(number in part for part in parts) for was, number in zip(was_new, asked, strict=True)
    ]


@pytest.mark.parametrize("shape", ["even", "low", "high", "few values"])
def test_every_member_of_a_large_array_is_found_and_no_neighbour(shape):
    rng = np.random.default_rng(1)
    high = {
        "even": rng.integers(0, 2**64 - 1, 5000, dtype=np.uint64),
        "low": rng.integers(0, 2**20, 5000, dtype=np.uint64),
        "high": 2**64 - 1 - rng.integers(0, 2**20, 5000, dtype=np.uint64),
        "few values": rng.choice(np.array([0, 1, 2**32, 2**64 - 1], dtype=np.uint64), 5000),
    }[shape]
    ids = np.stack([high, 2 * rng.permutation(5000).astype(np.uint64)], axis=1)
    settled = SeveralSortedIds([SortedIds.of(ids, np.zeros(5000, dtype=np.uint32))])
    for step, found in ((0, True), (1, False)):
        is_new = np.ones(5000, dtype=bool)
        settled.unmark(ids + np.array([0, step], dtype=np.uint64), is_new)
        assert (is_new != found).all()


@given(st.lists(numbers, unique=True), st.lists(numbers, unique=True))
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


@pytest.fixture(scope="module")
def hash_id(tmp_path_factory):
    """The hash of an id under two secret numbers, which nothing else shows."""
    folder, source = tmp_path_factory.mktemp("hash"), Path(ids.__file__).with_suffix(".c").resolve()
    (folder / "hash.c").write_text(
        f"""#include "{source}"
        uint64_t hash_id(uint64_t high, uint64_t low, const uint64_t *secret) {{ return hash(high, low, secret); }}"""
    )
    subprocess.run(["cc", "-std=c99", "-shared", "-fPIC", "-o", folder / "hash.so", folder / "hash.c"], check=True)
    function = ctypes.CDLL(str(folder / "hash.so")).hash_id
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64)]
    return lambda high, low, secret: function(high, low, (ctypes.c_uint64 * 2)(*secret))


@pytest.mark.parametrize("step", [(0, 1), (1, 0), (0, 1 << 54), (1 << 54, 0), (1 << 54, 1 << 54), (1, 1), (1 << 32, 1)])
def test_ids_that_devices_choose_do_not_meet_in_the_hash_table(hash_id, step):
    """Of 1024 places that are drawn at random, 1024 ids leave 647 used on average, with a deviation of 10; fewer than
    547 by chance once in 10^20 runs."""
    rng = random.Random(1)
    for _ in range(20):
        secret, start = [rng.getrandbits(64), rng.getrandbits(64)], [rng.getrandbits(64), rng.getrandbits(64)]
        chosen = {tuple((start[half] + number * step[half]) % 2**64 for half in (0, 1)) for number in range(1024)}
        assert len(chosen) == 1024
        hashes = [hash_id(high, low, secret) for high, low in chosen]
        assert len(set(hashes)) == 1024
        assert len({hashed % 1024 for hashed in hashes}) > 547


def test_the_fuzzer_finds_nothing_in_a_second():
    """`python -m devtools.fuzz` goes on for minutes."""
    assert int(fuzz.fuzz_ids(1, start=7).split()[0]) >= 1000
