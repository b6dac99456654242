"""How far a window's results can be trusted: bounds that hold for every revision of it, and cost little."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram import Collection
from hushgram.schemas.records import Key, Pane
from hushgram.transforms import trust
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.tallies import Tallies
from tests.helpers.tables import MEAN, WAVE, make_snapshot

COMMUTE = Collection(name="c", low=0, high=180, buckets=16, epsilon=1, previous=[{"epsilon": 2.0}])
NOW, BEFORE = COMMUTE.revisions


@given(st.integers(1, 10**12))
def test_reports_are_rounded_down_to_few_digits(reports):
    rounded = trust.round_down(reports)
    assert 0.9 * reports < rounded <= reports
    assert str(rounded)[trust.DIGITS :].strip("0") == ""
    assert trust.round_down(rounded) == rounded


@pytest.mark.parametrize("reports", [3, 99, 1999, 12_345])
def test_the_central_epsilon_is_an_upper_bound_close_to_the_exact_one(reports):
    exact = COMMUTE.central_epsilon(reports, trust.DELTA)
    assert exact <= trust.central_epsilon(COMMUTE, {NOW: reports}) <= 1.06 * exact


def test_the_worst_revision_of_a_window_counts():
    both = trust.central_epsilon(COMMUTE, {NOW: 50_000, BEFORE: 100})
    assert both == COMMUTE.revisions[BEFORE].central_epsilon(100, trust.DELTA)
    assert trust.central_epsilon(COMMUTE, {NOW: 50_000, BEFORE: 0}) == COMMUTE.central_epsilon(50_000, trust.DELTA)
    assert trust.lying_bound(COMMUTE, {NOW: 1, BEFORE: 1}) == COMMUTE.lying_bound(trust.LIARS)
    assert trust.lying_bound(COMMUTE, {BEFORE: 1}) == COMMUTE.revisions[BEFORE].lying_bound(trust.LIARS)


def test_nothing_is_said_without_reports_or_where_it_is_not_known():
    assert trust.central_epsilon(COMMUTE, {}) is trust.lying_bound(COMMUTE, {NOW: 0}) is None
    assert trust.lying_bound(MEAN, {MEAN.revision: 5}) is None


def test_windows_with_about_as_many_reports_share_an_answer(monkeypatch):
    asked = []
    monkeypatch.setattr(Collection, "central_epsilon", lambda self, reports, delta: asked.append(reports) or 0.5)
    trust._central_epsilon.cache_clear()
    try:
        for reports in range(10_000, 11_000, 7):
            assert trust.central_epsilon(COMMUTE, {NOW: reports}) == 0.5
    finally:
        trust._central_epsilon.cache_clear()
    assert asked == [10_000]


def test_a_snapshot_says_how_far_it_can_be_trusted():
    snapshot = make_snapshot(WAVE, reports=1000)
    assert snapshot.central_epsilon == WAVE.central_epsilon(1000)
    assert snapshot.lying_bound == WAVE.lying_bound(0.01)
    assert (snapshot.epsilon, snapshot.mechanism, snapshot.intervals) == (1.0, "square_wave", "smooth")
    assert snapshot.readable_bins().edges[0] == 0.0
    assert make_snapshot(replace(WAVE, mechanism="hierarchy", estimator="hh_admm")).intervals == "unsmoothed"
    mean = make_snapshot(MEAN)
    assert (mean.density_edges, mean.intervals, mean.lying_bound) == (None, None, None)
    assert (mean.mechanism, mean.central_epsilon) == ("piecewise", MEAN.central_epsilon(1000))
    empty = make_snapshot(WAVE, reports=0)
    assert (empty.central_epsilon, empty.lying_bound, empty.density_edges.tolist()) == (None, None, [0.0, 180.0])


def test_the_mechanism_is_that_of_current_devices_also_where_all_reports_are_older():
    counts = COMMUTE.revisions[BEFORE].tally(np.zeros(50, dtype=np.int64))
    window = (Key("c", None, 0, 1), Pane(), Tallies({BEFORE: (50, counts)}))
    [snapshot] = snapshots(COMMUTE, [window])
    assert (snapshot.epsilon, snapshot.lying_bound) == (1.0, COMMUTE.revisions[BEFORE].lying_bound(0.01))


@pytest.mark.parametrize("kind", ["smooth", "any_shape"])
def test_a_snapshot_has_the_intervals_of_its_collection_and_says_what_they_assume(kind):
    collection = replace(WAVE, intervals=kind)
    tally = collection.tally(collection.simulate(np.full(5000, collection.low), seed=1))
    key, tallies = Key(collection.name, None, 0, 3_600_000), Tallies({collection.revision: (5000, tally)})
    [snapshot] = snapshots(collection, [(key, Pane(), tallies)])
    estimate = collection.estimate(tally)
    assert snapshot.intervals == kind
    assert snapshot.interval("mean") == estimate.interval("mean")
    assert snapshot.interval("quantile", 0.5) == estimate.interval("quantile", 0.5)
    for stored, own in ((snapshot.band(), estimate.band()), (snapshot.readable_bins(), estimate.readable_bins())):
        for one, other in zip(stored, own, strict=True):
            np.testing.assert_array_equal(one, other)
