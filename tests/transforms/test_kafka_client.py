"""Kafka's properties come from a file that people write by hand: every mistake in it is reported in one line."""

import gc
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram.transforms import kafka_client
from hushgram.transforms.kafka_client import SETTLED, KafkaError, consumer, headers_of, producer, read_properties

names = st.text("abcdefghijklmnopqrstuvwxyz.", min_size=1).filter(lambda name: name not in SETTLED)
values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")).map(str.strip)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("properties")


def write_properties(folder, text):
    path = folder / "kafka.properties"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@settings(deadline=None)
@given(
    properties=st.dictionaries(names, values),
    ending=st.sampled_from(["\n", "\r\n"]),
    space=st.sampled_from(["", "  ", "\t"]),
)
def test_a_kafka_property_is_the_text_after_the_first_equals_sign(folder, properties, ending, space):
    lines = [
        "# a comment = none",
        "",
        *(f"{space}{name}{space}={space}{value}{space}" for name, value in properties.items()),
    ]
    assert read_properties(write_properties(folder, ending.join(lines))) == properties


def test_a_secret_in_kafka_properties_may_hold_anything_but_a_new_line(folder):
    secret = "a=b#c\x0cd\u2028e\x85f=g\x1c h"
    assert read_properties(write_properties(folder, f"sasl.password={secret}\n")) == {"sasl.password": secret}


@pytest.mark.parametrize("line", ["hunter2", "=hunter2", "  = hunter2", "\x00hunter2"])
def test_a_line_that_is_not_a_property_is_reported_by_its_number_and_not_by_its_text(folder, line):
    with pytest.raises(KafkaError) as error:
        read_properties(write_properties(folder, f"a=b\n# c\n\n{line}\nd=e"))
    assert str(error.value) == f"{folder}/kafka.properties, line 4: allowed: name=value"


@pytest.mark.parametrize("name", SETTLED)
def test_properties_that_exact_counts_depend_on_cannot_be_set(folder, name):
    with pytest.raises(KafkaError, match=rf"line 2: {name} is settled"):
        read_properties(write_properties(folder, f"a=b\n  {name} = true"))


@pytest.mark.parametrize("hostile", [b"\xff\xfe", b"a=\xc3("], ids=["bytes", "cut"])
def test_a_properties_file_that_is_not_text_is_reported_in_one_line(folder, hostile):
    with pytest.raises(KafkaError, match="cannot be read") as error:
        read_properties(write_properties(folder, hostile))
    assert "\n" not in str(error.value)


def test_a_missing_properties_file_or_a_folder_is_reported_in_one_line(folder):
    for path in (folder, folder / "nobody"):
        with pytest.raises(KafkaError, match="cannot be read") as error:
            read_properties(str(path))
        assert "\n" not in str(error.value)


GROUP = {"group.id": "g"}


@pytest.mark.parametrize(
    ("properties", "lines", "message"),
    [
        (GROUP, "no.such.property=1", "no.such.property"),
        (GROUP, "session.timeout.ms=soon", "session.timeout.ms"),
        (GROUP, "error_cb=print", "error_cb"),
        (GROUP, "default.topic.config=x", "Kafka: "),
        (GROUP, "security.protocol=none", "security.protocol"),
        ({}, "", "group.id"),
    ],
)
def test_mistakes_in_properties_are_reported_in_one_line(folder, properties, lines, message):
    with pytest.raises(KafkaError) as error:
        consumer(properties, write_properties(folder, lines))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_properties_file_precedes_the_arguments_and_settled_properties_precede_both(folder, monkeypatch):
    recorded = []

    def record_settings(client_settings):
        recorded.append(client_settings)

    monkeypatch.setattr("confluent_kafka.Consumer", record_settings)
    monkeypatch.setattr("confluent_kafka.Producer", record_settings)
    path = write_properties(folder, "sasl.password=secret\nbootstrap.servers=there\nlinger.ms=999")
    arguments = {"bootstrap.servers": "here", "enable.auto.commit": "true", "group.id": "g"}
    consumer(arguments, path, error_cb=print)
    producer(arguments, path)
    consumer_settings, producer_settings = recorded
    assert consumer_settings["bootstrap.servers"] == producer_settings["bootstrap.servers"] == "there"
    assert consumer_settings["sasl.password"] == "secret"
    assert (
        consumer_settings["enable.auto.commit"],
        consumer_settings["auto.offset.reset"],
        consumer_settings["error_cb"],
    ) == ("false", "error", print)
    assert (producer_settings["enable.idempotence"], "group.id" in producer_settings) == ("true", False)


def make_client(**answers):
    """A client of a broker that gives these answers, and remembers that it was closed."""
    closed = []
    return SimpleNamespace(**answers, poll=lambda timeout: None, close=lambda: closed.append(True)), closed


def test_a_fetch_is_held_back_briefly_unless_the_properties_say_otherwise(folder, monkeypatch):
    recorded = []
    monkeypatch.setattr("confluent_kafka.Consumer", recorded.append)
    for path in (None, write_properties(folder, "fetch.wait.max.ms=700")):
        consumer(GROUP, path)
    assert [client_settings["fetch.wait.max.ms"] for client_settings in recorded] == ["100", "700"]


def test_partitions_begin_at_their_first_offset_or_their_last(monkeypatch):
    topics = {"t": SimpleNamespace(error=None, partitions={1: None, 0: None})}
    client, closed = make_client(
        list_topics=lambda topic, timeout: SimpleNamespace(topics=topics),
        get_watermark_offsets=lambda partition, timeout: (partition.partition + 5, partition.partition + 50),
    )
    monkeypatch.setattr(kafka_client, "consumer", lambda *_, **__: client)
    assert kafka_client.first_offsets("t", {}, None, latest=False) == {0: 5, 1: 6}
    assert kafka_client.first_offsets("t", {}, None, latest=True) == {0: 50, 1: 51}
    assert len(closed) == 2


def test_a_missing_topic_and_a_silent_broker_are_reported_in_one_line(monkeypatch):
    from confluent_kafka import KafkaError as ClientError
    from confluent_kafka import KafkaException

    def refuse(*_, **__):
        raise KafkaException(ClientError(ClientError._TRANSPORT))

    unknown = SimpleNamespace(error=ClientError(ClientError.UNKNOWN_TOPIC_OR_PART), partitions={})
    answers = {"Unknown topic": lambda *_, **__: SimpleNamespace(topics={"t": unknown}), "no answer": refuse}
    for message, answer in answers.items():
        client, closed = make_client(list_topics=answer)
        monkeypatch.setattr(kafka_client, "consumer", lambda *_, client=client, **__: client)
        with pytest.raises(KafkaError) as error:
            kafka_client.first_offsets("t", {"bootstrap.servers": "there:1"}, None, latest=False)
        assert message in str(error.value)
        assert "there:1" in str(error.value)
        assert "\n" not in str(error.value)
        assert closed == [True]


def test_a_topic_without_a_leader_is_waited_for(monkeypatch):
    from confluent_kafka import KafkaError as ClientError
    from confluent_kafka import KafkaException

    errors = [ClientError(getattr(ClientError, name)) for name in kafka_client.NO_LEADER_YET]

    def answer(partition, timeout):
        if errors:
            raise KafkaException(errors.pop())
        return 3, 7

    topics = {"t": SimpleNamespace(error=None, partitions={0: None})}
    client, closed = make_client(
        list_topics=lambda *_, **__: SimpleNamespace(topics=topics), get_watermark_offsets=answer
    )
    monkeypatch.setattr(kafka_client, "consumer", lambda *_, **__: client)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert kafka_client.first_offsets("t", {}, None, latest=False) == {0: 3}
    assert closed == [True]


def test_errors_to_give_up_on_are_names_that_kafka_knows():
    from confluent_kafka import KafkaError as ClientError

    assert all(
        hasattr(ClientError, name) for name in (*kafka_client.ABSENT, *kafka_client.DENIED, *kafka_client.OUT_OF_RANGE)
    )


@pytest.mark.parametrize("collects", [True, False])
def test_reading_the_headers_of_a_poll_does_not_set_off_the_garbage_collector(collects):
    """Each new list would count towards its next turn; afterwards it is on or off as before."""
    seen = []

    def headers(index):
        seen.append(gc.isenabled())
        if index == 1:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "a name that is no text")
        return [("trace", bytes([index]))]

    messages = [SimpleNamespace(headers=lambda index=index: headers(index)) for index in range(3)]
    (gc.enable if collects else gc.disable)()
    try:
        assert headers_of(messages) == [[("trace", b"\0")], None, [("trace", b"\2")]]
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    assert seen == [False] * 3
