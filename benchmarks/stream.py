"""How fast a stream on Flink gets through a backlog, as ratios within one run: `python -m benchmarks.stream`.

Each rate is that between the first pane to be seen and the last, so that the start of job and workers is in neither.
The reference is a bare consumer in one process that polls, decodes with the same code and counts; the plain pipeline is
what anyone would write first in Beam: one element for each report.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.streams import PARTITIONS, fill, job, messages, panes, stream
from devtools import Broker, Cluster
from hushgram import Collection, load_collections
from hushgram.schemas.messages import decode_reports
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.parsing import accept
from hushgram.transforms.sources.kafka_polls import FEWEST, MOST, POLL_BYTES

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 128
    epsilon: 1.0
    groups: [DE, FR, US]
    windows: {size: 1d, max_delay: 5s, max_age: 1d, early: 1s}
"""
SINGLE = 3_000_000
WITH_IDS = 1_500_000
BATCHES, TIMES = 10_000, 60
PLAIN_SECONDS = 45.0


def bare(broker: Broker, topic: str, collection: Collection, reports: int) -> float:
    """Reports a second of one process that does nothing else."""
    client = Consumer({"bootstrap.servers": broker.address, "group.id": "bare", "enable.auto.commit": False})
    client.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    plan, counts, started = CollectionIndex.of([collection]), np.zeros(collection.mechanism.cells, dtype=np.int64), 0.0
    limit = FEWEST
    while counts.sum() < reports:
        values = [message.value() for message in client.consume(limit, 0.2)]
        if values and not started:
            started = time.perf_counter()
            limit = min(MOST, POLL_BYTES // len(values[0] or b" "))
        for _, columns in decode_reports(values)[0]:
            uploads, _ = accept(plan, columns, time.time_ns() // 1_000_000)
            counts += np.bincount(uploads.cells, minlength=counts.size)
    seconds = time.perf_counter() - started
    client.close()
    return reports / seconds


def ours(cluster: Cluster, broker: Broker, folder: Path, topic: str, reports: int) -> float:
    """Reports a second of `hushgram stream`."""
    output = folder / f"{topic}-results"
    with job(cluster, folder, topic, stream(folder / "collections.yaml", broker, topic, output)):
        return _rate(lambda: [(pane.seen, pane.reports) for pane in panes(output)], reports, 300)


def plain(cluster: Cluster, broker: Broker, folder: Path, topic: str) -> float:
    """Reports a second of the plain pipeline, from what it has counted after some time."""
    output = folder / "plain"
    output.mkdir()
    command = ["benchmarks.plain", broker.address, topic, folder / "collections.yaml", output]

    def seen() -> list[tuple[float, int]]:
        parts = sorted((path.stat().st_mtime, int(path.name.split("-")[0])) for path in output.iterdir())
        sums = np.cumsum([count for _, count in parts]).tolist()
        return list(zip((when for when, _ in parts), sums, strict=True))

    with job(cluster, folder, "plain", command):
        return _rate(seen, SINGLE, PLAIN_SECONDS)


def _rate(seen: Any, reports: int, seconds: float) -> float:
    """Between the first and the last time that something was to be seen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = seen()
        if found and found[-1][1] >= reports:
            break
        time.sleep(0.5)
    found = seen()
    (first, before), (last, after) = found[0], found[-1]
    return float(after - before) / max(last - first, 1e-9)


def main() -> None:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        (folder / "collections.yaml").write_text(YAML)
        [collection] = load_collections(folder / "collections.yaml").values()
        with Broker(folder / "kafka") as broker, Cluster(folder / "flink") as cluster:
            sizes = {"single": SINGLE, "single-ids": WITH_IDS, "packed": BATCHES * TIMES * 1000}
            fill(broker, "single", messages(collection, SINGLE, packed=False, ids=False))
            fill(broker, "single-ids", messages(collection, WITH_IDS, packed=False, ids=True))
            fill(broker, "packed", messages(collection, BATCHES * 1000, packed=True, ids=False), TIMES)
            fill(broker, "packed-ids", messages(collection, 5 * BATCHES * 1000, packed=True, ids=True))
            sizes["packed-ids"] = 5 * BATCHES * 1000
            alone = {topic: bare(broker, topic, collection, size) for topic, size in sizes.items()}
            fast = {topic: ours(cluster, broker, folder, topic, size) for topic, size in sizes.items()}
            slow = plain(cluster, broker, folder, "single")
    rows = [
        ("packed batches (1000 reports a message) against a bare consumer", "packed", "≥ 0.75×"),
        ("the same, with ids", "packed-ids", ""),
        ("single reports against a bare consumer", "single", "≥ 0.6×"),
        ("the same, with ids", "single-ids", ""),
    ]
    print("| what | measured | target |\n|---|---|---|")
    for what, topic, target in rows:
        both = f"{fast[topic] / 1e3:,.0f} k/s against {alone[topic] / 1e3:,.0f} k/s"
        print(f"| {what} | {fast[topic] / alone[topic]:.2f}× ({both}) | {target} |")
    against = f"{fast['single'] / slow:.1f}× ({slow / 1e3:,.1f} k/s)"
    print(f"| single reports against the plain per-element pipeline on Flink | {against} | ≥ 8× |")


if __name__ == "__main__":
    main()
