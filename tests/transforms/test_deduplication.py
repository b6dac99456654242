"""Each id of a stream counts once: through losses of state, and across forgetting."""

import copy
from collections import Counter

import numpy as np
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection, Windows
from hushgram.schemas.records import DeadLetter
from hushgram.transforms import deduplication
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.deduplication import DeduplicateStream
from hushgram.transforms.uploads import Uploads, pieces

MAX_AGE = 16_000
NOW = 1_767_225_600_000
COLLECTION = Collection(
    name="c", low=0, high=1, buckets=4, epsilon=1, windows=Windows(max_age=MAX_AGE, max_delay=0, early=None)
)
INDEX = CollectionIndex.of([COLLECTION])


def make_ids(numbers):
    """Ids as columns hold them."""
    return np.array([divmod(number, 2**64) for number in numbers], dtype=np.uint64).reshape(-1, 2)


class ShardState:
    """One shard's state and timer as an engine keeps them: a copy is a checkpoint."""

    def __init__(self):
        self.mark, self.bag, self.timer = None, [], None

    class Cell:
        def __init__(self, state):
            self.state = state

        def read(self):
            return self.state.mark

        def write(self, value):
            self.state.mark = value

    class Bag:
        def __init__(self, state):
            self.state, self.reads = state, 0

        def read(self):
            self.reads += 1
            return iter(list(self.state.bag))

        def add(self, chunk):
            self.state.bag.append(chunk)

        def clear(self):
            self.state.bag = []

    class Timer:
        def __init__(self, state):
            self.state = state

        def set(self, time):
            self.state.timer = time.micros // 1000


def make_uploads(rows):
    """Rows (id, event time) as uploads of one report each."""
    zeros = np.zeros(len(rows), dtype=np.int64)
    return Uploads(
        collection=zeros,
        revision=zeros,
        group=zeros - 1,
        event_time=np.array([event_time for _, event_time in rows], dtype=np.int64),
        has_id=np.ones(len(rows), dtype=bool),
        id=make_ids(number for number, _ in rows),
        sizes=zeros + 1,
        cells=zeros,
    )


def make_block(rows, received):
    """As it comes to shard 3."""
    [(_, piece)] = pieces([make_uploads(rows)], received, count=1)
    return 3, piece


class ShardDriver:
    """DeduplicateStream with one shard's state, driven by hand."""

    def __init__(self, plan=INDEX):
        self.fn, self.state = DeduplicateStream(plan), ShardState()

    def handles(self):
        self.bag = ShardState.Bag(self.state)
        return ShardState.Cell(self.state), self.bag, ShardState.Timer(self.state)

    def block(self, rows, received=NOW):
        """(counted, refused as duplicates)"""
        self.fn.start_bundle()
        outputs = list(self.fn.process(make_block(rows, received), *self.handles()))
        letters = [output.value.value for output in outputs]
        assert all(isinstance(letter, DeadLetter) and letter.reason == "duplicate" for letter in letters)
        assert all(letter.received_at == received for letter in letters)
        totals = [item.value.value for item in self.fn.finish_bundle()]
        counted_reports = sum(tallies.reports for key, tallies in totals)
        return counted_reports, sum(letter.reports for letter in letters)

    def watermark(self, time):
        """The engine fires what is due, in order."""
        while self.state.timer is not None and self.state.timer <= time:
            due, self.state.timer = self.state.timer, None
            self.fn.forget_expired(3, Timestamp(micros=1000 * due), *self.handles())


def test_duplicates_count_once_within_a_block_and_across_blocks():
    shard = ShardDriver()
    assert shard.block([(1, NOW), (2, NOW), (1, NOW), (1, NOW - 5)]) == (2, 2)
    assert shard.block([(2, NOW), (3, NOW)]) == (1, 1)
    assert shard.block([(1, NOW), (2, NOW), (3, NOW)]) == (0, 3)


def test_ids_that_differ_in_one_half_are_different():
    shard = ShardDriver()
    assert shard.block([(1, NOW), (2**64, NOW), (2**64 + 1, NOW)]) == (3, 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.lists(st.tuples(st.integers(0, 6), st.integers(-16, 0)), min_size=1, max_size=5),
            st.integers(1, 9_000),
            st.sampled_from(["checkpoint", "fail", "another worker"]),
        ),
        max_size=16,
    )
)
def test_after_any_failure_the_state_of_the_checkpoint_counts(actions):
    """A report is counted once while its duplicates can come: a loop over a dict says which those are."""
    shard, clock, event_times, counts = ShardDriver(), NOW, {}, Counter()
    checkpoint = copy.deepcopy((shard.state, clock, event_times, counts))
    for step in actions:
        if step == "checkpoint":
            checkpoint = copy.deepcopy((shard.state, clock, event_times, counts))
        elif step == "fail":
            shard.state, clock, event_times, counts = copy.deepcopy(checkpoint)
        elif step == "another worker":
            deduplication.MEMORY.clear()
        elif isinstance(step, int):
            clock += step
            shard.watermark(clock)
        else:
            # An id's event time never changes, as that of an upload which is sent again.
            rows = [(number, event_times.setdefault(number, clock + 1000 * age)) for number, age in step]
            rows = [row for row in rows if row[1] >= clock - MAX_AGE]  # the others are too old, and do not get here
            if not rows:
                continue  # there are no empty blocks
            fresh = {number for number, _ in rows if not counts[number]}
            assert shard.block(rows, clock) == (len(fresh), len(rows) - len(fresh))
            counts.update(fresh)


def test_a_duplicate_received_in_the_last_millisecond_is_still_known():
    shard, event = ShardDriver(), NOW - NOW % find_grain()
    assert shard.block([(1, event)], event) == (1, 0)
    shard.watermark(event + MAX_AGE)  # with no delay allowed, the watermark is the time of receipt
    assert shard.block([(1, event)], event + MAX_AGE) == (0, 1)


def find_grain():
    return DeduplicateStream(INDEX).grain


def test_expired_ids_are_forgotten_together_with_their_state():
    shard = ShardDriver()
    shard.block([(number, NOW + number) for number in range(50)])
    shard.watermark(NOW + MAX_AGE)
    assert sum(map(len, shard.state.bag)) >= 50 * 16
    shard.watermark(NOW + MAX_AGE + 50 + find_grain())
    assert (shard.state.bag, shard.state.timer) == ([], None)


def test_the_timer_stands_at_the_earliest_id_in_whatever_order_they_come():
    shard = ShardDriver()
    for event in (NOW, NOW - 9_000, NOW - 2_000):
        shard.block([(event, event)])
    assert NOW - 9_000 + MAX_AGE < shard.state.timer <= NOW - 9_000 + MAX_AGE + 1 + find_grain()
    shard.watermark(shard.state.timer)
    assert NOW - 2_000 + MAX_AGE < shard.state.timer <= NOW - 2_000 + MAX_AGE + 1 + find_grain()


def test_state_is_read_only_when_memory_does_not_match_the_checkpoint():
    shard = ShardDriver()
    shard.block([(1, NOW)])
    checkpoint = copy.deepcopy(shard.state)
    shard.block([(2, NOW)])
    assert shard.bag.reads == 0
    shard.state = checkpoint
    assert shard.block([(2, NOW)]) == (1, 0)
    assert shard.bag.reads == 1


def test_a_block_that_fails_half_way_leaves_nothing_in_memory():
    shard = ShardDriver()
    shard.block([(1, NOW)])
    checkpoint = copy.deepcopy(shard.state)
    mark, _, timer = shard.handles()

    class FullBag(ShardState.Bag):
        def add(self, chunk):
            raise OSError("no space")

    shard.fn.start_bundle()
    with pytest.raises(OSError, match="no space"):
        list(shard.fn.process(make_block([(2, NOW)], NOW), mark, FullBag(shard.state), timer))
    shard.state = checkpoint
    assert shard.block([(1, NOW), (2, NOW)]) == (1, 1)


def test_two_jobs_in_one_process_do_not_share_ids():
    first, second = ShardDriver(), ShardDriver()
    first.block([(1, NOW)])
    second.state = copy.deepcopy(first.state)
    assert second.block([(1, NOW), (2, NOW)]) == (1, 1)
    assert ShardDriver().block([(1, NOW)]) == (1, 0)
