"""The examples of `docs/tables.md`, run over the results of a real run, and compared with the library's own reader."""

from dataclasses import replace

import duckdb
import pytest
import sqlglot
from prometheus_client.parser import text_string_to_metric_families

from hushgram.pipelines.cli import command
from hushgram.pipelines.results import read_records, read_results, result_files
from hushgram.schemas.records import Pane, Snapshot
from hushgram.transforms.folding import PANES, SNAPSHOTS
from hushgram.transforms.sinks.layout import folder_of
from tests.helpers.documents import read_examples

pytestmark = pytest.mark.slow

YAML = """
collections:
  commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1, groups: [DE, FR], minimum_reports: 100}
  mean: {domain: {low: 0, high: 1}, epsilon: 1, mechanism: piecewise, minimum_reports: 100}
  "время в пути по рабочим дням / 50 %": {domain: {low: 0, high: 1}, buckets: 8, epsilon: 1, minimum_reports: 100}
"""
"""The last has a name of which its folder has but a beginning, and a number in place of the rest."""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Folders with results in both formats: a first generation, a second of fewer reports, and panes of a stream."""
    base = tmp_path_factory.mktemp("tables")
    (base / "collections.yaml").write_text(YAML)
    common = ["--collections", str(base / "collections.yaml")]
    for seed, hours in (("1", "3"), ("2", "2")):
        simulation = ["--values", "uniform", "--reports", "3000", "--hours", hours, "--seed", seed]
        assert command.main(["simulate", *common, *simulation, "--output", str(base / f"reports{seed}")]) == 0
    for kind in ("parquet", "avro"):
        results = str(base / kind / "results")
        aggregation = [*common, "--output", results, "--format", kind, "--sink", f"prometheus:{base}/{kind}.prom"]
        aggregation += ["--run", "all"]
        assert command.main(["aggregate", *aggregation, "--input", f"{base}/reports?/*.avro"]) == 0
        first = read_all(results)
        assert command.main(["aggregate", *aggregation, "--input", f"{base}/reports2/*.avro", "--generation", "1"]) == 0
        if kind == "parquet":
            for s in first:  # as if the correction were about to remove it
                write_pane(results, s, "parquet")
            add_panes(results)
    # Avro files with the same panes, one for one.
    for s in read_all(base / "parquet" / "results"):
        write_pane(base / "avro" / "results", s, "avro")
    return base


def write_pane(results, snapshot, kind):
    SNAPSHOTS.write(f"{results}/snapshots/{folder_of(snapshot.key)}", PANES, kind, [snapshot])


def read_all(results):
    return [
        Snapshot.from_avro(record) for path in result_files(str(results), "snapshots") for record in read_records(path)
    ]


def add_panes(results):
    """Of one window panes that come before and after it, by each part of the rule alone."""
    first = next(s for s in read_results(results, "snapshots", Snapshot.from_avro) if s.quantiles)
    q = first.quantiles
    for number, (generation, reports, index) in enumerate(
        [(0, 10**6, 9), (1, first.reports - 1, 9), (1, first.reports, 3)]
    ):
        changed = tuple(replace(quantile, value=float(number)) for quantile in q)
        pane = replace(first, pane=Pane(generation, index, "late"), reports=reports, quantiles=changed)
        write_pane(results, pane, "parquet")


def read_expected(results):
    snapshots = read_results(str(results), "snapshots", Snapshot.from_avro)
    medians = {s.key: next((q for q in s.quantiles or () if q.share == 0.5), None) for s in snapshots}
    answers = {
        (key.collection, key.group, key.window_start): (q.value, q.low, q.high) for key, q in medians.items() if q
    }
    assert len(answers) > 6
    assert 2.0 in {value for value, _, _ in answers.values()}, "the third of the panes is the best"
    return answers


def group_by_window(rows):
    rows = [(c, g if isinstance(g, str) else None, round(t.timestamp() * 1000), *numbers) for c, g, t, *numbers in rows]
    assert len({row[:3] for row in rows}) == len(rows)
    return {row[:3]: row[3:] for row in rows}


@pytest.fixture
def database():
    with duckdb.connect() as connection:
        yield connection


def test_the_duckdb_example_of_the_documents_reads_parquet(base, database, monkeypatch):
    monkeypatch.chdir(base / "parquet")
    [example] = read_examples("tables.md", "Files", "sql")
    assert group_by_window(database.sql(example).fetchall()) == read_expected("results")


def test_the_pandas_example_of_the_documents_reads_parquet(base, monkeypatch):
    monkeypatch.chdir(base / "parquet")
    example, _ = read_examples("tables.md", "Files", "python")
    names = {}
    exec(example, names)
    columns = ["collection", "group", "window_start", "median", "low", "high"]
    assert group_by_window(names["medians"][columns].itertuples(index=False)) == read_expected("results")


def test_the_polars_example_of_the_documents_reads_avro(base, monkeypatch):
    monkeypatch.chdir(base / "avro")
    _, example = read_examples("tables.md", "Files", "python")
    names = {}
    exec(example, names)
    columns = ["collection", "group", "window_start", "median", "low", "high"]
    assert group_by_window(names["medians"].select(columns).rows()) == read_expected("results")


def test_bigquery_queries_of_the_documents_give_the_medians(base, database, monkeypatch):
    """Without the service: read as BigQuery's SQL, translated to DuckDB's, and run there."""
    monkeypatch.chdir(base / "parquet")
    view, query = read_examples("tables.md", "BigQuery", "sql")
    database.sql("ATTACH ':memory:' AS \"some-project\"")
    database.sql('CREATE SCHEMA "some-project".results; CREATE SCHEMA results')
    table = '"some-project".results.snapshots'
    files = "read_parquet('results/snapshots/**/*.parquet', hive_partitioning = false)"
    database.sql(f"CREATE TABLE {table} AS SELECT * FROM {files}")
    database.sql(f"INSERT INTO {table} SELECT * FROM {table}")  # rows may come twice
    for statement in (view, query):
        [duckdb_statement] = sqlglot.transpile(statement, read="bigquery", write="duckdb")
        answer = database.sql(duckdb_statement)
    assert group_by_window(answer.fetchall()) == read_expected("results")


def test_prometheus_sees_the_newest_of_the_run(base):
    """The second run came last; its windows are those of the first two hours."""
    snapshots = [
        s for s in read_all(base / "avro" / "results") if s.pane.generation == 1 and s.pane.timing == "on_time"
    ]
    newest = {}
    for s in sorted(snapshots, key=lambda s: s.key.window_end):
        newest[s.key.collection, s.key.group or ""] = s.mean
    families = text_string_to_metric_families((base / "avro.prom").read_text())
    [means] = [family for family in families if family.name == "hushgram_mean"]
    assert {(s.labels["collection"], s.labels.get("group", "")): s.value for s in means.samples} == newest
