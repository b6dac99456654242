"""Laws of the Iceberg sink where others change its table, or made it.

Each catalogue decides about conflicts and schemas by itself, so there are tests for each that import all of these laws.
"""

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, MonthTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from hushgram.pipelines.results import best
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.field_types import fields_of
from hushgram.transforms.sinks import iceberg, iceberg_expiry
from hushgram.transforms.sinks.iceberg import Writer, write_all
from hushgram.transforms.sinks.iceberg_tables import (
    KEY,
    IcebergError,
    by_day,
    open_catalog,
    prepare_table,
    table_schema,
)
from tests.helpers.lakes import NAME, load_table, make_panes, read_table, to_records
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import make_snapshot

__all__ = [
    "test_a_rival_between_read_and_commit_is_read_too",
    "test_a_table_of_an_older_version_gains_the_missing_columns_and_keeps_its_rows",
    "test_a_table_of_another_schema_is_refused_and_left_as_it_is",
    "test_a_table_without_days_as_partitions_is_refused",
    "test_columns_of_a_newer_version_keep_their_values",
    "test_concurrent_starts_make_the_table_and_its_columns_once",
    "test_concurrent_writers_do_not_lose_the_best_pane_nor_write_it_twice",
    "test_old_versions_go_with_their_files_and_no_others",
    "test_partitions_that_are_more_than_days_will_do",
    "test_versions_stay_if_somebody_commits_meanwhile",
    "test_what_somebody_may_still_want_stays",
]


def write(*snapshots):
    return write_all(NAME, 60, snapshots)


# Conflicts -----------------------------------------------------------------------------------------------------------


def test_concurrent_writers_do_not_lose_the_best_pane_nor_write_it_twice():
    prepare_table(NAME)
    snapshots = [make_snapshot(reports=n, start=START + hour * HOUR) for hour in range(3) for n in range(4)]
    errors = []

    def write_in_parts(seed):
        order = np.random.default_rng(seed).permutation(len(snapshots))
        try:
            for part in np.array_split(order, 3):
                write_all(NAME, 60, [snapshots[index] for index in part])
        except IcebergError as error:
            errors.append(error)

    threads = [threading.Thread(target=write_in_parts, args=[seed]) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [record["reports"] for record in read_table()] == [3, 3, 3]


@pytest.mark.slow
@pytest.mark.parametrize("there", [[], [make_snapshot(reports=1)], [make_snapshot(group="DE")]])
@pytest.mark.parametrize("rival", [4, 6])
def test_a_rival_between_read_and_commit_is_read_too(monkeypatch, there, rival):
    """Whether rows are added or replaced: pyiceberg alone would add ours to the rival's."""
    prepare_table(NAME)
    write(*there)
    rivals = [make_snapshot(reports=rival, index=9)]
    original = iceberg._rows

    def rows_after_the_rival(*arguments):
        if rivals:
            Writer(NAME).write([rivals.pop()])
        return original(*arguments)

    monkeypatch.setattr(iceberg, "_rows", rows_after_the_rival)
    assert write(make_snapshot(reports=5)) == (rival < 5)
    expected = best([*there, make_snapshot(reports=5), make_snapshot(reports=rival, index=9)])
    assert read_table() == to_records(expected)
    assert "commit.retry.num-retries" not in load_table().properties, "others may try again"


def test_concurrent_starts_make_the_table_and_its_columns_once():
    errors, barrier = [], threading.Barrier(4)

    def prepare():
        barrier.wait()
        try:
            prepare_table(NAME)
        except IcebergError as error:
            errors.append(error)

    open_catalog(NAME.catalog)  # SQLite's own tables are not made for several at once
    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [field.name for field in load_table().schema().fields] == [field.name for field in table_schema().fields]


# Old versions --------------------------------------------------------------------------------------------------------


def data_files_on_disk(table):
    return {str(path) for path in Path(urlsplit(table.location()).path).rglob("*.parquet")}


def files_of(table):
    """The files that the versions of a table have, and the metadata that the catalogue keeps."""
    files = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for version in table.snapshots():
        files.add(version.manifest_list)
        for manifest in version.manifests(table.io):
            files.add(manifest.manifest_path)
            files |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {urlsplit(file).path for file in files}


def test_old_versions_go_with_their_files_and_no_others(monkeypatch):
    """All but the newest are older than is allowed; days are folded and rows replaced on the way."""
    monkeypatch.setattr(iceberg_expiry, "ENOUGH", 4)
    monkeypatch.setattr(iceberg_expiry, "AT_ONCE", 6)
    monkeypatch.setattr(iceberg, "MANY_FILES", 3)
    prepare_table(NAME)
    set_property("history.expire.max-snapshot-age-ms", "0")
    of_others = data_files_on_disk(load_table())  # of tables of this name that were dropped
    rng, panes, versions, written = np.random.default_rng(3), make_panes(), [], []
    for _ in range(14):
        some = [panes[index] for index in rng.choice(len(panes), 4)]
        written += some
        write(*some)
        table = load_table()
        versions.append(len(table.snapshots()))
        assert all(Path(file).is_file() for file in files_of(table))
        for version in table.snapshots():
            table.scan(snapshot_id=version.snapshot_id).to_arrow()
    assert read_table() == to_records(best(written))
    assert max(versions) <= 5 < len(versions)
    assert min(versions[4:]) == 1
    assert data_files_on_disk(table) - of_others <= files_of(table)


@pytest.mark.parametrize("why", ["no age", "young", "tag", "gc", "rolled back"])
def test_what_somebody_may_still_want_stays(monkeypatch, why):
    prepare_table(NAME)
    if why != "young":
        set_property("history.expire.max-snapshot-age-ms", "0")
    for reports in range(1, 3):
        write(make_snapshot(reports=reports))
    table = load_table()
    first = table.snapshots()[0].snapshot_id
    if why == "no age":
        with table.transaction() as transaction:
            transaction.remove_properties("history.expire.max-snapshot-age-ms")
    elif why == "tag":
        table.manage_snapshots().create_tag(first, "audit").commit()
    elif why == "gc":
        set_property("gc.enabled", "false")
    elif why == "rolled back":
        table.manage_snapshots().set_current_snapshot(first).commit()
    before = {version.snapshot_id for version in load_table().snapshots()}
    monkeypatch.setattr(iceberg_expiry, "ENOUGH", 1)
    write(make_snapshot(reports=5))
    table = load_table()
    assert before < {version.snapshot_id for version in table.snapshots()}
    for version in table.snapshots():
        table.scan(snapshot_id=version.snapshot_id).to_arrow()


def test_versions_stay_if_somebody_commits_meanwhile(monkeypatch):
    monkeypatch.setattr(iceberg_expiry, "ENOUGH", 2)
    prepare_table(NAME)
    for reports in range(1, 4):
        write(make_snapshot(reports=reports))
    set_property("history.expire.max-snapshot-age-ms", "0")
    table, original = load_table(), iceberg_expiry._files_of_only

    def files_before_the_rival(*arguments):
        files = original(*arguments)
        write(make_snapshot(reports=9))
        return files

    monkeypatch.setattr(iceberg_expiry, "_files_of_only", files_before_the_rival)
    monkeypatch.setattr(iceberg, "clean_up", lambda *_: None)
    with pytest.raises(CommitFailedException):
        iceberg_expiry.let_old_versions_go(table, table.metadata.last_updated_ms + 1000)
    before, now = ({version.snapshot_id for version in state.snapshots()} for state in (table, load_table()))
    assert before < now
    for version in now:
        load_table().scan(snapshot_id=version).to_arrow()


def set_property(name, value):
    with load_table().transaction() as transaction:
        transaction.set_properties({name: value})


# Other tables --------------------------------------------------------------------------------------------------------


def create(schema, **options):
    catalog = open_catalog(NAME.catalog)
    with suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(NAME.namespace)
    return catalog.create_table(NAME.identifier, schema, **options)


def test_a_table_of_an_older_version_gains_the_missing_columns_and_keeps_its_rows():
    later = {*SNAPSHOT.additions[-2]}
    old = Schema(*(field for field in table_schema().fields if field.name not in later))
    table = create(old, partition_spec=by_day(old))
    first = replace(make_snapshot(group="DE"), **dict.fromkeys(later))
    rows = pa.Table.from_pylist([{**first.to_avro()}], schema=iceberg.arrow_schema(SNAPSHOT)).drop_columns([*later])
    table.append(rows.cast(table.schema().as_arrow()))
    prepare_table(NAME)
    assert {field.name for field in load_table().schema().fields} == {field.name for field in fields_of(SNAPSHOT)}
    assert load_table().schema().find_field("central_epsilon").doc
    assert read_table() == to_records([first])
    assert write(make_snapshot(), make_snapshot(group="DE", generation=1)) == 2
    assert read_table() == to_records([make_snapshot(), make_snapshot(group="DE", generation=1)])


@pytest.mark.parametrize("many_files", [0, 16])
def test_columns_of_a_newer_version_keep_their_values(monkeypatch, many_files):
    monkeypatch.setattr(iceberg, "MANY_FILES", many_files)
    prepare_table(NAME)
    write(make_snapshot(), make_snapshot(group="DE"))
    table = load_table()
    with table.update_schema() as update:
        update.add_column("note", StringType())
    rows = table.scan().to_arrow()
    table.overwrite(rows.set_column(rows.schema.get_field_index("note"), "note", pa.array(["a", "b"], pa.string())))
    notes = {row[KEY]: row["note"] for row in load_table().scan().to_arrow().to_pylist()}
    prepare_table(NAME)
    write(make_snapshot(generation=1), make_snapshot(start=START + HOUR))
    replaced = make_snapshot().key.text
    found = {row[KEY]: row["note"] for row in load_table().scan().to_arrow().to_pylist()}
    assert found == {**notes, replaced: None, make_snapshot(start=START + HOUR).key.text: None}


@pytest.mark.parametrize("partitions", ["none", "months", "days of another column"])
def test_a_table_without_days_as_partitions_is_refused(partitions):
    schema = table_schema()
    column, transform = (
        ("window_end", DayTransform()) if "another" in partitions else ("window_start", MonthTransform())
    )
    spec = PartitionSpec(PartitionField(schema.find_field(column).field_id, 1000, transform, "part"))
    create(schema, **({} if partitions == "none" else {"partition_spec": spec}))
    with pytest.raises(IcebergError, match="the table's partitions are not the days of window_start; add ") as raised:
        prepare_table(NAME)
    assert "\n" not in str(raised.value)


def test_partitions_that_are_more_than_days_will_do():
    schema = table_schema()
    collection = PartitionField(schema.find_field("collection").field_id, 1001, IdentityTransform(), "collection")
    create(schema, partition_spec=PartitionSpec(*by_day(schema).fields, collection))
    prepare_table(NAME)
    write(make_snapshot())
    assert read_table() == to_records([make_snapshot()])


OURS = table_schema().fields


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([NestedField(1, "id", LongType(), required=False)], "no column collection; no column window_start"),
        ([field for field in OURS if field.name != KEY], "no column key"),
        (
            [*(field for field in OURS if field.name != "mean"), NestedField(900, "mean", StringType(), required=True)],
            "column mean is string, not double",
        ),
        (
            [*(field for field in OURS if field.name != "fit"), NestedField(900, "fit", DoubleType(), required=True)],
            "column fit may not be null",
        ),
        (
            [*OURS, NestedField(900, "tenant", StringType(), required=True)],
            "column tenant may not be null, and is not one of ours",
        ),
    ],
)
def test_a_table_of_another_schema_is_refused_and_left_as_it_is(columns, words):
    before = create(Schema(*columns)).schema()
    with pytest.raises(IcebergError) as raised:
        prepare_table(NAME)
    assert str(raised.value).startswith(f"the table has another schema: {words}")
    assert "\n" not in str(raised.value)
    assert load_table().schema() == before
