"""Refused messages on their way to a topic of dead letters, whatever their keys, headers and sizes are."""

import numpy as np
import pytest

from hushgram.transforms.dead_messages import LEFT_OUT, REASON, TOPIC_ID, dead_message
from hushgram.transforms.kafka_client import KafkaError
from hushgram.transforms.sinks import dead_letter_topic, topic_writer
from hushgram.transforms.sinks.dead_letter_topic import WriteDeadMessages
from hushgram.transforms.sources.kafka_polls import received, sorted_out
from hushgram.transforms.sources.kafka_positions import Position, Positions
from hushgram.transforms.sources.message_batch import MessageBatch
from tests.helpers.fake_kafka import FakeMessage, FakeSender


def test_a_message_with_a_header_that_is_no_text_counts_as_one_without_headers():
    """Kafka takes names that are not UTF-8, on which the client raises what C code left behind."""
    bad = FakeMessage((0, 1), content=b"b", own_key=b"k", own_headers=SystemError("of C code"))
    good = FakeMessage((0, 0), content=b"a", own_headers=[("trace", b"7")])
    positions = Positions("id", {0: Position(0)})
    [(_, position, [batch])] = received("reports", sorted_out("reports", [good, bad]), positions, whole=True)
    assert position.offset == 2
    assert batch.messages == (b"a", b"b")
    assert batch.headers == ([("trace", b"7")], None)
    assert batch.keys == (None, b"k")
    assert batch.size == len(b"a" + b"trace" + b"7" + b"b" + b"k")


def test_a_dead_letter_names_the_topic_by_its_id_too():
    batch = MessageBatch("reports[3]", np.array([5]), np.array([7]), (b"x",), None, None, "first")
    assert dict(dead_message(batch, 0, "too_old", "", decoded=True).headers)[TOPIC_ID] == b"first"


@pytest.mark.parametrize(
    ("key", "value", "headers", "left"),
    [
        (b"k", b"v" * 100, [("trace", b"7")], (b"k", b"v" * 100, None)),
        (b"k", b"v" * 5000, [("trace", b"7")], (b"k", None, b"5000")),
        (b"k" * 5000, b"v", [], (None, None, b"5001")),
        (b"k", None, [("trace", b"7" * 5000)], (None, None, b"5006")),
        (b"k" * 5000, b"v" * 5000, [("trace", b"7" * 5000)], (None, None, b"15005")),
    ],
)
def test_what_a_topic_takes_of_a_message_arrives_with_the_reason(monkeypatch, key, value, headers, left):
    sender = FakeSender(largest=1000)
    for module in (topic_writer, dead_letter_topic):
        monkeypatch.setattr(module, "producer", lambda *_, **__: sender)
    writer = WriteDeadMessages("--dead-letters", "refused", {}, None, 60)
    writer.setup()
    writer.start_bundle()
    writer.process((key, value, [*headers, (REASON, b"too_old")]))
    writer.finish_bundle()
    [(topic, arrived)] = sender.taken
    found = dict(arrived.own_headers)
    assert topic == "refused"
    assert (arrived.own_key, arrived.content, found.get(LEFT_OUT)) == left
    assert found[REASON] == b"too_old"


def test_a_topic_that_takes_no_reason_is_told_of(monkeypatch):
    sender = FakeSender(largest=10)
    for module in (topic_writer, dead_letter_topic):
        monkeypatch.setattr(module, "producer", lambda *_, **__: sender)
    writer = WriteDeadMessages("--dead-letters", "refused", {}, None, 60)
    writer.setup()
    writer.start_bundle()
    writer.process((None, b"", [(REASON, b"too_old")]))
    with pytest.raises(KafkaError, match=r"^--dead-letters kafka:refused: max\.message\.bytes is too small"):
        writer.finish_bundle()
