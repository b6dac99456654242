"""How fast a stream on Flink gets through a backlog, as ratios within one run: `python -m benchmarks.stream`.

`--rows packed-ids single-ids` measures only some rows.

Each rate is that between the first visible pane and the last, so that the start of job and workers is in neither. The
reference is a bare consumer in one process that polls, decodes with the same code and counts; the plain pipeline is the
obvious one in Beam: one element for each report.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from benchmarks.streams import (
    PARTITIONS,
    PaneWatch,
    build_stream_command,
    encode_messages,
    fill,
    repeat_messages,
    run_job,
)
from devtools import Broker, Cluster
from hushgram import Collection, load_collections
from hushgram.schemas.messages import decode_reports
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.judging import accept
from hushgram.transforms.sources.kafka_polls import FEWEST, MOST, POLL_BYTES

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 128
    epsilon: 1.0
    groups: [DE, FR, US]
    windows: {size: 1d, max_delay: 5s, max_age: 1d, early: 1s, late_growth: 0}
"""
PLAIN_SECONDS = 45.0
LARGE_HEAP = {"taskmanager.memory.process.size": "3g"}
"""The cluster of the tests has 288 MB of heap, in which a backlog would mostly measure the garbage collector."""


@dataclass(frozen=True)
class Backlog:
    """A topic of reports, singly or packed, without ids or with them; `times` repeats them under other ids."""

    label: str
    target: str
    reports: int
    packed: bool = False
    ids: bool = False
    report_ids: bool = False
    times: int = 1

    def messages(self, collection: Collection) -> Iterable[bytes]:
        messages = encode_messages(
            collection, self.reports // self.times, self.packed, self.ids, report_ids=self.report_ids
        )
        return repeat_messages(messages, self.times, fresh_ids=self.ids) if self.times > 1 else messages


# As large as it takes to be read for many seconds: a source is called for two at a time, and panes come every second.
BACKLOGS = {
    "packed": Backlog(
        "packed batches (1000 reports a message) against a bare consumer", "≥ 0.75×", 600_000_000, packed=True, times=60
    ),
    "packed-ids": Backlog("the same, with ids", "≥ 0.4×", 900_000_000, packed=True, ids=True, times=90),
    "packed-report-ids": Backlog(
        "the same, with an id for each report", "", 20_000_000, packed=True, ids=True, report_ids=True
    ),
    "single": Backlog("single reports against a bare consumer", "≥ 0.6×", 3_000_000),
    "single-ids": Backlog("the same, with ids", "≥ 0.9×", 1_500_000, ids=True),
}


def measure_bare_consumer(broker: Broker, topic: str, collection: Collection, reports: int) -> float:
    """Reports a second of one process that does nothing else."""
    client = Consumer({"bootstrap.servers": broker.address, "group.id": "bare", "enable.auto.commit": False})
    client.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    plan, counts, start = CollectionIndex.of([collection]), np.zeros(collection.mechanism.cells, dtype=np.int64), 0.0
    limit = FEWEST
    while counts.sum() < reports:
        values = [message.value() for message in client.consume(limit, 0.2)]
        if values and not start:
            start = time.perf_counter()
            limit = min(MOST, POLL_BYTES // len(values[0] or b" "))
        for _, columns in decode_reports(values)[0]:
            uploads, _ = accept(plan, columns, time.time_ns() // 1_000_000)
            counts += np.bincount(uploads.cells, minlength=counts.size)
    seconds = time.perf_counter() - start
    client.close()
    return reports / seconds


def measure_ours(cluster: Cluster, broker: Broker, folder: Path, topic: str, reports: int) -> float:
    """Reports a second of `hushgram stream`."""
    output = folder / f"{topic}-results"
    command = build_stream_command(folder / "collections.yaml", broker, topic, output)
    with PaneWatch(output) as watch, run_job(cluster, folder, topic, command):
        return _measure_rate(lambda: [(pane.visible_at, pane.reports) for pane in watch.panes()], reports, 300)


def measure_plain(cluster: Cluster, broker: Broker, folder: Path, topic: str) -> float:
    """Reports a second of the plain pipeline, from what it has counted after some time."""
    output = folder / "plain"
    output.mkdir()
    command = ["benchmarks.plain", broker.address, topic, folder / "collections.yaml", output]

    def read_progress() -> list[tuple[float, int]]:
        parts = sorted((path.stat().st_mtime, int(path.name.split("-")[0])) for path in output.iterdir())
        sums = np.cumsum([count for _, count in parts]).tolist()
        return list(zip((modified for modified, _ in parts), sums, strict=True))

    with run_job(cluster, folder, "plain", command):
        return _measure_rate(read_progress, BACKLOGS["single"].reports, PLAIN_SECONDS)


def _measure_rate(read_progress: Any, reports: int, seconds: float) -> float:
    """The rate between the first and the last sign of progress."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        progress = read_progress()
        if progress and progress[-1][1] >= reports:
            break
        time.sleep(0.5)
    progress = read_progress()
    (first, before), (last, after) = progress[0], progress[-1]
    return float(after - before) / max(last - first, 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=BACKLOGS, default=list(BACKLOGS), help="only these")
    rows: list[str] = parser.parse_args().rows
    bare_rates, our_rates, plain_rate = dict[str, float](), dict[str, float](), None
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        (folder / "collections.yaml").write_text(YAML)
        [collection] = load_collections(folder / "collections.yaml").values()
        with Broker(folder / "kafka") as broker, Cluster(folder / "flink", settings=LARGE_HEAP) as cluster:
            for topic in rows:
                backlog = BACKLOGS[topic]
                fill(broker, topic, backlog.messages(collection))
                bare_rates[topic] = measure_bare_consumer(broker, topic, collection, backlog.reports)
                our_rates[topic] = measure_ours(cluster, broker, folder, topic, backlog.reports)
            if "single" in rows:
                plain_rate = measure_plain(cluster, broker, folder, "single")
    print("| what | measured | target |\n|---|---|---|")
    for topic in rows:
        rates = f"{our_rates[topic] / 1e3:,.0f} k/s against {bare_rates[topic] / 1e3:,.0f} k/s"
        backlog, ratio = BACKLOGS[topic], our_rates[topic] / bare_rates[topic]
        print(f"| {backlog.label} | {ratio:.2f}× ({rates}) | {backlog.target} |")
    if {"packed-report-ids", "single-ids"} <= set(rows):
        times = our_rates["packed-report-ids"] / our_rates["single-ids"]
        print(f"| packed batches with an id for each report, against single reports with ids | {times:.1f}× | ≥ 5× |")
    if plain_rate is not None:
        comparison = f"{our_rates['single'] / plain_rate:.1f}× ({plain_rate / 1e3:,.1f} k/s)"
        print(f"| single reports against the plain per-element pipeline on Flink | {comparison} | ≥ 8× |")


if __name__ == "__main__":
    main()
