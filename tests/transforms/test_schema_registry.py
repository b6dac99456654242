"""The client of a schema registry: each id is asked for once; what is unknown, away or hostile is told apart."""

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from hushgram import Collection
from hushgram.pipelines.cli import command
from hushgram.pipelines.schemas import register
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH, SNAPSHOT
from hushgram.schemas.framing import BY_GUID, ID_HEADER, frame
from hushgram.schemas.messages import PREFIX, Unusable, encode_message
from hushgram.schemas.records import DeadLetter
from hushgram.schemas.resolution import LARGEST_SCHEMA, Writer
from hushgram.transforms import schema_registry
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.dead_messages import DeadMessage
from hushgram.transforms.parsing import Parser
from hushgram.transforms.schema_registry import RegistryClient, RegistryError, SchemaRegistry
from hushgram.transforms.sources.message_batch import MessageBatch
from tests.helpers.reports import make_report_rows
from tests.helpers.schemas import with_field
from tests.helpers.scripted_registry import JSON, UNKNOWN, run_registry, schema_answer

REPORT_ANSWER = schema_answer(REPORT.text)


@pytest.fixture
def server():
    with run_registry() as running:
        yield running


@pytest.fixture
def make_client(server):
    """Makes clients, which are closed with the test."""
    with ExitStack() as stack:

        def make(patience_seconds=20.0, **more):
            registry = SchemaRegistry(server.url, patience_seconds=patience_seconds, **more)
            return stack.enter_context(RegistryClient(registry))

        yield make


def test_an_id_is_asked_for_once(make_client, server):
    server.answers["/schemas/ids/7"] = REPORT_ANSWER
    client = make_client()
    for _ in range(3):
        assert client.schema(frame(7)).definition is REPORT
        assert client.schema(frame(8)) == Unusable("unknown_schema", "schema id 8, which the registry does not have")
    assert server.asked == ["/schemas/ids/7", "/schemas/ids/8"]


def test_an_id_that_was_unknown_is_asked_for_again_in_time(make_client, server, monkeypatch):
    client = make_client()
    monkeypatch.setattr(schema_registry, "UNKNOWN_SECONDS", 0.0)
    assert isinstance(client.schema(frame(7)), Unusable)
    server.answers["/schemas/ids/7"] = REPORT_ANSWER
    assert isinstance(client.schema(frame(7)), Writer)


def test_an_id_that_stays_unknown_is_asked_for_less_and_less_often(make_client, server, monkeypatch):
    client, clock = make_client(), [0.0]
    monkeypatch.setattr(schema_registry.time, "monotonic", lambda: clock[0])
    asked = []
    for second in range(200):
        clock[0], before = float(second), len(server.asked)
        client.schema(frame(7))
        asked += [second] * (len(server.asked) - before)
    assert asked == [0, 2, 6, 14, 30, 62, 122, 182]
    server.answers["/schemas/ids/7"] = REPORT_ANSWER
    clock[0] = 300.0
    assert isinstance(client.schema(frame(7)), Writer)


def test_who_waits_for_the_registry_keeps_nobody_from_what_is_known(make_client, server):
    server.answers["/schemas/ids/7"] = REPORT_ANSWER
    client, held, release = make_client(), threading.Event(), threading.Event()
    client.schema(frame(7))
    client.schema(frame(8))

    def answer_late():
        held.set()
        release.wait(60)
        return REPORT_ANSWER

    server.answers["/schemas/ids/9"] = answer_late
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(client.schema, frame(9))
        assert held.wait(60)
        others = [pool.submit(client.schema, frame(number)) for number in (7, 8)]
        try:
            known, unknown = [other.result(5) for other in others]
            assert not waiting.done()
        finally:
            release.set()
        assert isinstance(known, Writer)
        assert isinstance(unknown, Unusable)
        assert isinstance(waiting.result(60), Writer)


def test_the_memory_of_ids_is_bounded(make_client, server, monkeypatch):
    monkeypatch.setattr(schema_registry, "MOST_KEPT", 5)
    client = make_client()
    for number in range(20):
        client.schema(frame(number))
        assert len(client._unknown) <= 5


def test_schemas_are_found_by_guid_where_the_registry_knows_them(make_client, server):
    guid = BY_GUID + bytes(16)
    path = "/schemas/guids/00000000-0000-0000-0000-000000000000"
    server.answers[path] = schema_answer(REPORT_BATCH.text, id=3)
    assert make_client().schema(guid).definition is REPORT_BATCH
    server.answers[path] = 404, "text/plain", b""  # as a registry that has no such interface
    assert "does not have" in make_client().schema(guid).detail


UNUSABLE = {
    "protobuf": schema_answer("syntax", schemaType="PROTOBUF"),
    "references": schema_answer(REPORT.text, references=[{"name": "a", "subject": "b", "version": 1}]),
    "another record": schema_answer(SNAPSHOT.text),
    "no Avro": schema_answer("{"),
    "huge": schema_answer(" " * 5 * LARGEST_SCHEMA),
    "nested": schema_answer("[" * 30_000),
    "a size that is no number": schema_answer(
        with_field(REPORT.text, {"name": "more", "type": {"type": "fixed", "name": "F", "size": "abc"}})
    ),
}


@pytest.mark.parametrize("answer", UNUSABLE.values(), ids=UNUSABLE)
def test_a_schema_that_is_none_of_a_report_is_a_reason_to_refuse(make_client, server, answer):
    server.answers["/schemas/ids/7"] = answer
    found = make_client().schema(frame(7))
    assert isinstance(found, Unusable)
    assert found.reason == "unknown_schema"
    assert found.detail.startswith("schema id 7: ")


NO_ANSWERS = {
    "a page": (200, "text/html", b"<html>log in</html>"),
    "a large page": (200, "text/html", b"<p>" * 5 * LARGEST_SCHEMA),
    "no object": (200, JSON, b"[1, 2]"),
    "no schema": (200, JSON, b"{}"),
    "a number": schema_answer(7),
    "nested": (200, JSON, b"[" * 100_000),
    "an error": (500, JSON, b'{"error_code": 50001, "message": "store"}'),
    "too many": (429, JSON, b"{}"),
    "moved": (302, "text/html", b""),
}


@pytest.mark.slow
@pytest.mark.parametrize("garbage", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_what_no_registry_answers_is_waited_out(make_client, server, garbage, caplog):
    answers = [garbage, garbage, REPORT_ANSWER]
    server.answers["/schemas/ids/7"] = lambda: answers.pop(0)
    assert isinstance(make_client().schema(frame(7)), Writer)
    name = f"--schema-registry {server.url}"
    assert f"{name}: waiting, for at most 20s: " in caplog.text
    assert f"{name}: back after" in caplog.text


def test_a_404_of_a_proxy_is_no_answer(make_client, server):
    answers = [(404, "text/html", b"default backend"), REPORT_ANSWER]
    server.answers["/schemas/ids/7"] = lambda: answers.pop(0)
    server.answers["/schemas/types"] = (404, "text/html", b"default backend")
    assert isinstance(make_client().schema(frame(7)), Writer)


def test_patience_ends_with_a_line(make_client, server):
    server.answers["/schemas/ids/7"] = 503, JSON, b"{}"
    with pytest.raises(RegistryError, match=r"^--schema-registry http.*: not there after ") as error:
        make_client(patience_seconds=0.0).schema(frame(7))
    assert "\n" not in str(error.value)


DENIED = b'{"error_code": 40301, "message": "denied"}'


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_are_refused_at_the_start_are_not_waited_for(make_client, server, status):
    server.answers["/schemas/types"] = status, JSON, DENIED
    with pytest.raises(RegistryError, match="denied"):
        make_client().check()
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_are_refused_later_are_waited_for(make_client, server, status):
    answers = [(status, JSON, DENIED), (status, JSON, DENIED), REPORT_ANSWER]
    server.answers["/schemas/ids/7"] = lambda: answers.pop(0)
    server.answers["/schemas/types"] = status, JSON, DENIED
    assert isinstance(make_client().schema(frame(7)), Writer)
    server.answers["/schemas/ids/8"] = status, JSON, DENIED
    with pytest.raises(RegistryError, match="denied"):
        make_client(patience_seconds=0.0).schema(frame(8))


def test_an_id_that_we_may_not_read_is_a_reason_to_refuse_until_we_may(make_client, server, monkeypatch):
    monkeypatch.setattr(schema_registry, "UNKNOWN_SECONDS", 0.0)
    server.answers["/schemas/ids/7"] = 403, JSON, DENIED
    client = make_client()
    found = client.schema(frame(7))
    assert isinstance(found, Unusable)
    assert found.reason == "unknown_schema"
    assert found.detail.startswith("schema id 7: denied")
    server.answers["/schemas/ids/7"] = REPORT_ANSWER
    assert isinstance(client.schema(frame(7)), Writer)


def test_credentials_come_from_the_file_of_properties(server, tmp_path):
    file = tmp_path / "kafka.properties"
    file.write_text("sasl.username=kafka\nschema.registry.basic.auth.user.info=reader:secret\n")
    registry = SchemaRegistry(server.url, str(file))
    with RegistryClient(registry) as client:
        client.check()
    assert server.authorizations == ["Basic cmVhZGVyOnNlY3JldA=="]
    assert b"secret" not in pickle.dumps(registry)


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("registry:8081", "such as http://localhost:8081"),
        ("ftp://registry", "such as http"),
        ("http://", "such as http"),
        ("http://[::1", "such as http"),
        ("http://a,http://b", "such as http"),
        ("http://user:pw@registry", "in the file of properties"),
        ("http://user:pw@registry:99999", "in the file of properties"),
        ("http://user:pw@[::1", "in the file of properties"),
        ("ftp://user:pw@registry", "in the file of properties"),
        ("user:pw@registry", "in the file of properties"),
    ],
)
def test_addresses_that_cannot_be_are_refused_without_their_secrets(url, match):
    with pytest.raises(ValueError, match=match) as error:
        SchemaRegistry(url)
    assert "pw" not in str(error.value)


def test_a_property_that_is_settled_is_refused(make_client, server, tmp_path):
    file = tmp_path / "kafka.properties"
    file.write_text("schema.registry.url=http://elsewhere\n")
    with pytest.raises(RegistryError, match=r"got schema\.registry\.url, allowed: "):
        make_client(properties_file=str(file))


COLLECTION = Collection(name="commute", low=0, high=180, epsilon=1.0)
START = 1_767_225_600_000


def parse(server, messages, headers=None, **more):
    parser = Parser(CollectionIndex.of([COLLECTION]), START, SchemaRegistry(server.url, patience_seconds=20.0), **more)
    keys = None if headers is None else tuple(b"key" for _ in messages)
    return list(parser.parse(MessageBatch("reports[3]", None, None, tuple(messages), keys, headers)))


def test_the_parser_counts_framed_and_header_messages_and_keeps_refused_ones_whole(server):
    server.answers["/schemas/ids/7"] = REPORT_ANSWER
    rows = [{**row, "event_time": START} for row in make_report_rows(COLLECTION, 4, 1)]
    plain = [encode_message(REPORT, row) for row in rows]
    messages = [plain[0], encode_message(REPORT, rows[1], schema_id=7), plain[2][PREFIX:], frame(9) + b"x" * 10_000]
    messages.append(encode_message(REPORT, {**rows[3], "collection": "nobody"}, schema_id=7))
    own = [("trace", b"1"), ("hushgram.reason", b"forged")]
    headers = (None, None, [(ID_HEADER, b"\0\0\0\7")], None, own)
    outcomes = parse(server, messages, headers, whole=True)
    letters = [outcome for outcome in outcomes if isinstance(outcome, DeadLetter)]
    whole = {dict(part.headers)["hushgram.reason"]: part for part in outcomes if isinstance(part, DeadMessage)}
    uploads = [part for part in outcomes if not isinstance(part, DeadLetter | DeadMessage)]
    assert sum(part.reports for part in uploads) == 3
    assert sorted(letter.reason for letter in letters) == ["unknown_collection", "unknown_schema"]
    assert whole[b"unknown_schema"].value == messages[3]
    refused = whole[b"unknown_collection"]
    assert (refused.key, refused.value) == (b"key", messages[4])
    assert [pair for pair in refused.headers if not pair[0].startswith("__connect")] == [
        ("trace", b"1"),
        ("hushgram.reason", b"unknown_collection"),
    ]
    connect = {name.removeprefix("__connect.errors."): value for name, value in refused.headers}
    assert (connect["topic"], connect["partition"]) == (b"reports", b"3")
    assert connect["exception.message"] == b"collection 'nobody'"


def test_without_named_schemas_the_registry_is_not_asked(server):
    row = {**make_report_rows(COLLECTION, 1, 1)[0], "event_time": START}
    assert len(parse(server, [encode_message(REPORT, row)])) == 1
    assert not server.asked


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["schemas", "register"], "--schema-registry: missing"),
        (["schemas", "register", "--schema-registry", "http://u:p@h"], "in the file of properties"),
        (["schemas", "show", "Nothing"], "allowed: Report, ReportBatch, Snapshot"),
    ],
)
def test_mistakes_end_in_a_line(arguments, line, capsys):
    assert command.main(arguments) == 2
    [printed] = capsys.readouterr().err.splitlines()
    assert line in printed


def test_no_registry_at_an_address_ends_in_a_line(server, capsys):
    server.answers["/schemas/types"] = 200, "text/html", b"<html>"
    assert command.main(["schemas", "register", "--schema-registry", server.url]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert server.url in line
    server.answers["/schemas/types"] = UNKNOWN
    assert command.main(["schemas", "register", "--schema-registry", f"{server.url}/elsewhere"]) == 2


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b'{"error_code": 404, "message": "RESTEASY003210: Could not find resource"}'),
        (JSON, UNKNOWN[-1]),
        ("text/html", b"<html>404</html>"),
    ],
)
def test_an_address_without_its_path_is_told_of_with_a_hint(server, capsys, kind, body):
    server.answers["/apis/ccompat/v7/schemas/types"] = server.answers["/schemas/types"]
    server.answers["/schemas/types"] = 404, kind, body
    assert command.main(["schemas", "register", "--schema-registry", server.url]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hushgram: --schema-registry {server.url}: no schema registry at this address; is its path")
    assert "missing, such as /apis/ccompat/v7 for Apicurio?" in line
    with RegistryClient(SchemaRegistry(f"{server.url}/apis/ccompat/v7")) as client:
        client.check()


def of_subject(path, definition):
    return path.replace("SUBJECT", definition.name)


VERSIONS, RULE = "/subjects/SUBJECT/versions", "/config/SUBJECT"
WITHOUT_RULE = 404, JSON, b'{"error_code": 40408, "message": "no subject-level compatibility"}'


@pytest.mark.parametrize(
    ("versions", "rule", "is_set"),
    [
        (UNKNOWN, WITHOUT_RULE, True),
        (UNKNOWN, (200, JSON, b'{"compatibilityLevel": "NONE"}'), True),
        ((200, JSON, b"[1]"), WITHOUT_RULE, True),  # a run before this one was ended in between
        ((200, JSON, b"[1]"), (200, JSON, b'{"compatibilityLevel": "BACKWARD"}'), False),
    ],
)
def test_a_subject_without_a_rule_is_given_one(make_client, server, versions, rule, is_set):
    server.answers[of_subject(VERSIONS, REPORT_BATCH)] = versions
    server.answers[of_subject(RULE, REPORT_BATCH)] = rule
    server.answers[of_subject(f"POST {VERSIONS}", REPORT_BATCH)] = 200, JSON, b'{"id": 7}'
    server.answers[of_subject(f"PUT {RULE}", REPORT_BATCH)] = 200, JSON, b'{"compatibility": "FULL_TRANSITIVE"}'
    assert register(make_client(), REPORT_BATCH) == [7] * len(REPORT_BATCH.versions)
    written = [question.split()[0] for question in server.asked if " " in question]
    assert written == (["POST", "PUT", "POST"] if is_set else ["POST", "POST"])


def test_a_registry_that_takes_no_schemas_is_told_of_in_a_line(server, capsys):
    assert command.main(["schemas", "register", "--schema-registry", server.url]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hushgram: --schema-registry {server.url}: ")


def test_schemas_are_shown(capsys):
    assert command.main(["schemas", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"hushgram.ReportBatch: {', '.join(version.hex() for version in REPORT_BATCH.versions)}"
    assert command.main(["schemas", "show", "Report"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "Report"
