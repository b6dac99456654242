"""How many files a stream's commits leave of an Iceberg table: `python -m benchmarks.lake`.

A catalogue in a file, and in each commit an early pane of one window, for all reports and for three groups: a day of
such commits is 24 windows. One table keeps all of its versions; of the other those go that are older than its latest
hour of commits, where a stream keeps a day of them. What is counted is what the storage has, in whoever's name.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from hushgram import Collection
from hushgram.schemas.records import Key, Pane, Snapshot
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.sinks import iceberg
from hushgram.transforms.sinks.iceberg import Writer
from hushgram.transforms.sinks.iceberg_expiry import AGE, let_old_versions_go
from hushgram.transforms.sinks.iceberg_tables import TableName, open_catalog, prepare_table
from hushgram.transforms.tallies import Tallies

START, MINUTE = 1_767_225_600_000, 60_000
WINDOW = 60
"""Commits of one window, one a minute."""
GROUPS = ("DE", "FR", "US")
KINDS = ("data", "manifests", "lists of manifests", "metadata")


def panes(count: int) -> Iterator[list[Snapshot]]:
    """Of one commit after the other."""
    collection = Collection(name="commute", low=0, high=180, buckets=1024, epsilon=1.0, groups=GROUPS)
    counts = np.random.default_rng(1).integers(0, 100, collection.mechanism.tally_length)
    key = Key("commute", None, START, START + WINDOW * MINUTE)
    tallies = Tallies({collection.revision: (int(counts.sum()), counts)})
    [pattern] = snapshots(collection, [(key, Pane(0, 0, "early"), tallies)])
    for number in range(count):
        start = START + number // WINDOW * WINDOW * MINUTE
        pane = Pane(0, number % WINDOW, "early")
        yield [
            replace(pattern, key=Key("commute", group, start, start + WINDOW * MINUTE), pane=pane, reports=number + 1)
            for group in (None, *GROUPS)
        ]


def kind(path: Path) -> str:
    """
    >>> kind(Path("metadata/snap-1-0-a.avro")), kind(Path("metadata/a-m0.avro"))
    ('lists of manifests', 'manifests')
    """
    if path.suffix == ".json":
        return "metadata"
    if path.suffix == ".avro":
        return "lists of manifests" if path.name.startswith("snap-") else "manifests"
    return "data"


def count_files(folder: Path) -> Counter[str]:
    return Counter(kind(path) for path in folder.rglob("*") if path.is_file())


def run(count: int, keep: int | None, folder: Path) -> tuple[Counter[str], int]:
    """The files after so many commits, and the bytes of the last metadata; all versions stay, or the last `keep`."""
    prefix = "PYICEBERG_CATALOG__LAKE__"
    os.environ |= {f"{prefix}URI": f"sqlite:///{folder}/catalog.db", f"{prefix}WAREHOUSE": f"file://{folder}/tables"}
    name = TableName("lake", ("results",), "snapshots")
    prepare_table(name)
    with closing(Writer(name)) as writer, closing(open_catalog(name.catalog)) as catalog:
        commits: list[int] = []
        for snapshots_of_commit in panes(count):
            writer.write(snapshots_of_commit)
            table = catalog.load_table(name.identifier)
            commits.append(table.metadata.last_updated_ms)
            if keep is not None and len(commits) > keep:
                age = int(table.metadata.properties[AGE])
                let_old_versions_go(table, commits[-keep] + age)
        size = Path(catalog.load_table(name.identifier).metadata_location.removeprefix("file://")).stat().st_size
    return count_files(folder / "tables"), size


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=240, help="how many (default: 240, four hours of a stream)")
    count = parser.parse_args(argv).commits
    print(
        f"{count} commits of {1 + len(GROUPS)} panes each; a stream makes at most one every {iceberg.LONGEST_PAUSE} s\n"
    )
    print(f"| versions | files | {' | '.join(KINDS)} | the last metadata |\n|---|{'---|' * (len(KINDS) + 2)}")
    for label, keep in (("all stay", None), (f"the last {WINDOW} commits stay", WINDOW)):
        with tempfile.TemporaryDirectory() as folder:
            files, size = run(count, keep, Path(folder))
        numbers = " | ".join(f"{files[kind]:,}" for kind in KINDS)
        print(f"| {label} | {files.total():,} | {numbers} | {size / 1000:,.0f} KB |", flush=True)


if __name__ == "__main__":
    main()
