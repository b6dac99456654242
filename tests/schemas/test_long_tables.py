"""Long tables of snapshots: every row follows from the snapshot, whatever its mechanism and version."""

from dataclasses import replace

import numpy as np
import pytest

from hushgram import Collection
from hushgram.schemas.long_tables import BUCKETS, LONG_TABLES, QUANTILES, WINDOWS
from hushgram.schemas.records import ARRAY_FIELDS, Events
from hushgram.transforms.sinks.long_tables import arrow_schema, record_batch
from tests.helpers.tables import HOSTILE, MEAN, WAVE, make_snapshot

LOG = Collection(name="log", low=1, high=1e6, scale="log", buckets=48, epsilon=1)
WHOLE = Collection(name="whole", low=0, high=31, integer=True, buckets=32, epsilon=2, intervals="any_shape")
TREE = Collection(name="tree", low=0, high=1, buckets=64, epsilon=1, mechanism="hierarchy", quantiles=[0.999])
OLD = dict.fromkeys([name for name in ARRAY_FIELDS if name != "probabilities"])
SNAPSHOTS = {
    **{collection.name: make_snapshot(collection) for collection in (WAVE, MEAN, LOG, WHOLE, TREE)},
    "group": make_snapshot(group=HOSTILE[0]),
    "empty": make_snapshot(reports=0),
    "events": replace(make_snapshot(), events=Events(1, 2, 3)),
    "old": replace(make_snapshot(LOG), **OLD, epsilon=None, mechanism=None, intervals=None),
}
DISTRIBUTIONS = [name for name, snapshot in SNAPSHOTS.items() if snapshot.probabilities is not None]


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_table_has_its_columns_of_one_length_and_nulls_only_where_they_may_be(name):
    snapshot = SNAPSHOTS[name]
    for table in LONG_TABLES:
        columns = table.of_snapshot(snapshot)
        assert list(columns) == [column.name for column in table.columns]
        assert len({len(values) for values in columns.values()}) == 1
        for column in table.columns:
            assert column.nullable or all(value is not None for value in columns[column.name])
        unique = list(zip(*(columns[name] for name in table.unique), strict=True))
        assert len(set(unique)) == len(unique)
        batch = record_batch(table, snapshot)
        assert batch.schema.equals(arrow_schema(table), check_metadata=True)
        for column in table.columns:
            values = [value.value if column.kind == "time" else value.as_py() for value in batch[column.name]]
            assert values == list(columns[column.name])


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_the_row_of_a_window_has_the_numbers_of_its_snapshot(name):
    snapshot = SNAPSHOTS[name]
    row = {name: value for name, [value] in WINDOWS.of_snapshot(snapshot).items()}
    assert row["key"] == snapshot.key.text
    assert row["group_name"] == (snapshot.key.group or "(all)")
    assert (row["domain_low"], row["domain_high"], row["whole_numbers"]) == (
        snapshot.low,
        snapshot.high,
        snapshot.integer,
    )
    assert (row["mean"], row["mean_low"], row["mean_high"]) == (snapshot.mean, *snapshot.interval("mean"))
    if snapshot.probabilities is None:
        assert (row["median"], row["median_low"], row["median_high"], row["variance"]) == (None,) * 4
    else:
        assert (row["median"], row["median_low"], row["median_high"]) == (snapshot.median, *snapshot.interval("median"))
    events = (row["first_event"], row["last_event"], row["uploads"])
    assert events == ((1, 2, 3) if name == "events" else (None, None, None))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_rows_of_quantiles_and_buckets_are_the_distribution(name):
    snapshot = SNAPSHOTS[name]
    quantiles, buckets = QUANTILES.of_snapshot(snapshot), BUCKETS.of_snapshot(snapshot)
    np.testing.assert_array_equal(quantiles["value"], snapshot.quantile(quantiles["share"]))
    low, high = snapshot.interval("quantile", quantiles["share"])
    np.testing.assert_array_equal([quantiles["low"], quantiles["high"]], [low, high])
    units = np.linspace(0, 1, snapshot.probabilities.size + 1)
    np.testing.assert_array_equal([*buckets["low"], buckets["high"][-1]], snapshot.domain.from_unit(units))
    np.testing.assert_array_equal(buckets["low"][1:], buckets["high"][:-1])
    np.testing.assert_array_equal(buckets["probability"], snapshot.probabilities)
    assert list(buckets["bucket"]) == list(range(1, snapshot.probabilities.size + 1))
    if name == "old":
        assert {value for column in ("cdf_low", "bin", "density_high") for value in buckets[column]} == {None}
        return
    frame = snapshot.to_frame()
    for column in ("cdf", "cdf_low", "cdf_high"):
        np.testing.assert_array_equal(buckets[column], frame[column].to_numpy())
    bins = snapshot.readable_bins()
    for index, (start, end) in enumerate(zip(bins.edges, bins.edges[1:], strict=False), start=1):
        inside = np.array(buckets["bin"]) == index
        assert (buckets["low"][inside][0], buckets["high"][inside][-1]) == (start, end)
        assert set(buckets["density_low"][inside]) == {bins.low[index - 1]}
        assert set(buckets["density_high"][inside]) == {bins.high[index - 1]}
