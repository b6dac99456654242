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
revision_counts = st.dictionaries(st.sampled_from(REVISIONS), counts, max_size=3)
with_events = st.tuples(revision_counts, times | st.none())


def make_tallies(parts, times_of_events=None):
    result = Tallies({r: (sum(c), np.array(c, dtype=np.int64)) for r, c in parts.items()})
    if times_of_events is not None and result.reports:
        result.events = Events(min(times_of_events), max(times_of_events), len(times_of_events))
    return result


def list_counts(value):
    return {revision: (reports, counts.tolist()) for revision, (reports, counts) in value.parts.items()}


def to_comparable(value):
    return list_counts(value), value.events


@given(with_events)
def test_tallies_survive_a_round_trip_and_equal_tallies_have_equal_bytes(parts):
    value = make_tallies(*parts)
    assert to_comparable(decode(encode(value))) == to_comparable(value)
    backwards = Tallies(dict(reversed(value.parts.items())), value.events)
    assert encode(backwards) == encode(value)


@settings(max_examples=100, deadline=None)
@given(st.lists(with_events, max_size=6), st.randoms(use_true_random=False))
def test_every_way_of_folding_tallies_agrees(many, order: random.Random):
    fn, coder = CombineTallies(), TalliesCoder()
    values = [make_tallies(*parts) for parts in many]
    before = [to_comparable(value) for value in values]
    sequential = fn.create_accumulator()
    for value in values:
        sequential = fn.add_input(sequential, value)
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
    assert to_comparable(merged) == to_comparable(sequential)
    assert [to_comparable(value) for value in values] == before  # what was added is not touched
    nonempty = [(parts, event_times) for parts, event_times in many if make_tallies(parts).reports]
    if nonempty and all(event_times is not None for _, event_times in nonempty):
        times = [time for _, event_times in nonempty for time in event_times]
        assert merged.events == Events(min(times), max(times), len(times))
    else:  # without the events of a part, those of the whole are unknown
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


def test_a_pipeline_combines_tallies_without_pickling():
    assert isinstance(typecoders.registry.get_coder(Tallies), TalliesCoder)
    assert TalliesCoder().is_deterministic()
    parts = [
        ("a", make_tallies({REVISIONS[0]: [1, 0, 0, 0, 2]})),
        ("b", make_tallies({})),
        ("a", make_tallies({REVISIONS[1]: [5] * 5})),
    ]
    with Pipeline(runner="FnApiRunner") as pipeline:
        sums = pipeline | beam.Create(parts * 50) | beam.CombinePerKey(CombineTallies()).with_hot_key_fanout(3)
        total = {REVISIONS[0]: (150, [50, 0, 0, 0, 100]), REVISIONS[1]: (1250, [250] * 5)}
        assert_that(
            sums | beam.MapTuple(lambda key, value: (key, list_counts(value))), equal_to([("a", total), ("b", {})])
        )
