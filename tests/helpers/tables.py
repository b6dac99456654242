"""Snapshots to write into tables, and those that a PostgreSQL table has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
from psycopg.rows import dict_row

from hushgram import Collection
from hushgram.schemas.records import Key, Pane, Snapshot
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.sinks.postgresql import Writer
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START

WAVE = Collection(name="commute", low=0, high=180, unit="minutes", buckets=16, epsilon=1, groups=["DE"])
MEAN = Collection(name="mean", low=-5, high=5, epsilon=1, mechanism="piecewise")
HOSTILE = [
    "'; DROP TABLE hushgram_snapshots; --",
    "%s %(collection)s",
    '"quoted" \\ back',
    "{braces}",
    "<script>alert(1)</script>",
    "=",
    "null",
    "naïve Ж 漢 🙂",
]
"""Labels that a collection may list, and that a program may mistake for more than a label."""


def make_snapshot(
    collection: Collection = WAVE,
    group: str | None = None,
    reports: int = 1000,
    start: int = START,
    generation: int = 0,
    index: int = 0,
    timing: str = "on_time",
) -> Snapshot:
    """The snapshot of a window of an hour, in which every device sent the same cell."""
    counts = np.zeros(collection.mechanism.tally_length, dtype=np.int64)
    counts[0] = reports
    key = Key(collection.name, group, start, start + HOUR)
    tallies = Tallies({collection.revision: (reports, counts)} if reports else {})
    return snapshots(collection, [(key, Pane(generation, index, timing), tallies)])[0]


def write_snapshots(server: Any, snapshots: Sequence[Snapshot]) -> int:
    with closing(Writer(server.url)) as writer:
        return writer.write(snapshots)


def read_rows(server: Any) -> list[dict[str, Any]]:
    """All snapshots of the table, as their Avro records, in the order of `best`."""
    order = 'collection, window_start, window_end, coalesce("group", \'\') COLLATE "C", "group" NULLS FIRST'
    with server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(f"SELECT * FROM hushgram_snapshots ORDER BY {order}").fetchall()
    return [Snapshot.from_avro(row).to_avro() for row in rows]
