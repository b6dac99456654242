"""Iceberg catalogues without a server, and the snapshots that a table has."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from hushgram.pipelines.results import best, read_results
from hushgram.schemas.records import Snapshot
from hushgram.transforms.sinks.iceberg import Writer
from hushgram.transforms.sinks.iceberg_tables import TableName, open_catalog
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import make_snapshot

NAME = TableName("lake", ("results",), "snapshots")


def sqlite_settings(directory: Path) -> dict[str, str]:
    """The environment of those who may use a catalogue in a file, under the name `lake`."""
    prefix = "PYICEBERG_CATALOG__LAKE__"
    return {f"{prefix}URI": f"sqlite:///{directory}/catalog.db", f"{prefix}WAREHOUSE": f"file://{directory}/warehouse"}


def load_table(name: TableName = NAME) -> Table:
    with closing(open_catalog(name.catalog)) as catalog:
        return catalog.load_table(name.identifier)


def read_table(name: TableName = NAME) -> list[dict[str, Any]]:
    """All snapshots of a table, as their Avro records, ordered by key."""
    return to_records(Snapshot.from_avro(row) for row in load_table(name).scan().to_arrow().to_pylist())


def to_records(snapshots: Iterable[Snapshot]) -> list[dict[str, Any]]:
    """The same of any snapshots. To pyiceberg, a list of structs that is null is an empty one."""
    records = (snapshot.to_avro() for snapshot in snapshots)
    return sorted(
        ({**record, "quantiles": record["quantiles"] or []} for record in records), key=lambda r: str(r["key"])
    )


def read_written(*outputs: Path) -> list[dict[str, Any]]:
    """The same of the best snapshots that runs have written to files."""
    snapshots = (s for output in outputs for s in read_results(str(output), "snapshots", Snapshot.from_avro))
    return to_records(best(snapshots))


def make_panes() -> list[Snapshot]:
    """Panes of windows of three days; their number of reports is their rank."""
    starts = [START + hour * HOUR for hour in (0, 1, 2, 25, 50)]
    return [make_snapshot(start=start, reports=reports) for start in starts for reports in range(1, 40)]


def write_on(seed: int) -> None:
    """Writes some of them, and others, until it is killed, and tells of each commit."""
    panes, rng, writer = make_panes(), random.Random(seed), Writer(NAME)
    print("ready", flush=True)
    while True:
        some = rng.sample(panes, 6)
        writer.write(some)
        print(*(f"{pane.key.text}={pane.reports}" for pane in some), flush=True)
