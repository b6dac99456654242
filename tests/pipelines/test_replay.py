"""A replay of dead letters against Kafka in memory: what is a repeat, what stays, and what ends a run."""

import tracemalloc

import pytest

from hushgram import Collection
from hushgram.pipelines.cli import command
from hushgram.pipelines.replay import topic as replay_topic
from hushgram.pipelines.replay.topic import DeadLetterTopic
from hushgram.pipelines.replay.verdicts import Choice, Letter
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.framing import ID_HEADER, frame
from hushgram.schemas.messages import PREFIX, encode_message
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.dead_messages import (
    LEFT_OUT,
    OFFSET,
    PARTITION,
    PASSED,
    REASON,
    REASONS_OF_MESSAGES,
    TOPIC,
    TOPIC_ID,
)
from hushgram.transforms.judging import ORDER
from hushgram.transforms.kafka_client import KafkaError
from hushgram.transforms.parsing import Parser
from tests.helpers.fake_kafka import FakeConsumer, FakeMessage, FakeSender, FakeTopic
from tests.helpers.reports import DAY, make_report_rows

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

    def write(self, value, offset, topic_id=None, reason=b"unknown_group", stamp=1, topic=b"reports", more=()):
        place = [(TOPIC, topic), (PARTITION, b"0"), (OFFSET, b"%d" % offset), (REASON, reason), *more]
        headers = place if topic_id is None else [*place, (TOPIC_ID, topic_id)]
        log = self.topic.logs[0]
        log.append(FakeMessage((0, len(log)), stamp, value, own_headers=headers))

    def replay(self, choice=CHOICE):
        return DeadLetterTopic("refused", "group", {}, None).replay(choice)

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


def test_what_stays_is_told_by_the_reason_of_now(monkeypatch):
    """All were refused for their group, which their collection has by now; only the first can be sent."""
    commute = Collection(name="commute", low=0, high=180, epsilon=1, groups=["DE"])
    [row] = make_report_rows(commute, 1, seed=1)
    now, record = replay_topic.now(), {**row, "group": "DE"}
    good = encode_message(REPORT, {**record, "event_time": now})
    kafka = Kafka(monkeypatch)
    kafka.write(good, 0)
    kafka.write(encode_message(REPORT, {**record, "event_time": now - 400 * DAY}), 1)
    kafka.write(encode_message(REPORT, {**record, "event_time": now}, schema_id=7), 2)
    kafka.write(good[PREFIX:], 3, more=[(ID_HEADER, frame(7))])
    kafka.write(good[:-1], 4)
    kafka.write(encode_message(REPORT, {**record, "event_time": now, "group": "FR"}), 5)
    kafka.write(good, 6, topic=b"elsewhere")
    kafka.write(None, 7, more=[(LEFT_OUT, b"99")])
    counts = kafka.replay(Choice("reports", Parser(CollectionIndex.of([commute]))))
    assert kafka.sent() == [good]
    assert counts.sent == {"unknown_group": 1}
    assert counts.stay == {
        "too_old": 1,
        "undecodable without --schema-registry": 2,
        "undecodable": 1,
        "unknown_group": 1,
        "of another topic": 1,
        "without its value": 1,
    }


def test_a_letter_is_known_by_all_that_tells_it_from_others():
    own = {TOPIC: b"reports", PARTITION: b"1", OFFSET: b"23", TOPIC_ID: b"id", PASSED: b"1"}
    headers = [own, *({**own, name: b"4"} for name in own), {**own, PARTITION: b"12", OFFSET: b"3"}]
    headers.append({name: value for name, value in own.items() if name != PASSED})
    letters = [Letter(value, None, [], each) for each in headers for value in (b"value", b"", None)]
    assert len({letter.origin for letter in letters}) == len(letters)
    assert {Letter(b"value", None, [], own).origin for _ in range(2)} == {letters[0].origin}
    assert Letter(b"value", None, [], {TOPIC: b"reports", PARTITION: b"1"}).origin is None


def test_a_letter_that_was_dealt_with_takes_little_memory():
    """The documents say how much: a run holds what tells all letters of the topic apart."""
    tracemalloc.start()
    origins = {
        Letter(None, None, [], {TOPIC: b"reports", PARTITION: b"1", OFFSET: b"%d" % number}).origin
        for number in range(50_000)
    }
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / len(origins) < 150


def test_reasons_that_letters_of_a_topic_have_are_those_of_messages():
    assert set(REASONS_OF_MESSAGES) == {*ORDER, "undecodable", "unknown_schema"}


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--reason", "too_old", "--schema-registry", "http://h"], "--schema-registry: only with --collections"),
        (["--reason", "duplicate"], "--reason: got 'duplicate', which no letter of a topic has, allowed: undec"),
        (["--reason", "deleted_unread"], "--reason: got 'deleted_unread', which no letter of a topic has"),
        (["--reason", "unreadable"], "--reason: got 'unreadable', which no letter of a topic has"),
    ],
)
def test_options_without_effect_are_refused(capsys, more, line):
    assert command.main(["replay", "--kafka", "h", "--topic", "a", "--dead-letters", "kafka:b", *more]) == 2
    [printed] = capsys.readouterr().err.splitlines()
    assert line in printed
