"""The cost of a source's calls: the product's Kafka source and tally, in their own process, over a stored backlog.

librdkafka brings a broker that lives inside a producer: it speaks Kafka's protocol on loopback, keeps a few megabytes
and needs no Java. It runs here, the reader in a child, so that the child's processor time is the reader's alone.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.sizing.load import Load
from benchmarks.sizing.sizes import SEED, message_bytes, messages_of
from devtools.flink import ONE_THREAD
from devtools.tools import ROOT
from hushgram.pipelines.cli.console import UsageError
from hushgram.schemas.messages import LARGEST_MESSAGE
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.counting import ParseAndTally
from hushgram.transforms.kafka_client import TopicState
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sources.kafka_polls import ReadPolls
from hushgram.transforms.sources.kafka_positions import Element, Partitions, PositionsTracker, Restriction

BACKLOG_BYTES = 4_000_000
"""The broker inside a producer keeps five megabytes of a partition."""
BACKLOG_MESSAGES = 60_000
READS, RESTS = 3, 3
PATIENCE = 120.0


@dataclass(frozen=True)
class SourceCosts:
    """Seconds of one core."""

    call: float
    """For a call that finds no messages."""
    held: float
    """By the clock, how long such a call takes."""
    messages: tuple[float, ...]
    """Of one message, read, decoded, checked and tallied, or made ready for its shard of ids; of each load."""


def measure(loads: Sequence[Load]) -> SourceCosts:
    """The least of several readings, for each load."""
    try:
        from confluent_kafka import Producer
    except ImportError:
        raise UsageError("confluent-kafka is not installed; pip install 'hushgram[kafka]'") from None
    settings = {"batch.num.messages": 10_000, "linger.ms": 50, "message.max.bytes": 2 * LARGEST_MESSAGE}
    # This level hides the warning that the broker is a mock.
    broker = Producer({"test.mock.num.brokers": 1, "log_level": 4, **settings})
    address = ",".join(f"{node.host}:{node.port}" for node in broker.list_topics(timeout=10).brokers.values())
    now, backlogs = time.time_ns() // 1_000_000, []
    for number, load in enumerate(loads):
        count = max(1, min(BACKLOG_MESSAGES, int(BACKLOG_BYTES / message_bytes(load))))
        for message in messages_of(load, count, np.random.default_rng(SEED), now):
            broker.produce(f"backlog-{number}", message, partition=0)
        if broker.flush(30):
            raise RuntimeError("the broker inside librdkafka did not take its messages")
        backlogs.append((f"backlog-{number}", load.collection, count))
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.sizing.source"],
        input=pickle.dumps((address, backlogs)),
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        timeout=PATIENCE,
        check=False,
    )
    if child.returncode:
        raise RuntimeError(f"the reader failed: {child.stderr.decode(errors='replace')[-2000:]}")
    costs: SourceCosts = pickle.loads(child.stdout)
    return costs


class ReadPollsUndescribed(ReadPolls):
    """The broker inside a producer is no controller, and describes no topics: that takes a third of a millisecond of a
    core for each poll, which is left out here."""

    def _described(self, topic: str) -> TopicState:
        return TopicState("", 1)


class SourceReader:
    """A partition's source and what tallies behind it, as a worker calls them."""

    def __init__(self, address: str, topic: str, collection: Any) -> None:
        self.source = ReadPollsUndescribed({"bootstrap.servers": address, "group.id": "sizing"}, None, 0)
        self.source.setup()
        self.tally = ParseAndTally(Parser(CollectionIndex.of([collection])))
        self.element: Element = topic, "", (0, 1), ((0, 0),)

    @property
    def first(self) -> Restriction:
        return Partitions().initial_restriction(self.element)

    def call(self, position: Restriction) -> tuple[int, Any, float]:
        """Messages read, the next position, and the processor time it took."""
        from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
        from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
        from apache_beam.utils.timestamp import MIN_TIMESTAMP

        tracker = PositionsTracker(position)
        view = RestrictionTrackerView(ThreadsafeRestrictionTracker(tracker))
        start, count = time.process_time(), 0
        self.tally.start_bundle()
        for poll in self.source.process(self.element, view, ManualWatermarkEstimator(MIN_TIMESTAMP)):
            count += len(poll.value.messages)
            for _ in self.tally.process(poll.value):
                pass
        for _ in self.tally.finish_bundle():
            pass
        return count, tracker.position(), time.process_time() - start


def _measure_reads(address: str, backlogs: Sequence[tuple[str, Any, int]]) -> SourceCosts:
    calls: list[float] = []
    held: list[float] = []
    messages = []
    for topic, collection, count in backlogs:
        reader, seconds_of_reads = SourceReader(address, topic, collection), []
        for _ in range(READS):
            position, read_count, seconds = reader.first, 0, 0.0
            deadline = time.monotonic() + PATIENCE / 4
            while read_count < count:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{read_count} of {count} messages were read")
                count_of_call, position, elapsed = reader.call(position)
                read_count, seconds = read_count + count_of_call, seconds + elapsed
            seconds_of_reads.append(seconds)
        for _ in range(RESTS if not calls else 0):
            start = time.perf_counter()
            calls.append(reader.call(position)[2])
            held.append(time.perf_counter() - start)
        reader.source.teardown()
        messages.append(max(0.0, min(seconds_of_reads) - min(calls)) / count)
    return SourceCosts(min(calls), min(held), tuple(messages))


def main() -> None:
    result = _measure_reads(*pickle.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(pickle.dumps(result))


if __name__ == "__main__":
    # By its name, so that the answer is of the module's class and not of this script's.
    from benchmarks.sizing import source

    source.main()
