"""Flink among its neighbours: a schema registry, a topic of dead letters and an Iceberg table, whatever is killed."""

import io
import os
import signal
from collections import Counter
from itertools import count, cycle

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from benchmarks.chaos.verdict import PANE
from devtools.processes import eventually
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.framing import frame
from hushgram.schemas.messages import MARKER, PREFIX
from hushgram.transforms.dead_messages import OFFSET, PARTITION, REASON
from hushgram.transforms.schema_registry import RegistryClient, SchemaRegistry
from tests.helpers.lakes import NAME, read_table, read_written
from tests.helpers.reports import compute_tallies
from tests.helpers.schemas import NEWER, encode_foreign, frames_of
from tests.helpers.streams import Stream, Topic, make_mixed_stream, read_topic

IN_HEADER = "__value_schema_id"
ENCODINGS = ("single-object", "framed", "header", "newer")
UNKNOWN = count(4_000_000_000)
"""Ids that no registry has."""


class Producers:
    """Each message goes through the next one of those that name its schema in another way."""

    def __init__(self, registry, topic):
        self.topic, self.turns = topic, cycle(ENCODINGS)
        with RegistryClient(SchemaRegistry(registry.url)) as client:
            self.frames = frames_of(client)
        with SchemaRegistryClient({"url": registry.url}) as confluent:
            self.newer = frame(confluent.register_schema("hushgram.Report", Schema(NEWER, "AVRO")))
        self.sent = Counter()
        self.refused = set()
        """Values of messages that the topic of dead letters must have."""

    def send(self, stream):
        refused = set(stream.refused_messages)
        headers, messages = {}, []
        for message in stream.messages:
            value, schema_id = self._encode(message)
            if schema_id is not None:
                headers[value] = [("trace", b"7"), (IN_HEADER, schema_id)]
            messages.append(value)
            if message in refused:
                self.refused.add(value)
        for body in (b"record", b"another"):  # of schemas that nobody knows
            schema_id = frame(next(UNKNOWN))
            headers[schema_id[1:] + body] = [(IN_HEADER, schema_id)]
            unknown = [schema_id + body, schema_id[1:] + body]
            messages += unknown
            self.refused.update(unknown)
            stream.of_unknown_number += len(unknown)
            self.sent["unknown"] += len(unknown)
        self.topic.send(messages, headers)

    def _encode(self, message):
        """The value that is sent, and the id of its schema if that is in a header."""
        schema = self.frames.get((message or b"")[:PREFIX])
        encoding = next(self.turns) if schema else "noise"
        if encoding == "newer" and message[:PREFIX] != MARKER + REPORT.fingerprint:
            encoding = "framed"
        self.sent[encoding] += 1
        if encoding == "header":
            return message[PREFIX:], schema
        if encoding == "framed":
            return schema + message[PREFIX:], None
        if encoding == "newer":
            return self._with_field(message, schema), None
        return message, None

    def _with_field(self, message, schema):
        """As a newer device writes it; what is cut off stays as it is."""
        try:
            record = fastavro.schemaless_reader(io.BytesIO(message[PREFIX:]), REPORT.parsed)
        except (EOFError, IndexError):
            return schema + message[PREFIX:]
        return self.newer + encode_foreign(NEWER, {**record, "battery": 50})


@pytest.mark.timeout(900)
def test_a_stream_with_registry_dead_letters_and_iceberg_is_whole_whatever_is_killed(
    collections, broker, registry, lake, topic, on_flink, cluster, now
):
    parts = [make_mixed_stream(collections, now, seed=100 * part + 31, count=60) for part in range(1, 7)]
    dead = Topic(broker, f"{topic.name}-refused", 2)
    producers, total = Producers(registry, topic), Stream()

    def send(part):
        producers.send(part)
        total.add(part)

    def wait_until_counted():
        run.until_tallies(compute_tallies(list(collections.values()), total.accepted))

    send(parts[0])
    before = set(cluster.workers())
    run, job = on_flink(
        *["--schema-registry", registry.url, "--dead-letters", f"kafka:{dead.name}", "--sink", f"iceberg:{NAME}"]
    )
    run.until_first_pane()
    send(parts[1])
    os.kill((set(cluster.workers()) - before).pop(), signal.SIGKILL)
    send(parts[2])
    eventually("the first restart", lambda: _restarts(cluster, job) >= 1)
    wait_until_counted()  # so that what dies now is a job that runs
    send(parts[3])
    cluster.kill_task_manager()
    send(parts[4])
    cluster.start_task_manager()
    eventually("the second restart", lambda: _restarts(cluster, job) >= 2)
    send(parts[5])
    wait_until_counted()
    run.until_letters(total.refused, total.of_unknown_number)
    assert all(producers.sent[encoding] > 100 for encoding in ENCODINGS), producers.sent
    _wait_for_dead_letters(broker, topic, dead, producers, total)
    eventually("the rows", lambda: _without_pane(read_table()) == _without_pane(read_written(run.output)), 180)


def _restarts(cluster, job):
    return sum(int(metric["value"]) for metric in cluster.rest(f"/jobs/{job}/metrics?get=numRestarts"))


def _wait_for_dead_letters(broker, topic, dead, producers, total):
    """Each refused message at least once, by the place where it was, whole and with its reason."""
    sent = {(m.partition(), m.offset()): m for m in read_topic(broker.address, topic.name)}
    expected = {place for place, message in sent.items() if message.value() in producers.refused}
    assert len(expected) == sum(total.refused.values()) - total.refused["duplicate"] + total.of_unknown_number
    reasons = {}

    def are_all_there():
        for letter in read_topic(broker.address, dead.name):
            headers = dict(letter.headers())
            place = int(headers[PARTITION]), int(headers[OFFSET])
            assert letter.value() == sent[place].value()
            own = sent[place].headers() or []
            assert letter.headers()[: len(own)] == own
            reason = headers[REASON].decode()
            assert reasons.setdefault(place, reason) == reason, "it is refused for the same reason again"
        return expected <= reasons.keys()

    eventually("the dead letters", are_all_there, 120)
    assert reasons.keys() == expected, "nothing else is there"
    counts = Counter(reasons.values())
    known = {reason: number for reason, number in total.refused.items() if reason not in ("duplicate", "undecodable")}
    assert {reason: counts[reason] for reason in known} == known
    assert counts["unknown_schema"] == producers.sent["unknown"]


def _without_pane(records):
    """A pane of a timeline that was lost may have reached one sink and not the other: both tell the same of it."""
    return [{name: value for name, value in record.items() if name not in PANE} for record in records]
