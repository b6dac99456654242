"""A stream of all kinds of messages: known reports, good and bad, and those among them that must be counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from hushgram import Collection
from hushgram.pipelines.results import letter_folders, read_results, result_files
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import DeadLetter, Histogram, Key, Snapshot
from hushgram.transforms.collection_index import cell_width
from tests.helpers.reports import cut_times, make_batch_rows, make_batches_with_ids, make_report_rows

MINUTE = 60_000
YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [DE, FR]
    quantiles: [0.999]
    previous: [{epsilon: 2.0}]
    windows: {size: 1m, max_delay: 2s, max_age: 1h, early: 2s, late_growth: 0}
  age:
    domain: {low: 0, high: 15, integer: true}
    buckets: 16
    epsilon: 2.0
    mechanism: hierarchy
    windows: {size: 2m, every: 1m, max_delay: 2s, max_age: 1h, early: 2s, late_growth: 0}
"""


@dataclass
class Stream:
    """Messages, the reports among them that count, and how many do not, by reason."""

    messages: list[bytes | None] = field(default_factory=list)
    messages_with_ids: list[bytes] = field(default_factory=list)
    """Those of them that carry an id and count; sent again, they must not count again."""
    accepted: list[dict[str, Any]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    of_unknown_number: int = 0
    refused_messages: list[bytes | None] = field(default_factory=list)
    """All that are refused but those that repeat an id."""

    def add(self, other: Stream) -> None:
        self.messages += other.messages
        self.accepted += other.accepted
        self.refused += other.refused
        self.of_unknown_number += other.of_unknown_number
        self.refused_messages += other.refused_messages


def make_mixed_stream(collections: Mapping[str, Collection], now: int, seed: int, count: int = 300) -> Stream:
    """Reports of some minutes before `now`, late ones, damaged ones, too old ones and future ones; and repeated ones,
    alone, in batches with an id, and in batches in which each report has its own."""
    rng, stream = np.random.default_rng(seed), Stream()
    commute, age = collections["commute"], collections["age"]

    def set_times(rows: Sequence[dict[str, Any]], before: int, within: int) -> list[dict[str, Any]]:
        return [{**row, "event_time": now - before - int(rng.integers(0, within))} for row in rows]

    previous = list(commute.revisions)[1]
    plain = set_times(make_report_rows(commute, count, seed), 0, 2 * MINUTE) + set_times(
        make_report_rows(age, count, seed), 0, 2 * MINUTE
    )
    plain += set_times(make_report_rows(commute, count // 10, seed + 1, revision=previous), 0, 2 * MINUTE)
    plain += set_times(make_report_rows(commute, count // 20, seed + 2), 30 * MINUTE, MINUTE)  # late
    identified = set_times(make_report_rows(commute, count, seed + 3, ids=True), 0, 2 * MINUTE)
    identified[-(count // 5) :] = cut_times(commute, identified[-(count // 5) :])  # they come packed, too
    batches = make_batch_rows(age, set_times(make_report_rows(age, 140, seed + 4), 0, 2 * MINUTE))
    batches_with_ids = make_batch_rows(age, set_times(make_report_rows(age, 140, seed + 5, ids=True), 0, 2 * MINUTE))
    by_server = cut_times(commute, set_times(make_report_rows(commute, count // 5, seed + 6, ids=True), 0, 2 * MINUTE))
    packed_by_server = make_batches_with_ids(commute, by_server + identified[-(count // 5) :])
    stream.accepted = plain + identified + by_server + unpack_batches(age, batches + batches_with_ids)
    singles = [encode_message(REPORT, row) for row in plain + identified + identified[: count // 5] + by_server[:5]]
    all_batches = batches + batches_with_ids + batches_with_ids[:3] + packed_by_server
    packed = [encode_message(REPORT_BATCH, batch) for batch in all_batches]
    stream.refused["duplicate"] = 2 * (count // 5) + 5 + len(unpack_batches(age, batches_with_ids[:3]))
    stream.messages_with_ids = [encode_message(REPORT, row) for row in identified]

    sample = plain[0]
    invalid = {
        "unknown_collection": {**sample, "collection": "nobody"},
        "unknown_revision": {**sample, "revision": bytes(8)},
        "cell_out_of_range": {**sample, "cell": 10**6},
        "unknown_group": {**sample, "group": "XX"},
        "too_old": {**sample, "event_time": now - 180 * MINUTE},
        "from_the_future": {**sample, "event_time": now + 180 * MINUTE},
    }
    refused = [encode_message(REPORT, row) for row in invalid.values()]
    truncated = [message[: len(message) // 2] for message in singles[:10]]
    stream.refused.update({**dict.fromkeys(invalid, 1), "undecodable": len(truncated)})
    noise: list[bytes | None] = [None, b"", rng.bytes(40)]
    stream.of_unknown_number = len(noise)

    stream.refused_messages = [*refused, *truncated, *noise]
    stream.messages = [*singles, *packed, *stream.refused_messages]
    random.Random(seed).shuffle(stream.messages)
    return stream


def unpack_batches(collection: Collection, batches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports of batches, one by one."""
    kind = f"<u{cell_width(collection.mechanism.cells)}"
    return [
        {**{name: value for name, value in batch.items() if name != "cells"}, "cell": cell}
        for batch in batches
        for cell in np.frombuffer(batch["cells"], kind).tolist()
    ]


def read_tallies(output: Path) -> dict[tuple[Any, ...], list[int]]:
    """By (collection, group, window start, revision) the counts of the best pane so far."""
    if not result_files(str(output), "histograms"):
        return {}
    return {
        (part.key.collection, part.key.group, part.key.window_start, revision): counts.tolist()
        for part in read_results(str(output), "histograms", Histogram.from_avro)
        for revision, (_, counts) in part.tallies.items()
    }


def are_estimated(output: Path) -> bool:
    """Whether every best histogram has its snapshot by now: the two are written one after the other."""
    if not result_files(str(output), "snapshots"):
        return False
    counted = {
        part.key: sum(reports for reports, _ in part.tallies.values())
        for part in read_results(str(output), "histograms", Histogram.from_avro)
    }
    snapshots = read_results(str(output), "snapshots", Snapshot.from_avro)
    return {snapshot.key: snapshot.reports for snapshot in snapshots} == counted


def read_letters(output: Path) -> list[DeadLetter]:
    letters = []
    for path in (path for folder in letter_folders(str(output)) for path in Path(folder).glob("*.avro")):
        with path.open("rb") as file:
            letters += [DeadLetter.from_avro(record) for record in fastavro.reader(file)]
    return letters


def count_letters(output: Path) -> tuple[Counter[str], int]:
    """Refused reports by reason, and letters of an unknown number of reports."""
    letters = read_letters(output)
    counts: Counter[str] = Counter()
    for letter in letters:
        counts[letter.reason] += letter.reports or 0
    return +counts, sum(letter.reports is None for letter in letters)


def read_topic(address: str, name: str) -> list[Any]:
    """All messages that a topic has now, of each partition in order."""
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer({"bootstrap.servers": address, "group.id": "test", "enable.partition.eof": True})
    partitions = client.list_topics(name, timeout=10).topics[name].partitions
    client.assign([TopicPartition(name, partition, 0) for partition in partitions])
    messages: list[Any] = []
    finished: set[int] = set()
    while len(finished) < len(partitions):
        for message in client.consume(1000, 1.0):
            if message.error() is None:
                messages.append(message)
            elif message.error().name() == "_PARTITION_EOF":
                finished.add(message.partition())
    client.close()
    return messages


def read_on_time_panes(output: Path) -> dict[Key, int]:
    """By window how many reports its on-time pane has."""
    on_time: dict[Key, int] = {}
    for snapshot in read_panes(output):
        if snapshot.pane.timing == "on_time":
            on_time[snapshot.key] = max(on_time.get(snapshot.key, 0), snapshot.reports)
    return on_time


def read_panes(output: Path) -> list[Snapshot]:
    """Every pane that a stream has written as Avro; files may be folded meanwhile, so an OSError means: not now."""
    panes = []
    for path in (output / "snapshots").rglob("*.avro"):
        with path.open("rb") as file:
            panes += map(Snapshot.from_avro, fastavro.reader(file))
    return panes


def check_on_time_panes(
    topic: Topic, collections: Mapping[str, Collection], accepted: Sequence[Mapping[str, Any]], output: Path
) -> None:
    """Each has every accepted report that was received by its window's end plus max_delay."""
    received: dict[bytes, int] = {}
    for message in read_topic(topic.broker.address, topic.name):
        received.setdefault(message.value() or b"", message.timestamp()[1])
    on_time = read_on_time_panes(output)
    assert on_time
    for key, reports in on_time.items():
        required = 0
        max_delay = collections[key.collection].windows.max_delay
        for row in accepted:
            matches = row["collection"] == key.collection and key.group in (None, row["group"])
            if matches and key.window_start <= row["event_time"] < key.window_end:
                received_at = received.get(encode_message(REPORT, row))  # None: it came in a batch
                required += received_at is not None and received_at <= key.window_end + max_delay
        assert reports >= required, key


class Topic:
    """A topic, created with this many partitions, or with 0 an existing one. Messages go to partitions in turn."""

    def __init__(self, broker: Any, name: str, partitions: int = 4) -> None:
        self.broker, self.name, self.sent_count, self.partitions = broker, name, 0, max(1, partitions)
        if partitions:
            broker.create_topic(name, partitions)
        self._connect()

    def _connect(self) -> None:
        from confluent_kafka import Producer

        # Patience: some tests take the broker away.
        settings = {"bootstrap.servers": self.broker.address, "enable.idempotence": True, "log_level": 0}
        self.producer = Producer(settings)

    def grow(self, partitions: int) -> None:
        """Adds partitions, so that there are this many; messages go to all of them in turn from now on."""
        self.broker.add_partitions(self.name, partitions)
        self.partitions = partitions
        self._connect()  # a producer that has been there before may hear of them minutes later

    @property
    def options(self) -> list[str]:
        return ["--kafka", self.broker.address, "--topic", self.name]

    def send(
        self, messages: Iterable[bytes | None], headers: Mapping[bytes | None, list[tuple[str, bytes]]] | None = None
    ) -> None:
        """`headers` by message, of those that have any."""
        for message in messages:
            own = (headers or {}).get(message)
            self.producer.produce(self.name, message, partition=self.sent_count % self.partitions, headers=own)
            self.sent_count += 1
        assert self.producer.flush(60) == 0


def recreate(broker: Any, topic: Topic, partitions: int = 4) -> Topic:
    """The topic, deleted and created again."""
    from confluent_kafka.admin import AdminClient

    from devtools.processes import eventually

    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.delete_topics([topic.name])[topic.name].result(30)
    eventually("the end of the topic", lambda: not broker.has_topic(topic.name), 30)
    return Topic(broker, topic.name, partitions)
