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
    [batch] = receive_bad_among_good(whole=True)
    assert batch.messages == (b"a", b"b", b"c")
    assert batch.headers == ([("trace", b"7")], None, [("trace", b"8")])
    assert batch.keys == (None, b"k", b"l")
    assert batch.size == len(b"a" + b"trace" + b"7" + b"b" + b"k" + b"c" + b"l" + b"trace" + b"8")


def test_only_what_is_asked_for_is_taken_from_messages():
    [batch], [bare] = receive_bad_among_good(headers=True), receive_bad_among_good()
    assert (batch.headers, batch.keys) == (([("trace", b"7")], None, [("trace", b"8")]), None)
    assert (bare.headers, bare.keys, bare.messages) == (None, None, batch.messages)


def receive_bad_among_good(**asked):
    good = FakeMessage((0, 0), content=b"a", own_headers=[("trace", b"7")])
    bad = FakeMessage((0, 1), content=b"b", own_key=b"k", own_headers=SystemError("of C code"))
    other = FakeMessage((0, 2), content=b"c", own_key=b"l", own_headers=[("trace", b"8")])
    positions = Positions("id", {0: Position(0)})
    [(_, position, batches)] = received("reports", sorted_out("reports", [good, bad, other]), positions, **asked)
    assert position.offset == 3
    return batches


def test_a_dead_letter_names_the_topic_by_its_id_too():
    batch = MessageBatch("reports[3]", np.array([5]), np.array([7]), (b"x",), None, None, "first")
    assert dict(dead_message(batch, 0, "too_old", "", decoded=True).headers)[TOPIC_ID] == b"first"


def start_writer(monkeypatch, largest):
    """A writer whose bundle has begun, and the producer it has, which takes messages of up to `largest` bytes."""
    sender = FakeSender(largest=largest)
    for module in (topic_writer, dead_letter_topic):
        monkeypatch.setattr(module, "producer", lambda *_, **__: sender)
    writer = WriteDeadMessages("--dead-letters", "refused", {}, None, 60)
    writer.setup()
    writer.start_bundle()
    return writer, sender


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
    writer, sender = start_writer(monkeypatch, largest=1000)
    writer.process((key, value, [*headers, (REASON, b"too_old")]))
    writer.finish_bundle()
    [(topic, arrived)] = sender.taken
    found = dict(arrived.own_headers)
    assert topic == "refused"
    assert (arrived.own_key, arrived.content, found.get(LEFT_OUT)) == left
    assert found[REASON] == b"too_old"


def test_a_topic_that_takes_no_reason_is_told_of(monkeypatch):
    writer, _ = start_writer(monkeypatch, largest=10)
    writer.process((None, b"", [(REASON, b"too_old")]))
    with pytest.raises(KafkaError, match=r"^--dead-letters kafka:refused: max\.message\.bytes is too small"):
        writer.finish_bundle()
