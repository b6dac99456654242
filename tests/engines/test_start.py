"""What is wrong with Kafka or the schema registry is one line before any work begins, by the option that names it."""

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import check_letters_target
from hushgram.pipelines.schemas import ALL
from hushgram.schemas.avro_schemas import DEAD_LETTER
from hushgram.transforms.schema_registry import client_of
from tests.helpers.scripted_registry import JSON, run_registry


@pytest.fixture
def run(folder, tmp_path, capsys):
    """Runs a command; returns the one line that it ends with."""

    def run(name, address, *more):
        places = ["--collections", str(folder / "collections.yaml"), "--kafka", address]
        outputs = {"stream": ["--output", str(tmp_path / "never")], "simulate": ["--reports", "10"]}
        arguments = [name] if name == "schemas" else [name, *places, *outputs.get(name, [])]
        assert command.main([*arguments, *more]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert not (tmp_path / "never").exists()
        [line] = printed.err.splitlines()
        return line.removeprefix("hushgram: ")

    return run


# Kafka ---------------------------------------------------------------------------------------------------------------


UNWRITABLE = [
    # Whether a topic exists, a clerk may not know.
    ("admin", "nowhere", "Broker: Unknown topic or partition"),
    ("clerk", "nowhere", "Broker: Topic authorization failed"),
    ("clerk", "hidden", "Broker: Topic authorization failed"),
    ("clerk", "readable", "may be read, not written to: allow the operation Write"),
]


@pytest.mark.parametrize(("user", "topic", "reason"), UNWRITABLE)
def test_a_topic_that_cannot_be_written_to_is_named_by_its_option(guarded, login, run, user, topic, reason):
    line = f"topic '{topic}' at {guarded.address}: {reason}"
    from_reports = ["--topic", "reports", *login(user)]
    options = {"--dead-letters": f"kafka:{topic}", "--sink": f"kafka:{topic}"}
    for option, value in options.items():
        assert run("stream", guarded.address, *from_reports, option, value) == f"{option} {value}: {line}"
    told = run("collect", guarded.address, *from_reports, "--letters-topic", topic)
    assert told == f"--letters-topic {topic}: {line}"
    to_topic = ["--topic", topic, *login(user)]
    assert run("simulate", guarded.address, *to_topic) == f"--kafka: {line}"
    assert run("replay", guarded.address, *to_topic, "--dead-letters", "kafka:reports") == f"--kafka: {line}"


@pytest.mark.parametrize(("user", "topic", "reason"), UNWRITABLE)
def test_a_replay_names_the_topic_of_dead_letters(guarded, login, run, user, topic, reason):
    """To which it writes what stays."""
    options = ["--topic", "reports", *login(user), "--dead-letters", f"kafka:{topic}"]
    line = f"--dead-letters kafka:{topic}: topic '{topic}' at {guarded.address}: {reason}"
    assert run("replay", guarded.address, *options) == line


def test_a_topic_that_would_not_keep_all_dead_letters_is_refused(guarded, login, run):
    """Of letters with one key it keeps the last, and it takes none without a key."""
    for number, policy in enumerate(("compact", "compact,delete")):
        topic = guarded.create_topic(f"compacted-{number}", **{"cleanup.policy": policy})
        reason = f"topic '{topic}' at {guarded.address}: cleanup.policy is {policy}: messages of one key would replace"
        option = f"--dead-letters kafka:{topic}"
        options = ["--topic", "reports", *login("admin")]
        for name in ("stream", "replay"):
            assert run(name, guarded.address, *options, *option.split()).startswith(f"{option}: {reason}")
        option = f"--letters-topic {topic}"
        assert run("collect", guarded.address, *options, *option.split()).startswith(f"{option}: {reason}")


def test_wrong_credentials_are_told_of_the_brokers(guarded, login, run, monkeypatch):
    """They are the same for all topics."""
    monkeypatch.setattr("hushgram.transforms.kafka_client.TIMEOUT", 5)
    options = ["--topic", "reports", "--dead-letters", "kafka:writable", *login("clerk", "wrong")]
    for name in ("stream", "replay"):
        line = run(name, guarded.address, *options)
        assert line.startswith(f"--kafka: no answer from Kafka at {guarded.address}: ")
        assert "Authentication failed" in line


def test_what_the_clerk_may_write_is_taken(guarded, login):
    for user in ("clerk", "admin"):
        check_letters_target("writable", {"bootstrap.servers": guarded.address, "group.id": "a"}, login(user)[1], "")


# The registry --------------------------------------------------------------------------------------------------------

CREDENTIALS = "credentials are schema.registry.basic.auth.user.info and the like in the file of --kafka-properties"


@pytest.fixture
def scripted():
    with run_registry() as running:
        yield running


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("task", ["stream", "simulate", "schemas"])
def test_a_registry_that_refuses_credentials_is_one_line(broker, topic, scripted, run, task, status):
    scripted.answers["/schemas/types"] = status, JSON, b'{"error_code": 40301, "message": "no such reader"}'
    arguments = ["register"] if task == "schemas" else ["--topic", topic.name]
    framed = ["--framed"] if task == "simulate" else []
    line = run(task, broker.address, *arguments, "--schema-registry", scripted.url, *framed)
    assert (
        line
        == f"--schema-registry {scripted.url}: no such reader (HTTP status code {status}, SR code 40301); {CREDENTIALS}"
    )
    assert scripted.asked == ["/schemas/types"]


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("task", ["stream", "simulate", "schemas"])
def test_a_registry_that_refuses_to_look_up_or_take_schemas_is_one_line(broker, topic, scripted, run, task, status):
    """It answers whoever asks what it is, and nothing else."""
    denied = status, JSON, b'{"error_code": 40301, "message": "no rights"}'
    of_subjects = [f"/subjects/{definition.name}" for definition in ALL]
    scripted.answers |= {f"{way}{path}": denied for path in of_subjects for way in ("", "POST ")}
    scripted.answers |= {f"{way}{path}/versions": denied for path in of_subjects for way in ("", "POST ")}
    framed = ["--topic", topic.name, "--framed"]
    arguments = {
        "stream": [*framed, f"--sink=kafka:{topic.name}-snapshots"],
        "simulate": framed,
        "schemas": ["register"],
    }
    if task == "stream":
        broker.create_topic(f"{topic.name}-snapshots")
    line = run(task, broker.address, *arguments[task], "--schema-registry", scripted.url)
    assert line.startswith(f"--schema-registry {scripted.url}: no rights")
    assert line.endswith(CREDENTIALS)


OTHER = {"type": "record", "name": "DeadLetter", "namespace": "hushgram", "fields": [{"name": "x", "type": "int"}]}


def test_a_subject_that_holds_something_else_is_one_line_that_names_it(registry, capsys):
    """On the real registry. What was registered before the refusal stays, and is printed."""
    name, arguments = DEAD_LETTER.name, ["schemas", "register", "--schema-registry", registry.url]
    with SchemaRegistryClient({"url": registry.url}) as confluent:
        confluent.delete_subject(name)
        confluent.register_schema(name, Schema(json.dumps(OTHER), "AVRO"))
        confluent.set_compatibility(name, "FULL_TRANSITIVE")
        try:
            client_of.cache_clear()  # a client remembers what it has registered
            assert command.main(arguments) == 2
            printed = capsys.readouterr()
            told = [line.partition(":")[0] for line in printed.out.splitlines()]
            assert told == [definition.name for definition in ALL if definition is not DEAD_LETTER]
            [line] = printed.err.splitlines()
            assert line.startswith(f"hushgram: --schema-registry {registry.url}: subject {name}: ")
            assert line.endswith("; it holds another schema, or a stricter rule")
        finally:
            confluent.delete_subject(name)
            client_of.cache_clear()
            assert command.main(arguments) == 0
