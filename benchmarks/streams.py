"""Shared by the benchmarks of a stream: topics full of reports, jobs on a local Flink, panes and when they came."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from confluent_kafka import Producer

from devtools import Broker, Cluster
from devtools.processes import Process, eventually, stop
from devtools.tools import ROOT
from hushgram import Collection
from hushgram.pipelines.cli.console import complain
from hushgram.pipelines.results import NewResults
from hushgram.pipelines.simulate.devices import batches, columns, simulate_devices
from hushgram.pipelines.simulate.shapes import draw_for
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.columns import ID_BYTES
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import Snapshot
from hushgram.schemas.writer import encode_report_messages

PARTITIONS = 8
LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class VisiblePane:
    """The window of a pane, the number of its reports, and when it became visible."""

    window: str
    reports: int
    visible_at: float


def encode_messages(
    collection: Collection, count: int, packed: bool, ids: bool, seed: int = 1, report_ids: bool = False
) -> list[bytes]:
    """Messages of one minute ago: single reports, or batches of a thousand, with `report_ids` with an id for each."""
    rng = np.random.default_rng(seed)
    times = np.full(count, time.time_ns() // 1_000_000 - 60_000)
    devices = simulate_devices(collection, draw_for(collection, "beta(5,2)"), times, rng)
    if packed:
        packed_devices = batches(collection, devices, rng if ids else None, report_ids)
        return [encode_message(REPORT_BATCH, batch) for _, batch in packed_devices]
    return encode_report_messages(*columns(collection, devices, rng if ids else None))


def repeat_messages(messages: Sequence[bytes], times: int, fresh_ids: bool, seed: int = 1) -> Iterator[bytes]:
    """The messages several times over; batches with an id get another one each time."""
    rng = np.random.default_rng(seed)
    for _ in range(times):
        ids = rng.bytes(ID_BYTES * len(messages)) if fresh_ids else b""
        for place, message in enumerate(messages):
            # A batch ends with its id, and a null in place of the ids of its reports.
            yield _with_id(message, ids[ID_BYTES * place : ID_BYTES * (place + 1)]) if fresh_ids else message


def _with_id(message: bytes, id_: bytes) -> bytes:
    return message[: -ID_BYTES - 1] + id_ + message[-1:]


def fill(broker: Broker, topic: str, values: Iterable[bytes]) -> None:
    """A topic that holds the given messages."""
    broker.create_topic(topic, PARTITIONS)
    settings = {"queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 1 << 20, "linger.ms": 50}
    client = Producer({"bootstrap.servers": broker.address, **settings})
    for number, value in enumerate(values):
        while True:
            try:
                client.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                client.poll(0.1)
    assert client.flush(120) == 0


@contextmanager
def run_job(cluster: Cluster, folder: Path, name: str, command: Sequence[Any]) -> Iterator[str]:
    """A job on the cluster while the block lasts; its id."""
    environment = {"PYTHONPATH": str(ROOT)}
    options = [f"--job_name={name}", *cluster.options()]
    process = Process([sys.executable, "-m", *map(str, command), *options], folder / f"{name}.log", environment)

    def find_running_job() -> str | None:
        process.check()
        return next(
            (candidate.id for candidate in cluster.jobs() if candidate.name == name and candidate.state == "RUNNING"),
            None,
        )

    try:
        identity = eventually(f"job {name}", find_running_job, 120)
        yield identity
        cluster.cancel(identity)
    finally:
        stop([process])


def build_stream_command(collections: Path, broker: Broker, topic: str, output: Path) -> list[Any]:
    """The command `hushgram stream`."""
    shutil.rmtree(output, ignore_errors=True)
    source = ["--kafka", broker.address, "--topic", topic]
    return ["hushgram", "stream", "--collections", collections, *source, "--output", output]


class PaneWatch:
    """Looks for new panes of all groups together, from when a `with` block begins to its end.

    Files of panes are soon folded into others, so that only constant looking tells when a pane became visible.
    """

    def __init__(self, output: Path) -> None:
        self.results = NewResults(str(output), "snapshots", Snapshot.from_avro)
        self._panes: list[VisiblePane] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._look()

    def panes(self) -> list[VisiblePane]:
        """Those seen so far, in the order in which they became visible."""
        return sorted(self._panes, key=lambda pane: (pane.visible_at, pane.reports))

    def _look_on(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        now = time.time()
        for snapshot in self.results.read(left_out=lambda error: complain(str(error))):
            if snapshot.key.group is None:
                self._panes.append(VisiblePane(snapshot.key.text, snapshot.reports, now))
