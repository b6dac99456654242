"""Files of a stream: those of panes, by collection and day, and those of letters, by minute and reason."""

import re
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from hushgram.schemas.messages import decode_message
from hushgram.schemas.records import DeadLetter, Histogram, Snapshot
from hushgram.transforms.folding import HISTOGRAMS, SNAPSHOTS
from hushgram.transforms.kafka_client import KafkaError
from hushgram.transforms.sinks import result_files, topic_writer
from hushgram.transforms.sinks.kafka import WriteToTopic
from hushgram.transforms.sinks.patience import OUTAGES
from hushgram.transforms.sinks.result_files import WriteDeadLetters, WriteHistograms, WriteSnapshots
from hushgram.transforms.sources.result_files import read_snapshots
from tests.helpers.panes import COLLECTION, make_answer
from tests.helpers.reports import HOUR, START

MINUTE = 60_000


def read_files(directory):
    contents = {}
    for path in sorted(Path(directory).rglob("*")):
        if path.is_file():
            contents[str(path.relative_to(directory))] = path.read_bytes()
    return contents


def play(*moments):
    """Panes that come at chosen seconds of the clock, and then no more."""
    stream, now = Stream().advance_processing_time(START // 1000), 0
    for seconds, panes in moments:
        stream = stream.advance_processing_time(seconds - now) if seconds > now else stream
        stream, now = stream.add_elements(list(panes)), seconds
    return stream.advance_processing_time(1).advance_watermark_to_infinity()


def write_stream(directory, kind, pause, *moments):
    for number, (element, write) in enumerate([(Snapshot, WriteSnapshots), (Histogram, WriteHistograms)]):
        panes = play(*((seconds, [pair[number] for pair in pairs]) for seconds, pairs in moments))
        with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as pipeline:
            typed = pipeline | panes | beam.Map(lambda item: item).with_output_types(element)
            typed | write(directory, kind, pause_seconds=pause)


def panes_in(directory, kind):
    """Of each file, by its folder, the panes in it."""
    files = list(Path(directory, kind.name).rglob("panes-*"))
    panes = [[(pane.key.group, pane.reports, pane.pane.index) for pane in kind.read(str(path))] for path in files]
    return sorted(zip([str(path.parent.relative_to(directory)) for path in files], panes, strict=True))


@pytest.mark.parametrize("kind", ["avro", "jsonl", "parquet"])
def test_panes_that_come_within_a_while_share_a_file_of_their_collection_and_day(tmp_path, kind):
    first = [make_answer(group, reports) for group, reports in [(None, 5), ("..", 3), ("a/b", 2)]]
    others = [make_answer(start=START + 24 * HOUR), make_answer(collection=replace(COLLECTION, name="../d"))]
    later = [make_answer(None, 9, index=1, timing="on_time")]
    write_stream(tmp_path, kind, 60, (0, first[:2]), (30, [first[2], *others]), (120, later))
    for folder in (SNAPSHOTS, HISTOGRAMS):
        assert panes_in(tmp_path, folder) == [
            (f"{folder.name}/collection=..%2Fd/date=2026-01-01", [(None, 6, 0)]),
            (f"{folder.name}/collection=c/date=2026-01-01", [(None, 5, 0), ("..", 3, 0), ("a/b", 2, 0)]),
            (f"{folder.name}/collection=c/date=2026-01-01", [(None, 9, 1)]),
            (f"{folder.name}/collection=c/date=2026-01-02", [(None, 6, 0)]),
        ]
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert all(re.fullmatch(rf"panes-\d{{8}}T\d{{6}}-[0-9a-f]{{16}}\.{kind}", name) for name in names)
    assert [(s.key.group, s.reports) for s in read_snapshots(tmp_path) if s.key.collection == "c"] == [
        (None, 9), ("..", 3), ("a/b", 2), (None, 6),
    ]  # fmt: skip


def test_without_a_pause_each_pane_is_written_when_it_comes(tmp_path):
    write_stream(tmp_path, "avro", 0, (0, [make_answer()]), (1, [make_answer(index=1, reports=7)]))
    assert [panes for _, panes in panes_in(tmp_path, SNAPSHOTS)] == [[(None, 6, 0)], [(None, 7, 1)]]


def test_many_panes_do_not_wait_until_the_pause_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(result_files, "MOST_PANES", 3)
    write_stream(tmp_path, "avro", 60, *((0, [make_answer(index=index, reports=9 + index)]) for index in range(7)))
    written = [panes for _, panes in panes_in(tmp_path, HISTOGRAMS)]
    assert [len(panes) for panes in written] == [3, 3, 1]
    assert sorted(pane for panes in written for pane in panes) == [(None, 9 + index, index) for index in range(7)]


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
