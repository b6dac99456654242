"""What a person sees when Kafka is not as they thought; and live simulation."""

import json

import pytest
from streams import read_topic

from deploy.local import Broker
from deploy.local.processes import HOST, free_port
from pipelines import command
from schemas.messages import decode_reports

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
