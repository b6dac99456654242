"""The PostgreSQL sink on a real server: the best pane of each window, whatever order, repetition or fault."""

import json
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devtools.processes import Process, eventually, free_port, stop
from hushgram import Collection, CollectionError, load_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.results import best, read_results
from hushgram.schemas.records import Snapshot
from hushgram.transforms.sinks.patience import OUTAGES
from hushgram.transforms.sinks.postgresql import CONNECTION, Writer, prepare_tables, values
from hushgram.transforms.sinks.postgresql_table import PostgreSQLError
from tests.helpers.documents import read_examples
from tests.helpers.reports import HOUR, START, encode_avro_file, make_report_rows
from tests.helpers.tables import HOSTILE, MEAN, WAVE, make_snapshot, read_rows, write_snapshots

ROOT = Path(__file__).parents[2]
YAML = f"""
collections:
  commute:
    domain: {{low: 0, high: 180, unit: "minutes, '%s'"}}
    buckets: 32
    epsilon: 1.0
    groups: {json.dumps(HOSTILE, ensure_ascii=False)}
  mean: {{domain: {{low: -5, high: 5}}, epsilon: 1.0, mechanism: piecewise, windows: {{size: 2h, every: 1h}}}}
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Files of reports of every hostile group, and the options of a run over them."""
    base = tmp_path_factory.mktemp("reports")
    (base / "collections.yaml").write_text(YAML)
    for seed, collection in enumerate(load_collections(base / "collections.yaml").values()):
        (base / f"{collection.name}.avro").write_bytes(encode_avro_file(make_report_rows(collection, 2000, seed)))
    return ["--collections", str(base / "collections.yaml"), "--input", str(base / "*.avro"), "--as-of", "2026-06-01"]


def read_written(output):
    """The snapshots of the files, in the form that `read_rows` has for those of the table."""
    snapshots = read_results(str(output), "snapshots", Snapshot.from_avro)
    return [snapshot.to_avro() for snapshot in snapshots]


# Laws ----------------------------------------------------------------------------------------------------------------


panes = st.builds(
    make_snapshot,
    st.sampled_from([WAVE, MEAN]),
    st.sampled_from([None, "", *HOSTILE[:3]]),
    st.integers(0, 3),
    st.sampled_from([START, START + HOUR, -62_135_596_800_000]),
    st.integers(0, 1),
    st.integers(0, 2),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(panes, max_size=6), max_size=4), st.booleans())
def test_any_order_and_repetition_of_panes_ends_with_the_best_of_each(postgres, bundles, again):
    # The mean of each pane is its number, which shows which one of two panes of equal rank stayed.
    numbered = [[replace(pane, mean=i + j / 10) for j, pane in enumerate(bundle)] for i, bundle in enumerate(bundles)]
    numbered += numbered[: 2 * again]
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("TRUNCATE hushgram_snapshots")
    with closing(Writer(postgres.url)) as writer:
        for index, bundle in enumerate(numbered):
            before = {
                pane.key: pane.rank
                for pane in best(earlier_pane for earlier in numbered[:index] for earlier_pane in earlier)
            }
            improved = writer.write(bundle)
            assert (improved == 0) == all(pane.key in before and pane.rank <= before[pane.key] for pane in bundle)
    expected = best(pane for bundle in numbered for pane in bundle)
    assert sorted(read_rows(postgres), key=str) == sorted((pane.to_avro() for pane in expected), key=str)


def test_concurrent_writers_neither_wait_for_each_other_nor_lose_the_best_pane(postgres):
    prepare_tables(postgres.url)
    rng = np.random.default_rng(1)
    groups = [None, *HOSTILE]
    snapshots = [
        make_snapshot(group=group, reports=n, start=START + h * HOUR)
        for group in groups
        for h in range(3)
        for n in range(5)
    ]
    errors = []

    def write_all(seed):
        order = np.random.default_rng(seed).permutation(len(snapshots))
        with closing(Writer(postgres.url)) as writer:
            try:
                for part in np.array_split(order, 9):
                    writer.write([snapshots[index] for index in part])
            except psycopg.Error as error:
                errors.append(error)

    threads = [threading.Thread(target=write_all, args=[seed]) for seed in rng.integers(0, 1000, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert {row["reports"] for row in read_rows(postgres)} == {4}
    assert len(read_rows(postgres)) == 3 * len(groups)


def test_numbers_that_are_not_finite_are_kept_in_columns_and_null_in_json(postgres):
    prepare_tables(postgres.url)
    infinite = make_snapshot()
    infinite = replace(infinite, mean=np.inf, quantiles=(replace(infinite.quantiles[0], low=float("nan")),))
    write_snapshots(postgres, [infinite])
    [row] = read_rows(postgres)
    assert row["mean"] == np.inf
    assert row["quantiles"] == [{**vars(infinite.quantiles[0]), "low": None}]


@pytest.mark.parametrize("label", ["a\x00b", "\ud800", ""])
def test_labels_that_postgresql_cannot_hold_are_refused_by_a_collection(label):
    with pytest.raises(CollectionError):
        Collection(name=label, low=0, high=1, epsilon=1)
    with pytest.raises(CollectionError):
        Collection(name="c", low=0, high=1, epsilon=1, groups=[label])


# Behaviour -----------------------------------------------------------------------------------------------------------


def test_a_run_writes_the_snapshots_of_its_files_to_postgresql(postgres, reports, tmp_path, capsys):
    arguments = [*reports, "--output", str(tmp_path), "--sink", postgres.url]
    assert command.main(["aggregate", *arguments]) == 0
    rows = read_rows(postgres)
    assert rows == read_written(tmp_path)
    assert {row["group"] for row in rows} == {None, *HOSTILE}
    assert f"{len(rows)} snapshots to {postgres.url}\n" in capsys.readouterr().out

    assert command.main(["aggregate", *arguments]) == 0
    assert f"{len(rows)} snapshots to {postgres.url}, of which {len(rows)} were no better" in capsys.readouterr().out
    assert command.main(["aggregate", *arguments, "--generation", "1"]) == 0
    assert "no better" not in capsys.readouterr().out
    assert {row["generation"] for row in read_rows(postgres)} == {1}
    assert command.main(["aggregate", *arguments]) == 0
    assert {row["generation"] for row in read_rows(postgres)} == {1}


def test_a_rollup_joins_the_windows_it_was_made_of(postgres, reports, tmp_path, capsys):
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "hours"), "--sink", postgres.url]) == 0
    rollup_options = ["--input", str(tmp_path / "hours"), "--window", "6h", "--output", str(tmp_path / "parts")]
    assert command.main(["rollup", *reports[:2], *rollup_options, "--sink", postgres.url]) == 0
    parts = read_written(tmp_path / "parts")
    assert f"{len(parts)} snapshots to {postgres.url}\n" in capsys.readouterr().out
    assert sorted(read_rows(postgres), key=str) == sorted(read_written(tmp_path / "hours") + parts, key=str)


def test_the_view_has_a_row_for_each_quantile(postgres):
    prepare_tables(postgres.url)
    snapshots = [make_snapshot(group="DE"), make_snapshot(MEAN), make_snapshot(reports=0)]
    write_snapshots(postgres, snapshots)
    with postgres.connect() as connection:
        rows = connection.execute('SELECT "group", reports, share, value, low, high FROM hushgram_quantiles').fetchall()
    expected = [(s.key.group, s.reports, *vars(q).values()) for s in snapshots for q in s.quantiles or ()]
    assert sorted(rows, key=str) == sorted(expected, key=str)
    assert len(rows) == 38


def test_the_sql_queries_of_the_documents_give_the_documented_answers(postgres, reports, tmp_path):
    assert command.main(["aggregate", *reports, "--output", str(tmp_path), "--sink", postgres.url]) == 0
    medians, differences = read_examples("tables.md", "PostgreSQL", "sql")
    snapshots = read_results(str(tmp_path), "snapshots", Snapshot.from_avro)
    with postgres.connect() as connection:
        answers = [(c, g, round(t.timestamp() * 1000), *numbers) for c, g, t, *numbers in connection.execute(medians)]
        expected = [(s.key, q) for s in snapshots for q in s.quantiles or () if q.share == 0.5]
        expected = [(k.collection, k.group, k.window_start, q.value, q.low, q.high) for k, q in expected]
        assert sorted(answers, key=str) == sorted(expected, key=str)
        connection.execute("UPDATE hushgram_snapshots SET status = 'ok'")  # too few reports, for a quick test
        means = {(s.key.collection, s.key.window_start, s.key.group): s.mean for s in snapshots}
        expected = {(c, t, g): m - means[c, t, None] for (c, t, g), m in means.items() if g}
        answers = {(c, round(t.timestamp() * 1000), g): d for c, t, g, d in connection.execute(differences)}
        assert answers == expected


def test_tables_may_live_in_any_schema(postgres):
    with postgres.connect() as connection:
        connection.execute('CREATE SCHEMA "some place"')
    prepare_tables(f"{postgres.url}?options=-csearch_path%3D%22some%5C%20place%22")
    with postgres.connect() as connection:
        schemas = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename LIKE 'hushgram%'").fetchall()
    assert set(schemas) == {("some place",)}


def test_a_service_file_may_hold_server_and_credentials(postgres, reports, tmp_path, monkeypatch):
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    entries = {"host": "127.0.0.1", "port": postgres.port, "user": "hushgram", "dbname": "results"}
    entries["password"] = postgres.environment["PGPASSWORD"]
    (tmp_path / "services").write_text("[here]\n" + "".join(f"{name}={value}\n" for name, value in entries.items()))
    arguments = [*reports, "--output", str(tmp_path / "o"), "--sink", "postgresql://?service=here"]
    assert command.main(["aggregate", *arguments]) == 0
    assert read_rows(postgres) == read_written(tmp_path / "o")


# Faults --------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_in_mid_run_and_comes_back_has_everything(postgres, reports, tmp_path):
    prepare_tables(postgres.url)
    arguments = ["aggregate", *reports, "--output", tmp_path / "o", "--sink", postgres.url]
    environment = {**postgres.environment, "PYTHONPATH": str(ROOT)}
    run = Process([sys.executable, "-m", "hushgram", *arguments], tmp_path / "run.log", environment)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'hushgram' AND wait_event_type = 'Lock'"
    try:
        with postgres.connect() as holder, postgres.connect() as watcher:
            holder.execute("BEGIN; LOCK TABLE hushgram_snapshots IN ACCESS EXCLUSIVE MODE")
            eventually("an upsert under way", lambda: watcher.execute(waiting).fetchone())
            postgres.kill()
            with pytest.raises(psycopg.OperationalError):
                holder.execute("SELECT 1")
        time.sleep(1)  # for some failed attempts
        assert run.alive, run.tail()
        postgres.start()
        assert run.join(120) == 0, run.tail()
    finally:
        stop([run])
    assert read_rows(postgres) == read_written(tmp_path / "o")
    assert f"snapshots to {postgres.url}\n" in run.tail()


def test_a_connection_that_was_lost_between_two_writes_is_made_anew(postgres):
    prepare_tables(postgres.url)
    with closing(Writer(postgres.url)) as writer:
        writer.write([make_snapshot()])
        with postgres.connect() as connection:
            others = "FROM pg_stat_activity WHERE application_name = 'hushgram'"
            assert connection.execute(f"SELECT pg_terminate_backend(pid) {others}").fetchall() == [(True,)]
        assert writer.write([make_snapshot(), make_snapshot(group="DE")]) == 1
    assert len(read_rows(postgres)) == 2


@contextmanager
def write_in_thread(server, snapshots, **options):
    """A write under way in another thread; at the end of the block it has to be done."""
    results = []

    def work():
        with closing(Writer(server.url, **options)) as writer:
            try:
                results.append(writer.write(snapshots))
            except PostgreSQLError as error:
                results.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield results
    thread.join(60)
    assert not thread.is_alive()


def wait_for_line(caplog, reason):
    eventually("the line about waiting", lambda: any(reason in line for line in logged_lines(caplog)))


def logged_lines(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_table_that_is_away_for_a_while_is_waited_for(postgres, caplog):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("ALTER TABLE hushgram_snapshots RENAME TO elsewhere")
        with write_in_thread(postgres, [make_snapshot(), make_snapshot(group="DE")]) as results:
            wait_for_line(caplog, 'relation "hushgram_snapshots" does not exist')
            connection.execute("ALTER TABLE elsewhere RENAME TO hushgram_snapshots")
    assert results == [2]
    assert len(read_rows(postgres)) == 2
    waiting, back = logged_lines(caplog)
    assert waiting.startswith(f"--sink {postgres.url}: waiting, for at most 10m: ")
    assert back.startswith(f"--sink {postgres.url}: back after ")


def test_a_table_that_is_locked_is_waited_for_and_leaves_no_statement_behind(postgres, caplog, monkeypatch):
    monkeypatch.setattr("hushgram.transforms.sinks.postgresql.STATEMENT_SECONDS", 0.2)
    prepare_tables(postgres.url)
    with postgres.connect() as holder, holder.transaction():
        holder.execute("LOCK TABLE hushgram_snapshots IN ACCESS EXCLUSIVE MODE")
        with write_in_thread(postgres, [make_snapshot()]) as results:
            wait_for_line(caplog, "statement timeout")
            holder.execute("COMMIT; BEGIN")
    assert results == [1]


def test_a_frozen_server_is_noticed_and_waited_for(postgres, caplog, monkeypatch):
    """Its operating system still accepts data: nothing is refused, nothing is answered."""
    monkeypatch.setattr("hushgram.transforms.sinks.postgresql.ANSWER_SECONDS", 1.0)
    monkeypatch.setitem(CONNECTION, "connect_timeout", "2")
    prepare_tables(postgres.url)
    with closing(Writer(postgres.url)) as writer:
        writer.write([make_snapshot()])
        postgres.freeze()
        try:
            with pytest.raises(psycopg.OperationalError, match="no answer within 1 seconds"):
                writer._write([values(make_snapshot(group="DE"))])
            with write_in_thread(postgres, [make_snapshot(group="DE")]) as results:
                wait_for_line(caplog, "timeout")
                postgres.thaw()
        finally:
            postgres.thaw()
    assert results == [1]
    assert len(read_rows(postgres)) == 2


def test_exhausted_patience_and_final_errors_are_one_line(postgres, clerk):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("ALTER TABLE hushgram_snapshots RENAME TO elsewhere")
        with write_in_thread(postgres, [make_snapshot()], patience_seconds=0.5) as results:
            pass
        connection.execute("ALTER TABLE elsewhere RENAME TO hushgram_snapshots")
        connection.execute("GRANT USAGE ON SCHEMA public TO clerk")
    [error] = results
    expected = (
        f'--sink {postgres.url}: not there after 500ms (--sink-patience): relation "hushgram_snapshots" does not exist'
    )
    assert str(error) == expected
    with closing(Writer(clerk)) as writer, pytest.raises(PostgreSQLError) as raised:
        writer.write([make_snapshot()])
    assert str(raised.value) == f"--sink {clerk}: permission denied for table hushgram_snapshots"
    OUTAGES.end(f"--sink {postgres.url}")


@pytest.mark.parametrize("name", ["aggregate", "rollup"])
def test_patience_is_a_duration(name, postgres, reports, tmp_path, capsys):
    options = {"aggregate": [*reports], "rollup": [*reports[:2], "--input", str(tmp_path)]}[name]
    arguments = [*options, "--output", str(tmp_path / "never"), "--sink", postgres.url, "--sink-patience", "soon"]
    assert command.main([name, *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("hushgram: --sink-patience: got 'soon', allowed: a whole number with a unit")


def test_a_run_whose_table_goes_away_ends_with_a_line(postgres, reports, tmp_path):
    """The whole program, since Beam's own output about a failure is not part of the command's."""
    prepare_tables(postgres.url)
    program = [sys.executable, "-m", "hushgram", "aggregate", *reports, "--output", str(tmp_path / "results")]
    with postgres.connect() as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE undefined_table; END' LANGUAGE plpgsql"
        )
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON hushgram_snapshots EXECUTE FUNCTION refuse()")
    completed = subprocess.run(
        [*program, "--sink", postgres.url, "--sink-patience", "0s"], capture_output=True, text=True
    )
    assert completed.returncode == 2
    [line] = completed.stderr.splitlines()
    assert line.startswith(f"hushgram: the job ended: --sink {postgres.url}: not there after 0ms (--sink-patience): ")


def test_a_rollup_whose_server_goes_away_ends_with_a_line(postgres, reports, tmp_path, monkeypatch, capsys):
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "hours")]) == 0
    capsys.readouterr()
    monkeypatch.setattr("hushgram.transforms.sinks.postgresql.upsert", lambda: "INSERT INTO nowhere VALUES (1)")
    rollup_options = ["--input", str(tmp_path / "hours"), "--window", "6h", "--output", str(tmp_path / "parts")]
    arguments = [*reports[:2], *rollup_options, "--sink", postgres.url, "--sink-patience", "0s"]
    assert command.main(["rollup", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith('not there after 0ms (--sink-patience): relation "nowhere" does not exist')


def run_refused(reports, tmp_path, capsys, url):
    """The one line of a run that is refused before it begins."""
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "never"), "--sink", url]) == 2
    assert not (tmp_path / "never").exists()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("hushgram: --sink postgresql:")
    return line


def test_a_server_that_is_away_at_the_start_is_one_line(reports, tmp_path, capsys):
    assert "refused" in run_refused(reports, tmp_path, capsys, f"postgresql://someone@127.0.0.1:{free_port()}/results")


def test_wrong_and_missing_credentials_are_one_line(postgres, reports, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "wrong")
    assert "password authentication failed" in run_refused(reports, tmp_path, capsys, postgres.url)
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    assert "no password supplied; put it into PGPASSWORD" in run_refused(reports, tmp_path, capsys, postgres.url)
    assert "service" in run_refused(reports, tmp_path, capsys, "postgresql://?service=nowhere")
    monkeypatch.setenv("PGPASSWORD", postgres.environment["PGPASSWORD"])
    assert "does not exist" in run_refused(reports, tmp_path, capsys, postgres.url_of("hushgram", "elsewhere"))


@pytest.fixture
def clerk(postgres):
    """A role that may connect, and nothing else."""
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE clerk LOGIN PASSWORD '{postgres.environment['PGPASSWORD']}'")
    yield postgres.url_of("clerk", "results")
    with postgres.connect() as connection:
        connection.execute("DROP OWNED BY clerk; DROP ROLE clerk")


def test_missing_rights_are_one_line_that_names_them(postgres, clerk, reports, tmp_path, capsys):
    assert "no schema has been selected" in run_refused(reports, tmp_path, capsys, clerk)
    with postgres.connect() as connection:
        connection.execute("GRANT USAGE ON SCHEMA public TO clerk")
        assert "permission denied for schema public; the tables" in run_refused(reports, tmp_path, capsys, clerk)
        prepare_tables(postgres.url)
        assert "permission denied for table hushgram_migrations" in run_refused(reports, tmp_path, capsys, clerk)
        connection.execute("GRANT SELECT ON hushgram_migrations TO clerk")
        line = run_refused(reports, tmp_path, capsys, clerk)
        assert "GRANT SELECT, INSERT, UPDATE ON hushgram_snapshots TO clerk" in line
        connection.execute(line.rpartition(": ")[2])
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "o"), "--sink", clerk]) == 0
    assert read_rows(postgres) == read_written(tmp_path / "o")


def test_a_database_that_cannot_hold_labels_or_takes_no_writes_is_one_line(postgres, reports, tmp_path, capsys):
    with postgres.connect() as connection:
        connection.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
        connection.execute("CREATE DATABASE replica")
        connection.execute("ALTER DATABASE replica SET default_transaction_read_only = on")
    try:
        assert "LATIN1" in run_refused(reports, tmp_path, capsys, postgres.url_of("hushgram", "old"))
        assert "no writes" in run_refused(reports, tmp_path, capsys, postgres.url_of("hushgram", "replica"))
    finally:
        with postgres.connect() as connection:
            connection.execute("DROP DATABASE old")
            connection.execute("DROP DATABASE replica")
