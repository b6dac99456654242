"""Devices whose uploads follow from one seed: good ones of every sort, late, repeated, damaged and impossible ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.chaos.ledger import UNKNOWN_NUMBER, Reports
from hushgram import Collection
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.messages import encode_message
from hushgram.transforms.collection_index import cell_width

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [DE, FR]
    previous: [{epsilon: 2.0}]
    windows: {size: 1m, max_delay: 2s, max_age: 1h, early: 3s, late_growth: 0}
  age:
    domain: {low: 0, high: 15, integer: true}
    buckets: 16
    epsilon: 2.0
    mechanism: hierarchy
    windows: {size: 2m, every: 1m, max_delay: 2s, max_age: 1h, early: 3s, late_growth: 0}
  basket:
    domain: {low: 0, high: 100}
    buckets: 16
    epsilon: 1.0
    mechanism: seeded_hashing
    estimator: norm_sub
    groups: [web]
    windows: {size: 1m, max_delay: 2s, max_age: 1h, early: 3s, late_growth: 0}
"""
HOUR_MS = 3_600_000
LATE_MS = HOUR_MS // 2
"""Late reports are at most this old when they are sent; faults delay them further, and an hour is too old."""
REPEAT_WITHIN_SECONDS = 45.0
IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "unknown_collection": {"collection": "nobody"},
    "unknown_revision": {"revision": bytes(8)},
    "cell_out_of_range": {"cell": 10**12},
    "unknown_group": {"group": "XX"},
}
SHARES = {"good": 0.9, "late": 0.02, "cut": 0.03, "impossible": 0.03, "noise": 0.02}
WITH_ID_SHARE, REPEATED_SHARE, BATCH_SHARE, PREVIOUS_SHARE = 0.5, 0.15, 0.3, 0.1


@dataclass(frozen=True)
class Upload:
    """A message, and its expected outcome: its reports count, or it is refused for a reason."""

    message: bytes | None
    reports: Reports | None = None
    refusal: tuple[str, int] | None = None
    """The reason, and the number of reports that its letter must name."""
    repeat_after_seconds: float | None = None
    """If set, the upload has an id and is sent again this long after the broker has it, as a duplicate."""


class ChaosFleet:
    """Uploads, one after the other. The clock gives their times; all else follows from the seed."""

    def __init__(self, collections: dict[str, Collection], seed: int) -> None:
        self._collections, self._rng = collections, np.random.default_rng([seed, 0x666C656574])

    def upload(self, now_ms: int) -> Upload:
        kind = str(self._rng.choice(list(SHARES), p=list(SHARES.values())))
        if kind == "noise":
            noise: list[bytes | None] = [None, b"", self._rng.bytes(40)]
            return Upload(noise[self._rng.integers(len(noise))], refusal=(UNKNOWN_NUMBER, 1))
        if kind in ("cut", "impossible"):
            return self._invalid_upload(kind, now_ms)
        age = int(self._rng.integers(0, LATE_MS if kind == "late" else 1000))
        return self._valid_upload(now_ms - age)

    def _valid_upload(self, event_time: int) -> Upload:
        collection = list(self._collections.values())[self._rng.integers(len(self._collections))]
        revisions = list(collection.revisions)
        previous = len(revisions) > 1 and self._rng.random() < PREVIOUS_SHARE
        law = collection.revisions[revisions[1 if previous else 0]]
        batch = self._rng.random() < BATCH_SHARE
        cells = self._cells(law, int(self._rng.integers(1, 8)) if batch else 1)
        labels = [None, *collection.groups]
        row: dict[str, Any] = {
            "collection": collection.name,
            "revision": bytes.fromhex(law.revision),
            "event_time": event_time,
            "group": labels[self._rng.integers(len(labels))],
            "id": self._rng.bytes(16) if self._rng.random() < WITH_ID_SHARE else None,
        }
        if batch:
            width = cell_width(law.mechanism.cells)
            message = encode_message(REPORT_BATCH, {**row, "cells": np.array(cells, f"<u{width}").tobytes()})
        else:
            message = encode_message(REPORT, {**row, "cell": cells[0]})
        repeated = row["id"] is not None and self._rng.random() < REPEATED_SHARE
        delay = float(self._rng.uniform(0, REPEAT_WITHIN_SECONDS)) if repeated else None
        reports = Reports(collection.name, law.revision, row["group"], event_time, cells)
        return Upload(message, reports=reports, repeat_after_seconds=delay)

    def _invalid_upload(self, kind: str, now_ms: int) -> Upload:
        """A single report that is cut short, or that is invalid."""
        collection = self._collections["commute"]
        row = {
            "collection": collection.name,
            "revision": bytes.fromhex(collection.revision),
            "cell": self._cells(collection, 1)[0],
            "event_time": now_ms,
            "group": None,
            "id": None,
        }
        if kind == "cut":
            message = encode_message(REPORT, row)
            return Upload(message[: len(message) // 2], refusal=("undecodable", 1))
        changes: dict[str, dict[str, Any]] = {
            **IMPOSSIBLE,
            "too_old": {"event_time": now_ms - 3 * HOUR_MS},
            "from_the_future": {"event_time": now_ms + 3 * HOUR_MS},
        }
        reason = list(changes)[self._rng.integers(len(changes))]
        return Upload(encode_message(REPORT, {**row, **changes[reason]}), refusal=(reason, 1))

    def _cells(self, law: Collection, count: int) -> tuple[int, ...]:
        values = law.low + (law.high - law.low) * self._rng.beta(5, 2, count)
        return tuple(int(cell) for cell in law.simulate(values, self._rng))
