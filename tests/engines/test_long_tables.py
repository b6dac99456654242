"""PostgreSQL's views against the long tables that Python makes of the same snapshots."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from psycopg.rows import dict_row

from hushgram import Collection
from hushgram.schemas.long_tables import BUCKETS, LONG_TABLES, QUANTILES
from hushgram.schemas.records import ARRAY_FIELDS, Key, Pane
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.sinks.postgresql import Writer, prepare_tables
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import HOSTILE, MEAN

SQL_TYPES = {
    "text": {"text"},
    "whole": {"bigint", "integer"},
    "number": {"double precision"},
    "flag": {"boolean"},
    "time": {"timestamp with time zone"},
}
COLLECTIONS = [
    Collection(name="linear", low=-7.3, high=180.1, buckets=24, epsilon=1, quantiles=[0.999]),
    Collection(name="log", low=1e-3, high=3e5, scale="log", buckets=97, epsilon=1),
    Collection(name="widest log", low=1e-140, high=1e140, scale="log", buckets=64, epsilon=2, estimator="em"),
    Collection(name="whole numbers", low=-3, high=8, integer=True, buckets=12, epsilon=2),
    Collection(name="whole numbers in pairs", low=0, high=63, integer=True, buckets=32, epsilon=2),
    Collection(name="far", low=1e9, high=1e9 + 7, buckets=7, epsilon=3, mechanism="randomized_response"),
    Collection(name="negative parts", low=0, high=1, buckets=64, epsilon=1, mechanism="haar"),
    Collection(name="any shape", low=0, high=180, buckets=64, epsilon=2, intervals="any_shape"),
    Collection(name="any whole number", low=0, high=63, integer=True, buckets=64, epsilon=2, intervals="any_shape"),
]


def make_windows(collection, seed=1):
    """Snapshots of a crowd, of one report, and of none."""
    rng = np.random.default_rng(seed)
    windows = []
    for hour, (group, reports) in enumerate([(None, 3000), (HOSTILE[0], 1), (HOSTILE[-1], 0)]):
        counts = collection.tally(collection.simulate(collection.domain.from_unit(rng.beta(2, 5, reports)), seed))
        key = Key(collection.name, group, START + hour * HOUR, START + (hour + 1) * HOUR)
        windows.append((key, Pane(index=hour), Tallies({collection.revision: (reports, counts)} if reports else {})))
    return snapshots(collection, windows)


def write(server, answers):
    prepare_tables(server.url)
    with closing(Writer(server.url)) as writer:
        writer.write(answers)


def read_view(server, table):
    """The rows of a view in the order of its unique columns, by column, as Python makes them."""
    order = ", ".join(f'{name} COLLATE "C"' if name == "key" else name for name in table.unique)
    with server.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(f"SELECT * FROM hushgram_{table.name} ORDER BY {order}").fetchall()
    times = [column.name for column in table.columns if column.kind == "time"]
    for row in rows:
        row.update({name: row[name] and round(1000 * row[name].timestamp()) for name in times})
    return {column.name: [row[column.name] for row in rows] for column in table.columns}


def join_rows(table, answers):
    parts = [table.of_snapshot(answer) for answer in sorted(answers, key=lambda answer: answer.key.text)]
    return {column.name: [value for part in parts for value in part[column.name]] for column in table.columns}


@pytest.mark.parametrize("collection", [*COLLECTIONS, MEAN], ids=lambda collection: collection.name)
def test_views_have_the_rows_of_the_long_tables(postgres, collection):
    answers = make_windows(collection)
    write(postgres, answers)
    for table in LONG_TABLES:
        found, expected = read_view(postgres, table), join_rows(table, answers)
        assert len(found["key"]) == len(expected["key"])
        for column in table.columns:
            if column.kind != "number" or None in expected[column.name]:
                assert found[column.name] == expected[column.name], column.name
            else:
                # Exact but for logarithms: near zero, next to the length of the domain.
                close = 1e-12 if collection.scale == "log" else 1e-15 * (collection.high - collection.low)
                np.testing.assert_allclose(found[column.name], expected[column.name], rtol=1e-12, atol=close)


def test_results_of_earlier_versions_have_nulls_instead_of_bands_and_bins(postgres):
    nothing = dict.fromkeys([name for name in ARRAY_FIELDS if name != "probabilities"])
    answers = [replace(answer, **nothing, epsilon=None) for answer in make_windows(COLLECTIONS[1])]
    write(postgres, answers)
    found, expected = read_view(postgres, BUCKETS), join_rows(BUCKETS, answers)
    assert len(found["key"]) == 3 * 97
    for name in ("cdf_low", "cdf_high", "bin", "density_low", "density_high", "epsilon"):
        assert set(found[name]) == set(expected[name]) == {None}


def test_views_say_what_their_columns_mean(postgres):
    """In the words of the long tables, whose types they have; the oldest keeps its columns and their order."""
    prepare_tables(postgres.url)
    query = """SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"""
    with postgres.connect() as connection:
        for table in LONG_TABLES:
            view = f"hushgram_{table.name}"
            found = {name: (kind, meaning) for name, kind, meaning in connection.execute(query, [view])}
            assert connection.execute("SELECT obj_description(%s::regclass)", [view]).fetchone() == (table.meaning,)
            if table is QUANTILES:
                assert list(found)[:4] == ["collection", "group", "window_start", "window_end"]
                assert list(found)[4:10] == ["status", "reports", "share", "value", "low", "high"]
                found.pop("group")
            else:
                assert list(found) == [column.name for column in table.columns]
            assert set(found) == {column.name for column in table.columns}
            for column in table.columns:
                kind, meaning = found[column.name]
                assert kind in SQL_TYPES[column.kind]
                assert meaning == column.meaning
