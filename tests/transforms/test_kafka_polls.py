"""The source of a topic that grows, written to and described at any moment of a call, by brokers that may lag."""

from contextlib import contextmanager

import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram.transforms.sources import kafka_polls
from hushgram.transforms.sources.kafka import ReadKafka
from hushgram.transforms.sources.kafka_polls import ReadPolls
from hushgram.transforms.sources.kafka_positions import Partitions, PositionsTracker
from tests.helpers.fake_kafka import FakeConsumer, FakeTopic

DELAY = 1000


class World:
    """A topic, its readers as an engine keeps them, and chance."""

    def __init__(self, chance, partitions, together, lagging):
        self.chance, self.lagging, self.busy = chance, lagging, True
        self.topic = FakeTopic(self.happen, logs=[[] for _ in range(partitions)])
        read = ReadKafka("t", dict.fromkeys(range(partitions), 0), {}, None, DELAY, together, self.topic.id)
        self.readers = [Reader(element) for element in read.elements()]
        self.start()

    def start(self):
        self.source = ReadPolls({}, None, DELAY)
        self.source.setup()

    def happen(self):
        """Time goes by; messages are appended, and partitions added."""
        self.topic.clock += self.chance.choice([0, 1, 300, 20_000])
        if not self.busy:
            return
        for _ in range(self.chance.randrange(4)):
            if len(self.topic.logs) < 12 and self.chance.random() < 0.15:
                self.topic.logs += [[] for _ in range(self.chance.randint(1, 3))]
            mostly_newest = len(self.topic.logs) - 1 - int(self.chance.random() ** 2 * len(self.topic.logs))
            self.topic.append(mostly_newest)

    def describe(self, *_):
        known = len(self.topic.logs)
        return self.topic.describe(self.chance.randint(1, known) if self.lagging and self.busy else None)

    @contextmanager
    def in_place_of_kafka(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kafka_polls, "consumer", lambda *_: FakeConsumer(self.topic))
            patch.setattr(kafka_polls, "admin", lambda *_: None)
            patch.setattr(kafka_polls, "describe", self.describe)
            patch.setattr(kafka_polls, "now", lambda: self.topic.clock)
            yield

    def call(self, reader):
        """A bundle, which the engine may end early, or throw away; or the worker dies before it is kept."""
        kept = not self.busy or self.chance.random() < 0.8
        reader.call(self.source, self.chance.randint(0, 9) if self.busy else 99, kept)
        if self.busy and self.chance.random() < 0.1:
            self.start()


class StoppedTracker(PositionsTracker):
    """The engine asks for a checkpoint before this claim."""

    def __init__(self, restriction, claims):
        super().__init__(restriction)
        self.claims = claims

    def try_claim(self, position):
        self.claims -= 1
        if self.claims < 0:
            self.try_split(0)
        return super().try_claim(position)

    def defer_remainder(self, rest):
        self.try_split(0)


class Reader:
    def __init__(self, element):
        self.element, self.restriction = element, Partitions().initial_restriction(element)
        self.mark, self.messages = MIN_TIMESTAMP, []

    def call(self, source, claims, kept):
        tracker = StoppedTracker(self.restriction, claims)
        estimator = ManualWatermarkEstimator(self.mark)
        outputs = [output.value for output in source.process(self.element, tracker, estimator)]
        tracker.check_done()
        if kept:
            marked = max(self.mark, estimator.current_watermark())
            read = [
                (batch.source, int(offset), int(received), self.mark.micros // 1000, value)
                for batch in outputs
                for offset, received, value in zip(batch.offsets, batch.received, batch.messages, strict=True)
            ]
            self.messages += read
            self.restriction, self.mark = tracker.position(), marked


@pytest.mark.parametrize("lagging", [False, True])
@settings(deadline=None, max_examples=60)
@given(chance=st.randoms(use_true_random=False), partitions=st.integers(1, 4), together=st.booleans())
def test_every_message_of_a_growing_topic_is_read_once_and_none_behind_the_watermark(
    lagging, chance, partitions, together
):
    """A broker may lag behind the others: then messages count once all the same, but may count as received later."""
    world = World(chance, partitions, together, lagging)
    with world.in_place_of_kafka():
        for _ in range(30):
            world.call(chance.choice(world.readers))
        world.busy = False
        world.topic.clock += 60_000
        for reader in world.readers * 3:
            world.call(reader)
    read = [message for reader in world.readers for message in reader.messages]
    assert sorted(value for *_, value in read) == sorted(world.topic.values())
    by_source = {}
    for source, offset, *_ in read:
        by_source.setdefault(source, []).append(offset)
    assert all(offsets == list(range(len(offsets))) for offsets in by_source.values())
    stamps = {message.content: message.stamp for log in world.topic.logs for message in log}
    assert all(received - DELAY >= mark for _, _, received, mark, _ in read)
    if not lagging:
        assert {value: received for _, _, received, _, value in read} == stamps
    # And what is empty holds nothing back.
    assert all(reader.mark.micros // 1000 > max(stamps.values(), default=0) - DELAY for reader in world.readers)
