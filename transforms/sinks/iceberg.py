"""Snapshots to an Iceberg table, which holds the best pane of each window: a replayed older one changes nothing.

Iceberg knows no rank. So a write reads the rows that its keys have, and commits better ones in their place on the
condition that the table is still as it was read; if it is not, all begins again. pyiceberg would by itself try again
without reading again, and of two writers at once each would add a row: its own attempts are switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms import trigger, window
from pyiceberg import expressions
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    WaitingForLockException,
)
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from hushgram.schemas.avro_schemas import SNAPSHOT, field_names
from hushgram.schemas.records import Snapshot
from hushgram.transforms.arguments import check_whole
from hushgram.transforms.sinks.files import arrow_schema
from hushgram.transforms.sinks.iceberg_expiry import clean_up
from hushgram.transforms.sinks.iceberg_tables import (
    KEY,
    TIME,
    IcebergError,
    TableName,
    open_catalog,
    prepare_table,
    without_own_attempts,
)
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS, one_line, patiently, within

rows_where: Any = expressions
"""To type checkers, these classes have the parameters of pydantic's models, and not those of their own."""
EPOCH, DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)
RANK = ("generation", "reports", "pane_index")
SHORTEST_PAUSE, LONGEST_PAUSE = 10, 60
"""For how many seconds a stream collects panes for a commit, each of which rewrites the table's metadata."""
AT_ONCE_STREAM, AT_ONCE = 500, 5000
"""The largest number of snapshots in one commit: they are held in memory."""
MANY_FILES, FOLDED_BYTES, FOLDED_DAYS = 16, 1 << 26, 7
"""Days of more files than this, each, are written anew as one, if they are few and not too much to hold in memory."""
ANSWER_SECONDS = 120.0
"""How long an attempt may take. One that ends later does no harm: it is refused if the table has changed."""
TRANSIENT = (
    OSError,  # of the network, of storage; those of requests are such, too
    RESTError,
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    WaitingForLockException,
)
FINAL = (BadRequestError, ForbiddenError)
CLIENTS = ("botocore", "google", "sqlalchemy", "thrift")
"""Whose errors, too, may pass: the libraries below catalogues of other kinds."""


def is_transient(error: Exception) -> bool:
    """Whether waiting may mend it."""
    if isinstance(error, FINAL):
        return False
    return isinstance(error, TRANSIENT) or type(error).__module__.partition(".")[0] in CLIENTS


def upsert(table: Table, best: Mapping[str, Snapshot]) -> int:
    """In one commit, the snapshots that are new or better than what the table has; returns how many.

    Raises CommitFailedException, with nothing written, if the table is no longer the one that was loaded.
    """
    present = _ranks(table, best)
    better = {key: snapshot for key, snapshot in best.items() if key not in present or snapshot.rank > present[key]}
    if not better:
        return 0
    rows, replaced = _rows(table, better.values()), better.keys() & present.keys()
    starts = {_start(snapshot) for snapshot in better.values()}
    with without_own_attempts(table).transaction() as transaction:
        if _in_many_files(table, starts):
            days = _of_days(starts)
            others = table.scan(days).to_arrow()
            others = others.filter(pc.invert(pc.is_in(others[KEY], pa.array(replaced, others[KEY].type))))
            transaction.overwrite(pa.concat_tables([others, rows], promote_options="default"), days)
        elif replaced:
            transaction.overwrite(rows, _of_keys({key: better[key] for key in replaced}))
        else:
            transaction.append(rows)
    return len(better)


def _ranks(table: Table, wanted: Mapping[str, Snapshot]) -> dict[str, tuple[int, int, int]]:
    """By key, the best rank that the table has."""
    rows = table.scan(_of_keys(wanted), selected_fields=(KEY, *RANK)).to_arrow().to_pylist()
    return dict(sorted((row[KEY], tuple(row[name] for name in RANK)) for row in rows))


def _rows(table: Table, snapshots: Iterable[Snapshot]) -> pa.Table:
    """Snapshots as the table's columns, converted in parts: as Python's numbers they are large."""
    ours, theirs = arrow_schema(SNAPSHOT), table.schema().select(*field_names(SNAPSHOT.parsed)).as_arrow()
    parts = [pa.Table.from_pylist([s.to_avro() for s in part], schema=ours) for part in in_parts(snapshots, 100)]
    return pa.concat_tables(parts).select(theirs.names).cast(theirs)


def _start(snapshot: Snapshot) -> datetime:
    return EPOCH + timedelta(milliseconds=snapshot.key.window_start)


def _of_keys(snapshots: Mapping[str, Snapshot]) -> BooleanExpression:
    """Rows of these keys; by the starts of their windows, files of other days need not be read."""
    starts = {_start(snapshot) for snapshot in snapshots.values()}
    return rows_where.And(rows_where.In(TIME, starts), rows_where.In(KEY, snapshots.keys()))


def _of_days(starts: Set[datetime]) -> BooleanExpression:
    days = {start.replace(hour=0, minute=0, second=0, microsecond=0) for start in starts}
    since, before = rows_where.GreaterThanOrEqual, rows_where.LessThan
    ranges = (rows_where.And(since(TIME, day), before(TIME, day + DAY)) for day in sorted(days))
    return rows_where.Or(rows_where.AlwaysFalse(), *ranges)


def _in_many_files(table: Table, starts: Set[datetime]) -> bool:
    """Whether the days of these times should be written anew, each as one file."""
    days = {start.date() for start in starts}
    if len(days) > FOLDED_DAYS:
        return False
    files = [task.file for task in table.scan(_of_days(starts)).plan_files()]
    return len(files) > MANY_FILES * len(days) and sum(file.file_size_in_bytes for file in files) <= FOLDED_BYTES


class Writer:
    """Writes snapshots through one client of the catalogue, which is made anew after an error."""

    def __init__(self, name: TableName, patience_seconds: float = DEFAULT_SECONDS) -> None:
        self.name, self.patience_seconds = name, patience_seconds
        self.catalog: Catalog | None = None

    def write(self, snapshots: Iterable[Snapshot]) -> int:
        """All of them or none, in one commit; returns how many were new, or better than what was there.

        An attempt whose end is not known may have been committed: a row that is there already is then no better.
        """
        best: dict[str, Snapshot] = {}
        for snapshot in snapshots:
            before = best.setdefault(snapshot.key.text, snapshot)
            if snapshot.rank > before.rank:
                best[snapshot.key.text] = snapshot
        if not best:
            return 0
        sink = f"--sink iceberg:{self.name}"
        try:
            return patiently(sink, partial(self._attempt, best), is_transient, self.patience_seconds)
        except Exception as error:
            raise IcebergError(f"{sink}: {one_line(error)}") from error

    def _attempt(self, best: Mapping[str, Snapshot]) -> int:
        # One that is given up goes on with the client that it has: the next one must have another.
        catalog, self.catalog = self.catalog, None
        self.catalog, better = within(ANSWER_SECONDS, partial(self._write, catalog, best))
        return better

    def _write(self, catalog: Catalog | None, best: Mapping[str, Snapshot]) -> tuple[Catalog, int]:
        catalog = catalog or open_catalog(self.name.catalog)
        try:
            table = catalog.load_table(self.name.identifier)
            better = upsert(table, best)
            if better:
                clean_up(table, f"--sink iceberg:{self.name}")
            return catalog, better
        except BaseException:
            catalog.close()
            raise

    def close(self) -> None:
        catalog, self.catalog = self.catalog, None
        if catalog is not None:
            catalog.close()


def in_parts(snapshots: Iterable[Snapshot], size: int) -> Iterator[list[Snapshot]]:
    iterator = iter(snapshots)
    while part := list(islice(iterator, size)):
        yield part


def write_all(name: TableName, patience_seconds: float, snapshots: Sequence[Snapshot]) -> int:
    """Any number of snapshots; returns how many were new or better."""
    with closing(Writer(name, patience_seconds)) as writer:
        return sum(writer.write(part) for part in in_parts(snapshots, AT_ONCE))


class UpsertSnapshots(beam.DoFn):
    """All snapshots of an element in as few commits as memory allows; a bundle that fails is the engine's to repeat."""

    def __init__(self, name: TableName, patience_seconds: float) -> None:
        self.name, self.patience_seconds = name, patience_seconds

    def setup(self) -> None:
        self.writer = Writer(self.name, self.patience_seconds)

    def process(self, element: tuple[str, Iterable[Snapshot]]) -> None:
        for part in in_parts(element[1], AT_ONCE):
            better = self.writer.write(part)
            Metrics.counter("sinks", "snapshots").inc(len(part))
            Metrics.counter("sinks", "no_better_snapshots").inc(len(part) - better)

    def teardown(self) -> None:
        self.writer.close()


@dataclass
class UpsertIntoIceberg(beam.PTransform[PCollection[Snapshot], PCollection[None]]):
    """The best snapshot of each window becomes a row of an Iceberg table.

    The table is created, and given the columns that it lacks, when the pipeline is constructed. One worker writes to
    it: of bounded snapshots in one commit, of unbounded ones in one after each pause in which there were any.

    Args:
        table: CATALOG/NAMESPACE.TABLE. The catalogue is one of pyiceberg's configuration, where it runs: in the
            environment, such as PYICEBERG_CATALOG__LAKE__URI, or in .pyiceberg.yaml.
        patience_seconds: How long a catalogue or a store that is away is waited for.
        pause_seconds: How long unbounded snapshots are collected for a commit, at most; 0 writes each at once. It
            has no effect on bounded ones.

    >>> upsert = UpsertIntoIceberg("lake/results.snapshots")
    >>> snapshots | upsert  # doctest: +SKIP
    """

    table: str
    patience_seconds: float = DEFAULT_SECONDS
    pause_seconds: int = LONGEST_PAUSE

    def __post_init__(self) -> None:
        super().__init__()
        check_whole("pause_seconds", self.pause_seconds)
        self.name = TableName.parse(self.table)

    def expand(self, snapshots: PCollection[Snapshot]) -> PCollection[None]:
        prepare_table(self.name)
        # Two writers would do no harm, but get in each other's way.
        keyed = snapshots | "One writer" >> beam.Map(_keyed).with_output_types(tuple[str, Snapshot])
        if not snapshots.is_bounded:
            full = trigger.AfterCount(AT_ONCE_STREAM if self.pause_seconds else 1)
            often = trigger.AfterAny(trigger.AfterProcessingTime(self.pause_seconds), full)
            keyed |= "Collect" >> beam.WindowInto(
                window.GlobalWindows(),
                trigger=trigger.AfterWatermark(early=often),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
        write = UpsertSnapshots(self.name, self.patience_seconds)
        return keyed | "Together" >> beam.GroupByKey() | "Upsert" >> beam.ParDo(write).with_output_types(None)


def _keyed(snapshot: Snapshot) -> tuple[str, Snapshot]:
    return "", snapshot
