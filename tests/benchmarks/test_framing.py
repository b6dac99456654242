"""The benchmark of messages that name their schema: the same reports in every form, and the fastest of fresh rounds."""

import time
from types import SimpleNamespace

import pytest

from benchmarks import framing
from benchmarks.streams import encode_messages
from hushgram import Collection
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.framing import FRAME, frame, id_in_headers
from hushgram.schemas.messages import PREFIX, decode_reports
from hushgram.schemas.resolution import parse_writer
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.parsing import Parser
from hushgram.transforms.schema_registry import SchemaRegistry
from tests.helpers.fake_kafka import FakeMessage

COMMUTE = Collection(name="commute", low=0, high=180, buckets=16, epsilon=1)
INDEX = CollectionIndex.of([COMMUTE])
OWN, NEWER = 7, 8


class Servers:
    """A broker, its clients' producer and a registry, as far as the benchmark asks them; topics are lists."""

    def __init__(self, monkeypatch):
        self.topics, self.address, self.schemas = {}, "nowhere:1", {}
        self.client = SimpleNamespace(register_schema=self.register_newer)
        monkeypatch.setattr(framing, "connect", lambda _: self)
        monkeypatch.setattr(framing, "register", self.register_own)
        monkeypatch.setattr(framing, "Producer", lambda _: self)

    def register_own(self, _, definition):
        self.schemas[frame(OWN)] = parse_writer(definition.text)
        return [OWN]

    def register_newer(self, _, schema):
        self.schemas[frame(NEWER)] = parse_writer(schema.schema_str)
        return NEWER

    def create_topic(self, name):
        self.topics[name] = []
        return name

    def produce(self, topic, message, headers):
        self.topics[topic].append((message, headers))

    def flush(self, _):
        return 0


@pytest.mark.parametrize(("definition", "packed"), [(REPORT, False), (REPORT_BATCH, True)])
def test_all_forms_hold_the_same_reports(monkeypatch, definition, packed):
    servers = Servers(monkeypatch)
    monkeypatch.setattr(framing, "POLLS", 2)
    plain = encode_messages(COMMUTE, 3000, packed=packed, ids=False)
    forms = framing.make_forms(servers, SchemaRegistry("http://nowhere:1"), INDEX, definition, plain)
    expected, refused = decode_reports(plain * 2)
    assert not refused
    beginnings, bodies = [], {message[PREFIX:] for message in plain}
    for name, form in forms.items():
        messages, headers = zip(*servers.topics[form.topic], strict=True)
        assert (form.count, form.poll) == (len(messages), len(plain)) == (2 * len(plain), len(plain))
        assert (form.parser.registry is None) == (name == "single-object") != form.headers
        ids = [id_in_headers(part) for part in headers]
        decoded, refused = decode_reports(messages, servers.schemas.__getitem__, ids)
        assert not refused
        [(_, one)], [(_, other)] = expected, decoded
        assert (one.packed, one.cells is None) == (other.packed, other.cells is None)
        assert one.cells is None or one.cells.tolist() == other.cells.tolist()
        assert one.event_time.tolist() == other.event_time.tolist()
        beginnings.append((ids[0], None if messages[0] in bodies else messages[0][:FRAME]))
    single = (None, plain[0][:FRAME])
    assert beginnings == [single, single, (None, frame(OWN)), (frame(OWN), None), (None, frame(NEWER))]


class Clock:
    """Goes on by what each reading takes."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def test_of_fresh_rounds_the_fastest_counts(monkeypatch):
    clock, fetched = Clock(), []
    monkeypatch.setattr(framing, "time", clock)
    monkeypatch.setattr(framing, "ROUNDS", 3)

    class Scripted:
        def __init__(self, *seconds):
            self.seconds = list(seconds)

        def fetch(self, client):
            fetched.append(client)
            clock.now += 100  # which does not count
            return [[self.seconds.pop(0)], [0.5]]

        def read(self, messages):
            clock.now += messages[0]

    assert framing.time_forms({"a": Scripted(3, 1, 2), "b": Scripted(5, 7, 9)}, "client") == {"a": 1.5, "b": 5.5}
    assert fetched == ["client"] * 6


def test_reading_takes_every_message_and_refuses_what_is_refused():
    now = time.time_ns() // 1_000_000
    messages = [
        FakeMessage((0, place), now, message)
        for place, message in enumerate(encode_messages(COMMUTE, 50, packed=False, ids=False))
    ]
    form = framing.Form("reports", len(messages), len(messages), False, Parser(INDEX))
    form.read(messages)
    with pytest.raises(AssertionError):
        form.read([*messages, FakeMessage((0, len(messages)), now, b"damaged")])
