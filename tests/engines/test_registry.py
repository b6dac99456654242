"""A real schema registry: schemas in it, messages that name them, evolution both ways, and a stream without it."""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from devtools.processes import HOST, eventually, free_port
from hushgram.pipelines.cli import command
from hushgram.pipelines.runners import FLINK
from hushgram.pipelines.stream import add_arguments, job_of
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH, SNAPSHOT
from hushgram.schemas.framing import FRAME, frame, parse_id
from hushgram.schemas.messages import decode_reports, reframe
from hushgram.transforms.schema_registry import RegistryClient, RegistryError, SchemaRegistry, client_of
from tests.helpers.reports import compute_tallies, make_report_rows
from tests.helpers.schemas import NEWER, encode_foreign, frames_of, older_report, with_field
from tests.helpers.streams import make_mixed_stream, read_topic


@pytest.fixture
def client(registry):
    with RegistryClient(SchemaRegistry(registry.url, patience_seconds=120)) as running:
        yield running


@pytest.fixture
def confluent(registry):
    with SchemaRegistryClient({"url": registry.url}) as running:
        yield running


def test_all_schemas_are_registered_in_all_versions_and_keep_their_ids(registry, confluent, capsys):
    arguments = ["schemas", "register", "--schema-registry", registry.url]
    assert command.main(arguments) == 0
    lines = capsys.readouterr().out
    assert command.main(arguments) == 0
    assert capsys.readouterr().out == lines
    names = {
        "hushgram.Report",
        "hushgram.ReportBatch",
        "hushgram.Snapshot",
        "hushgram.Histogram",
        "hushgram.DeadLetter",
    }
    assert names <= set(confluent.get_subjects())
    assert len(confluent.get_versions("hushgram.Snapshot")) == len(SNAPSHOT.versions)
    latest = confluent.get_latest_version("hushgram.ReportBatch").schema.schema_str
    assert json.loads(latest) == json.loads(REPORT_BATCH.text)


def test_the_registry_refuses_what_would_break_readers(registry, confluent):
    breaking = with_field(REPORT.text, {"name": "battery", "type": "int"})
    with pytest.raises(SchemaRegistryError) as error:
        confluent.register_schema("hushgram.Report", Schema(breaking, "AVRO"))
    assert error.value.http_status_code == 409


def test_older_and_newer_reports_are_read_side_by_side(collections, client, confluent):
    """What Confluent's own serializer writes: with a field fewer, with ours, and with a nullable field more."""
    rows = make_report_rows(collections["commute"], 30, seed=1)
    confluent.register_schema("older", Schema(older_report(), "AVRO"))
    confluent.register_schema("hushgram.Report", Schema(NEWER, "AVRO"))
    messages = []
    for text, subject, part in (
        (older_report(), "older", rows[:10]),
        (REPORT.text, "hushgram.Report", rows[10:20]),
        (NEWER, "hushgram.Report", rows[20:]),
    ):
        settings = {"auto.register.schemas": False, "subject.name.strategy": lambda ctx, name, subject=subject: subject}
        write = AvroSerializer(confluent, text, conf=settings)
        field = SerializationContext("reports", MessageField.VALUE)
        messages += [write({**row, "battery": 3} if text == NEWER else row, field) for row in part]
    assert len({message[:FRAME] for message in messages}) == 3
    decoded, refused = decode_reports(messages, client.schema)
    assert not refused
    cells = {place: cell for places, columns in decoded for place, cell in zip(places, columns.cells, strict=True)}
    assert [cells[place] for place in range(30)] == [row["cell"] for row in rows]


def test_unknown_ids_and_guids_are_told_from_an_outage(client):
    for unknown in (frame(2**32 - 1), b"\1" + bytes(16)):
        assert client.schema(unknown).reason == "unknown_schema"


def test_a_registry_that_is_away_is_waited_for(registry, client, caplog, monkeypatch):
    monkeypatch.setattr("hushgram.transforms.sinks.patience.LONGEST_PAUSE", 0.5)
    assert client.schema(frame(1)).definition is REPORT
    client._known.clear()
    registry.kill()
    with ThreadPoolExecutor() as pool:
        future = pool.submit(client.schema, frame(1))
        eventually("the line", lambda: "waiting, for at most 2m" in caplog.text, 60)
        registry.start()
        assert future.result(120).definition is REPORT
    assert "back after" in caplog.text
    nowhere = SchemaRegistry(f"http://{HOST}:{free_port()}", patience_seconds=0)
    with RegistryClient(nowhere) as impatient, pytest.raises(RegistryError, match=r"not there after .*Connect"):
        impatient.schema(frame(1))


def test_a_stream_without_its_registry_is_late_and_exact(
    broker, registry, client, collections, topic, prism, now, start_stream
):
    """Framed messages beside others; the registry is killed before a schema is first met; dead letters are a topic."""
    stream = make_mixed_stream(collections, now, seed=91, count=100)
    frames = frames_of(client)
    framed = [reframe(m, frames) if m is not None and m[:10] in frames else m for m in stream.messages]
    unknown = [frame(4_000_000_000) + b"record"] * 3
    stream.of_unknown_number += len(unknown)
    snapshots = broker.create_topic(f"{topic.name}-snapshots")
    refused = broker.create_topic(f"{topic.name}-refused")
    options = [f"--sink=kafka:{snapshots}", f"--dead-letters=kafka:{refused}", "--schema-registry", registry.url]
    topic.send(stream.messages[::2])
    run = start_stream(*topic.options, f"--prism_location={prism}", *options, "--framed")
    run.until_first_pane()
    registry.kill()
    topic.send([*framed[1::2], *unknown])
    log = run.process.log
    eventually("the line", lambda: f"--schema-registry {registry.url}: waiting" in log.read_text(), 120)
    registry.start()
    run.until_tallies(compute_tallies(list(collections.values()), stream.accepted))
    run.until_letters(stream.refused, stream.of_unknown_number)
    run.stop()
    framed_snapshots = {message.value()[:FRAME] for message in read_topic(broker.address, snapshots)}
    assert framed_snapshots == {frame(client.id_of(SNAPSHOT))}
    # All that was refused but duplicates, which are found in columns, is there whole.
    dead = [message.value() for message in read_topic(broker.address, refused)]
    headers = [dict(message.headers()) for message in read_topic(broker.address, refused)]
    places = {(part["__connect.errors.partition"], part["__connect.errors.offset"]) for part in headers}
    expected = sum(stream.refused.values()) - stream.refused["duplicate"] + stream.of_unknown_number
    assert len(places) == expected
    assert sum(part["hushgram.reason"] == b"unknown_schema" for part in headers) >= len(unknown)
    assert set(dead) <= {*stream.messages, *framed, *unknown}


@pytest.mark.parametrize("registry_asked", [False, True])
@pytest.mark.parametrize("letters_asked", [False, True])
def test_a_stream_asks_for_headers_and_keys_if_it_needs_them(
    folder, broker, registry, topic, registry_asked, letters_asked
):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    arguments = [f"--collections={folder / 'collections.yaml'}", f"--output={folder / 'never'}", *topic.options]
    if registry_asked:
        arguments += ["--schema-registry", registry.url]
    if letters_asked:
        arguments += [f"--dead-letters=kafka:{broker.create_topic(f'{topic.name}-refused')}"]
    source = job_of(parser.parse_args(arguments), FLINK).source
    assert (source.headers, source.whole) == (registry_asked, letters_asked)


def test_live_simulation_can_write_framed(folder, broker, registry, client, topic):
    source = ["--collections", str(folder / "collections.yaml"), "--kafka", broker.address, "--topic", topic.name]
    more = ["--reports", "200", "--rate", "10000", "--schema-registry", registry.url, "--framed"]
    assert command.main(["simulate", *source, *more]) == 0
    messages = [message.value() for message in read_topic(broker.address, topic.name)]
    assert len(messages) == 400
    [schema_id] = {parse_id(message[:FRAME]) for message in messages}
    assert schema_id == client.id_of(REPORT)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--framed"], "--framed: needs --schema-registry"),
        (["--schema-registry", "http://127.0.0.1:1"], "--schema-registry http://127.0.0.1:1: Connect"),
        (["--schema-registry", "ELSEWHERE"], "allowed: such as http://localhost:8081"),
        (["--dead-letters", "kafka:nowhere"], "topic 'nowhere'"),
        (["--dead-letters", "files"], "--dead-letters: got 'files', allowed: kafka:TOPIC"),
        (["--dead-letters", "kafka:reports-of-lines"], "which is the topic of reports"),
    ],
)
def test_what_is_wrong_ends_the_command_with_a_line(folder, broker, capsys, more, line):
    if not broker.has_topic("reports-of-lines"):
        broker.create_topic("reports-of-lines")
    arguments = ["--collections", str(folder / "collections.yaml"), "--output", str(folder / "never")]
    source = ["--kafka", broker.address, "--topic", "reports-of-lines"]
    assert command.main(["stream", *arguments, *source, *more]) == 2
    [printed] = capsys.readouterr().err.splitlines()
    assert line in printed


def test_the_address_of_its_server_without_the_path_is_told_of_with_a_hint(registry, capsys):
    server = registry.url.removesuffix("/apis/ccompat/v7")
    assert command.main(["schemas", "register", "--schema-registry", server]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hushgram: --schema-registry {server}: no schema registry at this address; is its path")


def test_a_schema_that_is_not_registered_is_told_with_advice(folder, broker, registry, topic, confluent, capsys):
    confluent.delete_subject("hushgram.DeadLetter")
    capsys.readouterr()
    confluent.delete_subject("hushgram.Snapshot")
    try:
        arguments = ["--collections", str(folder / "collections.yaml"), "--output", str(folder / "never")]
        snapshots = broker.create_topic(f"{topic.name}-snapshots")
        more = [f"--sink=kafka:{snapshots}", "--schema-registry", registry.url, "--framed"]
        assert command.main(["stream", *arguments, *topic.options, *more]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert f"run `hushgram schemas register --schema-registry {registry.url}` once" in line
    finally:
        client_of.cache_clear()  # a client remembers what it has registered, and would leave it deleted
        assert command.main(["schemas", "register", "--schema-registry", registry.url]) == 0


def test_reports_of_a_newer_schema_are_read_from_a_topic(broker, topic, collections, client, confluent):
    """As a source hands them on: with the id in front, and in a header."""
    [row] = make_report_rows(collections["commute"], 1, seed=1)
    number = confluent.register_schema("hushgram.Report", Schema(NEWER, "AVRO"))
    body = encode_foreign(NEWER, {**row, "battery": 7})
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    producer.produce(topic.name, frame(number) + body)
    producer.produce(topic.name, body, headers=[("__value_schema_id", frame(number))])
    assert producer.flush(30) == 0
    messages = read_topic(broker.address, topic.name)
    ids = [frame(number) if message.headers() else None for message in messages]
    decoded, refused = decode_reports([message.value() for message in messages], client.schema, ids)
    assert not refused
    assert [columns.cells.tolist() for _, columns in decoded] == [[row["cell"]], [row["cell"]]]
