"""A stream at a steady rate for some minutes: `python -m benchmarks.soak [MINUTES]`.

Latency is from the receipt of a report to the first pane that holds it: of a window's reports in the order of receipt,
the k-th is taken to be in the first pane with k reports. Memory is that of the Python workers. Checkpoints are compared
with those of the same job on an empty topic, where only the runner's own state grows.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.streams import PARTITIONS, PaneWatch, VisiblePane, build_stream_command, run_job
from devtools import Broker, Cluster
from devtools.processes import Process, stop

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 128
    epsilon: 1.0
    windows: {size: 1h, max_delay: 5s, max_age: 1h, early: 1s, late_growth: 0}
"""
RATE = 5000
WARM_UP = 60.0
STEP = 10.0


@dataclass
class Measurements:
    """Readings from step to step: seconds, megabytes of all workers, bytes of a checkpoint, messages unread."""

    seconds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    checkpoint: list[float] = field(default_factory=list)
    unread: list[float] = field(default_factory=list)

    def slope_per_minute(self, series: str) -> float:
        """The slope of a straight line through the steps after the warm-up."""
        steady = [step for step, second in enumerate(self.seconds) if second >= WARM_UP]
        values = [getattr(self, series)[step] for step in steady]
        return float(60 * np.polyfit([self.seconds[step] for step in steady], values, 1)[0])

    def last(self, series: str) -> float:
        return float(getattr(self, series)[-1])


def watch(cluster: Cluster, broker: Broker, topic: str, identity: str, seconds: float) -> Measurements:
    measurements, start = Measurements(), time.monotonic()
    client = Consumer({"bootstrap.servers": broker.address, "group.id": "hushgram"})
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    while time.monotonic() < start + seconds:
        time.sleep(STEP)
        resident = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in cluster.workers()]
        latest = cluster.checkpoints(identity)["latest"]["completed"]
        committed = sum(max(0, topic_partition.offset) for topic_partition in client.committed(partitions, timeout=10))
        end_offsets = sum(
            client.get_watermark_offsets(topic_partition, timeout=10)[1] for topic_partition in partitions
        )
        measurements.seconds.append(time.monotonic() - start)
        measurements.memory.append(sum(resident) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        measurements.checkpoint.append(latest["state_size"] if latest else 0)
        measurements.unread.append(end_offsets - committed)
    client.close()
    return measurements


def measure_latencies(broker: Broker, topic: str, panes: Sequence[VisiblePane]) -> list[float]:
    """Seconds from the receipt of each report to the first pane that holds it."""
    client = Consumer({"bootstrap.servers": broker.address, "group.id": "soak"})
    partitions = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    total = sum(client.get_watermark_offsets(topic_partition, timeout=10)[1] for topic_partition in partitions)
    client.assign(partitions)
    received: list[float] = []
    while len(received) < total:
        received += [message.timestamp()[1] / 1000 for message in client.consume(10_000, 1.0)]
    client.close()
    ordered, waits, counted = np.sort(received), [], 0
    totals: dict[str, int] = {}
    for pane in panes:  # windows follow each other; the number of all reports seen so far is the sum of theirs
        totals[pane.window] = max(totals.get(pane.window, 0), pane.reports)
        now = sum(totals.values())
        waits += (pane.visible_at - ordered[counted:now]).tolist()
        counted = max(counted, now)
    return waits


def main(minutes: float) -> None:
    seconds = 60 * minutes
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        (folder / "collections.yaml").write_text(YAML)
        with Broker(folder / "kafka") as broker, Cluster(folder / "flink") as cluster:
            for topic in ("empty", "steady"):
                broker.create_topic(topic, PARTITIONS)
            output = folder / "idle"
            with run_job(
                cluster, folder, "empty", build_stream_command(folder / "collections.yaml", broker, "empty", output)
            ) as idle:
                idle_steps = watch(cluster, broker, "empty", idle, seconds)
            output = folder / "results"
            command = build_stream_command(folder / "collections.yaml", broker, "steady", output)
            with PaneWatch(output) as panes, run_job(cluster, folder, "steady", command) as busy:
                time.sleep(10)
                amount = ["--rate", str(RATE), "--reports", str(int(RATE * seconds))]
                source = ["--collections", str(folder / "collections.yaml"), "--kafka", broker.address]
                source += ["--topic", "steady"]
                simulate = [sys.executable, "-m", "hushgram", "simulate", *source, *amount]
                devices = Process(simulate, folder / "simulate.log")
                steady = watch(cluster, broker, "steady", busy, seconds)
                stop([devices])
                time.sleep(10)
            waits = measure_latencies(broker, "steady", panes.panes())
    median, percentile = np.quantile(waits, [0.5, 0.95])
    growth, idle_growth = (
        steady.slope_per_minute("checkpoint") / 1e3,
        idle_steps.slope_per_minute("checkpoint") / 1e3,
    )
    print(f"{minutes:g} minutes at {RATE:,} reports/s, {len(waits):,} reports seen in panes")
    print("| what | measured | target |\n|---|---|---|")
    print(f"| receipt to visible early pane: median, 95th percentile | {median:.1f} s, {percentile:.1f} s | 2 s, 4 s |")
    print(
        f"| checkpoint, one-hour window: growth a minute, and that of an idle job, which is the runner's own |"
        f" {growth:.1f} KB (at last {steady.last('checkpoint') / 1e3:.0f} KB), {idle_growth:.1f} KB | no more |"
    )
    memory = f"{steady.slope_per_minute('memory'):+.1f} MB a minute (at last {steady.last('memory'):.0f} MB)"
    print(f"| memory of the workers after a minute of warm-up | {memory} | flat |")
    unread = f"{steady.slope_per_minute('unread'):+,.0f} messages a minute (at last {steady.last('unread'):,.0f})"
    print(f"| messages sent and not yet committed as read | {unread} | not growing |")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 4)
