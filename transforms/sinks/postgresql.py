"""Snapshots to a PostgreSQL table, which holds the best pane of each window: a replayed older one changes nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import apache_beam as beam
import psycopg
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

from schemas.records import Histogram, Snapshot
from transforms.sinks.postgresql_tables import Connection, columns, prepare, upsert

Result = TypeVar("Result")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds between attempts to reach a server that is away: for about a minute."""
AT_ONCE = 100
"""So many snapshots, at most, are one transaction."""
PATIENCE = {
    "application_name": "hushgram",
    "connect_timeout": "10",
    # A peer that vanished without a word is noticed after half a minute.
    "keepalives_idle": "15",
    "tcp_user_timeout": "30000",
}


def values(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot's columns, as the driver takes them."""
    record = snapshot.to_avro()
    return {name: _value(record[name], kind) for name, kind in columns().items()}


def _value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "timestamptz":
        return EPOCH + timedelta(milliseconds=value)
    if kind == "jsonb":
        return Jsonb([{name: _or_null(number) for name, number in part.items()} for part in value], dumps=json.dumps)
    return value


def _or_null(number: float) -> float | None:
    """JSON has no number for what is not finite."""
    return number if math.isfinite(number) else None


def connect(url: str) -> Connection:
    """A connection. Passwords are not in the URL: libpq takes them from the environment or a file, where it runs."""
    given = conninfo_to_dict(url)
    settings: dict[str, Any] = {name: value for name, value in PATIENCE.items() if name not in given}
    # Statements are not kept on the server: a pooler in between may give each transaction another one.
    return psycopg.connect(make_conninfo(url, **settings), autocommit=True, prepare_threshold=None)


def prepare_tables(url: str) -> None:
    """Once, before any worker starts."""
    with connect(url) as connection:
        prepare(connection)


def patiently(attempt: Callable[[], Result], pauses: Sequence[float] = PAUSES) -> Result:
    """Tries again while the server is away, for as long as there are pauses; then its error is raised.

    The driver's `OperationalError` means just that: a connection refused or lost, a server that stops, a deadlock.
    """
    for pause in pauses:
        try:
            return attempt()
        except (psycopg.OperationalError, psycopg.InterfaceError):
            time.sleep(pause)
    return attempt()


class Writer:
    """Writes snapshots over one connection, which is kept, and made anew when it is lost."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: Connection | None = None

    def write(self, snapshots: Sequence[Snapshot]) -> int:
        """All of them or none, in one transaction; returns how many were new, or better than what was there."""
        # In one order everywhere, so that no two writers wait for each other's rows.
        ordered = sorted(
            snapshots, key=lambda s: (s.key.collection, s.key.window_start, s.key.window_end, s.key.group or "")
        )
        rows = [values(snapshot) for snapshot in ordered]
        return patiently(lambda: self._write(rows)) if rows else 0

    def _write(self, rows: Sequence[dict[str, Any]]) -> int:
        try:
            if self.connection is None:
                self.connection = connect(self.url)
            with self.connection.transaction(), self.connection.cursor() as cursor:
                cursor.executemany(upsert(), rows)
                return cursor.rowcount
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def write_all(url: str, snapshots: Sequence[Snapshot]) -> int:
    """Any number of snapshots; returns how many were new or better."""
    with closing(Writer(url)) as writer:
        parts = (snapshots[start : start + AT_ONCE] for start in range(0, len(snapshots), AT_ONCE))
        return sum(writer.write(part) for part in parts)


class UpsertSnapshots(beam.DoFn):
    """A bundle ends when the database has all of its snapshots; one that fails is the engine's to repeat."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url

    def setup(self) -> None:
        self.writer = Writer(self.url)

    def start_bundle(self) -> None:
        self.waiting: list[Snapshot] = []

    def process(self, element: tuple[Snapshot, Histogram]) -> None:
        self.waiting.append(element[0])
        if len(self.waiting) >= AT_ONCE:
            self._write()

    def finish_bundle(self) -> None:
        self._write()

    def teardown(self) -> None:
        self.writer.close()

    def _write(self) -> None:
        waiting, self.waiting = self.waiting, []
        better = self.writer.write(waiting)
        Metrics.counter("sinks", self.name).inc(len(waiting))
        Metrics.counter("sinks", f"{self.name}: no better").inc(len(waiting) - better)


@dataclass
class UpsertIntoPostgreSQL(beam.PTransform[Any, Any]):
    """Answers and letters in; the best snapshot of each window is a row of `hushgram_snapshots`."""

    name: str
    url: str

    def expand(self, results: tuple[PCollection[Any], PCollection[Any]]) -> None:
        results[0] | "Upsert" >> beam.ParDo(UpsertSnapshots(self.name, self.url))
