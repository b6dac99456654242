"""The tables of the PostgreSQL sink, created and brought up to date by the migrations below, in their order.

A migration that was released is never changed; a field that the snapshot's schema gains is a migration more. A test
holds the table against the schema. Names are looked up along the `search_path`, so the tables may live in any schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

import psycopg

from hushgram.transforms.sinks.postgresql_table import (
    ELSEWHERE,
    TABLE,
    Connection,
    PostgreSQLError,
    ask,
    check_table,
)

LOCK = int.from_bytes(b"hushgram", "big")
"""The advisory lock of those who migrate: of two that start at once, the second waits, and finds all done."""
NAMES_TAKEN = (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateColumn)
"""By something that we did not make: what we did is in `hushgram_migrations`."""

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
    # Rows that are there get the key that `Key.text` would give them. A writer of an older version gives none.
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
    # Long tables for BI tools: `hushgram.schemas.long_tables` as views. Edges are those that `Domain` computes.
    """
    CREATE VIEW hushgram_windows AS
    SELECT s.key, s.collection, coalesce(s."group", '(all)') AS group_name, s.window_start, s.window_end, s.status,
        s.reports, s.unit, s.epsilon, s.mean, s.mean_low, s.mean_high, m.value AS median, m.low AS median_low,
        m.high AS median_high, s.variance, s.variance_low, s.variance_high, s.low AS domain_low, s.high AS domain_high,
        s.scale, s."integer" AS whole_numbers, s.heavy_low_end, s.heavy_high_end, s.intervals, s.central_epsilon,
        s.lying_bound, s.fit, s.mechanism, s.estimator, s.first_event, s.last_event, s.uploads, s.time_zone,
        s.generation, s.pane_timing, s.software
    FROM hushgram_snapshots AS s
    LEFT JOIN LATERAL (
        SELECT q.value, q.low, q.high
        FROM jsonb_to_recordset(s.quantiles)
            AS q(share double precision, value double precision, low double precision, high double precision)
        WHERE q.share = 0.5
        LIMIT 1
    ) AS m ON true;

    CREATE OR REPLACE VIEW hushgram_quantiles AS
    SELECT s.collection, s."group", s.window_start, s.window_end, s.status, s.reports, q.share, q.value, q.low, q.high,
        s.key, coalesce(s."group", '(all)') AS group_name, s.unit, s.epsilon
    FROM hushgram_snapshots AS s, jsonb_to_recordset(s.quantiles)
        AS q(share double precision, value double precision, low double precision, high double precision);

    CREATE VIEW hushgram_buckets AS
    SELECT s.key, s.collection, coalesce(s."group", '(all)') AS group_name, s.window_start, s.window_end, s.status,
        s.reports, s.unit, s.epsilon, e.bucket, e.low, e.high, e.probability, e.cdf,
        CASE WHEN b.place BETWEEN 1 AND cardinality(a.points) - 1
            THEN a.cdf_low[b.place] + (a.cdf_low[b.place + 1] - a.cdf_low[b.place]) * b.part
            ELSE a.cdf_low[greatest(b.place, 1)] END AS cdf_low,
        CASE WHEN b.place BETWEEN 1 AND cardinality(a.points) - 1
            THEN a.cdf_high[b.place] + (a.cdf_high[b.place + 1] - a.cdf_high[b.place]) * b.part
            ELSE a.cdf_high[greatest(b.place, 1)] END AS cdf_high,
        b.bin, a.density_low[b.bin] AS density_low, a.density_high[b.bin] AS density_high
    FROM hushgram_snapshots AS s
    -- The arrays of a row, read from their storage once rather than for each bucket; null becomes empty.
    CROSS JOIN LATERAL (
        SELECT s.probabilities || '{}' AS probabilities, s.cdf_low || '{}' AS cdf_low, s.cdf_high || '{}' AS cdf_high,
            s.density_edges || '{}' AS density_edges, s.density_low || '{}' AS density_low,
            s.density_high || '{}' AS density_high,
            -- On a log scale values are spread evenly between the logarithms of points.
            CASE WHEN s.scale = 'log'
                THEN ARRAY(SELECT ln(p) FROM unnest(s.cdf_points) WITH ORDINALITY AS u(p, i) ORDER BY i)
                ELSE s.cdf_points || '{}' END AS points,
            CASE WHEN s.scale = 'log' THEN ln(s.high) - ln(s.low)
                ELSE s.high - s.low + CASE WHEN s."integer" THEN 1 ELSE 0 END END AS length,
            CASE WHEN s."integer" THEN s.low - 0.5 ELSE s.low END AS start
        OFFSET 0
    ) AS a
    CROSS JOIN LATERAL (
        SELECT u.bucket, u.probability,
            least(greatest(sum(u.probability) OVER (ORDER BY u.bucket ROWS UNBOUNDED PRECEDING), 0), 1) AS cdf,
            CASE WHEN s.scale = 'log' THEN least(greatest(s.low * exp(u.before * a.length), s.low), s.high)
                ELSE a.start + u.before * a.length END AS low,
            CASE WHEN s.scale = 'log' THEN least(greatest(s.low * exp(u.after * a.length), s.low), s.high)
                ELSE a.start + u.after * a.length END AS high
        FROM (
            SELECT bucket, probability,
                (bucket - 1) * (1 / cardinality(a.probabilities)::double precision) AS before,
                CASE WHEN bucket = cardinality(a.probabilities) THEN 1
                    ELSE bucket * (1 / cardinality(a.probabilities)::double precision) END AS after
            FROM unnest(a.probabilities) WITH ORDINALITY AS p(probability, bucket)
        ) AS u
        OFFSET 0
    ) AS e
    CROSS JOIN LATERAL (
        SELECT c.place, c.at, nullif(width_bucket((e.low + e.high) / 2, a.density_edges), 0) AS bin,
            coalesce((c.at - a.points[c.place]) / nullif(a.points[c.place + 1] - a.points[c.place], 0), 0) AS part
        FROM (
            SELECT width_bucket(d.at, a.points) AS place, d.at
            FROM (SELECT CASE WHEN s.scale = 'log' THEN ln(e.high) ELSE e.high END AS at) AS d
        ) AS c
        OFFSET 0
    ) AS b;

    COMMENT ON VIEW hushgram_windows IS 'The best answer about each collection, group and window.';
    COMMENT ON COLUMN hushgram_windows.key IS 'Collection, group and window as one text, the same in every table.';
    COMMENT ON COLUMN hushgram_windows.collection IS 'The name of the collection.';
    COMMENT ON COLUMN hushgram_windows.group_name
        IS 'The group; (all) for all groups together, which no group is called.';
    COMMENT ON COLUMN hushgram_windows.window_start IS 'When the window begins.';
    COMMENT ON COLUMN hushgram_windows.window_end IS 'When the window ends; this moment is no longer in it.';
    COMMENT ON COLUMN hushgram_windows.status
        IS 'ok, too_few (fewer reports than the collection asks for) or no_reports.';
    COMMENT ON COLUMN hushgram_windows.reports IS 'Reports that were counted.';
    COMMENT ON COLUMN hushgram_windows.unit IS 'What the values are measured in; may be empty.';
    COMMENT ON COLUMN hushgram_windows.epsilon
        IS 'The promise to devices, towards whoever sees a report; smaller is stronger.';
    COMMENT ON COLUMN hushgram_windows.mean IS 'The estimated mean of the values.';
    COMMENT ON COLUMN hushgram_windows.mean_low IS 'The lower end of the 95 % interval of the mean.';
    COMMENT ON COLUMN hushgram_windows.mean_high IS 'The upper end of the 95 % interval of the mean.';
    COMMENT ON COLUMN hushgram_windows.median IS 'The value that half of the values are at or below.';
    COMMENT ON COLUMN hushgram_windows.median_low IS 'The lower end of the 95 % interval of the median.';
    COMMENT ON COLUMN hushgram_windows.median_high IS 'The upper end of the 95 % interval of the median.';
    COMMENT ON COLUMN hushgram_windows.variance IS 'The estimated variance of the values.';
    COMMENT ON COLUMN hushgram_windows.variance_low IS 'The lower end of the 95 % interval of the variance.';
    COMMENT ON COLUMN hushgram_windows.variance_high IS 'The upper end of the 95 % interval of the variance.';
    COMMENT ON COLUMN hushgram_windows.domain_low IS 'The least value of the domain; what lies below counts as this.';
    COMMENT ON COLUMN hushgram_windows.domain_high
        IS 'The greatest value of the domain; what lies above counts as this.';
    COMMENT ON COLUMN hushgram_windows.scale IS 'linear or log: what buckets have equal room on.';
    COMMENT ON COLUMN hushgram_windows.whole_numbers
        IS 'Whether values are whole numbers; bucket edges then lie between them.';
    COMMENT ON COLUMN hushgram_windows.heavy_low_end
        IS 'The share of values at the domain''s low end, where implausibly large.';
    COMMENT ON COLUMN hushgram_windows.heavy_high_end
        IS 'The share of values at the domain''s high end, where implausibly large.';
    COMMENT ON COLUMN hushgram_windows.intervals IS 'What intervals assume: smooth, any_shape or unsmoothed.';
    COMMENT ON COLUMN hushgram_windows.central_epsilon
        IS 'Epsilon, with a delta of 1e-8, towards readers of the tally alone.';
    COMMENT ON COLUMN hushgram_windows.lying_bound
        IS 'How far the distribution function could be off if 1 % of the devices lied.';
    COMMENT ON COLUMN hushgram_windows.fit
        IS 'The p-value of the test that reports obey the mechanism; below 0.001 is suspect.';
    COMMENT ON COLUMN hushgram_windows.mechanism IS 'How current devices perturb their values.';
    COMMENT ON COLUMN hushgram_windows.estimator IS 'How the distribution was computed.';
    COMMENT ON COLUMN hushgram_windows.first_event IS 'The earliest event time of a report that is counted.';
    COMMENT ON COLUMN hushgram_windows.last_event IS 'The latest event time of a report that is counted.';
    COMMENT ON COLUMN hushgram_windows.uploads IS 'How many uploads brought the reports.';
    COMMENT ON COLUMN hushgram_windows.time_zone IS 'Whose days the windows follow; null for UTC.';
    COMMENT ON COLUMN hushgram_windows.generation IS 'Higher for a corrected rerun.';
    COMMENT ON COLUMN hushgram_windows.pane_timing IS 'Whether the window''s best answer is early, on_time or late.';
    COMMENT ON COLUMN hushgram_windows.software IS 'The version of hushgram that estimated it.';

    COMMENT ON VIEW hushgram_quantiles IS 'The quantiles of each window, with their intervals.';
    COMMENT ON COLUMN hushgram_quantiles.key IS 'Collection, group and window as one text, the same in every table.';
    COMMENT ON COLUMN hushgram_quantiles.collection IS 'The name of the collection.';
    COMMENT ON COLUMN hushgram_quantiles.group_name
        IS 'The group; (all) for all groups together, which no group is called.';
    COMMENT ON COLUMN hushgram_quantiles.window_start IS 'When the window begins.';
    COMMENT ON COLUMN hushgram_quantiles.window_end IS 'When the window ends; this moment is no longer in it.';
    COMMENT ON COLUMN hushgram_quantiles.status
        IS 'ok, too_few (fewer reports than the collection asks for) or no_reports.';
    COMMENT ON COLUMN hushgram_quantiles.reports IS 'Reports that were counted.';
    COMMENT ON COLUMN hushgram_quantiles.unit IS 'What the values are measured in; may be empty.';
    COMMENT ON COLUMN hushgram_quantiles.epsilon
        IS 'The promise to devices, towards whoever sees a report; smaller is stronger.';
    COMMENT ON COLUMN hushgram_quantiles.share IS 'The share of values at or below the quantile: 0.5 is the median.';
    COMMENT ON COLUMN hushgram_quantiles.value IS 'The quantile.';
    COMMENT ON COLUMN hushgram_quantiles.low IS 'The lower end of the quantile''s 95 % interval.';
    COMMENT ON COLUMN hushgram_quantiles.high IS 'The upper end of the quantile''s 95 % interval.';

    COMMENT ON VIEW hushgram_buckets IS 'The distribution of each window, bucket by bucket.';
    COMMENT ON COLUMN hushgram_buckets.key IS 'Collection, group and window as one text, the same in every table.';
    COMMENT ON COLUMN hushgram_buckets.collection IS 'The name of the collection.';
    COMMENT ON COLUMN hushgram_buckets.group_name
        IS 'The group; (all) for all groups together, which no group is called.';
    COMMENT ON COLUMN hushgram_buckets.window_start IS 'When the window begins.';
    COMMENT ON COLUMN hushgram_buckets.window_end IS 'When the window ends; this moment is no longer in it.';
    COMMENT ON COLUMN hushgram_buckets.status
        IS 'ok, too_few (fewer reports than the collection asks for) or no_reports.';
    COMMENT ON COLUMN hushgram_buckets.reports IS 'Reports that were counted.';
    COMMENT ON COLUMN hushgram_buckets.unit IS 'What the values are measured in; may be empty.';
    COMMENT ON COLUMN hushgram_buckets.epsilon
        IS 'The promise to devices, towards whoever sees a report; smaller is stronger.';
    COMMENT ON COLUMN hushgram_buckets.bucket IS 'The number of the bucket, from 1.';
    COMMENT ON COLUMN hushgram_buckets.low IS 'The bucket''s lower edge.';
    COMMENT ON COLUMN hushgram_buckets.high IS 'The bucket''s upper edge.';
    COMMENT ON COLUMN hushgram_buckets.probability
        IS 'The estimated share of values in the bucket; some estimators go below zero.';
    COMMENT ON COLUMN hushgram_buckets.cdf IS 'The estimated share of values up to the bucket''s upper edge.';
    COMMENT ON COLUMN hushgram_buckets.cdf_low IS 'The lower end of the 95 % band of all cdf at once.';
    COMMENT ON COLUMN hushgram_buckets.cdf_high IS 'The upper end of the 95 % band of all cdf at once.';
    COMMENT ON COLUMN hushgram_buckets.bin
        IS 'The bin that the bucket lies in, from 1: bins are no finer than reports can tell apart.';
    COMMENT ON COLUMN hushgram_buckets.density_low
        IS 'The lower 95 % bound of the average density in that bin, all at once.';
    COMMENT ON COLUMN hushgram_buckets.density_high
        IS 'The upper 95 % bound of the average density in that bin, all at once.';
    """,
    # A writer of an older version may still be at work, and gives no key: the table makes it, as above.
    r"""
    CREATE OR REPLACE FUNCTION hushgram_make_key() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        label text;
        names text[] := '{}';
    BEGIN
        FOREACH label IN ARRAY ARRAY[NEW.collection, NEW."group"] LOOP
            names := names || CASE WHEN label IS NULL THEN '(all)' ELSE (
                SELECT coalesce(string_agg(
                    CASE WHEN part ~ '^[A-Za-z0-9_.~-]$' THEN part
                         ELSE upper(regexp_replace(encode(convert_to(part, 'UTF8'), 'hex'), '(..)', '%\1', 'g')) END,
                    '' ORDER BY place
                ), '')
                FROM regexp_split_to_table(label, '') WITH ORDINALITY AS parts (part, place)
            ) END;
        END LOOP;
        NEW.key := concat_ws('/', names[1], names[2],
            replace(to_char(NEW.window_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS'), '.000', '') || 'Z',
            replace(to_char(NEW.window_end AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS'), '.000', '') || 'Z'
        );
        RETURN NEW;
    END
    $$;
    CREATE TRIGGER hushgram_make_key BEFORE INSERT OR UPDATE ON hushgram_snapshots
        FOR EACH ROW WHEN (NEW.key IS NULL) EXECUTE FUNCTION hushgram_make_key();
    UPDATE hushgram_snapshots SET key = NULL WHERE key IS NULL;
    ALTER TABLE hushgram_snapshots ALTER COLUMN key SET NOT NULL;
    """,
)


def prepare(connection: Connection, migrations: Sequence[str] = MIGRATIONS) -> None:
    """The tables are there, up to date, and may be written; or the error that says what is missing."""
    encoding, read_only = ask(
        connection, "SELECT current_setting('server_encoding'), current_setting('transaction_read_only')"
    )
    if encoding != "UTF8":
        raise PostgreSQLError(f"the database is encoded as {encoding}, allowed: UTF8, which holds every label")
    if read_only == "on":
        raise PostgreSQLError("the server takes no writes, as a replica does: name the primary one")
    migrate(connection, migrations)
    check_table(connection)
    for right in ("SELECT", "INSERT", "UPDATE"):
        if ask(connection, "SELECT has_table_privilege(%s, %s)", TABLE, right) != (True,):
            [user] = ask(connection, "SELECT current_user")
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
        except NAMES_TAKEN as error:
            advice = f"rename it, or {ELSEWHERE}"
            raise PostgreSQLError(f"{error.diag.message_primary}, and is not hushgram's: {advice}") from None


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
    if ask(connection, "SELECT to_regclass('hushgram_migrations') IS NULL") == (True,):
        return 0
    try:
        [found] = ask(connection, "SELECT coalesce(max(version), 0) FROM hushgram_migrations")
    except (psycopg.errors.UndefinedColumn, psycopg.errors.DatatypeMismatch):
        raise PostgreSQLError(f"table hushgram_migrations is not hushgram's: rename it, or {ELSEWHERE}") from None
    return int(found)
