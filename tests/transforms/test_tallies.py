"""Tallies merge the same in every order, and travel in bytes that later versions must read."""

import random

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.coders import typecoders
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram.schemas.records import Events
from hushgram.transforms.tallies import CombineTallies, Tallies, TalliesCoder, decode, encode

REVISIONS = ["bee7fcbcb7cce993", "00" * 8, "ff" * 8]
counts = st.lists(st.sampled_from([0, 0, 0, 1, 2, 255, 256, 65_536, 2**40]), min_size=5, max_size=5)
times = st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=3)
one = st.dictionaries(st.sampled_from(REVISIONS), counts, max_size=3)
with_events = st.tuples(one, times | st.none())


def tallies(parts, when=None):
    made = Tallies({r: (sum(c), np.array(c, dtype=np.int64)) for r, c in parts.items()})
    if when is not None and made.reports:
        made.events = Events(min(when), max(when), len(when))
    return made


def counts_of(value):
    return {revision: (reports, counts.tolist()) for revision, (reports, counts) in value.parts.items()}


def plain(value):
    return counts_of(value), value.events


@given(with_events)
def test_bytes_come_back_and_are_the_same_for_equal_tallies(given_parts):
    value = tallies(*given_parts)
    assert plain(decode(encode(value))) == plain(value)
    backwards = Tallies(dict(reversed(value.parts.items())), value.events)
    assert encode(backwards) == encode(value)


@settings(max_examples=100, deadline=None)
@given(st.lists(with_events, max_size=6), st.randoms(use_true_random=False))
def test_every_way_of_folding_agrees(many, order: random.Random):
    fn, coder = CombineTallies(), TalliesCoder()
    values = [tallies(*parts) for parts in many]
    before = [plain(value) for value in values]
    in_turn = fn.create_accumulator()
    for value in values:
        in_turn = fn.add_input(in_turn, value)
    shuffled = values[:]
    order.shuffle(shuffled)
    cut = order.randint(0, len(values))
    halves = []
    for half in (shuffled[:cut], shuffled[cut:]):
        accumulator = fn.create_accumulator()
        for value in half:
            accumulator = fn.add_input(accumulator, value)
        halves.append(coder.decode(coder.encode(fn.compact(accumulator))))
    merged = fn.extract_output(fn.merge_accumulators(halves))
    assert plain(merged) == plain(in_turn)
    assert [plain(value) for value in values] == before  # what was added is not touched
    known = [(parts, when) for parts, when in many if tallies(parts).reports]
    if known and all(when is not None for _, when in known):
        times = [time for _, when in known for time in when]
        assert merged.events == Events(min(times), max(times), len(times))
    else:  # a part of which nothing is known leaves nothing known of the whole
        assert merged.events is None


def test_large_tallies_are_dense_and_small_ones_sparse():
    wide = np.zeros(1536, dtype=np.int64)
    wide[7] = 3
    assert len(encode(Tallies({REVISIONS[0]: (3, wide)}))) < 50
    full = np.arange(1536) % 200
    assert len(encode(Tallies({REVISIONS[0]: (1, full)}))) < 1536 + 50


def test_accumulators_of_an_unknown_version_are_refused():
    encoded = encode(Tallies({REVISIONS[0]: (6, np.array([0, 1, 2, 3, 0]))}))
    with pytest.raises(ValueError, match="version 3"):
        decode(b"\x03" + encoded[1:])


def test_a_pipeline_combines_them_without_pickling():
    assert isinstance(typecoders.registry.get_coder(Tallies), TalliesCoder)
    assert TalliesCoder().is_deterministic()
    parts = [
        ("a", tallies({REVISIONS[0]: [1, 0, 0, 0, 2]})),
        ("b", tallies({})),
        ("a", tallies({REVISIONS[1]: [5] * 5})),
    ]
    with Pipeline(runner="FnApiRunner") as pipeline:
        summed = pipeline | beam.Create(parts * 50) | beam.CombinePerKey(CombineTallies()).with_hot_key_fanout(3)
        total = {REVISIONS[0]: (150, [50, 0, 0, 0, 100]), REVISIONS[1]: (1250, [250] * 5)}
        assert_that(
            summed | beam.MapTuple(lambda key, value: (key, counts_of(value))), equal_to([("a", total), ("b", {})])
        )
