"""Which element reads which partition of a topic, and from where, as the topic grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram.transforms.kafka_client import TopicState
from hushgram.transforms.sources.kafka import ReadKafka
from hushgram.transforms.sources.kafka_positions import (
    Partitions,
    Position,
    Positions,
    TopicError,
    adapted,
    is_outdated,
)

times = st.integers(min_value=0, max_value=2**40)
positions_of_partitions = st.dictionaries(
    st.integers(0, 50), st.builds(Position, st.integers(0, 2**40), times, st.integers(-1, 9)), min_size=1
)


def make_elements(partitions, together):
    starts = dict.fromkeys(range(partitions), 5)
    return ReadKafka("t", starts, {}, None, 0, together, "first").elements()


@given(
    partitions=st.integers(1, 9),
    growth=st.lists(st.integers(0, 5), max_size=5),
    together=st.booleans(),
    data=st.data(),
)
def test_as_a_topic_grows_each_partition_has_one_reader_and_keeps_it(partitions, growth, together, data):
    """Whichever answers of the brokers the readers get to see, as long as each of them sees the last."""
    elements = make_elements(partitions, together)
    readers = [Positions.of(Partitions().initial_restriction(element)) for element in elements]
    sizes = [partitions + sum(growth[:number]) for number in range(len(growth) + 1)]
    for index, (_, _, share, _) in enumerate(elements):
        for size in [*data.draw(st.lists(st.sampled_from(sizes)).map(sorted)), sizes[-1]]:
            before = readers[index]
            readers[index], gaps = adapted("t", share, before, TopicState("first", size))
            assert not gaps
            assert before.partitions.items() <= readers[index].partitions.items()
    read = [partition for reader in readers for partition in reader.partitions]
    assert sorted(read) == list(range(sizes[-1]))
    offsets = {partition: at for reader in readers for partition, at in reader.offsets.items()}
    assert offsets == {partition: 5 if partition < partitions else 0 for partition in range(sizes[-1])}


@given(known=positions_of_partitions, more=st.integers(0, 9), other=st.booleans())
def test_new_partitions_leave_the_watermark_and_all_positions_as_they_are(known, more, other):
    """Of a topic that was created again, the positions are new, and times of receipt are not."""
    positions = Positions("first", known)
    size = max(known) + 1 + more
    after, gaps = adapted("t", (0, 1), positions, TopicState("second" if other else "first", size))
    assert after.received == positions.received
    assert sorted(after.partitions) == list(range(size))
    assert {p: at.received for p, at in after.partitions.items() if p in known} == {
        p: at.received for p, at in known.items()
    }
    assert len(gaps) == (len(known) if other else 0)
    if not other:
        assert known.items() <= after.partitions.items()


@given(known=positions_of_partitions, received=times, data=st.data())
def test_empty_partitions_follow_the_clock_and_never_go_back(known, received, data):
    empty = data.draw(st.sets(st.sampled_from(sorted(known))))
    positions = Positions("first", known)
    followed = positions.followed(empty, received)
    assert followed.offsets == positions.offsets
    for partition, at in followed.partitions.items():
        assert at.received == (max(known[partition].received, received) if partition in empty else at.received)
        assert at.received >= known[partition].received
    assert followed.received == min(at.received for at in followed.partitions.values())


@given(known=positions_of_partitions, size=st.integers(1, 60))
def test_a_topic_of_fewer_partitions_is_an_old_answer_or_another_topic(known, size):
    """Kafka takes no partition away from a topic. Without ids the two look the same."""
    positions = Positions("first", known)
    fewer = size <= max(known)
    assert is_outdated(TopicState("first", size), positions) == fewer
    for state in (TopicState("second", size), TopicState("", size)):
        assert not is_outdated(state, positions)
        if fewer:
            with pytest.raises(TopicError, match=f"created again with {size} partitions, and partition"):
                adapted("t", (0, 1), positions, state)
