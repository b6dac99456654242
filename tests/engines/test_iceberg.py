"""The Iceberg sink on a real REST catalogue, and on PostgreSQL: whole commands, readers, faults and kills."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyiceberg.utils.config import Config

from devtools.processes import eventually, free_port
from hushgram import load_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.results import best, read_results
from hushgram.schemas.records import Snapshot
from hushgram.transforms.sinks import iceberg
from hushgram.transforms.sinks.iceberg import Writer, write_all
from hushgram.transforms.sinks.iceberg_tables import TableName, prepare_table
from tests.helpers.documents import read_examples
from tests.helpers.lakes import NAME, load_table, make_panes, read_table, read_written, to_records
from tests.helpers.reports import compute_tallies, encode_avro_file, make_report_rows
from tests.helpers.streams import make_mixed_stream, read_panes
from tests.helpers.tables import make_snapshot

ROOT = Path(__file__).parents[2]
SINK = f"iceberg:{NAME}"
PATIENCE = 300
"""Seconds: on a busy machine a catalogue that has thawed takes long over requests that were given up meanwhile."""
YAML = """
collections:
  commute: {domain: {low: 0, high: 180, unit: minutes}, buckets: 32, epsilon: 1.0, groups: [DE, "a/b"]}
  mean: {domain: {low: -5, high: 5}, epsilon: 1.0, mechanism: piecewise, windows: {size: 2h, every: 1h}}
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    base = tmp_path_factory.mktemp("reports")
    (base / "collections.yaml").write_text(YAML)
    for seed, collection in enumerate(load_collections(base / "collections.yaml").values()):
        (base / f"{collection.name}.avro").write_bytes(encode_avro_file(make_report_rows(collection, 1000, seed)))
    return ["--collections", str(base / "collections.yaml"), "--input", str(base / "*.avro"), "--as-of", "2026-06-01"]


# Behaviour -----------------------------------------------------------------------------------------------------------


def test_runs_and_rollups_write_their_snapshots_and_readers_find_the_best(lake, reports, tmp_path, capsys, monkeypatch):
    hours, parts = tmp_path / "hours", tmp_path / "parts"
    arguments = [*reports, "--output", str(hours), "--sink", SINK]
    assert command.main(["aggregate", *arguments]) == 0
    written = read_written(hours)
    assert read_table() == written
    assert f"{len(written)} snapshots to {SINK}\n" in capsys.readouterr().out
    assert command.main(["aggregate", *arguments, "--generation", "1"]) == 0
    assert "no better" not in capsys.readouterr().out
    assert command.main(["aggregate", *arguments]) == 0
    assert f"{len(written)} snapshots to {SINK}, of which {len(written)} were no better" in capsys.readouterr().out
    assert len(load_table().metadata.metadata_log) == 2, "a commit for each run that brought something"

    rollup = ["--input", str(hours), "--window", "6h", "--output", str(parts), "--sink", SINK]
    assert command.main(["rollup", *reports[:2], *rollup]) == 0
    assert read_table() == read_written(hours, parts)

    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which it reads when it is first imported
    [example] = read_examples("tables.md", "Iceberg", "python")
    names = {}
    exec(example, names)
    found = {key: rest for key, *rest in names["medians"].select("key", "median", "low", "high").rows()}
    snapshots = [s for output in (hours, parts) for s in read_results(str(output), "snapshots", Snapshot.from_avro)]
    medians = [(s.key.text, q) for s in snapshots for q in s.quantiles or () if q.share == 0.5]
    assert found == {key: [q.value, q.low, q.high] for key, q in medians}


def test_a_stream_on_prism_writes_its_best_panes(lake, collections, prism, now, start_stream, tmp_path):
    rows = [row for row in make_mixed_stream(collections, now, seed=51, count=60).accepted if row["id"] is None]
    (tmp_path / "first.avro").write_bytes(encode_avro_file(rows[::2]))
    run = start_stream("--watch", tmp_path, f"--prism_location={prism}", f"--sink={SINK}")
    run.until_first_pane()
    (tmp_path / ".second").write_bytes(encode_avro_file(rows[1::2]))
    (tmp_path / ".second").rename(tmp_path / "second.avro")
    run.until_tallies(compute_tallies(list(collections.values()), rows))
    eventually("the rows", lambda: read_table() == read_written(run.output))
    panes = len(read_panes(run.output))
    assert len(load_table().metadata.metadata_log) < panes / 2, "one commit for many panes"


def test_a_catalogue_in_postgresql_will_do(postgres, reports, tmp_path, monkeypatch, capsys):
    for name, value in postgres_settings(postgres, tmp_path).items():
        monkeypatch.setenv(name, value)
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "o"), "--sink", "iceberg:db/a.b.c"]) == 0
    assert read_table(TableName("db", ("a", "b"), "c")) == read_written(tmp_path / "o")
    monkeypatch.setenv("PGPASSWORD", "wrong")
    assert "password authentication failed" in run_refused(reports, tmp_path, capsys, "iceberg:db/a.b.c")


def postgres_settings(postgres, directory):
    uri = postgres.url.replace("postgresql:", "postgresql+psycopg:")
    return {"PYICEBERG_CATALOG__DB__URI": uri, "PYICEBERG_CATALOG__DB__WAREHOUSE": f"file://{directory}/warehouse"}


# Faults --------------------------------------------------------------------------------------------------------------


def test_a_writer_that_is_killed_at_any_moment_leaves_the_best_of_what_it_told_and_a_replay_completes_it(lake):
    prepare_table(NAME)
    told = {}
    moments = random.Random(7)
    for seed in range(3):
        program = f"from tests.helpers.lakes import write_on; write_on({seed})"
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
        )
        with process:
            assert process.stdout.readline() == "ready\n"
            first = process.stdout.readline()
            assert first
            time.sleep(moments.uniform(0.0, 1.5))
            process.send_signal(signal.SIGKILL)
            for line in [first, *process.stdout.read().splitlines()]:
                for pane in line.split():
                    key, _, reports = pane.partition("=")
                    told[key] = max(told.get(key, 0), int(reports))
        rows = load_table().scan(selected_fields=("key", "reports")).to_arrow().to_pylist()
        found = {row["key"]: row["reports"] for row in rows}
        assert len(rows) == len(found), "one row for each key"
        assert found.keys() >= told.keys()
        assert all(found[key] >= reports for key, reports in told.items())
        told.update(found)
    write_all(NAME, 60, make_panes())
    assert read_table() == to_records(best(make_panes()))


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def write_in_thread(*snapshots):
    results = []
    thread = threading.Thread(target=lambda: results.append(write_all(NAME, PATIENCE, snapshots)), daemon=True)
    thread.start()
    return thread, results


def wait_for_line(caplog, reason):
    eventually("the line", lambda: any(reason in record.getMessage() for record in caplog.records))


def test_a_catalogue_that_is_killed_or_frozen_is_waited_for(lake, caplog, monkeypatch):
    prepare_table(NAME)
    writer = Writer(NAME)
    writer.write([make_snapshot()])
    lake.kill()
    thread, results = write_in_thread(make_snapshot(), make_snapshot(group="DE"))
    wait_for_line(caplog, f"--sink {SINK}: waiting, for at most 5m: ")
    lake.start()
    thread.join(PATIENCE)
    assert results == [1]
    wait_for_line(caplog, f"--sink {SINK}: back after ")

    monkeypatch.setattr(iceberg, "ANSWER_SECONDS", 1.0)
    [process] = lake.processes
    process.signal(signal.SIGSTOP)
    try:
        thread, results = write_in_thread(make_snapshot(generation=1))
        wait_for_line(caplog, "no answer within 1 seconds")
        monkeypatch.setattr(iceberg, "ANSWER_SECONDS", 60.0)
    finally:
        process.signal(signal.SIGCONT)
    thread.join(PATIENCE)
    assert len(results) == 1, "an attempt that was given up may be the one that was committed"
    assert read_table() == to_records([make_snapshot(generation=1), make_snapshot(group="DE")])


def run_refused(reports, tmp_path, capsys, sink=SINK):
    """The one line of a run that is refused before it begins."""
    capsys.readouterr()
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "never"), "--sink", sink]) == 2
    assert not (tmp_path / "never").exists()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hushgram: --sink {sink}: ")
    return line


def test_wrong_catalogues_are_one_line(lake, reports, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "wrong")
    assert "catalogue 'lake': NotAuthorizedException: Not authorized" in run_refused(reports, tmp_path, capsys)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"http://127.0.0.1:{free_port()}")
    assert "Connection refused" in run_refused(reports, tmp_path, capsys)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "rust")
    assert "'rust' is not a valid CatalogType" in run_refused(reports, tmp_path, capsys)
    assert "no catalogue 'sea'" in run_refused(reports, tmp_path, capsys, "iceberg:sea/a.b")


def test_a_run_whose_table_goes_away_ends_with_a_line(lake, reports, tmp_path):
    """The whole program, whose worker finds no table."""
    module = "hushgram.transforms.sinks"
    program = f"import sys; from {module} import iceberg, iceberg_tables; from hushgram.__main__ import main; "
    program += "iceberg.prepare_table = iceberg_tables.prepare_table = print; sys.exit(main())"
    arguments = ["aggregate", *reports, "--output", str(tmp_path / "o"), "--sink", SINK, "--sink-patience", "0s"]
    completed = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=environment()
    )
    assert completed.returncode == 2
    [line] = completed.stderr.splitlines()
    assert line.startswith(f"hushgram: the job ended: --sink {SINK}: not there after 0ms (--sink-patience): ")
