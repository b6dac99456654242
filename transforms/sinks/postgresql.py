"""Snapshots to a PostgreSQL table, which holds the best pane of each window: a replayed older one changes nothing."""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import apache_beam as beam
import psycopg
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

from hushgram.schemas.field_types import TIMESTAMP
from hushgram.schemas.records import Snapshot
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS, OutOfPatienceError, one_line, patiently
from hushgram.transforms.sinks.postgresql_migrations import prepare
from hushgram.transforms.sinks.postgresql_table import TYPES, Connection, PostgreSQLError, columns, upsert

# When a statement fails, psycopg logs a warning and raises the same error, which the sink reports.
logging.getLogger("psycopg").setLevel(logging.ERROR)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AT_ONCE = 100
"""The largest number of snapshots in one transaction."""
STATEMENT_SECONDS, ANSWER_SECONDS = 45.0, 60.0
"""How long a statement may take, by the server's clock, and a transaction, by ours: that of a frozen server stands."""
TRANSIENT = ("08", "25006", "40", "42P01", "3F000", "53", "55", "57", "58")
"""SQLSTATEs, or how they begin, of what passes, or is put right without a change to this job: a lost connection, a
primary that became a replica, serialization and deadlock, a table or schema that is away, a full disk or too many
connections, a lock, a statement that took too long or a server that stops, a failing disk. All others are final: rights
that were taken away, other columns, rows that the table refuses."""
CONNECTION = {
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
    if kind == TYPES[TIMESTAMP]:
        return EPOCH + timedelta(milliseconds=value)
    if kind == "jsonb":
        return Jsonb([{name: _or_null(number) for name, number in part.items()} for part in value], dumps=json.dumps)
    return value


def _or_null(number: float) -> float | None:
    """JSON has no number for what is not finite."""
    return number if math.isfinite(number) else None


def connect(url: str) -> Connection:
    """A connection. Passwords are not in the URL: libpq takes them from the environment or a file, where it runs."""
    options = conninfo_to_dict(url)
    settings: dict[str, Any] = {name: value for name, value in CONNECTION.items() if name not in options}
    # Statements are not kept on the server: a pooler in between may give each transaction another one.
    return psycopg.connect(make_conninfo(url, **settings), autocommit=True, prepare_threshold=None)


def prepare_tables(url: str) -> None:
    """Once, before any worker starts."""
    with connect(url) as connection, answering(connection):
        prepare(connection)


@contextmanager
def answering(connection: Connection) -> Iterator[None]:
    """Ends with an error if what is done over the connection takes longer than `ANSWER_SECONDS`.

    No setting of the server or of the protocol does this for a server that is frozen: its system still acknowledges
    what it is sent, and its clocks stand still.
    """
    seconds, cut = ANSWER_SECONDS, threading.Event()
    with socket.socket(fileno=os.dup(connection.fileno())) as line:

        def hang_up() -> None:
            cut.set()
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except psycopg.Error:
            if cut.is_set():
                raise psycopg.OperationalError(f"no answer within {seconds:.0f} seconds") from None
            raise
        finally:
            timer.cancel()


def is_transient(error: Exception) -> bool:
    """Whether waiting may mend it; the driver knows no SQLSTATE where there is no connection."""
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate.startswith(TRANSIENT)


class Writer:
    """Writes snapshots over one connection, which is kept open, and opened again when it is lost."""

    def __init__(self, url: str, patience_seconds: float = DEFAULT_SECONDS) -> None:
        self.url, self.patience_seconds = url, patience_seconds
        self.connection: Connection | None = None

    def write(self, snapshots: Sequence[Snapshot]) -> int:
        """All of them or none, in one transaction; returns how many were new, or better than what was there.

        An attempt whose end is not known may have been committed: a row that is there already is then no better.
        """
        # In one order everywhere, so that no two writers wait for each other's rows.
        ordered = sorted(
            snapshots, key=lambda s: (s.key.collection, s.key.window_start, s.key.window_end, s.key.group or "")
        )
        rows = [values(snapshot) for snapshot in ordered]
        if not rows:
            return 0
        try:
            return patiently(f"--sink {self.url}", lambda: self._write(rows), is_transient, self.patience_seconds)
        except (psycopg.Error, OutOfPatienceError) as error:
            raise PostgreSQLError(f"--sink {self.url}: {one_line(error)}") from None

    def _write(self, rows: Sequence[dict[str, Any]]) -> int:
        try:
            if self.connection is None:
                self.connection = connect(self.url)
            with answering(self.connection), self.connection.transaction(), self.connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {round(1000 * STATEMENT_SECONDS)}")
                cursor.executemany(upsert(), rows)
                return cursor.rowcount
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def write_all(url: str, patience_seconds: float, snapshots: Sequence[Snapshot]) -> int:
    """Any number of snapshots; returns how many were new or better."""
    with closing(Writer(url, patience_seconds)) as writer:
        parts = (snapshots[start : start + AT_ONCE] for start in range(0, len(snapshots), AT_ONCE))
        return sum(writer.write(part) for part in parts)


class UpsertSnapshots(beam.DoFn):
    """A bundle ends when the database has all of its snapshots; one that fails is the engine's to repeat."""

    def __init__(self, url: str, patience_seconds: float) -> None:
        self.url, self.patience_seconds = url, patience_seconds

    def setup(self) -> None:
        self.writer = Writer(self.url, self.patience_seconds)

    def start_bundle(self) -> None:
        self.waiting: list[Snapshot] = []

    def process(self, element: Snapshot) -> None:
        self.waiting.append(element)
        if len(self.waiting) >= AT_ONCE:
            self._write()

    def finish_bundle(self) -> None:
        self._write()

    def teardown(self) -> None:
        self.writer.close()

    def _write(self) -> None:
        waiting, self.waiting = self.waiting, []
        better = self.writer.write(waiting)
        Metrics.counter("sinks", "snapshots").inc(len(waiting))
        Metrics.counter("sinks", "no_better_snapshots").inc(len(waiting) - better)


@dataclass
class UpsertIntoPostgreSQL(beam.PTransform[PCollection[Snapshot], PCollection[None]]):
    """The best snapshot of each window becomes a row of the table `hushgram_snapshots`.

    The table is created, and brought up to date, when the pipeline is constructed.

    Args:
        url: Such as postgresql://USER@HOST/DATABASE. It is part of the job graph and must hold no password: libpq takes
            it from PGPASSWORD or PGPASSFILE, where it runs.
        patience_seconds: How long a server that is away is waited for.

    >>> upsert = UpsertIntoPostgreSQL("postgresql://hushgram@localhost/results")
    >>> snapshots | upsert  # doctest: +SKIP
    """

    url: str
    patience_seconds: float = DEFAULT_SECONDS

    def expand(self, snapshots: PCollection[Snapshot]) -> PCollection[None]:
        prepare_tables(self.url)
        upsert = UpsertSnapshots(self.url, self.patience_seconds)
        return snapshots | "Upsert" >> beam.ParDo(upsert).with_output_types(None)
