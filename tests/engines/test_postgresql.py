"""The PostgreSQL sink on a real server: the best pane of each window, whatever order, repetition or fault."""

import json
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devtools.processes import Process, eventually, free_port, stop
from hushgram import Collection, CollectionError, load_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.results import best, read_results
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.records import Events, Snapshot
from hushgram.transforms.sinks.patience import OUTAGES
from hushgram.transforms.sinks.postgresql import CONNECTION, Writer, connect, prepare_tables, values
from hushgram.transforms.sinks.postgresql_migrations import (
    MIGRATIONS,
    PostgreSQLError,
    columns,
    migrate,
    prepare,
    version,
)
from tests.helpers.documents import examples
from tests.helpers.reports import HOUR, START, avro_file, report_rows
from tests.helpers.tables import HOSTILE, MEAN, WAVE, rows_in, snapshot

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
        (base / f"{collection.name}.avro").write_bytes(avro_file(report_rows(collection, 2000, seed)))
    return ["--collections", str(base / "collections.yaml"), "--input", str(base / "*.avro"), "--as-of", "2026-06-01"]


def written(output):
    """The snapshots of the files, as `rows_in` tells those of the table."""
    found = read_results(str(output), "snapshots", Snapshot.from_avro)
    return [one.to_avro() for one in found]


def write(server, snapshots):
    with closing(Writer(server.url)) as writer:
        return writer.write(snapshots)


# Laws ----------------------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_schema(postgres):
    prepare_tables(postgres.url)
    query = """SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
        WHERE attrelid = 'hushgram_snapshots'::regclass AND attnum > 0 AND attgenerated = '' ORDER BY attnum"""
    with postgres.connect() as connection:
        found = connection.execute(query).fetchall()
    assert {name: kind.replace("timestamp with time zone", "timestamptz") for name, kind, _ in found} == columns()
    optional = [name for name, _, required in found if not required]
    assert optional == [field["name"] for field in SNAPSHOT.parsed["fields"] if isinstance(field["type"], list)]


panes = st.builds(
    snapshot,
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
    # Each tells its place by its mean, so that of two panes of equal rank it can be seen which one stayed.
    told = [[replace(one, mean=i + j / 10) for j, one in enumerate(bundle)] for i, bundle in enumerate(bundles)]
    told += told[: 2 * again]
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("TRUNCATE hushgram_snapshots")
    with closing(Writer(postgres.url)) as writer:
        for place, bundle in enumerate(told):
            before = {one.key: one.rank for one in best(s for earlier in told[:place] for s in earlier)}
            better = writer.write(bundle)
            assert (better == 0) == all(one.key in before and one.rank <= before[one.key] for one in bundle)
    expected = best(one for bundle in told for one in bundle)
    assert sorted(rows_in(postgres), key=str) == sorted((one.to_avro() for one in expected), key=str)


def test_writers_at_once_neither_wait_for_each_other_nor_lose_the_best(postgres):
    prepare_tables(postgres.url)
    rng = np.random.default_rng(1)
    groups = [None, *HOSTILE]
    every = [
        snapshot(group=group, reports=n, start=START + h * HOUR) for group in groups for h in range(3) for n in range(5)
    ]
    failed = []

    def write_all(seed):
        order = np.random.default_rng(seed).permutation(len(every))
        with closing(Writer(postgres.url)) as writer:
            try:
                for part in np.array_split(order, 9):
                    writer.write([every[place] for place in part])
            except psycopg.Error as error:
                failed.append(error)

    threads = [threading.Thread(target=write_all, args=[seed]) for seed in rng.integers(0, 1000, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert {row["reports"] for row in rows_in(postgres)} == {4}
    assert len(rows_in(postgres)) == 3 * len(groups)


def test_what_is_not_finite_is_kept_where_the_type_has_it_and_null_in_json(postgres):
    prepare_tables(postgres.url)
    odd = snapshot()
    odd = replace(odd, mean=np.inf, quantiles=(replace(odd.quantiles[0], low=float("nan")),))
    write(postgres, [odd])
    [row] = rows_in(postgres)
    assert row["mean"] == np.inf
    assert row["quantiles"] == [{**vars(odd.quantiles[0]), "low": None}]


@pytest.mark.parametrize("label", ["a\x00b", "\ud800", ""])
def test_labels_that_postgresql_cannot_hold_are_no_labels(label):
    with pytest.raises(CollectionError):
        Collection(name=label, low=0, high=1, epsilon=1)
    with pytest.raises(CollectionError):
        Collection(name="c", low=0, high=1, epsilon=1, groups=[label])


# Behaviour -----------------------------------------------------------------------------------------------------------


def test_a_run_writes_the_numbers_of_its_files(postgres, reports, tmp_path, capsys):
    arguments = [*reports, "--output", str(tmp_path), "--sink", postgres.url]
    assert command.main(["aggregate", *arguments]) == 0
    rows = rows_in(postgres)
    assert rows == written(tmp_path)
    assert {row["group"] for row in rows} == {None, *HOSTILE}
    assert f"{len(rows)} snapshots to {postgres.url}\n" in capsys.readouterr().out

    assert command.main(["aggregate", *arguments]) == 0
    assert f"{len(rows)} snapshots to {postgres.url}, of which {len(rows)} were no better" in capsys.readouterr().out
    assert command.main(["aggregate", *arguments, "--generation", "1"]) == 0
    assert "no better" not in capsys.readouterr().out
    assert {row["generation"] for row in rows_in(postgres)} == {1}
    assert command.main(["aggregate", *arguments]) == 0
    assert {row["generation"] for row in rows_in(postgres)} == {1}


def test_a_rollup_joins_the_windows_it_was_made_of(postgres, reports, tmp_path, capsys):
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "hours"), "--sink", postgres.url]) == 0
    merging = ["--input", str(tmp_path / "hours"), "--window", "6h", "--output", str(tmp_path / "parts")]
    assert command.main(["rollup", *reports[:2], *merging, "--sink", postgres.url]) == 0
    parts = written(tmp_path / "parts")
    assert f"{len(parts)} snapshots to {postgres.url}\n" in capsys.readouterr().out
    assert sorted(rows_in(postgres), key=str) == sorted(written(tmp_path / "hours") + parts, key=str)


def test_the_view_has_a_row_for_each_quantile(postgres):
    prepare_tables(postgres.url)
    told = [snapshot(group="DE"), snapshot(MEAN), snapshot(reports=0)]
    write(postgres, told)
    with postgres.connect() as connection:
        found = connection.execute(
            'SELECT "group", reports, share, value, low, high FROM hushgram_quantiles'
        ).fetchall()
    expected = [(s.key.group, s.reports, *vars(q).values()) for s in told for q in s.quantiles or ()]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert len(found) == 38


def test_the_queries_of_the_documents_answer_what_they_promise(postgres, reports, tmp_path):
    assert command.main(["aggregate", *reports, "--output", str(tmp_path), "--sink", postgres.url]) == 0
    medians, differences = examples("tables.md", "PostgreSQL", "sql")
    found = read_results(str(tmp_path), "snapshots", Snapshot.from_avro)
    with postgres.connect() as connection:
        told = [(c, g, round(t.timestamp() * 1000), *numbers) for c, g, t, *numbers in connection.execute(medians)]
        expected = [(s.key, q) for s in found for q in s.quantiles or () if q.share == 0.5]
        expected = [(k.collection, k.group, k.window_start, q.value, q.low, q.high) for k, q in expected]
        assert sorted(told, key=str) == sorted(expected, key=str)
        connection.execute("UPDATE hushgram_snapshots SET status = 'ok'")  # too few reports, for a quick test
        means = {(s.key.collection, s.key.window_start, s.key.group): s.mean for s in found}
        expected = {(c, t, g): m - means[c, t, None] for (c, t, g), m in means.items() if g}
        told = {(c, round(t.timestamp() * 1000), g): d for c, t, g, d in connection.execute(differences)}
        assert told == expected


def test_tables_may_live_in_any_schema(postgres):
    with postgres.connect() as connection:
        connection.execute('CREATE SCHEMA "some place"')
    prepare_tables(f"{postgres.url}?options=-csearch_path%3D%22some%5C%20place%22")
    with postgres.connect() as connection:
        found = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename LIKE 'hushgram%'").fetchall()
    assert set(found) == {("some place",)}


def test_a_service_file_may_tell_where_and_who(postgres, reports, tmp_path, monkeypatch):
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    parts = {"host": "127.0.0.1", "port": postgres.port, "user": "hushgram", "dbname": "results"}
    parts["password"] = postgres.environment["PGPASSWORD"]
    (tmp_path / "services").write_text("[here]\n" + "".join(f"{name}={value}\n" for name, value in parts.items()))
    arguments = [*reports, "--output", str(tmp_path / "o"), "--sink", "postgresql://?service=here"]
    assert command.main(["aggregate", *arguments]) == 0
    assert rows_in(postgres) == written(tmp_path / "o")


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
        time.sleep(1)  # some attempts in vain
        assert run.alive, run.tail()
        postgres.start()
        assert run.join(120) == 0, run.tail()
    finally:
        stop([run])
    assert rows_in(postgres) == written(tmp_path / "o")
    assert f"snapshots to {postgres.url}\n" in run.tail()


def test_a_connection_that_was_lost_between_two_writes_is_made_anew(postgres):
    prepare_tables(postgres.url)
    with closing(Writer(postgres.url)) as writer:
        writer.write([snapshot()])
        with postgres.connect() as connection:
            others = "FROM pg_stat_activity WHERE application_name = 'hushgram'"
            assert connection.execute(f"SELECT pg_terminate_backend(pid) {others}").fetchall() == [(True,)]
        assert writer.write([snapshot(), snapshot(group="DE")]) == 1
    assert len(rows_in(postgres)) == 2


@contextmanager
def writing(server, snapshots, **options):
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


def waits(caplog, reason):
    eventually("the line that tells of waiting", lambda: any(reason in line for line in lines(caplog)))


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_table_that_is_away_for_a_while_is_waited_for(postgres, caplog):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("ALTER TABLE hushgram_snapshots RENAME TO elsewhere")
        with writing(postgres, [snapshot(), snapshot(group="DE")]) as results:
            waits(caplog, 'relation "hushgram_snapshots" does not exist')
            connection.execute("ALTER TABLE elsewhere RENAME TO hushgram_snapshots")
    assert results == [2]
    assert len(rows_in(postgres)) == 2
    waiting, back = lines(caplog)
    assert waiting.startswith(f"--sink {postgres.url}: waiting, for at most 10m: ")
    assert back.startswith(f"--sink {postgres.url}: back after ")


def test_a_table_that_is_locked_is_waited_for_and_leaves_no_statement_behind(postgres, caplog, monkeypatch):
    monkeypatch.setattr("hushgram.transforms.sinks.postgresql.STATEMENT_SECONDS", 0.2)
    prepare_tables(postgres.url)
    with postgres.connect() as holder, holder.transaction():
        holder.execute("LOCK TABLE hushgram_snapshots IN ACCESS EXCLUSIVE MODE")
        with writing(postgres, [snapshot()]) as results:
            waits(caplog, "statement timeout")
            holder.execute("COMMIT; BEGIN")
    assert results == [1]


def test_a_frozen_server_is_noticed_and_waited_for(postgres, caplog, monkeypatch):
    """Its system still takes what is sent: nothing is refused, nothing is answered."""
    monkeypatch.setattr("hushgram.transforms.sinks.postgresql.ANSWER_SECONDS", 1.0)
    monkeypatch.setitem(CONNECTION, "connect_timeout", "2")
    prepare_tables(postgres.url)
    with closing(Writer(postgres.url)) as writer:
        writer.write([snapshot()])
        postgres.freeze()
        try:
            with pytest.raises(psycopg.OperationalError, match="no answer within 1 seconds"):
                writer._write([values(snapshot(group="DE"))])
            with writing(postgres, [snapshot(group="DE")]) as results:
                waits(caplog, "timeout")
                postgres.thaw()
        finally:
            postgres.thaw()
    assert results == [1]
    assert len(rows_in(postgres)) == 2


def test_patience_that_is_over_and_what_no_patience_mends_are_one_line(postgres, clerk):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("ALTER TABLE hushgram_snapshots RENAME TO elsewhere")
        with writing(postgres, [snapshot()], patience_seconds=0.5) as results:
            pass
        connection.execute("ALTER TABLE elsewhere RENAME TO hushgram_snapshots")
        connection.execute("GRANT USAGE ON SCHEMA public TO clerk")
    [error] = results
    told = (
        f'--sink {postgres.url}: not there after 500ms (--sink-patience): relation "hushgram_snapshots" does not exist'
    )
    assert str(error) == told
    with closing(Writer(clerk)) as writer, pytest.raises(PostgreSQLError) as told:
        writer.write([snapshot()])
    assert str(told.value) == f"--sink {clerk}: permission denied for table hushgram_snapshots"
    OUTAGES.end(postgres.url)


@pytest.mark.parametrize("name", ["aggregate", "rollup"])
def test_patience_is_a_duration(name, postgres, reports, tmp_path, capsys):
    options = {"aggregate": [*reports], "rollup": [*reports[:2], "--input", str(tmp_path)]}[name]
    arguments = [*options, "--output", str(tmp_path / "never"), "--sink", postgres.url, "--sink-patience", "soon"]
    assert command.main([name, *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("hushgram: --sink-patience: got 'soon', allowed: a whole number with a unit")


def test_a_run_whose_table_goes_away_ends_with_a_line(postgres, reports, tmp_path):
    """The whole program, since what Beam prints of a failure is no part of the command's own output."""
    prepare_tables(postgres.url)
    program = [sys.executable, "-m", "hushgram", "aggregate", *reports, "--output", str(tmp_path / "results")]
    with postgres.connect() as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE undefined_table; END' LANGUAGE plpgsql"
        )
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON hushgram_snapshots EXECUTE FUNCTION refuse()")
    ended = subprocess.run([*program, "--sink", postgres.url, "--sink-patience", "0s"], capture_output=True, text=True)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"hushgram: the job ended: --sink {postgres.url}: not there after 0ms (--sink-patience): ")


def test_a_rollup_whose_server_goes_away_ends_with_a_line(postgres, reports, tmp_path, monkeypatch, capsys):
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "hours")]) == 0
    capsys.readouterr()
    monkeypatch.setattr("hushgram.transforms.sinks.postgresql.upsert", lambda: "INSERT INTO nowhere VALUES (1)")
    merging = ["--input", str(tmp_path / "hours"), "--window", "6h", "--output", str(tmp_path / "parts")]
    given = [*reports[:2], *merging, "--sink", postgres.url, "--sink-patience", "0s"]
    assert command.main(["rollup", *given]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith('not there after 0ms (--sink-patience): relation "nowhere" does not exist')


def refused(reports, tmp_path, capsys, url):
    """The one line of a run that does not begin."""
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "never"), "--sink", url]) == 2
    assert not (tmp_path / "never").exists()
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("hushgram: --sink postgresql:")
    return line


def test_a_server_that_is_away_at_the_start_is_one_line(reports, tmp_path, capsys):
    assert "refused" in refused(reports, tmp_path, capsys, f"postgresql://someone@127.0.0.1:{free_port()}/results")


def test_wrong_and_missing_credentials_are_one_line(postgres, reports, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "wrong")
    assert "password authentication failed" in refused(reports, tmp_path, capsys, postgres.url)
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    assert "no password supplied; put it into PGPASSWORD" in refused(reports, tmp_path, capsys, postgres.url)
    assert "service" in refused(reports, tmp_path, capsys, "postgresql://?service=nowhere")
    monkeypatch.setenv("PGPASSWORD", postgres.environment["PGPASSWORD"])
    assert "does not exist" in refused(reports, tmp_path, capsys, postgres.url_of("hushgram", "elsewhere"))


@pytest.fixture
def clerk(postgres):
    """Somebody who may connect, and nothing else."""
    with postgres.connect() as connection:
        connection.execute(f"CREATE ROLE clerk LOGIN PASSWORD '{postgres.environment['PGPASSWORD']}'")
    yield postgres.url_of("clerk", "results")
    with postgres.connect() as connection:
        connection.execute("DROP OWNED BY clerk; DROP ROLE clerk")


def test_missing_rights_are_one_line_that_tells_which(postgres, clerk, reports, tmp_path, capsys):
    assert "no schema has been selected" in refused(reports, tmp_path, capsys, clerk)
    with postgres.connect() as connection:
        connection.execute("GRANT USAGE ON SCHEMA public TO clerk")
        assert "permission denied for schema public; the tables" in refused(reports, tmp_path, capsys, clerk)
        prepare_tables(postgres.url)
        assert "permission denied for table hushgram_migrations" in refused(reports, tmp_path, capsys, clerk)
        connection.execute("GRANT SELECT ON hushgram_migrations TO clerk")
        line = refused(reports, tmp_path, capsys, clerk)
        assert "GRANT SELECT, INSERT, UPDATE ON hushgram_snapshots TO clerk" in line
        connection.execute(line.rpartition(": ")[2])
    assert command.main(["aggregate", *reports, "--output", str(tmp_path / "o"), "--sink", clerk]) == 0
    assert rows_in(postgres) == written(tmp_path / "o")


def test_a_database_that_cannot_hold_labels_or_takes_no_writes_is_one_line(postgres, reports, tmp_path, capsys):
    with postgres.connect() as connection:
        connection.execute("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0")
        connection.execute("CREATE DATABASE replica")
        connection.execute("ALTER DATABASE replica SET default_transaction_read_only = on")
    try:
        assert "LATIN1" in refused(reports, tmp_path, capsys, postgres.url_of("hushgram", "old"))
        assert "no writes" in refused(reports, tmp_path, capsys, postgres.url_of("hushgram", "replica"))
    finally:
        with postgres.connect() as connection:
            connection.execute("DROP DATABASE old")
            connection.execute("DROP DATABASE replica")


# Migrations ----------------------------------------------------------------------------------------------------------

NOW = len(MIGRATIONS)
LATER = (*MIGRATIONS, "ALTER TABLE hushgram_snapshots ADD COLUMN note text")
ALL_VERSIONS = [(number,) for number in range(1, NOW + 2)]


def test_tables_of_an_older_version_are_brought_up_to_date_with_all_they_hold(postgres):
    prepare_tables(postgres.url)
    write(postgres, [snapshot()])
    before = rows_in(postgres)
    with connect(postgres.url) as connection:
        assert version(connection) == NOW
        prepare(connection, LATER)
        assert version(connection) == NOW + 1
        prepare(connection, LATER)
        assert connection.execute("SELECT version FROM hushgram_migrations ORDER BY 1").fetchall() == ALL_VERSIONS
        assert connection.execute("SELECT note FROM hushgram_snapshots").fetchall() == [(None,)]
    assert rows_in(postgres) == before
    with pytest.raises(PostgreSQLError, match=f"newer hushgram: version {NOW + 1}, and this one knows {NOW}"):
        prepare_tables(postgres.url)
    # One that runs since before the migration goes on.
    assert write(postgres, [snapshot(generation=1)]) == 1


def test_rows_of_the_first_version_stay_and_gain_columns_that_say_nothing(postgres):
    """A table as the first version made and filled it."""
    first = replace(snapshot(), heavy_low_end=None, heavy_high_end=None)
    with connect(postgres.url) as connection:
        migrate(connection, MIGRATIONS[:1])
        old = {name: kind for name, kind in columns().items() if name not in SNAPSHOT.added}
        quoted = ", ".join(f'"{name}"' for name in old)
        given = ", ".join(f"%({name})s::{kind}" for name, kind in old.items())
        connection.execute(f"INSERT INTO hushgram_snapshots ({quoted}) VALUES ({given})", values(first))
        prepare(connection)
        assert version(connection) == NOW
    assert rows_in(postgres) == [first.to_avro()]
    known = replace(
        snapshot(generation=1), events=Events(START, START + 5, 7), heavy_low_end=0.97, time_zone="Europe/Berlin"
    )
    assert write(postgres, [known]) == 1
    assert rows_in(postgres) == [known.to_avro()]
    with connect(postgres.url) as connection:
        query = (
            "SELECT to_char(window_start AT TIME ZONE coalesce(time_zone, 'UTC'), 'HH24:MI') FROM hushgram_snapshots"
        )
        start = datetime.fromtimestamp(known.key.window_start / 1000, ZoneInfo("Europe/Berlin"))
        assert connection.execute(query).fetchall() == [(f"{start:%H:%M}",)]


def test_a_migration_that_fails_leaves_everything_as_it_was(postgres):
    with connect(postgres.url) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            migrate(connection, (*LATER, "ALTER TABLE nowhere ADD COLUMN note text"))
        assert version(connection) == 0
        migrate(connection, MIGRATIONS)
        with pytest.raises(psycopg.errors.UndefinedTable):
            migrate(connection, (*LATER, "ALTER TABLE nowhere ADD COLUMN note text"))
        assert version(connection) == NOW
        migrate(connection, LATER)
        assert version(connection) == NOW + 1


def test_many_that_start_at_once_migrate_once(postgres):
    failed, together = [], threading.Barrier(6)

    def begin():
        with connect(postgres.url) as connection:
            together.wait()
            try:
                prepare(connection, LATER)
            except psycopg.Error as error:
                failed.append(error)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with connect(postgres.url) as connection:
        assert connection.execute("SELECT version FROM hushgram_migrations ORDER BY 1").fetchall() == ALL_VERSIONS
