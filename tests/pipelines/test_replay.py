"""A replay of dead letters against Kafka in memory: what is a repeat, what stays, and what ends a run."""

import pytest

from hushgram.pipelines.cli import command
from hushgram.pipelines.replay import topic as replay_topic
from hushgram.pipelines.replay.topic import DeadLetterTopic
from hushgram.pipelines.replay.verdicts import Choice
from hushgram.transforms.dead_messages import OFFSET, PARTITION, PASSED, REASON, TOPIC, TOPIC_ID
from hushgram.transforms.kafka_client import KafkaError
from tests.helpers.fake_kafka import FakeConsumer, FakeMessage, FakeSender, FakeTopic

CHOICE = Choice("reports", None, frozenset(["unknown_group"]))


class Place:
    """As confluent-kafka's for a partition of which no position was committed."""

    def __init__(self, partition):
        self.partition, self.offset = partition, -1001


class Kafka:
    """A topic of dead letters, and the producer that a run of `hushgram replay` gets."""

    def __init__(self, monkeypatch, largest=1 << 20):
        self.topic, self.sender = FakeTopic(lambda: None, logs=[[]]), FakeSender(largest)
        self.settings = {}

        def producer(*_, **settings):
            self.settings = settings
            return self.sender

        def consumer(*_, **__):
            client = FakeConsumer(self.topic)
            client.committed = lambda places, _: [Place(place.partition) for place in places]
            client.consumer_group_metadata = lambda: None
            return client

        monkeypatch.setattr(replay_topic, "producer", producer)
        monkeypatch.setattr(replay_topic, "consumer", consumer)
        monkeypatch.setattr(
            replay_topic, "first_offsets", lambda *arguments: {0: len(self.topic.logs[0]) if arguments[-1] else 0}
        )

    def write(self, value, offset, topic_id=None, reason=b"unknown_group", stamp=1):
        place = [(TOPIC, b"reports"), (PARTITION, b"0"), (OFFSET, b"%d" % offset), (REASON, reason)]
        headers = place if topic_id is None else [*place, (TOPIC_ID, topic_id)]
        log = self.topic.logs[0]
        log.append(FakeMessage((0, len(log)), stamp, value, own_headers=headers))

    def replay(self):
        return DeadLetterTopic("refused", "group", {}, None).replay(CHOICE)

    def sent(self):
        return [message.content for topic, message in self.sender.taken if topic == "reports"]


def test_letters_of_a_topic_that_was_created_again_are_no_repeats(monkeypatch):
    kafka = Kafka(monkeypatch)
    for value, topic_id in [(b"a", b"first"), (b"a", b"first"), (b"a", b"second"), (b"b", None), (b"c", None)]:
        kafka.write(value, 0, topic_id)
    counts = kafka.replay()
    assert kafka.sent() == [b"a", b"a", b"b", b"c"]
    assert counts.repeated == 1


def test_a_letter_whose_headers_are_no_text_ends_no_run(monkeypatch):
    kafka = Kafka(monkeypatch)
    kafka.topic.logs[0].append(FakeMessage((0, 0), content=b"x", own_headers=SystemError("of C code")))
    kafka.write(b"a", 1)
    assert kafka.replay().stay.total() == 1
    assert kafka.sent() == [b"a"]


def test_what_stays_keeps_its_time_so_that_retention_removes_it(monkeypatch):
    kafka = Kafka(monkeypatch)
    kafka.write(b"a", 0, stamp=123)
    kafka.write(b"b", 1, reason=b"undecodable", stamp=456)
    kafka.replay()
    [(_, sent), (topic, stays)] = kafka.sender.taken
    assert (topic, stays.content, stays.stamp, dict(stays.own_headers)[PASSED]) == ("refused", b"b", 456, b"1")
    assert sent.stamp == 0  # the brokers' own: it is received now


def test_each_message_is_a_batch_of_its_own_and_one_that_is_too_large_is_named(monkeypatch):
    kafka = Kafka(monkeypatch, largest=1000)
    kafka.write(b"a", 0)
    kafka.write(b"b" * 990, 1, reason=b"undecodable")
    with pytest.raises(KafkaError, match=r"^topic 'refused', partition 0, offset 1: refused does not take it; let max"):
        kafka.replay()
    assert kafka.settings["batch.num.messages"] == 1
    assert kafka.sender.taken == []
    assert kafka.sender.positions == {}


def test_a_slow_step_is_no_silence_of_the_brokers(monkeypatch):
    kafka = Kafka(monkeypatch)
    clock = [0.0]
    monkeypatch.setattr(replay_topic.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(replay_topic, "STEP", 2)
    step = DeadLetterTopic._step

    def slow(self, *arguments):
        clock[0] += 2 * replay_topic.SILENCE_SECONDS
        step(self, *arguments)

    monkeypatch.setattr(DeadLetterTopic, "_step", slow)
    for offset in range(5):
        kafka.write(b"%d" % offset, offset)
    kafka.replay()
    assert len(kafka.sent()) == 5


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--reason", "too_old", "--schema-registry", "http://h"], "--schema-registry: only with --collections"),
    ],
)
def test_options_without_effect_are_refused(capsys, more, line):
    assert command.main(["replay", "--kafka", "h", "--topic", "a", "--dead-letters", "kafka:b", *more]) == 2
    [printed] = capsys.readouterr().err.splitlines()
    assert line in printed
