"""The tables of the PostgreSQL sink, created and brought up to date by the migrations below, in their order.

A migration that was released is never changed; a field that the snapshot's schema gains is a migration more. A test
holds the table against the schema. Names are looked up along the `search_path`, so the tables may live in any schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.field_types import TIMESTAMP, FieldType, fields_of

Connection = psycopg.Connection[Any]

TABLE = "hushgram_snapshots"
KEY = ("collection", "window_start", "window_end", "group_key")
LOCK = int.from_bytes(b"hushgram", "big")
"""The advisory lock of those who migrate: of two that start at once, the second waits, and finds all done."""

MIGRATIONS = (
    """
    CREATE TABLE hushgram_snapshots (
        collection text NOT NULL,
        "group" text,
        window_start timestamptz NOT NULL,
        window_end timestamptz NOT NULL,
        generation integer NOT NULL,
        pane_index integer NOT NULL,
        pane_timing text NOT NULL,
        status text NOT NULL,
        reports bigint NOT NULL,
        revisions text[] NOT NULL,
        low double precision NOT NULL,
        high double precision NOT NULL,
        scale text NOT NULL,
        "integer" boolean NOT NULL,
        unit text NOT NULL,
        probabilities double precision[],
        mean double precision NOT NULL,
        mean_low double precision NOT NULL,
        mean_high double precision NOT NULL,
        variance double precision,
        variance_low double precision,
        variance_high double precision,
        quantiles jsonb,
        cdf_points double precision[],
        cdf_low double precision[],
        cdf_high double precision[],
        iterations integer NOT NULL,
        converged boolean NOT NULL,
        fit double precision,
        estimator text NOT NULL,
        software text NOT NULL,
        -- Part of the key in place of a group that may be null; no label makes it what null makes it.
        group_key text NOT NULL GENERATED ALWAYS AS (CASE WHEN "group" IS NULL THEN '' ELSE '=' || "group" END) STORED,
        PRIMARY KEY (collection, window_start, window_end, group_key)
    );
    COMMENT ON TABLE hushgram_snapshots IS 'The best snapshot of each collection, group and window.';
    COMMENT ON COLUMN hushgram_snapshots."group" IS 'Null for all groups together.';
    COMMENT ON COLUMN hushgram_snapshots.status IS 'ok, too_few or no_reports.';
    COMMENT ON COLUMN hushgram_snapshots.fit IS 'P-value of the test that reports obey the mechanism.';

    CREATE VIEW hushgram_quantiles AS
    SELECT s.collection, s."group", s.window_start, s.window_end, s.status, s.reports, q.share, q.value, q.low, q.high
    FROM hushgram_snapshots AS s, jsonb_to_recordset(s.quantiles)
        AS q(share double precision, value double precision, low double precision, high double precision);
    """,
    """
    ALTER TABLE hushgram_snapshots
        ADD COLUMN first_event timestamptz,
        ADD COLUMN last_event timestamptz,
        ADD COLUMN uploads bigint,
        ADD COLUMN heavy_low_end double precision,
        ADD COLUMN heavy_high_end double precision,
        ADD COLUMN time_zone text;
    COMMENT ON COLUMN hushgram_snapshots.first_event IS 'The earliest event time of a report that is counted here.';
    COMMENT ON COLUMN hushgram_snapshots.last_event IS 'The latest event time of a report that is counted here.';
    COMMENT ON COLUMN hushgram_snapshots.uploads IS 'How many uploads brought the reports.';
    COMMENT ON COLUMN hushgram_snapshots.heavy_low_end
        IS 'The share of values at the low end of the domain or below it, where it is implausibly large.';
    COMMENT ON COLUMN hushgram_snapshots.heavy_high_end
        IS 'The share of values at the high end of the domain or above it, where it is implausibly large.';
    COMMENT ON COLUMN hushgram_snapshots.time_zone
        IS 'Whose days the windows of the collection follow. Null for UTC.';
    """,
    """
    ALTER TABLE hushgram_snapshots
        ADD COLUMN density_edges double precision[],
        ADD COLUMN density_low double precision[],
        ADD COLUMN density_high double precision[],
        ADD COLUMN intervals text,
        ADD COLUMN central_epsilon double precision,
        ADD COLUMN lying_bound double precision,
        ADD COLUMN epsilon double precision,
        ADD COLUMN mechanism text;
    COMMENT ON COLUMN hushgram_snapshots.density_edges
        IS 'The edges of bins that are no finer than the reports can tell apart, one more than there are bins.';
    COMMENT ON COLUMN hushgram_snapshots.density_low
        IS 'Lower bounds of the average density in each of these bins, which hold for all of them at once.';
    COMMENT ON COLUMN hushgram_snapshots.density_high
        IS 'Upper bounds of the average density in each of these bins, which hold for all of them at once.';
    COMMENT ON COLUMN hushgram_snapshots.intervals
        IS 'What intervals assume: smooth, that the distribution is; any_shape or unsmoothed, nothing.';
    COMMENT ON COLUMN hushgram_snapshots.central_epsilon
        IS 'The epsilon, with a delta of 1e-8, towards readers who see no single report, only the tally.';
    COMMENT ON COLUMN hushgram_snapshots.lying_bound
        IS 'How far the distribution function could be off if 1 % of the devices lied and looked honest.';
    COMMENT ON COLUMN hushgram_snapshots.epsilon IS 'That of current devices, towards whoever sees a report.';
    COMMENT ON COLUMN hushgram_snapshots.mechanism IS 'That of current devices.';
    """,
    # Rows that are there get the key that `Key.text` would give them. A writer of an older version adds none.
    r"""
    ALTER TABLE hushgram_snapshots ADD COLUMN key text;
    COMMENT ON COLUMN hushgram_snapshots.key
        IS 'Collection, group and window as one text, the same in every sink; all groups together are (all).';
    WITH texts AS (
        SELECT collection AS text FROM hushgram_snapshots UNION SELECT "group" FROM hushgram_snapshots
    ), encoded AS (
        SELECT text, string_agg(
            CASE WHEN part ~ '^[A-Za-z0-9_.~-]$' THEN part
                 ELSE upper(regexp_replace(encode(convert_to(part, 'UTF8'), 'hex'), '(..)', '%\1', 'g')) END,
            '' ORDER BY place
        ) AS encoded
        FROM texts, regexp_split_to_table(text, '') WITH ORDINALITY AS parts (part, place)
        GROUP BY text
    )
    UPDATE hushgram_snapshots AS s SET key = concat_ws('/',
        (SELECT encoded FROM encoded WHERE text = s.collection),
        coalesce((SELECT encoded FROM encoded WHERE text = s."group"), '(all)'),
        replace(to_char(window_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS'), '.000', '') || 'Z',
        replace(to_char(window_end AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS'), '.000', '') || 'Z'
    );
    """,
)

TYPES = {
    "string": "text",
    "int": "integer",
    "long": "bigint",
    "double": "double precision",
    "boolean": "boolean",
    TIMESTAMP: "timestamptz",
}


class PostgreSQLError(Exception):
    """Something about the database that a person has to put right."""


def columns() -> dict[str, str]:
    """The columns of a snapshot and their types, from the Avro schema; arrays of records are JSON."""
    return {field.name: _type(field.type) for field in fields_of(SNAPSHOT)}


def _type(kind: FieldType) -> str:
    if kind.items is not None:
        return "jsonb" if kind.items.fields else f"{_type(kind.items)}[]"
    return TYPES[kind.kind]


def upsert() -> str:
    """The statement that writes a snapshot, unless one is there that is as good or better (`Snapshot.rank`)."""
    names = {name: f'"{name}"' for name in columns()}
    values = ", ".join(f"%({name})s::{kind}" for name, kind in columns().items())
    new = ", ".join(f"{quoted} = excluded.{quoted}" for quoted in names.values())
    ranks = [
        ", ".join(f"{row}.{name}" for name in ("generation", "reports", "pane_index")) for row in ("old", "excluded")
    ]
    return (
        f"INSERT INTO {TABLE} AS old ({', '.join(names.values())}) VALUES ({values}) "
        f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {new} WHERE ({ranks[0]}) < ({ranks[1]})"
    )


def prepare(connection: Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """The tables are there, up to date, and may be written; or the error that says what is missing."""
    encoding, read_only = _ask(
        connection, "SELECT current_setting('server_encoding'), current_setting('transaction_read_only')"
    )
    if encoding != "UTF8":
        raise PostgreSQLError(f"the database is encoded as {encoding}, allowed: UTF8, which holds every label")
    if read_only == "on":
        raise PostgreSQLError("the server takes no writes, as a replica does: name the primary one")
    migrate(connection, migrations)
    for right in ("SELECT", "INSERT", "UPDATE"):
        if _ask(connection, "SELECT has_table_privilege(%s, %s)", TABLE, right) != (True,):
            [user] = _ask(connection, "SELECT current_user")
            raise PostgreSQLError(f"{user} may not write: GRANT SELECT, INSERT, UPDATE ON {TABLE} TO {user}")


def migrate(connection: Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Brings the tables up to date, all steps or none; what is up to date already needs no right to change it."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        found = version(connection)
        if found > len(migrations):
            known = f"version {found}, and this one knows {len(migrations)}"
            raise PostgreSQLError(f"the tables are those of a newer hushgram: {known}")
        try:
            _apply(connection, migrations, found)
        except psycopg.errors.InsufficientPrivilege as error:
            advice = "the tables have to be created or changed: let somebody who may do so start a run once"
            raise PostgreSQLError(f"{error.diag.message_primary}; {advice}") from None


def _apply(connection: Connection, migrations: Sequence[str], found: int) -> None:
    if not found:
        connection.execute(
            "CREATE TABLE hushgram_migrations "
            "(version integer PRIMARY KEY, software text NOT NULL, applied timestamptz NOT NULL DEFAULT now())"
        )
    for number, script in enumerate(migrations[found:], start=found + 1):
        connection.execute(script)
        entry = [number, metadata.version("hushgram")]
        connection.execute("INSERT INTO hushgram_migrations (version, software) VALUES (%s, %s)", entry)


def version(connection: Connection) -> int:
    """How many migrations the tables have had; 0 is a database without them."""
    if _ask(connection, "SELECT to_regclass('hushgram_migrations') IS NULL") == (True,):
        return 0
    [found] = _ask(connection, "SELECT coalesce(max(version), 0) FROM hushgram_migrations")
    return int(found)


def _ask(connection: Connection, query: str, *values: object) -> tuple[Any, ...]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(query, values or None).fetchone()
        assert found is not None
        return found
