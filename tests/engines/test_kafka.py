"""What a person sees when Kafka is not as they thought; and live simulation."""

import json

import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration
from confluent_kafka import Producer
from streams import read_topic

from deploy.local import Broker
from deploy.local.processes import HOST, free_port
from pipelines import command
from schemas.messages import decode_reports
from transforms.sources.kafka import Partitions, ReadPolls, Tracker
from transforms.sources.unbounded import REST_SECONDS

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username=admin password=secret"


def stream(folder, address, *more):
    arguments = ["--collections", str(folder / "collections.yaml"), "--output", str(folder / "never")]
    return command.main(["stream", *arguments, "--kafka", address, *more])


def test_a_broker_that_is_down_ends_the_command_with_a_line(folder, capsys, monkeypatch):
    monkeypatch.setattr("transforms.kafka_client.TIMEOUT", 2)
    address = f"{HOST}:{free_port()}"
    assert stream(folder, address, "--topic", "reports") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"no answer from Kafka at {address}" in line


def test_a_topic_that_does_not_exist_ends_the_command_with_a_line(folder, broker, capsys):
    assert stream(folder, broker.address, "--topic", "nowhere") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "topic 'nowhere'" in line
    assert "Unknown topic" in line


@pytest.fixture(scope="module")
def guarded(folder):
    """A broker that asks for a password."""
    server = {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN} user_admin=secret;",
    }
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    client |= {"sasl.username": "admin", "sasl.password": "secret"}
    with Broker(folder / "guarded", properties=server, client=client) as running:
        running.create_topic("reports")
        yield running


@pytest.mark.parametrize(("password", "code"), [("wrong", 2), ("secret", 0)])
def test_credentials_come_from_a_file_and_are_not_told(folder, guarded, tmp_path, capsys, password, code):
    file = tmp_path / "kafka.properties"
    file.write_text(
        "# who we are\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.username=admin\nsasl.password={password}\n"
    )
    send = ["--collections", str(folder / "collections.yaml"), "--kafka", guarded.address, "--topic", "reports"]
    arguments = [*send, "--reports", "10", "--kafka-properties", str(file)]
    assert command.main(["simulate", *arguments]) == code
    said = capsys.readouterr()
    if code:
        assert "uthentication" in said.err
        assert password not in said.err + said.out


@pytest.mark.parametrize("packed", [False, True], ids=["single", "packed"])
def test_live_simulation_sends_what_it_says(folder, broker, topic, tmp_path, capsys, packed):
    made = ["--collections", str(folder / "collections.yaml"), "--kafka", broker.address, "--topic", topic.name]
    faults = ["--ids", "--late", "0.1", "--damaged", "0.05", "--repeated", "0.05", "--output", str(tmp_path)]
    amount = ["--reports", "4000", "--rate", "4000", *(["--packed"] if packed else [])]
    assert command.main(["simulate", *made, *amount, *faults]) == 0
    said = capsys.readouterr().out
    messages = [message.value() for message in read_topic(broker.address, topic.name)]
    decoded, refused = decode_reports(messages)
    ids = [tuple(row) for _, columns in decoded for row in columns.id.tolist()]
    assert f"{len(refused):,} messages were cut short, {len(ids) - len(set(ids)):,} sent twice" in said
    assert refused
    assert len(ids) > len(set(ids))
    truth = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    counted = sum(t["reports"] for t in truth if t["collection"] == "commute" and t["group"] is None)
    assert 0 < counted < 4000
    if not packed:
        assert counted == len(set(_ids_of("commute", decoded)))


def _ids_of(name, decoded):
    for _, columns in decoded:
        mine = columns.collection.codes == columns.collection.names.index(name)
        yield from map(tuple, columns.id[mine].tolist())


class Standing(Tracker):
    """A restriction that remembers how long the source wants to rest."""

    def defer_remainder(self, rest):
        self.rest = rest


def test_a_topic_that_ends_in_a_transaction_is_read_to_its_end(broker, topic):
    """The mark at the end is never handed out; waited for, it would hold the watermark for ever."""
    client = Producer({"bootstrap.servers": broker.address, "transactional.id": topic.name, "log_level": 0})
    client.init_transactions(30)
    client.begin_transaction()
    for _ in range(5):
        client.produce(topic.name, b"x", partition=0)
    client.commit_transaction(30)
    [last] = read_topic(broker.address, topic.name)[-1:]
    source = ReadPolls({"bootstrap.servers": broker.address, "group.id": "test"}, None, 0)
    source.setup()
    element = (topic.name, ((0, 0),))
    restriction, watermark, polls = (
        Partitions().initial_restriction(element),
        ManualWatermarkEstimator(MIN_TIMESTAMP),
        [],
    )
    for _ in range(3):  # the end may be told after the last message, and then in the next call
        tracker = Standing(restriction)
        polls += [emitted.value for emitted in source.process(element, tracker, watermark)]
        restriction = tracker.position()
    source.teardown()
    assert sum(len(poll.messages) for poll in polls) == 5
    [(_, offset, received)] = restriction
    assert offset == last.offset() + 2
    assert received >= last.timestamp()[1]
    assert tracker.rest == Duration(REST_SECONDS)
    assert watermark.current_watermark() > MIN_TIMESTAMP
