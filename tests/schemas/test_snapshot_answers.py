"""A snapshot that was written and read back answers as the estimate did, and refuses questions beyond its content."""

import io
import pickle
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import fastavro
import numpy as np
import pytest
from uhi.typing.plottable import PlottableHistogram

from hushgram import Collection, NotEstimableError
from hushgram.quantile_shares import STANDARD_SHARES
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.records import Key, Pane, Snapshot
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.tallies import Tallies

DOMAINS = {
    "linear": {"low": 0, "high": 180, "unit": "minutes"},
    "log": {"low": 1, "high": 1000, "scale": "log"},
    "integer": {"low": 0, "high": 255, "integer": True},
    "mean only": {"low": 0, "high": 180, "mechanism": "piecewise"},
}


def _make_pair(domain):
    """An estimate, and its snapshot after a way through an Avro file."""
    c = Collection(name="commute", epsilon=1.0, buckets=256, **domain)
    counts = c.tally(c.simulate(c.domain.from_unit(np.random.default_rng(1).beta(2, 5, 5000)), seed=1))
    tallies = Tallies({c.revision: (5000, counts)})
    key = Key("commute", "DE", 1_700_000_000_000, 1_700_003_600_000)
    [original] = snapshots(c, [(key, Pane(), tallies)])
    file = io.BytesIO()
    fastavro.writer(file, SNAPSHOT.parsed, [original.to_avro()])
    file.seek(0)
    [record] = fastavro.reader(file)
    return c.estimate(counts), Snapshot.from_avro(record)


@pytest.fixture(scope="module", params=["linear", "log", "integer"])
def estimate_and_snapshot(request):
    return _make_pair(DOMAINS[request.param])


def test_the_domain_of_a_snapshot_is_that_of_the_estimate(estimate_and_snapshot):
    estimate, snapshot = estimate_and_snapshot
    assert snapshot.domain == estimate.domain


def test_a_snapshot_answers_from_its_probabilities_as_the_estimate_does(estimate_and_snapshot):
    estimate, snapshot = estimate_and_snapshot
    q = np.linspace(0, 1, 41)
    x = estimate.edges[::5]
    assert snapshot.quantile(q).tolist() == estimate.quantile(q).tolist()
    assert snapshot.cdf(x).tolist() == estimate.cdf(x).tolist()
    assert snapshot.probability(x[:-1], x[1:]).tolist() == estimate.probability(x[:-1], x[1:]).tolist()
    for name in ("mean", "variance", "std", "median", "reports", "fit_pvalue"):
        assert getattr(snapshot, name) == getattr(estimate, name), name
    for name in ("edges", "density", "probabilities"):
        assert getattr(snapshot, name).tolist() == getattr(estimate, name).tolist(), name
    assert snapshot.to_frame().equals(estimate.to_frame())
    assert snapshot.values().tolist() == estimate.values().tolist()
    assert snapshot.axes == estimate.axes


def test_a_snapshot_answers_with_the_intervals_that_it_holds(estimate_and_snapshot):
    estimate, snapshot = estimate_and_snapshot
    for statistic in ("mean", "variance", "std", "median"):
        assert snapshot.interval(statistic) == estimate.interval(statistic)
    assert [array.tolist() for array in snapshot.interval("quantile", STANDARD_SHARES)] == [
        array.tolist() for array in estimate.interval("quantile", STANDARD_SHARES)
    ]
    assert type(snapshot.interval("quantile", 0.25).low) is float
    assert snapshot.interval("quantile", 3 * 0.05) == estimate.interval("quantile", 0.15)
    assert snapshot.interval("quantile", []).low.shape == (0,)
    assert [array.tolist() for array in snapshot.band()] == [array.tolist() for array in estimate.band()]
    assert [part.tolist() for part in snapshot.readable_bins()] == [part.tolist() for part in estimate.readable_bins()]


def test_what_the_reports_support_is_spread_evenly_in_readable_bins(estimate_and_snapshot):
    for distribution in estimate_and_snapshot:
        edges, supported = distribution.readable_bins().edges, distribution.supported
        assert 1 < edges.size - 1 < supported.size
        assert np.isin(distribution.edges[1:-1][np.diff(supported) != 0], edges).all()
        below = np.searchsorted(distribution.edges, edges)
        for start, end in pairwise(below.tolist()):
            assert supported[start:end].sum() == pytest.approx(distribution.probabilities[start:end].sum())
        assert not supported.flags.writeable
    older = replace(estimate_and_snapshot[1], density_edges=None)
    assert older.supported.tolist() == older.probabilities.tolist()
    assert older._repr_html_().count("<path") == 4  # a curve without a band
    assert replace(older, probabilities=None).supported is None


def test_intervals_of_shares_come_from_the_band_and_hold_those_of_the_estimate(estimate_and_snapshot):
    estimate, snapshot = estimate_and_snapshot
    values = np.linspace(estimate.domain.low, estimate.domain.high, 7)
    questions = [("cdf", values), ("cdf", float(values[3])), ("probability", values[:-1], values[1:])]
    for question in questions:
        wide, narrow = snapshot.interval(*question), estimate.interval(*question)
        # At the ends of the domain the estimate's error is the root of a rounding error, and the snapshot's is none.
        assert (np.asarray(wide.low) <= np.asarray(narrow.low) + 1e-6).all()
        assert (np.asarray(wide.high) >= np.asarray(narrow.high) - 1e-6).all()
    assert snapshot.interval("cdf", estimate.domain.high) == (1.0, 1.0)
    assert snapshot.heavy_ends == estimate.heavy_ends


def test_a_snapshot_does_not_invent_intervals(estimate_and_snapshot):
    _, snapshot = estimate_and_snapshot
    for question, message in [
        (lambda: snapshot.interval("quantile", 0.42), "no interval of the quantile 0.42, only of: 0.05, 0.1, "),
        (lambda: snapshot.interval("quantile", [0.5, 0.999]), "no interval of the quantile 0.999"),
        (lambda: replace(snapshot, cdf_low=None).interval("cdf", 30), "no band"),
        (lambda: snapshot.interval("mean", level=0.9), "at 95% only, not at 0.9"),
        (lambda: snapshot.band(0.99), "at 95% only, not at 0.99"),
        (lambda: replace(snapshot, cdf_points=None).band(), "no band"),
        (lambda: snapshot.readable_bins(0.99), "at 95% only, not at 0.99"),
        (lambda: replace(snapshot, density_edges=None).readable_bins(), "no bounds of its density"),
        (lambda: replace(snapshot, quantiles=()).interval("median"), "quantile 0.5, only of: none"),
        (lambda: replace(snapshot, variance_low=None).interval("std"), "no interval of the variance"),
    ]:
        with pytest.raises(NotEstimableError, match=message):
            question()
    assert snapshot.variances() is None
    assert snapshot.counts() is None
    with pytest.raises(ValueError, match="q must be from 0 to 1"):
        snapshot.interval("quantile", 2)
    with pytest.raises(ValueError, match="scale: got 'cubic', allowed: linear, log"):
        replace(snapshot, scale="cubic").domain  # noqa: B018


def test_a_snapshot_of_a_mean_answers_with_the_mean():
    estimate, snapshot = _make_pair(DOMAINS["mean only"])
    assert snapshot.mean == estimate.mean
    assert snapshot.interval("mean") == estimate.interval("mean")
    assert isinstance(snapshot, PlottableHistogram)
    for question in (
        snapshot.band,
        snapshot.readable_bins,
        snapshot.to_frame,
        lambda: snapshot.std,
        lambda: snapshot.interval("variance"),
    ):
        with pytest.raises(NotEstimableError, match="a mean only"):
            question()
    assert "mean=" in repr(snapshot)


def test_arrays_of_a_snapshot_are_read_only(estimate_and_snapshot):
    for snapshot in (
        estimate_and_snapshot[1],
        pickle.loads(pickle.dumps(estimate_and_snapshot[1])),
        replace(estimate_and_snapshot[1], reports=7),
    ):
        for array in (snapshot.probabilities, snapshot.edges, *snapshot.band(), *snapshot.readable_bins()):
            assert not array.flags.writeable


def test_a_snapshot_is_shown_with_its_window(estimate_and_snapshot):
    _, snapshot = estimate_and_snapshot
    hostile = replace(snapshot, key=replace(snapshot.key, collection="<script>", group="\0&", window_start=-(2**62)))
    assert repr(snapshot).startswith("Snapshot(collection='commute', group='DE', window_start=2023-11-14T22:13:20, ")
    caption = ET.fromstring(snapshot._repr_html_()).find("figcaption").text
    assert "commute · group DE · 2023-11-14T22:13:20 to 2023-11-14T23:13:20 UTC · mean" in caption
    assert "<script> · group \ufffd&" in ET.fromstring(hostile._repr_html_()).find("figcaption").text


def _move(snapshot, **key):
    return replace(snapshot, key=replace(snapshot.key, **key))


def test_snapshots_are_compared_by_the_intervals_that_they_hold(estimate_and_snapshot):
    estimate, snapshot = estimate_and_snapshot
    other = _move(snapshot, group="FR")
    stored, own = snapshot.compare(other), estimate.compare(estimate)
    assert stored.pvalue is None
    assert stored.mean == own.mean
    assert stored.std == own.std
    assert np.array_equal(stored.quantile(STANDARD_SHARES), own.quantile(STANDARD_SHARES))
    assert all(map(np.array_equal, stored.curve(), own.curve()))
    assert snapshot.compare(other, growing=True).median.high > stored.median.high
    early = replace(other, pane=Pane(timing="early"))
    assert snapshot.compare(early).median == snapshot.compare(other, growing=True).median
    assert snapshot.compare(early, growing=False).median == stored.median
    with pytest.raises(NotEstimableError, match="at 95% only"):
        _ = snapshot.compare(other, level=0.9).mean


def test_snapshots_with_reports_in_common_are_not_compared(estimate_and_snapshot):
    _, snapshot = estimate_and_snapshot
    hour = snapshot.key.window_end - snapshot.key.window_start
    total = _move(snapshot, group=None)
    for pair in ((snapshot, total), (total, snapshot)):
        with pytest.raises(ValueError, match="the reports of 'DE' are among all: compare it with the other groups"):
            pair[0].compare(pair[1])
    with pytest.raises(ValueError, match="both are one window"):
        snapshot.compare(snapshot)
    overlapping = _move(
        snapshot, window_start=snapshot.key.window_start + hour // 2, window_end=snapshot.key.window_end + hour // 2
    )
    with pytest.raises(ValueError, match="their windows overlap"):
        snapshot.compare(overlapping)
    after = _move(total, window_start=snapshot.key.window_end, window_end=snapshot.key.window_end + hour)
    assert snapshot.compare(after).mean.value == 0
    assert snapshot.compare(_move(snapshot, collection="other")).mean.value == 0


def test_values_at_the_low_end_are_within_the_stored_bounds_for_any_shape():
    """All devices have the lowest value: the distribution function is 1 there already."""
    c = Collection(name="commute", epsilon=1.0, buckets=64, low=0, high=180, intervals="any_shape")
    counts = c.tally(c.simulate(np.zeros(20_000), seed=1))
    [snapshot] = snapshots(c, [(Key("commute", None, 0, 3_600_000), Pane(), Tallies({c.revision: (20_000, counts)}))])
    assert snapshot.intervals == "any_shape"
    assert snapshot.interval("cdf", 0.0).high == 1.0
