"""`hushgram export`: the best pane of each window as long tables, whole or not at all."""

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from hushgram.pipelines import export as exporting
from hushgram.pipelines.cli import command
from hushgram.pipelines.dbt_sources import dbt_sources
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.long_tables import BUCKETS, LONG_TABLES, QUANTILES, WINDOWS
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.files import FORMATS
from hushgram.transforms.sources import result_files
from hushgram.transforms.sources.result_files import best
from tests.helpers.documents import read_examples
from tests.helpers.pages import pane_name
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import HOSTILE, MEAN, WAVE, make_snapshot

ROOT = Path(__file__).parents[2]
NAMES = [f"{table.name}.parquet" for table in LONG_TABLES]


@pytest.fixture
def results(tmp_path):
    """Panes of several windows, groups and generations, in files of every format; and those that are the best."""
    panes = [
        make_snapshot(collection, group, reports, START + hour * HOUR, generation, index)
        for collection, groups in ((WAVE, [None, *HOSTILE[:2]]), (MEAN, [None]))
        for group in groups
        for hour in range(3)
        for generation, reports, index in ((0, 50, 0), (0, 70, 1), (hour % 2, 60, 2))
    ]
    for number, pane in enumerate(panes):
        kind = ("avro", "parquet", "jsonl")[number % 3]
        path = tmp_path / "results" / "snapshots" / f"{pane_name(pane)}.{kind}"
        write_atomically(str(path), FORMATS[kind](SNAPSHOT, [pane]))
    return tmp_path / "results", best(panes)


def run_export(results, output, *options):
    return command.main(["export", str(results), "--output", str(output), *options])


def read_parquet(output, table):
    return pq.read_table(output / f"{table.name}.parquet")


def expected_rows(table, answers):
    """As tuples; times as milliseconds."""
    parts = [table.of_snapshot(answer) for answer in answers]
    rows = [row for part in parts for row in zip(*(np.array(v, object).tolist() for v in part.values()), strict=True)]
    return sorted(rows, key=str)


def read_rows(table, columns):
    for index, column in enumerate(table.columns):
        if column.kind == "time":
            columns = columns.set_column(index, column.name, columns[column.name].cast("int64"))
    return sorted((tuple(row.values()) for row in columns.to_pylist()), key=str)


def test_tables_have_the_best_pane_of_each_window(results, tmp_path, capsys):
    folder, answers = results
    assert run_export(folder, tmp_path / "tables") == 0
    for table in LONG_TABLES:
        assert read_rows(table, read_parquet(tmp_path / "tables", table)) == expected_rows(table, answers)
    counts = len(answers), 19 * 9, 16 * 9
    assert "{} windows, {} quantiles, {} buckets, in".format(*counts) in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path / "tables")) == sorted([*NAMES, "sources.yml"])


def test_rows_are_written_in_groups_of_bounded_size_and_files_are_read_one_by_one(results, tmp_path, monkeypatch):
    folder, answers = results
    monkeypatch.setattr(exporting, "ROWS_AT_ONCE", 32)
    held = []
    read = result_files.read_result_file

    def read_one(path, *rest):
        held.append(path)
        return read(path, *rest)

    monkeypatch.setattr(result_files, "read_result_file", read_one)
    assert run_export(folder, tmp_path / "tables") == 0
    buckets = pq.ParquetFile(tmp_path / "tables" / "buckets.parquet").metadata
    assert buckets.num_rows == 16 * 9
    assert max(buckets.row_group(group).num_rows for group in range(buckets.num_row_groups)) == 32
    assert len(held) == len(set(held)) + len(answers), "all files once, and those of the best once more"


def test_parquet_files_say_what_their_columns_mean(results, tmp_path):
    assert run_export(results[0], tmp_path / "tables") == 0
    for table in LONG_TABLES:
        schema = pq.read_schema(tmp_path / "tables" / f"{table.name}.parquet")
        assert schema.metadata[b"doc"].decode() == table.meaning
        assert [field.metadata[b"doc"].decode() for field in schema] == [column.meaning for column in table.columns]
        assert [field.nullable for field in schema] == [column.nullable for column in table.columns]


def locate(source, table):
    """What a query selects from, exactly as dbt-duckdb makes it of a source."""
    location = source["config"]["meta"]["external_location"].format(
        schema=source["name"], name=table["name"], identifier=table["name"]
    )
    return location if "(" in location or location.startswith("'") else f"'{location}'"


def read_sources(output):
    """The source of dbt beside exported tables. It is a template of Jinja first, which this one must not notice."""
    text = (output / "sources.yml").read_text()
    assert not re.search(r"\{[{%#]", text)
    [source] = yaml.safe_load(text)["sources"]
    return source


def test_csv_holds_the_same_with_a_dictionary_beside_it(results, tmp_path):
    for kind in exporting.FORMATS:
        assert run_export(results[0], tmp_path / kind, "--format", kind) == 0
    for number, table in enumerate(LONG_TABLES):
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        one, other = (
            duckdb.sql(f"SELECT {names} FROM {locate(source, source['tables'][number])}").fetchall()
            for source in (read_sources(tmp_path / kind) for kind in exporting.FORMATS)
        )
        assert one == other
    with (tmp_path / "csv" / "columns.csv").open(newline="") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    assert rows == [
        (table.name, c.name, c.kind, json.dumps(c.nullable), c.meaning) for table in LONG_TABLES for c in table.columns
    ]


def test_sources_of_dbt_are_the_tables_and_what_they_mean(results, tmp_path):
    assert run_export(results[0], tmp_path / "tables") == 0
    for table, entry in zip(LONG_TABLES, read_sources(tmp_path / "tables")["tables"], strict=True):
        assert (entry["name"], entry["description"]) == (table.name, table.meaning)
        assert [(c["name"], c["description"]) for c in entry["columns"]] == [(c.name, c.meaning) for c in table.columns]
        tests = {c["name"]: c.get("data_tests", []) for c in entry["columns"]}
        assert {name for name, its in tests.items() if "not_null" in its} == {
            c.name for c in table.columns if not c.nullable
        }
        assert [name for name, its in tests.items() if "unique" in its] == (["key"] if table is WINDOWS else [])


FAILING = {
    "not_null": "SELECT count(*) FROM {table} WHERE {column} IS NULL",
    "unique": "SELECT count(*) FROM (SELECT 1 FROM {table} GROUP BY {column} HAVING count(*) > 1)",
}
"""How many rows fail a test of dbt, as dbt asks."""


@pytest.mark.parametrize("kind", exporting.FORMATS)
@pytest.mark.parametrize("name", ["tables", "odd name, (of) Ann's"])
def test_the_tests_of_dbt_hold_of_what_is_exported(results, tmp_path, kind, name):
    folder, answers = results
    assert {bool(answer.unit) for answer in answers} == {False, True}
    assert run_export(folder, tmp_path / name, "--format", kind) == 0
    source, failures, asked = read_sources(tmp_path / name), {}, 0
    for entry in source["tables"]:
        table = locate(source, entry)
        assert duckdb.sql(f"SELECT count(*) > 0 FROM {table}").fetchall() == [(True,)]
        for column in entry["columns"]:
            for test in column.get("data_tests", []):
                query = FAILING[test].format(table=table, column=f'"{column["name"]}"')
                [(failures[entry["name"], column["name"], test],)] = duckdb.sql(query).fetchall()
                asked += 1
    assert asked > 40
    assert {test: count for test, count in failures.items() if count} == {}


def test_a_folder_whose_name_dbt_takes_for_a_template_is_refused(results, tmp_path, capsys):
    output = tmp_path / "{odd} name"
    assert run_export(results[0], output) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--output: got " in line
    assert "a folder without braces" in line
    assert not output.exists()


def test_the_shipped_sources_of_dbt_are_those_of_the_views():
    """Written by `python -c 'from hushgram.pipelines.dbt_sources import dbt_sources; print(dbt_sources(), end="")'`."""
    text = (ROOT / "deploy" / "dbt" / "sources.yml").read_text()
    assert text == dbt_sources()
    [source] = yaml.safe_load(text)["sources"]
    assert [table["identifier"] for table in source["tables"]] == [f"hushgram_{table.name}" for table in LONG_TABLES]


def test_queries_of_the_documents_run_over_exported_tables(results, tmp_path, monkeypatch):
    folder, answers = results
    assert run_export(folder, tmp_path / "tables") == 0
    monkeypatch.chdir(tmp_path)
    medians, distribution = read_examples("dashboards.md", "Files", "sql")
    rows = duckdb.sql(medians).fetchall()
    assert len(rows) == len(expected_rows(QUANTILES, answers)) / 19
    rows = duckdb.sql(distribution).fetchall()
    newest = [a for a in answers if a.key.collection == WAVE.name and a.key.group is None][-1]
    bins = newest.readable_bins()
    assert [(low, high) for low, high, *_ in rows] == list(zip(bins.edges, bins.edges[1:], strict=False))
    assert sum(row[2] for row in rows) == pytest.approx(1)


# Faults --------------------------------------------------------------------------------------------------------------


def test_a_failure_leaves_the_tables_of_before_and_nothing_else(results, tmp_path, monkeypatch):
    folder, _ = results
    output = tmp_path / "tables"
    assert run_export(folder, output) == 0
    before = {name: (output / name).read_bytes() for name in os.listdir(output)}
    for pane in (make_snapshot(start=START + 9 * HOUR), make_snapshot(start=START + 10 * HOUR)):
        path = folder / "snapshots" / f"{pane_name(pane)}.avro"
        write_atomically(str(path), FORMATS["avro"](SNAPSHOT, [pane]))
    calls = []

    def fail(table, snapshot):
        calls.append(table)
        if len(calls) > 30:
            raise OSError(28, "No space left on device")
        return record_batch(table, snapshot)

    record_batch = exporting.record_batch
    monkeypatch.setattr(exporting, "record_batch", fail)
    assert run_export(folder, output) == 2
    assert {name: (output / name).read_bytes() for name in os.listdir(output)} == before


def test_a_killed_export_leaves_the_tables_of_before(results, tmp_path):
    folder, _ = results
    output = tmp_path / "tables"
    assert run_export(folder, output) == 0
    before = {name: (output / name).read_bytes() for name in os.listdir(output)}
    pane = make_snapshot(start=START + 9 * HOUR)
    path = folder / "snapshots" / f"{pane_name(pane)}.avro"
    write_atomically(str(path), FORMATS["avro"](SNAPSHOT, [pane]))
    code = (
        "import os, signal, sys\n"
        "from hushgram.pipelines import export\n"
        "export.ROWS_AT_ONCE, make, calls = 1, export.record_batch, []\n"
        "def record_batch(*of):\n"
        "    calls.append(of)\n"
        "    if len(calls) > 30: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return make(*of)\n"
        "export.record_batch = record_batch\n"
        "export.run(sys.argv[1:])\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(folder), "--output", str(output)], cwd=ROOT)
    assert killed.returncode == -9
    assert {name: (output / name).read_bytes() for name in before} == before
    assert run_export(folder, output) == 0
    assert read_parquet(output, WINDOWS).num_rows == 13


def test_results_that_change_while_they_are_read_are_listed_again(results, tmp_path, monkeypatch):
    """As a stream does, which replaces a pane by a better one."""
    folder, answers = results
    first = answers[0]
    better = replace(first, pane=replace(first.pane, generation=5))
    read, seen = result_files.read_result_file, []

    [old] = map(str, (folder / "snapshots").glob(f"{pane_name(first)}.*"))

    def read_and_replace(path, *rest):
        seen.append(path)
        if path == old and seen.count(old) == 2:
            os.unlink(old)
            new = folder / "snapshots" / f"{pane_name(better)}.avro"
            write_atomically(str(new), FORMATS["avro"](SNAPSHOT, [better]))
        return read(path, *rest)

    monkeypatch.setattr(result_files, "read_result_file", read_and_replace)
    assert run_export(folder, tmp_path / "tables") == 0
    expected = expected_rows(WINDOWS, [better, *answers[1:]])
    rows = read_rows(WINDOWS, read_parquet(tmp_path / "tables", WINDOWS))
    assert sorted(rows, key=itemgetter(0)) == sorted(expected, key=itemgetter(0))


def test_results_that_never_stay_end_the_command_in_one_line(results, tmp_path, capsys, monkeypatch):
    def read_nothing(path, *_):
        raise FileNotFoundError(path)

    monkeypatch.setattr(result_files, "read_result_file", read_nothing)
    assert run_export(results[0], tmp_path / "tables") == 2
    assert "results change faster than they are read" in capsys.readouterr().err
    assert not os.listdir(tmp_path / "tables")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reports": 2**70}, "a count that is no whole number"),
        ({"mean": "high"}, "a number that is none"),
        ({"quantiles": [{"share": 0.5, "value": None, "low": 0, "high": 1}]}, "a quantile that is no number"),
        ({"unit": 7}, "a text that is none"),
        ({"scale": "log"}, "a scale that is none"),
        ({"probabilities": [[1.0]]}, "an array of an odd shape"),
    ],
)
def test_a_file_of_something_else_ends_the_command_in_one_line(results, tmp_path, capsys, change, message):
    folder, _ = results
    record = make_snapshot(start=START + 9 * HOUR).to_avro() | change
    (folder / "snapshots" / "commute" / "odd.jsonl").write_text(json.dumps(record))
    assert run_export(folder, tmp_path / "tables") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "odd.jsonl: " in line
    assert message in line
    assert not os.listdir(tmp_path / "tables")


def test_without_results_there_are_no_tables(tmp_path, capsys):
    assert run_export(tmp_path / "nowhere", tmp_path / "tables") == 2
    assert "nowhere: no such directory" in capsys.readouterr().err
    assert BUCKETS.name not in "".join(os.listdir(tmp_path))
