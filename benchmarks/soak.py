"""A stream at a steady rate for some minutes: `python -m benchmarks.soak [MINUTES]`.

Latency is from the receipt of a report to the first pane that holds it: of a window's reports in the order of receipt,
the k-th is taken to be in the first pane with k reports. Memory is that of the Python workers. Checkpoints are compared
with those of the same job on an empty topic, where all that grows is what the runner leaves behind.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.streams import PARTITIONS, job, panes, stream
from devtools import Broker, Cluster
from devtools.processes import Process, stop

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 128
    epsilon: 1.0
    windows: {size: 1h, max_delay: 5s, max_age: 1h, early: 1s}
"""
RATE = 5000
WARM_UP = 60.0
STEP = 10.0


@dataclass
class Watched:
    """What was seen from step to step: seconds, megabytes of all workers, bytes of a checkpoint, messages unread."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    checkpoint: list[float] = field(default_factory=list)
    unread: list[float] = field(default_factory=list)

    def per_minute(self, of: str) -> float:
        """The slope of a straight line through the steps after the warm-up."""
        steady = [place for place, when in enumerate(self.seconds) if when >= WARM_UP]
        values = [getattr(self, of)[place] for place in steady]
        return float(60 * np.polyfit([self.seconds[place] for place in steady], values, 1)[0])

    def last(self, of: str) -> float:
        return float(getattr(self, of)[-1])


def watch(cluster: Cluster, broker: Broker, topic: str, identity: str, seconds: float) -> Watched:
    seen, started = Watched(), time.monotonic()
    client = Consumer({"bootstrap.servers": broker.address, "group.id": "hushgram"})
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    while time.monotonic() < started + seconds:
        time.sleep(STEP)
        resident = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in cluster.workers()]
        latest = cluster.checkpoints(identity)["latest"]["completed"]
        read = sum(max(0, part.offset) for part in client.committed(partitions, timeout=10))
        ends = sum(client.get_watermark_offsets(part, timeout=10)[1] for part in partitions)
        seen.seconds.append(time.monotonic() - started)
        seen.memory.append(sum(resident) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        seen.checkpoint.append(latest["state_size"] if latest else 0)
        seen.unread.append(ends - read)
    client.close()
    return seen


def latencies(broker: Broker, topic: str, output: Path) -> list[float]:
    """Seconds from receipt to sight."""
    client = Consumer({"bootstrap.servers": broker.address, "group.id": "soak"})
    parts = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    left = sum(client.get_watermark_offsets(part, timeout=10)[1] for part in parts)
    client.assign(parts)
    received: list[float] = []
    while len(received) < left:
        received += [message.timestamp()[1] / 1000 for message in client.consume(10_000, 1.0)]
    client.close()
    ordered, waited, done = np.sort(received), [], 0
    totals: dict[str, int] = {}
    for pane in panes(output):  # windows follow each other; the number of all reports seen so far is the sum of theirs
        totals[pane.window] = max(totals.get(pane.window, 0), pane.reports)
        now = sum(totals.values())
        waited += (pane.seen - ordered[done:now]).tolist()
        done = max(done, now)
    return waited


def main(minutes: float) -> None:
    seconds = 60 * minutes
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        (folder / "collections.yaml").write_text(YAML)
        with Broker(folder / "kafka") as broker, Cluster(folder / "flink") as cluster:
            for topic in ("empty", "steady"):
                broker.create_topic(topic, PARTITIONS)
            output = folder / "idle"
            with job(cluster, folder, "empty", stream(folder / "collections.yaml", broker, "empty", output)) as idle:
                leak = watch(cluster, broker, "empty", idle, seconds)
            output = folder / "results"
            with job(cluster, folder, "steady", stream(folder / "collections.yaml", broker, "steady", output)) as busy:
                time.sleep(10)
                amount = ["--rate", str(RATE), "--reports", str(int(RATE * seconds))]
                source = ["--collections", str(folder / "collections.yaml"), "--kafka", broker.address]
                source += ["--topic", "steady"]
                command = [sys.executable, "-m", "hushgram", "simulate", *source, *amount]
                devices = Process(command, folder / "simulate.log")
                seen = watch(cluster, broker, "steady", busy, seconds)
                stop([devices])
                time.sleep(10)
            waited = latencies(broker, "steady", output)
    median, most = np.quantile(waited, [0.5, 0.95])
    grown, left_behind = seen.per_minute("checkpoint") / 1e3, leak.per_minute("checkpoint") / 1e3
    print(f"{minutes:g} minutes at {RATE:,} reports/s, {len(waited):,} reports seen in panes")
    print("| what | measured | target |\n|---|---|---|")
    print(f"| receipt to visible early pane: median, 95th percentile | {median:.1f} s, {most:.1f} s | 2 s, 4 s |")
    print(
        f"| checkpoint, one-hour window: growth a minute, and that of an idle job, which is the runner's own |"
        f" {grown:.1f} KB (at last {seen.last('checkpoint') / 1e3:.0f} KB), {left_behind:.1f} KB | no more |"
    )
    memory = f"{seen.per_minute('memory'):+.1f} MB a minute (at last {seen.last('memory'):.0f} MB)"
    print(f"| memory of the workers after a minute of warm-up | {memory} | flat |")
    unread = f"{seen.per_minute('unread'):+,.0f} messages a minute (at last {seen.last('unread'):,.0f})"
    print(f"| messages sent and not yet committed as read | {unread} | not growing |")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 4)
