"""`hushgram export --output iceberg:`: the long tables in a catalogue, replaced by each export as a whole."""

import signal
import subprocess
import sys
from itertools import count, product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushgram.pipelines.cli import command
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.long_tables import BUCKETS, LONG_TABLES, QUANTILES, WINDOWS
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks import iceberg_expiry
from hushgram.transforms.sinks.files import FORMATS
from hushgram.transforms.sinks.iceberg_long_tables import replacing, table_schema
from hushgram.transforms.sinks.iceberg_tables import IcebergError, TableName, prepare_table
from hushgram.transforms.sinks.long_tables import record_batch
from tests.helpers.lakes import load_table, sqlite_settings
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import HOSTILE, MEAN, make_snapshot

ROOT = Path(__file__).parents[2]
files = count()


@pytest.fixture(autouse=True)
def lake(tmp_path, monkeypatch):
    for name, value in sqlite_settings(tmp_path).items():
        monkeypatch.setenv(name, value)


def name_of(table):
    return TableName("lake", ("bi",), table.name)


def add_results(folder, *snapshots):
    write_atomically(str(folder / "snapshots" / f"{next(files)}.avro"), FORMATS["avro"](SNAPSHOT, snapshots))


def export(results, output):
    return command.main(["export", str(results), "--output", str(output)])


def make_rows():
    return pa.Table.from_batches([record_batch(WINDOWS, make_snapshot())])


def sort_rows(rows):
    return sorted(rows, key=lambda row: (row["key"], row.get("share", 0), row.get("bucket", 0)))


def test_tables_of_a_catalogue_hold_what_files_hold_export_after_export(tmp_path):
    results = tmp_path / "results"
    for hour in range(2):
        start = START + hour * HOUR
        add_results(results, make_snapshot(MEAN, start=start), *(make_snapshot(group=g, start=start) for g in HOSTILE))
        assert export(results, tmp_path / f"files-{hour}") == 0
        assert export(results, "iceberg:lake/bi") == 0
        for table in LONG_TABLES:
            rows = load_table(name_of(table)).scan().to_arrow()
            expected = pq.read_table(tmp_path / f"files-{hour}" / f"{table.name}.parquet")
            assert sort_rows(rows.to_pylist()) == sort_rows(expected.to_pylist())


def test_columns_say_what_they_mean_and_rows_are_identified_where_iceberg_allows_it(tmp_path):
    add_results(tmp_path / "results", make_snapshot())
    assert export(tmp_path / "results", "iceberg:lake/bi") == 0
    for table, unique in ((WINDOWS, {"key"}), (QUANTILES, set()), (BUCKETS, {"key", "bucket"})):
        schema = load_table(name_of(table)).schema()
        assert [(f.name, f.doc, f.required) for f in schema.fields] == [
            (column.name, column.meaning, not column.nullable) for column in table.columns
        ]
        assert schema.identifier_field_names() == unique


@pytest.mark.slow
def test_an_export_that_is_killed_around_any_commit_leaves_each_table_as_it_was_or_as_it_will_be(tmp_path):
    """Readers find one export or the next in a table, never parts of two; and the next export makes all of them new."""
    results = tmp_path / "results"
    add_results(results, make_snapshot(), make_snapshot(MEAN))
    assert export(results, "iceberg:lake/bi") == 0
    for hour, (number, where) in enumerate(product((1, 2, 3), ("before", "after")), start=1):
        add_results(results, make_snapshot(start=START + hour * HOUR), make_snapshot(MEAN, start=START + hour * HOUR))
        before = {table: read_rows(table) for table in LONG_TABLES}
        assert export(results, tmp_path / f"files-{hour}") == 0
        program = [sys.executable, "-m", "tests.helpers.killed_export", where, str(number)]
        arguments = ["export", str(results), "--output", "iceberg:lake/bi"]
        assert subprocess.run([*program, *arguments], cwd=ROOT, check=False).returncode == -signal.SIGKILL
        committed = LONG_TABLES[::-1][: number - (where == "before")]  # the last of them first
        for table in LONG_TABLES:
            after = read_files(tmp_path / f"files-{hour}", table) if table in committed else before[table]
            assert read_rows(table) == after, (table.name, number, where)
    assert export(results, "iceberg:lake/bi") == 0
    for table in LONG_TABLES:
        assert read_rows(table) == read_files(tmp_path / f"files-{hour}", table)


def read_rows(table):
    return sort_rows(load_table(name_of(table)).scan().to_arrow().to_pylist())


def read_files(folder, table):
    return sort_rows(pq.read_table(folder / f"{table.name}.parquet").to_pylist())


def test_an_error_leaves_the_rows_of_the_export_before():
    name, rows = name_of(WINDOWS), make_rows()
    with replacing(name, WINDOWS) as writer:
        writer.write_table(rows)
    with pytest.raises(pa.ArrowInvalid), replacing(name, WINDOWS) as writer:
        writer.write_table(pa.table({"mean": ["no number"]}))
    assert load_table(name).scan().to_arrow().num_rows == 1


def test_old_exports_go_with_their_files(monkeypatch):
    """All versions but the newest are older than is allowed, and go when they are four."""
    monkeypatch.setattr(iceberg_expiry, "ENOUGH", 4)
    name, rows, versions = name_of(WINDOWS), make_rows(), []
    prepare_table(name, table_schema(WINDOWS))
    with load_table(name).transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    for _ in range(5):
        with replacing(name, WINDOWS) as writer:
            writer.write_table(rows)
        table = load_table(name)
        versions.append(len(table.snapshots()))
        assert table.scan().to_arrow().num_rows == 1
    assert versions == [1, 3, 1, 3, 1], "an export takes the rows away, and adds its own"
    assert len(list(Path(table.location().removeprefix("file://")).glob("data/**/*.parquet"))) == 1


def test_rows_of_others_that_came_meanwhile_stay():
    name, rows = name_of(WINDOWS), make_rows()
    late = replacing(name, WINDOWS)
    late.__enter__().write_table(rows)
    with replacing(name, WINDOWS) as rival:
        rival.write_table(rows)
    with pytest.raises(IcebergError, match="changed by somebody else meanwhile"):
        late.__exit__(None, None, None)
    assert load_table(name).scan().to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--output", "iceberg:lake"], "--output: got 'iceberg:lake', allowed: a folder, or iceberg:CATALOG/NAMESPACE"),
        (["--output", "iceberg:pond/bi"], "no catalogue 'pond' is configured; set PYICEBERG_CATALOG__POND__URI"),
        (["--output", "iceberg:lake/bi", "--format", "csv"], "--format csv: is of files"),
        (["--output", "iceberg:lake/taken"], "the table has another schema"),
    ],
)
def test_what_cannot_be_written_ends_in_a_line(options, line, tmp_path, capsys):
    prepare_table(TableName("lake", ("taken",), "windows"))  # a table of snapshots
    add_results(tmp_path / "results", make_snapshot())
    assert command.main(["export", str(tmp_path / "results"), *options]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
