"""Simulated reports sent to Kafka as they happen, at a steady rate, with the faults that a real fleet has."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushgram import Collection
from hushgram._arrays import IntArray
from hushgram.pipelines.cli.console import UsageError, say
from hushgram.pipelines.domain_warnings import outside_words
from hushgram.pipelines.formatting import shown
from hushgram.pipelines.simulate.devices import Devices, Fleet, batches, columns, truth
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.messages import encode_message, reframe
from hushgram.schemas.writer import encode_report_messages
from hushgram.transforms.kafka_client import producer

TICK = 0.1
"""Seconds from one lot of messages to the next."""
FLUSH_SECONDS = 60.0
OLDEST = 0.9
"""Late reports are at most so old, as a share of the age at which they would be too old."""


@dataclass(frozen=True)
class Faults:
    """Shares of reports that come late, of messages that are cut short, and of messages that are sent twice."""

    late: float = 0.0
    damaged: float = 0.0
    repeated: float = 0.0


@dataclass(frozen=True)
class Live:
    """What to send where; `reports` and `rate`, a second, are of each collection."""

    topic: str
    properties: Mapping[str, str]
    properties_file: str | None
    reports: int
    rate: float
    packed: bool
    ids: str | None
    """Of `uploads`, or of `reports` also within batches; or none."""
    faults: Faults
    frames: Mapping[bytes, bytes] | None = None
    """What messages begin with instead, by the beginning of the single-object encoding: ids of a schema registry."""


@dataclass
class Lot:
    """Messages of some devices: those to send, and what became of them."""

    messages: list[bytes]
    counted: Devices
    damaged: int
    repeated: int


def make_lot(collection: Collection, devices: Devices, live: Live, rng: np.random.Generator) -> Lot:
    """The messages of some devices with their faults: a message is cut short, or sent twice, or neither."""
    ids = rng if live.ids else None
    if live.packed:
        uploads = list(batches(collection, devices, ids, live.ids == "reports"))
        messages = [encode_message(REPORT_BATCH, batch) for _, batch in uploads]
        rows = [part for part, _ in uploads]
    else:
        messages = encode_report_messages(*columns(collection, devices, ids))
        rows = list(np.arange(len(devices))[:, None])
    if live.frames is not None:
        messages = [reframe(message, live.frames) for message in messages]
    fate = rng.random(len(messages))
    cut, twice = fate < live.faults.damaged, fate > 1 - live.faults.repeated
    whole = [part for part, is_cut in zip(rows, cut.tolist(), strict=True) if not is_cut]
    counted = devices.take(np.concatenate([*whole, np.zeros(0, dtype=np.int64)]))
    sent = [m[: len(m) // 2] if is_cut else m for m, is_cut in zip(messages, cut.tolist(), strict=True)]
    sent += [message for message, again in zip(messages, (twice & ~cut).tolist(), strict=True) if again]
    return Lot(sent, counted, int(cut.sum()), len(sent) - len(messages))


def event_times(collection: Collection, count: int, now: int, late: float, rng: np.random.Generator) -> IntArray:
    """Events of the last second; a share of them waited, up to the greatest age at which they still count."""
    ages = rng.integers(0, 1000, count)
    waited = rng.random(count) < late
    ages[waited] = rng.integers(0, max(1, int(OLDEST * collection.windows.max_age)), int(waited.sum()))
    return now - ages


def send(live: Live, fleets: Sequence[Fleet]) -> list[dict[str, Any]]:
    """Returns when the broker has everything; the truth of what can be counted."""
    client, failed = producer(live.properties, live.properties_file), list[str]()
    lots: dict[str, list[Lot]] = {fleet.collection.name: [] for fleet in fleets}
    done, started = 0, time.monotonic()
    while done < live.reports:
        due = min(live.reports, max(done + 1, int(live.rate * (time.monotonic() - started + TICK))))
        for fleet in fleets:
            collection, rng = fleet.collection, fleet.rng
            times = event_times(collection, due - done, time.time_ns() // 1_000_000, live.faults.late, rng)
            current = make_lot(collection, fleet.simulate(times), live, rng)
            for message in current.messages:
                _produce(client, live.topic, message, failed)
            lots[collection.name].append(replace(current, messages=[]))
        done = due
        client.poll(0)
        time.sleep(max(0.0, started + done / live.rate - time.monotonic()))
    left = client.flush(FLUSH_SECONDS)
    if left or failed:
        raise UsageError(f"--kafka: {left + len(failed):,} messages were not taken; {'; '.join(failed[:3])}")
    everything = [one for lot in lots.values() for one in lot]
    damaged, repeated = sum(one.damaged for one in everything), sum(one.repeated for one in everything)
    say(f"{damaged:,} messages were cut short, {repeated:,} sent twice")
    counted = [
        (fleet.collection, Devices.together([one.counted for one in lots[fleet.collection.name]])) for fleet in fleets
    ]
    for collection, devices in counted:
        for line in outside_words(collection, devices.values):
            say(f"{shown(collection.name)}: {line}")
    return [line for collection, devices in counted if len(devices) for line in truth(collection, devices)]


def _produce(client: Any, topic: str, message: bytes, failed: list[str]) -> None:
    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error.str())

    while True:
        try:
            client.produce(topic, message, on_delivery=delivered)
            return
        except BufferError:  # the broker is slower than we are; undelivered messages fail by themselves in time
            client.poll(0.1)
