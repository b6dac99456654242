"""Report files for tests: known reports in, files and the exact tallies out."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import fastavro
import numpy as np

from hushgram import Collection, Windows
from hushgram.schemas.avro_schemas import REPORT, Definition
from hushgram.transforms.collection_index import cell_width

START = 1_767_225_600_000  # 2026-01-01T00:00Z
HOUR = 3_600_000
DAY = 24 * HOUR
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def encode_avro_file(
    rows: Sequence[dict[str, Any]], definition: Definition = REPORT, codec: str = "deflate", sync: int = 4000
) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, definition.parsed, rows, codec=codec, sync_interval=sync)
    return stream.getvalue()


def make_report_rows(
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


def make_batch_rows(collection: Collection, rows: Sequence[dict[str, Any]], size: int = 7) -> list[dict[str, Any]]:
    """The same cells in batches; each takes time and group from its first report."""
    width = cell_width(collection.mechanism.cells)
    batches = []
    for start in range(0, len(rows), size):
        reports = rows[start : start + size]
        cells = np.array([row["cell"] for row in reports], dtype=f"<u{width}").tobytes()
        batches.append({**{k: v for k, v in reports[0].items() if k != "cell"}, "cells": cells})
    return batches


def cut_times(collection: Collection, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reports with their times cut to slices, as in batches: so nothing but the way that they came differs."""
    numbers = collection.windows.slice_numbers(np.array([row["event_time"] for row in rows])).tolist()
    starts = map(collection.windows.slice_start, numbers)
    return [{**row, "event_time": start} for row, start in zip(rows, starts, strict=True)]


def make_batches_with_ids(
    collection: Collection, rows: Sequence[dict[str, Any]], size: int = 7
) -> list[dict[str, Any]]:
    """The same reports with their ids in batches of one revision, group and slice of time, as a server packs them."""
    widths = {
        bytes.fromhex(name): cell_width(revision.mechanism.cells) for name, revision in collection.revisions.items()
    }
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        [slice_number] = collection.windows.slice_numbers(np.array([row["event_time"]])).tolist()
        alike.setdefault((row["revision"], row["group"], slice_number), []).append(row)
    return [
        {
            "collection": collection.name,
            "revision": revision,
            "cells": np.array(
                [row["cell"] for row in reports[start : start + size]], f"<u{widths[revision]}"
            ).tobytes(),
            "event_time": collection.windows.slice_start(slice_number),
            "group": group,
            "id": None,
            "ids": b"".join(row["id"] for row in reports[start : start + size]),
        }
        for (revision, group, slice_number), reports in alike.items()
        for start in range(0, len(reports), size)
    ]


def find_windows(setting: Windows, time: int) -> list[tuple[int, int]]:
    """The windows that a time lies in, by the standard library's calendar."""
    first = WEEKDAYS.index(setting.week_start) * DAY + 4 * DAY if setting.every % (7 * DAY) == 0 else 0
    if setting.time_zone is None or setting.every < DAY:
        last = (time - first) // setting.every * setting.every + first
        starts = range(last, last - setting.size, -setting.every)
        return [(start, start + setting.size) for start in starts if start <= time < start + setting.size]
    zone, epoch = ZoneInfo(setting.time_zone), date(1970, 1, 1)
    size, every, offset = setting.size // DAY, setting.every // DAY, first // DAY
    today = (datetime.fromtimestamp(time / 1000, zone).date() - epoch).days

    def midnight(day: int) -> int:
        calendar_day = epoch + timedelta(days=day)
        return int(
            datetime(calendar_day.year, calendar_day.month, calendar_day.day, tzinfo=zone).astimezone(UTC).timestamp()
            * 1000
        )

    last = (today - offset) // every * every + offset
    return [(midnight(day), midnight(day + size)) for day in range(last, today - size, -every)]


def compute_tallies(collections: Sequence[Collection], rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    """By (collection, group, window start, revision): the counts, from a loop over the reports."""
    by_name = {collection.name: collection for collection in collections}
    cells: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        collection = by_name[row["collection"]]
        for start, _ in find_windows(collection.windows, row["event_time"]):
            for group in {row["group"], None}:
                key = (collection.name, group, start, row["revision"].hex())
                cells.setdefault(key, []).append(row["cell"])
    return {
        key: by_name[key[0]].revisions[key[3]].tally(np.array(values, dtype=np.int64)).tolist()
        for key, values in cells.items()
    }
