"""A snapshot on its way to the page: every number survives, and records that are not snapshots are refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection
from hushgram.pipelines.formatting import NOTES, REASONS_IN_WORDS, notes, number, shown, warnings
from hushgram.pipelines.partial_windows import Cut
from hushgram.pipelines.view.data import check_snapshot, movement, pack, picture, series
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.records import REASONS, Pane
from tests.helpers.pages import AGE, COMMUTE, LATENCY, LOAD, make_estimate, unpack
from tests.helpers.reports import HOUR, START

COLLECTIONS = [COMMUTE, AGE, LATENCY, LOAD]


@pytest.fixture(scope="module")
def snapshots():
    return {collection.name: make_estimate(collection, reports=3000) for collection in COLLECTIONS}


arrays = st.lists(st.floats(), max_size=20).map(lambda values: np.array(values, dtype=np.float64))


@settings(max_examples=200, deadline=None)
@given(st.lists(arrays, max_size=5), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_packed_data_are_restored_bit_for_bit(parts, text, value):
    restored, stored_count = unpack(
        pack({"parts": parts, "again": parts, "text": text, "value": value, "nothing": None})
    )
    assert (restored["text"], restored["value"], restored["nothing"]) == (text, value, None)
    for restored_parts in (restored["parts"], restored["again"]):
        assert [part.tobytes() for part in restored_parts] == [part.tobytes() for part in parts]
    assert stored_count == sum(part.size for part in {part.tobytes(): part for part in parts}.values())


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda collection: collection.name)
def test_edges_are_those_of_the_estimate(collection, snapshots):
    snapshot = snapshots[collection.name]
    edges = picture(snapshot)["edges"]
    if snapshot.probabilities is None:
        assert edges is None
        return
    expected = collection.estimate(np.zeros(collection.mechanism.tally_length, dtype=np.int64)).edges
    assert edges.tolist() == expected.tolist()
    assert (np.diff(edges) > 0).all()
    margin = 0.5 if collection.integer else 0.0
    assert edges[0] == collection.low - margin
    assert edges[-1] == pytest.approx(collection.high + margin, rel=1e-12)


def test_edges_of_a_logarithmic_scale_grow_by_one_factor(snapshots):
    ratios = snapshots["latency"].edges[1:] / snapshots["latency"].edges[:-1]
    assert ratios == pytest.approx(np.full(ratios.size, 10_000 ** (1 / 128)))


@pytest.mark.parametrize("name", ["commute", "age", "latency"])
def test_the_drawn_curve_rises_from_zero_to_one_within_its_band(name, snapshots):
    data = picture(snapshots[name])
    curve = np.concatenate([[0.0], np.cumsum(data["probabilities"])])
    assert (np.diff(curve) >= 0).all()
    assert curve[-1] == pytest.approx(1)
    values = np.interp(data["cdf_points"], data["edges"], curve)
    assert (data["cdf_low"] <= values + 1e-9).all()
    assert (values <= data["cdf_high"] + 1e-9).all()


def test_a_series_has_every_number_of_its_windows_and_nan_for_missing_ones(snapshots):
    full, other = snapshots["commute"], replace(snapshots["commute"], quantiles=snapshots["commute"].quantiles[:3])
    mean_only = replace(full, quantiles=None, fit=None)
    data = series([full, other, mean_only])
    assert data["shares"] == [q.share for q in full.quantiles]
    for name in ("value", "low", "high"):
        matrix = data[name].reshape(3, -1)
        assert matrix[0].tolist() == [getattr(q, name) for q in full.quantiles]
        assert np.isfinite(matrix[1]).tolist() == [True] * 3 + [False] * 16
        assert np.isnan(matrix[2]).all()
    assert data["mean_low"].tolist() == [full.mean_low] * 3
    assert data["fit"][0] == full.fit
    assert np.isnan(data["fit"][2])


def test_movement_lists_each_pane():
    panes = [make_estimate(COMMUTE, reports=n, pane=Pane(0, i, "early")) for i, n in enumerate([1000, 2000])]
    data = movement(panes)
    assert data["reports"] == [1000, 2000]
    assert [pane["index"] for pane in data["panes"]] == [0, 1]


def make_record(**changes):
    return {**RECORD, **changes}


RECORD = make_estimate(Collection(name="c", low=1, high=2, buckets=4, epsilon=1), reports=50).to_avro()
WRONG = {
    "no collection": {"collection": 7},
    "a group that is a number": {"group": 7},
    "a window backwards": {"window_start": 5, "window_end": 5},
    "reports that are a text": {"reports": "many"},
    "reports that are a fraction": {"reports": 0.5},
    "a mean that is not a number": {"mean": float("nan")},
    "an infinite bound": {"high": float("inf")},
    "a domain without width": {"low": 2.0},
    "an unknown scale": {"scale": "quadratic"},
    "a logarithm of nothing": {"scale": "log", "low": 0.0},
    "a probability that is not a number": {"probabilities": [0.5, float("nan")]},
    "probabilities of an odd shape": {"probabilities": [[1.0]]},
    "no buckets": {"probabilities": []},
    "half a band": {"cdf_low": None},
    "a band of two lengths": {"cdf_low": [0.0]},
    "a quantile that is not finite": {"quantiles": [{"share": 0.5, "value": float("inf"), "low": 0.0, "high": 1.0}]},
    "a quantile of another kind": {"quantiles": [{"q": 0.5}]},
    "revisions that are not texts": {"revisions": [1]},
    "a time zone that is a number": {"time_zone": 7},
    "a heavy end that is not a number": {"heavy_low_end": float("nan")},
    "half a density": {"density_low": None},
    "bounds of another number of bins": {"density_edges": [1.0, 1.2, 1.4, 1.6, 2.0, 3.0]},
    "bins backwards": {"density_edges": [2.0, 1.0], "density_low": [0.0], "density_high": [1.0]},
    "a central ε that is not a number": {"central_epsilon": float("nan")},
    "a mechanism that is a number": {"mechanism": 7},
    "events before their window": {"first_event": START - 1, "last_event": START, "uploads": 2},
    "events behind their window": {"first_event": START, "last_event": START + HOUR, "uploads": 2},
    "events backwards": {"first_event": START + 2, "last_event": START + 1, "uploads": 2},
    "events without an upload": {"first_event": START, "last_event": START, "uploads": 0},
    "uploads that are a text": {"first_event": START, "last_event": START, "uploads": "many"},
    "a time that is a text": {"first_event": "early", "last_event": START, "uploads": 2},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_record_that_is_not_a_snapshot_is_refused_with_a_reason(changes):
    check_snapshot(make_record())
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        check_snapshot(make_record(**changes))


@pytest.mark.parametrize("name", [name for name in RECORD if name not in SNAPSHOT.added])
def test_a_record_without_one_of_its_fields_is_refused(name):
    with pytest.raises(ValueError, match="something else than a snapshot"):
        check_snapshot({key: value for key, value in RECORD.items() if key != name})


def test_a_record_of_the_first_version_is_accepted():
    first = check_snapshot({key: value for key, value in RECORD.items() if key not in SNAPSHOT.added})
    assert (first.events, first.heavy_low_end, first.heavy_high_end) == (None, None, None)


def test_every_warning_has_a_note():
    good = replace(make_estimate(COMMUTE, reports=3000), fit=0.5)
    assert notes(good) == []
    doubtful = replace(good, status="too_few", converged=False, fit=1e-9)
    assert warnings(doubtful) == ["too_few", "unsettled", "misfit"]
    assert notes(doubtful) == [NOTES[warning].short for warning in warnings(doubtful)]
    assert warnings(replace(good, status="no_reports")) == ["no_reports"]
    heavy = replace(good, heavy_low_end=0.974, heavy_high_end=1.0)
    assert warnings(heavy) == ["heavy_low", "heavy_high"]
    assert notes(heavy) == [
        "97 % of values seem to lie at the low end of the domain or beyond it: check the unit and the domain",
        "100 % of values seem to lie at the high end of the domain or beyond it: check the unit and the domain",
    ]
    assert set(warnings(heavy, Cut(1, 2))) <= set(NOTES)


def test_every_reason_has_a_description():
    assert set(REASONS_IN_WORDS) == set(REASONS)


def test_numbers_just_below_a_power_of_ten_are_rounded_like_their_neighbours():
    assert number(np.nextafter(1000, 0)) == "1,000.0"
    assert number(1000.0) == "1,000"


def test_control_and_direction_characters_in_names_are_replaced():
    assert shown("a\x1b[31m\u202eb\u2066\x00é") == "a�[31m�b��é"
