"""Files of a stream: one for each pane and each minute of letters, under names that a rerun repeats."""

import io
import os
import re
from pathlib import Path

import apache_beam as beam
import fastavro
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection
from hushgram.schemas.avro_schemas import HISTOGRAM, SNAPSHOT
from hushgram.schemas.messages import decode_message
from hushgram.schemas.records import DeadLetter, Histogram, Key, Pane, Snapshot
from hushgram.transforms.estimation import histogram, snapshots
from hushgram.transforms.kafka_client import KafkaError
from hushgram.transforms.sinks import topic_writer
from hushgram.transforms.sinks.kafka import WriteToTopic
from hushgram.transforms.sinks.patience import OUTAGES
from hushgram.transforms.sinks.result_files import WriteDeadLetters, WritePane, pane_name
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START

COLLECTION = Collection(name="c", low=0, high=1, buckets=4, epsilon=1)
HOSTILE = [
    "..",
    ".",
    "/etc/passwd",
    "../../x",
    "a/b",
    "all",
    "-n5-p0",
    "é" * 90,
    "x" * 300,
    "\x00",
    "CON",
    "a\nb",
    "%2F",
]
MINUTE = 60_000


def make_answer(group=None, reports=6, index=0, timing="early", generation=0, start=START, collection=COLLECTION):
    counts = np.zeros(collection.mechanism.tally_length, dtype=np.int64)
    counts[0] = reports
    key, pane = Key(collection.name, group, start, start + HOUR), Pane(generation, index, timing)
    tallies = Tallies({collection.revision: (reports, counts)})
    return snapshots(collection, [(key, pane, tallies)])[0], histogram(key, pane, tallies)


def test_a_pane_file_name_holds_window_group_reports_and_pane():
    snapshot, stored = make_answer("DE", 12, 3, "late", 2)
    assert pane_name(snapshot) == pane_name(stored) == "c/20260101T000000-20260101T010000-g2-group-DE-n12-p3-late"
    assert pane_name(make_answer()[1]) == "c/20260101T000000-20260101T010000-g0-all-n6-p0-early"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([None, *HOSTILE]) | st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_no_two_groups_share_a_file_name_and_none_leaves_its_folder(groups):
    key, pane = Key("c", None, START, START + HOUR), Pane()
    names_found = [
        pane_name(Histogram(Key("c", group, key.window_start, key.window_end), pane, {})) for group in groups
    ]
    assert len(set(names_found)) == len(groups)
    for name in names_found:
        folder, file = name.split("/")
        assert folder == "c"
        assert re.fullmatch(r"[\w.%~-]{1,200}", file, re.ASCII)


def test_panes_of_one_window_have_distinct_file_names():
    panes = [
        Histogram(
            Key("c", group, START + start, START + start + HOUR),
            Pane(generation, index, timing),
            {COLLECTION.revision: (reports, np.array([reports]))},
        )
        for reports, index, timing in [(5, 0, "early"), (6, 0, "early"), (6, 1, "on_time"), (6, 1, "late")]
        for generation in (0, 1)
        for group in (None, "all")
        for start in (0, 1, HOUR)
    ]
    assert len({pane_name(pane) for pane in panes}) == len(panes)


def read_files(directory):
    contents = {}
    for path in sorted(Path(directory).rglob("*")):
        if path.is_file():
            contents[str(path.relative_to(directory))] = path.read_bytes()
    return contents


def write_panes(directory, kind, snapshot, stored):
    return [
        WritePane(str(directory / "snapshots"), SNAPSHOT, kind)(snapshot),
        WritePane(str(directory / "histograms"), HISTOGRAM, kind)(stored),
    ]


def read_records(data):
    return list(fastavro.reader(io.BytesIO(data)))


@pytest.mark.parametrize("kind", ["avro", "jsonl", "parquet"])
def test_every_pane_is_two_files_and_a_rerun_writes_the_same_names(tmp_path, kind):
    answers = [
        make_answer(group, reports, index) for index, (group, reports) in enumerate([(None, 5), ("..", 3), ("a/b", 2)])
    ]
    names = []
    for _ in range(2):
        paths = [path for pair in answers for path in write_panes(tmp_path, kind, *pair)]
        names.append(list(read_files(tmp_path)))
        assert sorted(paths) == [str(tmp_path / name) for name in names[-1]]
    assert names[0] == names[1]
    assert len(names[0]) == 6
    assert {os.path.dirname(name) for name in names[0]} == {"snapshots/c", "histograms/c"}
    assert all(name.endswith(f".{kind}") and not os.path.basename(name).startswith(".") for name in names[0])


def test_pane_files_hold_the_snapshot_and_the_histogram(tmp_path):
    snapshot, stored = make_answer("DE", 7, 2, "on_time")
    write_panes(tmp_path, "avro", snapshot, stored)
    files = read_files(tmp_path)
    [restored] = [Histogram.from_avro(record) for record in read_records(files[f"histograms/{pane_name(stored)}.avro"])]
    assert (restored.key, restored.pane, restored.reports, restored.rank) == (stored.key, stored.pane, 7, stored.rank)
    [restored] = [Snapshot.from_avro(record) for record in read_records(files[f"snapshots/{pane_name(stored)}.avro"])]
    assert (restored.key, restored.pane, restored.reports, restored.mean) == (
        snapshot.key,
        snapshot.pane,
        7,
        snapshot.mean,
    )


LETTERS = [
    DeadLetter(reason, reports, detail, source, position, START + received, payload)
    for reason, reports, detail, source, position, received, payload in [
        ("too_old", 1, "event time 3", "t[0]", 7, 1_000, b""),
        ("too_old", 4, "event time 2", "t[0]", 5, 59_999, b""),
        ("too_old", 4, "event time 2", "t[0]", 9, 60_000, b""),
        ("duplicate", 2, "1 uploads", "deduplication", None, 5_000, b""),
        ("duplicate", 1, "1 uploads", "deduplication", None, 9_000, b""),
        ("duplicate", 3, "1 uploads", "deduplication", None, 5_000, b""),
        ("undecodable", None, "no", "t[1]", 8, 130_000, b"\x00"),
    ]
]


def write_letters(directory, letters, late=()):
    """Letters through a stream whose watermark passes two minutes before the late ones come."""

    def stamp(items):
        return [TimestampedValue(item, Timestamp(micros=1000 * item.received_at)) for item in items]

    stream = Stream().advance_watermark_to(Timestamp(micros=1000 * START)).add_elements(stamp(letters))
    stream = stream.advance_watermark_to(Timestamp(micros=1000 * (START + 2 * MINUTE)))
    if late:
        stream = stream.add_elements(stamp(late))
    with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as pipeline:
        letters = (
            pipeline
            | stream.advance_watermark_to_infinity()
            | beam.Map(lambda item: item).with_output_types(DeadLetter)
        )
        letters | WriteDeadLetters(str(directory), "jsonl")
    return read_files(directory)


def test_letters_are_together_by_minute_and_reason_and_the_same_in_any_order(tmp_path):
    files = write_letters(tmp_path / "once", LETTERS)
    assert {name: len(data.splitlines()) for name, data in files.items()} == {
        "dead_letters/20260101T000000-duplicate-p0.jsonl": 3,
        "dead_letters/20260101T000000-too_old-p0.jsonl": 2,
        "dead_letters/20260101T000100-too_old-p0.jsonl": 1,
        "dead_letters/20260101T000200-undecodable-p0.jsonl": 1,
    }
    assert write_letters(tmp_path / "again", LETTERS[::-1]) == files
    assert write_letters(tmp_path / "once", LETTERS) == files


def test_a_letter_that_comes_late_is_a_file_of_its_own(tmp_path):
    files = write_letters(tmp_path, LETTERS[1:2], late=LETTERS[:1])
    names = [f"dead_letters/20260101T000000-too_old-p{pane}.jsonl" for pane in (0, 1)]
    assert list(files) == names
    assert [data.count(b"\n") for data in files.values()] == [1, 1]
    assert b"event time 3" in files[names[1]]


class FakeProducer:
    """A broker that takes all but chosen messages."""

    def __init__(self, refuse=(), keeps=0, most=10**6):
        self.refuse, self.keeps, self.most, self.messages, self.waiting = refuse, keeps, most, [], []

    def produce(self, topic, value, key, on_delivery):
        if len(self.waiting) == self.most:
            raise BufferError
        self.messages.append((topic, key, value))
        self.waiting.append(on_delivery)

    def poll(self, _):
        pass

    def flush(self, _):
        for number, delivered in enumerate(self.waiting):
            error = type("Error", (), {"str": lambda self: "too large"})() if number in self.refuse else None
            delivered(error, None)
        self.waiting = []
        return self.keeps


def make_writer(monkeypatch, client):
    monkeypatch.setattr(topic_writer, "producer", lambda properties, file, **options: client)
    fn = WriteToTopic("out", {"bootstrap.servers": "there"}, None, 60)
    fn.setup()
    return fn


def send_bundle(fn, *answers):
    fn.start_bundle()
    for pair in answers:
        fn.process(pair[0])
    fn.finish_bundle()


def test_panes_of_a_window_share_a_kafka_key_and_other_windows_have_others(monkeypatch):
    client = FakeProducer()
    panes = make_answer(index=0), make_answer(index=1, reports=9), make_answer("DE"), make_answer(start=START + HOUR)
    send_bundle(make_writer(monkeypatch, client), *panes)
    keys = [key for _, key, _ in client.messages]
    assert keys[0] == keys[1] == make_answer()[0].key.text.encode()
    assert len(set(keys)) == 3
    assert {topic for topic, _, _ in client.messages} == {"out"}
    received = [Snapshot.from_avro(decode_message(value)[1]) for _, _, value in client.messages]
    assert [(snapshot.reports, snapshot.pane.index) for snapshot in received] == [(6, 0), (9, 1), (6, 0), (6, 0)]
    assert [snapshot.key.group for snapshot in received] == [None, None, "DE", None]


@pytest.mark.parametrize("client", [FakeProducer(refuse=[1]), FakeProducer(keeps=2)])
def test_a_bundle_fails_if_the_broker_did_not_accept_all_messages(monkeypatch, client):
    with pytest.raises(KafkaError, match=r"^--sink kafka:out: [12] snapshots not taken \(--sink-patience\): ") as error:
        send_bundle(make_writer(monkeypatch, client), make_answer(), make_answer(index=1))
    assert "\n" not in str(error.value)
    OUTAGES.end("--sink kafka:out")


def test_a_kafka_client_with_a_full_buffer_is_flushed_first(monkeypatch):
    client = FakeProducer(most=2)
    send_bundle(make_writer(monkeypatch, client), *(make_answer(index=index) for index in range(5)))
    assert [Snapshot.from_avro(decode_message(value)[1]).pane.index for _, _, value in client.messages] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_a_failed_bundle_does_not_fail_the_next(monkeypatch):
    client = FakeProducer(refuse=[0])
    fn = make_writer(monkeypatch, client)
    with pytest.raises(KafkaError, match="too large"):
        send_bundle(fn, make_answer())
    client.refuse = ()
    send_bundle(fn, make_answer())
    send_bundle(fn)
    assert len(client.messages) == 2
