"""A real Kafka broker: the messages that a person sees when something is wrong, and topics that change."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Duration
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from devtools import Broker
from devtools.processes import HOST, eventually, free_port
from hushgram.pipelines.cli import command
from hushgram.schemas.messages import decode_message, decode_reports
from hushgram.schemas.records import Snapshot
from hushgram.transforms.kafka_client import KafkaError, first_offsets, topic_id
from hushgram.transforms.sinks.kafka import WriteToTopic
from hushgram.transforms.sources.kafka import ReadKafka
from hushgram.transforms.sources.kafka_polls import ReadPolls
from hushgram.transforms.sources.kafka_positions import Partitions, PositionsTracker, TopicError
from hushgram.transforms.sources.message_batch import Gap
from hushgram.transforms.sources.splittable import REST_SECONDS
from tests.helpers.streams import Topic, read_topic, recreate
from tests.helpers.tables import make_snapshot


def run_stream(folder, address, *more):
    arguments = ["--collections", str(folder / "collections.yaml"), "--output", str(folder / "never")]
    return command.main(["stream", *arguments, "--kafka", address, *more])


def test_a_broker_that_is_down_ends_the_command_with_a_line(folder, capsys, monkeypatch):
    monkeypatch.setattr("hushgram.transforms.kafka_client.TIMEOUT", 2)
    address = f"{HOST}:{free_port()}"
    assert run_stream(folder, address, "--topic", "reports") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"no answer from Kafka at {address}" in line


def test_a_topic_that_does_not_exist_ends_the_command_with_a_line(folder, broker, capsys):
    assert run_stream(folder, broker.address, "--topic", "nowhere") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "topic 'nowhere'" in line
    assert "Unknown topic" in line


@pytest.mark.parametrize(("password", "code"), [("wrong", 2), ("secret", 0)])
def test_kafka_credentials_come_from_a_file_and_are_not_printed(folder, guarded, login, capsys, password, code):
    source = ["--collections", str(folder / "collections.yaml"), "--kafka", guarded.address, "--topic", "reports"]
    assert command.main(["simulate", *source, "--reports", "10", *login("admin", password)]) == code
    output = capsys.readouterr()
    if code:
        assert "uthentication" in output.err
        assert password not in output.err + output.out


@pytest.mark.parametrize("packed", [False, True], ids=["single", "packed"])
def test_live_simulation_sends_the_messages_it_reports(folder, broker, topic, tmp_path, capsys, packed):
    source = ["--collections", str(folder / "collections.yaml"), "--kafka", broker.address, "--topic", topic.name]
    faults = ["--ids", "--late", "0.1", "--damaged", "0.05", "--repeated", "0.05", "--output", str(tmp_path)]
    amount = ["--reports", "4000", "--rate", "4000", *(["--packed"] if packed else [])]
    assert command.main(["simulate", *source, *amount, *faults]) == 0
    output = capsys.readouterr().out
    messages = [message.value() for message in read_topic(broker.address, topic.name)]
    decoded, refused = decode_reports(messages)
    ids = [tuple(row) for _, columns in decoded for row in columns.id.tolist()]
    assert f"{len(refused):,} messages were cut short, {len(ids) - len(set(ids)):,} sent twice" in output
    assert refused
    assert len(ids) > len(set(ids))
    truth = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    report_count = sum(
        entry["reports"] for entry in truth if entry["collection"] == "commute" and entry["group"] is None
    )
    assert 0 < report_count < 4000
    if not packed:
        assert report_count == len(set(_select_ids("commute", decoded)))


def _select_ids(name, decoded):
    for _, columns in decoded:
        names = columns.collection.names
        if name in names:
            yield from map(tuple, columns.id[columns.collection.codes == names.index(name)].tolist())


class RestRecordingTracker(PositionsTracker):
    """A restriction that remembers how long the source wants to rest."""

    rest = None

    def defer_remainder(self, rest):
        self.rest = rest


class TopicReader:
    """The source of a topic's partitions, called as an engine calls it; it keeps the polls and gaps that it read."""

    def __init__(self, broker, topic):
        self.properties = {"bootstrap.servers": broker.address, "group.id": "test"}
        starts = first_offsets(topic, self.properties, None, latest=False)
        identity = topic_id(topic, self.properties, None)
        [self.element] = ReadKafka(topic, starts, self.properties, None, 0, together=True, topic_id=identity).elements()
        self.restriction = Partitions().initial_restriction(self.element)
        self.watermark = ManualWatermarkEstimator(MIN_TIMESTAMP)
        self.polls, self.gaps = [], []
        self.start()

    def start(self):
        self.source = ReadPolls(self.properties, None, 0)
        self.source.setup()

    def resume(self):
        """As after a failure, or from a savepoint: only the checkpoint remains."""
        self.source.teardown()
        self.start()

    def call(self):
        self.tracker = RestRecordingTracker(self.restriction)
        for output in self.source.process(self.element, self.tracker, self.watermark):
            (self.gaps if isinstance(output.value, Gap) else self.polls).append(output.value)
        self.restriction = self.tracker.position()
        return self

    def values(self):
        return [value for poll in self.polls for value in poll.messages]

    def until_it_ends(self):
        """The error of the source when it cannot go on."""

        def read_error():
            try:
                self.call()
            except TopicError as error:
                return str(error)
            return None

        return eventually("the end of the stream", read_error)

    def until(self, count):
        eventually(f"{count} messages", lambda: len(self.call().values()) >= count)
        assert len(self.values()) == count


@pytest.fixture
def reader(broker, topic):
    topic_reader = TopicReader(broker, topic.name)
    yield topic_reader
    topic_reader.source.teardown()


@pytest.fixture
def admin(broker):
    return AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


def test_a_topic_that_ends_in_a_transaction_is_read_to_its_end(broker, topic, reader):
    """The mark at the end is never handed out; waited for, it would hold the watermark for ever."""
    with transaction(broker, topic) as client:
        for _ in range(5):
            client.produce(topic.name, b"x", partition=0)
    [last] = read_topic(broker.address, topic.name)[-1:]
    reader.until(5)
    eventually("the end", lambda: reader.call().restriction[1][0][1] == last.offset() + 2, 30)
    _, ((_, _, received, _), *_) = reader.restriction
    assert received >= last.timestamp()[1]
    eventually("a rest", lambda: reader.call().tracker.rest == Duration(REST_SECONDS), 30)
    assert reader.watermark.current_watermark() > MIN_TIMESTAMP


def test_messages_of_an_aborted_transaction_do_not_count(broker, topic, reader):
    topic.send([b"before"])
    with transaction(broker, topic, commit=False) as client:
        for partition in range(4):
            client.produce(topic.name, b"never", partition=partition)
    with transaction(broker, topic) as client:
        client.produce(topic.name, b"committed", partition=0)
    topic.send([b"after"])
    reader.until(3)
    eventually("the end", lambda: reader.call().tracker.rest == Duration(REST_SECONDS), 30)
    assert sorted(reader.values()) == [b"after", b"before", b"committed"]
    assert not reader.gaps


@contextmanager
def transaction(broker, topic, commit=True):
    """A producer whose transaction is committed or aborted when the block ends; the broker has its messages by then."""
    client = Producer({"bootstrap.servers": broker.address, "transactional.id": topic.name, "log_level": 0})
    client.init_transactions(30)
    client.begin_transaction()
    yield client
    assert client.flush(30) == 0
    client.commit_transaction(30) if commit else client.abort_transaction(30)


@pytest.mark.parametrize("resumed", [False, True], ids=["running", "resumed"])
@pytest.mark.parametrize("partitions", [4, 6])
def test_a_topic_that_is_created_again_is_read_whole(broker, topic, reader, resumed, partitions):
    topic.send([b"old"] * 200)
    reader.until(200)
    recreated = recreate(broker, topic, partitions)
    if resumed:
        reader.resume()
    recreated.send([b"new %d" % number for number in range(500)])
    reader.until(700)
    assert sorted(reader.values()[200:]) == sorted(b"new %d" % number for number in range(500))
    assert [(gap.source, gap.position) for gap in reader.gaps] == [(f"{topic.name}[{p}]", 50) for p in range(4)]
    recreated.send([b"more"])
    reader.until(701)


def test_a_topic_that_stays_away_ends_the_stream_with_a_line(broker, admin, topic, reader, monkeypatch):
    monkeypatch.setattr("hushgram.transforms.sources.kafka_polls.ABSENT_SECONDS", 0.5)
    topic.send([b"x"])
    reader.until(1)
    admin.delete_topics([topic.name])[topic.name].result(30)

    message = reader.until_it_ends()
    assert "if it was deleted, create it again" in message
    assert "\n" not in message


@pytest.mark.parametrize("resumed", [False, True], ids=["running", "resumed"])
def test_partitions_that_are_added_are_read(topic, reader, caplog, resumed):
    topic.send([b"old"] * 8)
    reader.until(8)
    topic.grow(7)
    topic.send([b"new %d" % number for number in range(14)])
    if resumed:
        reader.resume()
    reader.until(22)
    assert sorted(reader.values()[8:]) == sorted(b"new %d" % number for number in range(14))
    assert {poll.source for poll in reader.polls} == {f"{topic.name}[{partition}]" for partition in range(7)}
    assert not reader.gaps
    assert f"topic {topic.name}: new partitions, read from their beginning: [4, 5, 6]" in caplog.text


def test_messages_that_are_deleted_unread_are_reported_and_the_rest_is_read(admin, topic, reader):
    topic.send([b"x"] * 400)
    admin.delete_records([TopicPartition(topic.name, 1, 30), TopicPartition(topic.name, 2, 100)])
    eventually("the deletion", lambda: first_offsets(topic.name, reader.properties, None, latest=False)[2] == 100, 30)
    reader.until(400 - 30 - 100)
    assert sorted((gap.source, gap.position) for gap in reader.gaps) == [(f"{topic.name}[{p}]", 0) for p in (1, 2)]
    details = " ".join(gap.detail for gap in reader.gaps)
    assert "offsets 0 to 29 were deleted" in details
    assert "offsets 0 to 99 were deleted" in details


def test_a_broker_that_lost_messages_ends_running_and_resumed_streams(folder):
    """Were the source to go on at its offset, messages sent in place of the lost ones would never be read."""
    with Broker(folder / "forgetful") as broker:
        readers = {}
        for name in ("running", "resumed"):
            topic = Topic(broker, name, 1)
            topic.send([b"first"] * 50)
            topic.send([b"second"] * 50)
            readers[name] = TopicReader(broker, name)
            readers[name].until(100)
        broker.kill()
        for name in readers:
            log = broker.directory / "data" / f"{name}-0" / f"{0:020d}.log"
            log.write_bytes(
                log.read_bytes()[: log.stat().st_size // 2 + 10]
            )  # the second batch is damaged, and dropped
        broker.start()
        readers["resumed"].resume()
        for name, reader in readers.items():
            assert first_offsets(name, reader.properties, None, latest=True) == {0: 50}
            Topic(broker, name, 0).send([b"in their place"] * 200)
            assert "lost messages that were read" in reader.until_it_ends()
            assert len(reader.values()) == 100
            reader.source.teardown()


def test_the_kafka_sink_waits_for_brokers_that_are_away(broker, topic, monkeypatch, caplog):
    monkeypatch.setattr("hushgram.transforms.sinks.topic_writer.QUIET_SECONDS", 0.5)
    sink = WriteToTopic(topic.name, {"bootstrap.servers": broker.address}, None)
    sink.setup()
    sink.start_bundle()
    broker.kill()
    for index in range(5):
        sink.process(make_snapshot(index=index))
    with ThreadPoolExecutor() as pool:
        future = pool.submit(sink.finish_bundle)
        eventually("the line", lambda: "waiting, for at most 10m: 5 snapshots" in caplog.text, 30)
        broker.start()
        future.result(120)
    assert "back after" in caplog.text
    records = [decode_message(message.value())[1] for message in read_topic(broker.address, topic.name)]
    assert [Snapshot.from_avro(record).pane.index for record in records] == [0, 1, 2, 3, 4]


def test_the_kafka_sink_gives_up_when_its_patience_is_over(topic):
    properties = {"bootstrap.servers": f"{HOST}:{free_port()}"}
    sink = WriteToTopic(topic.name, properties, None, patience_seconds=1)
    sink.setup()
    sink.start_bundle()
    sink.process(make_snapshot())
    with pytest.raises(KafkaError, match=r"1 snapshots not taken .* timed out"):
        sink.finish_bundle()
