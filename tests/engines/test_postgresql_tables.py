"""The tables of the PostgreSQL sink on a real server: migrated with all they hold, and refused if they are others."""

import threading
from dataclasses import replace
from datetime import datetime
from itertools import chain
from zoneinfo import ZoneInfo

import psycopg
import pytest

from hushgram.pipelines.cli import command
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.records import Events
from hushgram.transforms.sinks.postgresql import connect, prepare_tables, values
from hushgram.transforms.sinks.postgresql_migrations import MIGRATIONS, migrate, prepare, version
from hushgram.transforms.sinks.postgresql_table import GROUP_KEY, KEY, PostgreSQLError, columns
from tests.helpers.reports import START
from tests.helpers.tables import HOSTILE, make_snapshot, read_rows, write_snapshots


def test_the_table_is_that_of_the_schema(postgres):
    prepare_tables(postgres.url)
    query = """SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
        WHERE attrelid = 'hushgram_snapshots'::regclass AND attnum > 0 AND attgenerated = '' ORDER BY attnum"""
    with postgres.connect() as connection:
        rows = connection.execute(query).fetchall()
    assert {name: kind for name, kind, _ in rows} == columns()
    optional = [name for name, _, required in rows if not required]
    nullable = [field["name"] for field in SNAPSHOT.parsed["fields"] if isinstance(field["type"], list)]
    assert optional == [name for name in nullable if name != "key"]  # which messages of older versions lack


# Migrations ----------------------------------------------------------------------------------------------------------

NOW = len(MIGRATIONS)
LATER = (*MIGRATIONS, "ALTER TABLE hushgram_snapshots ADD COLUMN note text")
ALL_VERSIONS = [(number,) for number in range(1, NOW + 2)]


def test_tables_of_an_older_version_are_brought_up_to_date_with_all_they_hold(postgres):
    prepare_tables(postgres.url)
    write_snapshots(postgres, [make_snapshot()])
    before = read_rows(postgres)
    with connect(postgres.url) as connection:
        assert version(connection) == NOW
        prepare(connection, LATER)
        assert version(connection) == NOW + 1
        prepare(connection, LATER)
        assert connection.execute("SELECT version FROM hushgram_migrations ORDER BY 1").fetchall() == ALL_VERSIONS
        assert connection.execute("SELECT note FROM hushgram_snapshots").fetchall() == [(None,)]
    assert read_rows(postgres) == before
    with pytest.raises(PostgreSQLError, match=f"newer hushgram: version {NOW + 1}, and this one knows {NOW}"):
        prepare_tables(postgres.url)
    # A writer that started before the migration goes on.
    assert write_snapshots(postgres, [make_snapshot(generation=1)]) == 1


def insert_as_before(connection, later, snapshots, end=""):
    """As a version did whose snapshots lacked these fields."""
    names = {name: kind for name, kind in columns().items() if name not in later}
    column_list = ", ".join(f'"{name}"' for name in names)
    placeholders = ", ".join(f"%({name})s::{kind}" for name, kind in names.items())
    statement = f"INSERT INTO public.hushgram_snapshots AS old ({column_list}) VALUES ({placeholders}) {end}"
    with connection.cursor() as cursor:
        cursor.executemany(statement, [values(snapshot) for snapshot in snapshots])
        return cursor.rowcount


@pytest.mark.parametrize("earlier", range(1, NOW))
def test_rows_of_earlier_versions_stay_and_gain_columns_that_are_null(postgres, earlier):
    """A table as the earlier version made and filled it."""
    later = set(chain.from_iterable(SNAPSHOT.additions[earlier - 1 :]))
    first = replace(make_snapshot(), **dict.fromkeys(later & vars(make_snapshot()).keys() - {"key"}))
    with connect(postgres.url) as connection:
        migrate(connection, MIGRATIONS[:earlier])
        insert_as_before(connection, later, [first])
        prepare(connection)
        assert version(connection) == NOW
    assert read_rows(postgres) == [first.to_avro()]
    newer = replace(
        make_snapshot(generation=1), events=Events(START, START + 5, 7), heavy_low_end=0.97, time_zone="Europe/Berlin"
    )
    assert write_snapshots(postgres, [newer]) == 1
    assert read_rows(postgres) == [newer.to_avro()]
    with connect(postgres.url) as connection:
        query = (
            "SELECT to_char(window_start AT TIME ZONE coalesce(time_zone, 'UTC'), 'HH24:MI') FROM hushgram_snapshots"
        )
        start = datetime.fromtimestamp(newer.key.window_start / 1000, ZoneInfo("Europe/Berlin"))
        assert connection.execute(query).fetchall() == [(f"{start:%H:%M}",)]


def make_keys():
    """Snapshots of many keys, each with the text that it has everywhere."""
    made = [
        replace(
            made, key=replace(made.key, collection=name, group=group, window_start=start, window_end=START + 86_400_000)
        )
        for made in [make_snapshot()]
        for name in ("commute", *HOSTILE)
        for group, start in (
            (None, START),
            ("all", START + 1),
            ("x", -62_135_596_800_000),
            *((label, START + 1_000) for label in HOSTILE),
        )
    ]
    return made, sorted(snapshot.key.text for snapshot in made)


def read_keys(connection):
    """Those of the column: `read_rows` would make them anew."""
    return sorted(key for (key,) in connection.execute("SELECT key FROM public.hushgram_snapshots"))


@pytest.mark.parametrize("earlier", range(1, NOW))
def test_rows_without_a_key_get_the_one_that_they_would_have_today(postgres, earlier):
    """Those of a table that had no key, and those that an older writer added to one that had."""
    made, expected = make_keys()
    with connect(postgres.url) as connection:
        migrate(connection, MIGRATIONS[:earlier])
        insert_as_before(connection, set(chain.from_iterable(SNAPSHOT.additions)), made)
        prepare(connection)
        assert read_keys(connection) == expected


def test_rows_of_a_writer_of_an_older_version_have_a_key_from_the_start(postgres):
    """It started before the tables were brought up to date, and goes on."""
    prepare_tables(postgres.url)
    made, expected = make_keys()
    later = set(chain.from_iterable(SNAPSHOT.additions))
    update = f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET generation = old.generation + excluded.generation + 1"
    with connect(postgres.url) as connection:
        connection.execute("SET search_path = ''")  # the table makes keys wherever a writer looks names up
        for end in ("", update, update):
            assert insert_as_before(connection, later, made, end) == len(made)
            assert read_keys(connection) == expected
        assert connection.execute("SELECT DISTINCT generation FROM public.hushgram_snapshots").fetchall() == [(2,)]
        connection.execute("UPDATE public.hushgram_snapshots SET key = NULL")
        assert read_keys(connection) == expected


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


def test_concurrent_starts_migrate_the_tables_once(postgres):
    errors, barrier = [], threading.Barrier(6)

    def prepare_at_once():
        with connect(postgres.url) as connection:
            barrier.wait()
            try:
                prepare(connection, LATER)
            except psycopg.Error as error:
                errors.append(error)

    threads = [threading.Thread(target=prepare_at_once) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with connect(postgres.url) as connection:
        assert connection.execute("SELECT version FROM hushgram_migrations ORDER BY 1").fetchall() == ALL_VERSIONS


# Tables that are others ----------------------------------------------------------------------------------------------

ADVICE = "name another database, or another schema by ?options=-csearch_path%3DSCHEMA"
YAML = "collections: {commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1}}"
DROP_KEY = "DROP CONSTRAINT hushgram_snapshots_pkey"
NO_KEY = f"no primary key or unique index ({', '.join(KEY)})"


@pytest.fixture
def run(postgres, tmp_path, capsys):
    """Runs a command with this sink; returns the one line that it is refused with, before it begins."""
    (tmp_path / "collections.yaml").write_text(YAML)
    (tmp_path / "reports.avro").write_bytes(b"")
    sources = {
        "aggregate": ["--input", str(tmp_path / "reports.avro")],
        "stream": ["--watch", str(tmp_path)],
        "rollup": ["--input", str(tmp_path), "--window", "6h"],
    }

    def run(name="aggregate", url=postgres.url):
        common = ["--collections", str(tmp_path / "collections.yaml"), "--output", str(tmp_path / "never")]
        assert command.main([name, *common, *sources[name], "--sink", url]) == 2
        assert not (tmp_path / "never").exists()
        [line] = capsys.readouterr().err.splitlines()
        start = f"hushgram: --sink {url}: "
        assert line.startswith(start)
        return line.removeprefix(start)

    return run


@pytest.mark.parametrize("name", ["aggregate", "stream", "rollup"])
@pytest.mark.parametrize(
    ("foreign", "expected"),
    [
        ("CREATE TABLE hushgram_snapshots (note text)", 'relation "hushgram_snapshots" already exists, and is not'),
        ("CREATE VIEW hushgram_windows AS SELECT 1", 'relation "hushgram_windows" already exists, and is not'),
        ("CREATE TABLE hushgram_migrations (note text)", "table hushgram_migrations is not"),
        ("CREATE TABLE hushgram_migrations (version text)", "table hushgram_migrations is not"),
    ],
)
def test_a_table_of_somebody_else_is_one_line_and_stays_as_it_is(postgres, run, name, foreign, expected):
    with postgres.connect() as connection:
        connection.execute(foreign)
        assert run(name) == f"{expected} hushgram's: rename it, or {ADVICE}"
        tables = """SELECT relname FROM pg_class WHERE relname LIKE 'hushgram%' AND relkind IN ('r', 'v')
            AND relnamespace = 'public'::regnamespace"""  # other tests have schemas of their own
        assert connection.execute(tables).fetchall() == [(foreign.split()[2],)]
        # What the line advises to do.
        connection.execute("DROP SCHEMA IF EXISTS place CASCADE; CREATE SCHEMA place")
        prepare_tables(f"{postgres.url}?options=-csearch_path%3Dplace")
        connection.execute("DROP SCHEMA place CASCADE")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DROP COLUMN mean", "no column mean"),
        ("ALTER COLUMN mean TYPE text", "column mean is text, not double precision"),
        ("ALTER COLUMN revisions TYPE text", "column revisions is text, not text[]"),
        ("ALTER COLUMN first_event TYPE date", "column first_event is date, not timestamp with time zone"),
        ("ALTER COLUMN quantiles TYPE json", "column quantiles is json, not jsonb"),
        ("ALTER COLUMN reports TYPE integer", "column reports is integer, not bigint"),
        ("ALTER COLUMN uploads SET NOT NULL", "column uploads may not be null"),
        ("ADD COLUMN site text NOT NULL", "column site may not be null, and is not one of ours"),
        (
            "DROP COLUMN fit, ADD COLUMN fit double precision GENERATED ALWAYS AS (mean) STORED",
            "column fit is generated",
        ),
        (f"ALTER COLUMN {GROUP_KEY} DROP EXPRESSION", f"column {GROUP_KEY} is not generated"),
        (f"DROP COLUMN {GROUP_KEY}", f"no column {GROUP_KEY}; {NO_KEY}"),
        (DROP_KEY, NO_KEY),
        (f"{DROP_KEY}, ADD UNIQUE (key)", NO_KEY),
        (f"{DROP_KEY}, ADD UNIQUE ({', '.join(KEY)}, status)", NO_KEY),
        (f"{DROP_KEY}, ADD UNIQUE ({', '.join(KEY)}) DEFERRABLE", NO_KEY),
        (
            f"{DROP_KEY}, DROP COLUMN mean, DROP COLUMN fit, DROP COLUMN low",
            "no column low; no column mean; no column fit",
        ),
    ],
)
def test_a_table_that_was_changed_is_one_line_that_says_how(postgres, run, change, problem):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("DROP VIEW hushgram_windows, hushgram_quantiles, hushgram_buckets")
        connection.execute(f"ALTER TABLE hushgram_snapshots {change}")
    expected = f"table hushgram_snapshots has another schema: {problem}; put that right, or {ADVICE}"
    assert run() == run("stream") == expected


@pytest.mark.parametrize("index", [f"({', '.join(KEY)}) WHERE mean > 0", f"({', '.join(KEY[:3])}, lower({KEY[3]}))"])
def test_an_index_of_some_rows_or_of_other_values_is_no_key(postgres, run, index):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute(f"ALTER TABLE hushgram_snapshots {DROP_KEY}")
        connection.execute(f"CREATE UNIQUE INDEX ON hushgram_snapshots {index}")
    assert NO_KEY in run()


def test_tables_that_are_gone_are_one_line_and_made_anew_as_it_says(postgres, run):
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        connection.execute("DROP TABLE hushgram_snapshots CASCADE")
        advice = "restore it, or drop hushgram_migrations, and it is made anew"
        assert run() == f"table hushgram_snapshots is gone, though hushgram_migrations is there: {advice}"
        connection.execute("DROP TABLE hushgram_migrations")
    prepare_tables(postgres.url)
    assert write_snapshots(postgres, [make_snapshot()]) == 1


def test_what_people_add_to_the_table_is_welcome(postgres):
    prepare_tables(postgres.url)
    additions = [
        "ALTER TABLE hushgram_snapshots ADD COLUMN note text, ADD COLUMN site text NOT NULL DEFAULT 'here'",
        "ALTER TABLE hushgram_snapshots ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE hushgram_snapshots ADD COLUMN width double precision GENERATED ALWAYS AS (high - low) STORED",
        "CREATE INDEX ON hushgram_snapshots (mean)",
        "CREATE UNIQUE INDEX ON hushgram_snapshots (key)",
        "CREATE VIEW means AS SELECT key, mean FROM hushgram_snapshots",
        "DROP VIEW hushgram_buckets",
        # A key of the same columns in another order, and with one more beside it.
        f"ALTER TABLE hushgram_snapshots {DROP_KEY}",
        f"CREATE UNIQUE INDEX ON hushgram_snapshots ({', '.join(reversed(KEY))}) INCLUDE (mean)",
    ]
    with postgres.connect() as connection:
        for addition in additions:
            connection.execute(addition)
    prepare_tables(postgres.url)
    written = [make_snapshot(), make_snapshot(group="DE")]
    assert [write_snapshots(postgres, written) for _ in range(2)] == [2, 0]
    with postgres.connect() as connection:
        rows = connection.execute("SELECT note, site, number IS NULL, width FROM hushgram_snapshots").fetchall()
    assert rows == [(None, "here", False, 180.0)] * 2
