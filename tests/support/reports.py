"""Report files for tests: known reports in, files and the exact tallies out."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np

from hushgram import Collection
from schemas.definitions import REPORT, Definition
from transforms.plan import cell_width

START = 1_767_225_600_000  # 2026-01-01T00:00Z
HOUR = 3_600_000


def avro_file(
    rows: Sequence[dict[str, Any]], definition: Definition = REPORT, codec: str = "deflate", sync: int = 4000
) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, definition.parsed, rows, codec=codec, sync_interval=sync)
    return stream.getvalue()


def report_rows(
    collection: Collection, count: int, seed: int, hours: int = 3, revision: str | None = None, ids: bool = False
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    law = collection.revisions[revision or collection.revision]
    span = collection.high - collection.low
    cells = law.simulate(collection.low + span * rng.beta(5, 2, count), rng)
    labels = [None, *collection.groups]
    return [
        {
            "collection": collection.name,
            "revision": bytes.fromhex(law.revision),
            "cell": int(cell),
            "event_time": int(START + rng.integers(0, hours * HOUR)),
            "group": labels[int(rng.integers(0, len(labels)))],
            "id": rng.bytes(16) if ids else None,
        }
        for cell in cells
    ]


def batch_rows(collection: Collection, rows: Sequence[dict[str, Any]], size: int = 7) -> list[dict[str, Any]]:
    """The same cells in batches; each takes time and group from its first report."""
    width = cell_width(collection.randomizer.cells)
    batches = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        cells = np.array([row["cell"] for row in part], dtype=f"<u{width}").tobytes()
        batches.append({**{k: v for k, v in part[0].items() if k != "cell"}, "cells": cells})
    return batches


def exact_tallies(collections: Sequence[Collection], rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    """By (collection, group, window start, revision): the counts, from a loop over the reports."""
    known = {collection.name: collection for collection in collections}
    cells: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        collection = known[row["collection"]]
        every, size = collection.windows.every, collection.windows.size
        last = row["event_time"] // every * every
        for start in range(last, last - size, -every):
            if start <= row["event_time"] < start + size:
                for group in {row["group"], None}:
                    key = (collection.name, group, start, row["revision"].hex())
                    cells.setdefault(key, []).append(row["cell"])
    return {
        key: known[key[0]].revisions[key[3]].tally(np.array(part, dtype=np.int64)).tolist()
        for key, part in cells.items()
    }
