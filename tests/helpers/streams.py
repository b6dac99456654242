"""A stream with everything in it that may come: known reports, good and bad, as messages, and what of them counts."""

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
from hushgram.schemas.records import DeadLetter, Histogram
from hushgram.transforms.collection_index import cell_width
from tests.helpers.reports import batch_rows, report_rows

MINUTE = 60_000
YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [DE, FR]
    previous: [{epsilon: 2.0}]
    windows: {size: 1m, max_delay: 2s, max_age: 1h, early: 2s}
  age:
    domain: {low: 0, high: 15, integer: true}
    buckets: 16
    epsilon: 2.0
    mechanism: hierarchy
    windows: {size: 2m, every: 1m, max_delay: 2s, max_age: 1h, early: 2s}
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

    def add(self, other: Stream) -> None:
        self.messages += other.messages
        self.accepted += other.accepted
        self.refused += other.refused
        self.of_unknown_number += other.of_unknown_number


def everything(collections: Mapping[str, Collection], now: int, seed: int, count: int = 300) -> Stream:
    """Reports of some minutes before `now`, late ones, repeated ones, damaged ones, too old ones and future ones."""
    rng, stream = np.random.default_rng(seed), Stream()
    commute, age = collections["commute"], collections["age"]

    def at(rows: Sequence[dict[str, Any]], before: int, within: int) -> list[dict[str, Any]]:
        return [{**row, "event_time": now - before - int(rng.integers(0, within))} for row in rows]

    old = list(commute.revisions)[1]
    plain = at(report_rows(commute, count, seed), 0, 2 * MINUTE) + at(report_rows(age, count, seed), 0, 2 * MINUTE)
    plain += at(report_rows(commute, count // 10, seed + 1, revision=old), 0, 2 * MINUTE)
    plain += at(report_rows(commute, count // 20, seed + 2), 30 * MINUTE, MINUTE)  # late
    identified = at(report_rows(commute, count, seed + 3, ids=True), 0, 2 * MINUTE)
    batches = batch_rows(age, at(report_rows(age, 140, seed + 4), 0, 2 * MINUTE))
    batches_with_ids = batch_rows(age, at(report_rows(age, 140, seed + 5, ids=True), 0, 2 * MINUTE))
    stream.accepted = plain + identified + unpacked(age, batches + batches_with_ids)
    singles = [encode_message(REPORT, row) for row in plain + identified + identified[: count // 5]]
    packed = [encode_message(REPORT_BATCH, batch) for batch in batches + batches_with_ids + batches_with_ids[:3]]
    stream.refused["duplicate"] = count // 5 + len(unpacked(age, batches_with_ids[:3]))
    stream.messages_with_ids = [encode_message(REPORT, row) for row in identified]

    some = plain[0]
    bad = {
        "unknown_collection": {**some, "collection": "nobody"},
        "unknown_revision": {**some, "revision": bytes(8)},
        "cell_out_of_range": {**some, "cell": 10**6},
        "unknown_group": {**some, "group": "XX"},
        "too_old": {**some, "event_time": now - 180 * MINUTE},
        "from_the_future": {**some, "event_time": now + 180 * MINUTE},
    }
    refused = [encode_message(REPORT, row) for row in bad.values()]
    cut = [message[: len(message) // 2] for message in singles[:10]]
    stream.refused.update({**dict.fromkeys(bad, 1), "undecodable": len(cut)})
    nothing: list[bytes | None] = [None, b"", rng.bytes(40)]
    stream.of_unknown_number = len(nothing)

    stream.messages = [*singles, *packed, *refused, *cut, *nothing]
    random.Random(seed).shuffle(stream.messages)
    return stream


def unpacked(collection: Collection, batches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports of batches, one by one."""
    kind = f"<u{cell_width(collection.mechanism.cells)}"
    return [
        {**{name: value for name, value in batch.items() if name != "cells"}, "cell": cell}
        for batch in batches
        for cell in np.frombuffer(batch["cells"], kind).tolist()
    ]


def tallies_in(output: Path) -> dict[tuple[Any, ...], list[int]]:
    """By (collection, group, window start, revision) the counts of the best pane so far."""
    if not result_files(str(output), "histograms"):
        return {}
    return {
        (part.key.collection, part.key.group, part.key.window_start, revision): counts.tolist()
        for part in read_results(str(output), "histograms", Histogram.from_avro)
        for revision, (_, counts) in part.tallies.items()
    }


def all_letters(output: Path) -> list[DeadLetter]:
    letters = []
    for path in (path for folder in letter_folders(str(output)) for path in Path(folder).glob("*.avro")):
        with path.open("rb") as file:
            letters += [DeadLetter.from_avro(record) for record in fastavro.reader(file)]
    return letters


def letters_in(output: Path) -> tuple[Counter[str], int]:
    """Refused reports by reason, and letters of an unknown number of reports."""
    letters = all_letters(output)
    counted: Counter[str] = Counter()
    for letter in letters:
        counted[letter.reason] += letter.reports or 0
    return +counted, sum(letter.reports is None for letter in letters)


def read_topic(address: str, name: str) -> list[Any]:
    """All messages that a topic has now, of each partition in order."""
    from confluent_kafka import Consumer, TopicPartition

    client = Consumer({"bootstrap.servers": address, "group.id": "test", "enable.partition.eof": True})
    partitions = client.list_topics(name, timeout=10).topics[name].partitions
    client.assign([TopicPartition(name, partition, 0) for partition in partitions])
    found: list[Any] = []
    ended: set[int] = set()
    while len(ended) < len(partitions):
        for message in client.consume(1000, 1.0):
            if message.error() is None:
                found.append(message)
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
    client.close()
    return found


class Topic:
    """A topic, created with so many partitions, or there already if it is none. Messages go to partitions in turn."""

    def __init__(self, broker: Any, name: str, partitions: int = 4) -> None:
        from confluent_kafka import Producer

        self.broker, self.name, self.sent, self.partitions = broker, name, 0, max(1, partitions)
        if partitions:
            broker.create_topic(name, partitions)
        # Patience: some tests take the broker away.
        self.producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0})

    @property
    def options(self) -> list[str]:
        return ["--kafka", self.broker.address, "--topic", self.name]

    def send(self, messages: Iterable[bytes | None]) -> None:
        for message in messages:
            self.producer.produce(self.name, message, partition=self.sent % self.partitions)
            self.sent += 1
        assert self.producer.flush(60) == 0


def recreate(broker: Any, topic: Topic, partitions: int = 4) -> Topic:
    """The topic, deleted and created again."""
    from confluent_kafka.admin import AdminClient

    from devtools.processes import eventually

    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.delete_topics([topic.name])[topic.name].result(30)
    eventually("the end of the topic", lambda: not broker.has_topic(topic.name), 30)
    return Topic(broker, topic.name, partitions)
