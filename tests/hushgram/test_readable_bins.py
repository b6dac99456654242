"""Bins that the reports support: the finest that are narrow, and bounds that hold whichever bins were taken."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hushgram import Collection, NotEstimableError, readable_bins
from hushgram.greatest_error import greatest_change
from hushgram.intervals import DENSITY_BINS
from hushgram.readable_bins import LENGTHS, NARROW, find_readable_bins


def draw_case(seed, count, noise):
    """Shares of bins that err as those of a wave do, neighbours in opposite directions, and sum to 1."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(count, count)) * np.sqrt(noise) / count
    mixing -= mixing.mean(axis=0)
    return rng.dirichlet(np.full(count, 0.7)), mixing @ mixing.T


def cuts(count):
    """All ways to cut bins into runs, as the bounds of the runs."""
    for mask in range(2 ** (count - 1)):
        yield [0, *(place for place in range(1, count) if mask >> (place - 1) & 1), count]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([0.001, 0.01, 0.1]))
def test_no_cut_into_narrow_runs_is_finer(seed, count, noise):
    shares, covariance = draw_case(seed, count, noise)
    bounds, low, high = find_readable_bins(shares, covariance, np.full(count, 1 / count), 0.95)
    curve = np.pad(np.cumsum(np.cumsum(covariance, axis=0), axis=1), (1, 0))
    z = greatest_change(curve, [length for length in LENGTHS if length < count] + [count], 0.95)

    def half(start, end):
        return z * np.sqrt(max(covariance[start:end, start:end].sum(), 0.0))

    def is_narrow(start, end):
        return half(start, end) <= NARROW * max(shares[start:end].sum(), (end - start) / count) + 1e-12

    def cost(cut):
        return sum((end - start) ** 2 for start, end in pairwise(cut))

    allowed = [
        cut
        for cut in cuts(count)
        if all(is_narrow(*run) and run[1] - run[0] in (*LENGTHS, count) for run in pairwise(cut)) or len(cut) == 2
    ]
    assert cost(bounds.tolist()) == min(map(cost, allowed))
    for run, below, above in zip(pairwise(bounds.tolist()), low, high, strict=True):
        share, error = shares[slice(*run)].sum(), half(*run)
        assert below == pytest.approx(max(share - error, 0.0), abs=1e-6)
        assert above == pytest.approx(min(share + error, 1.0), abs=1e-6)


@given(st.integers(0, 2**32), st.sampled_from([3, 16, 24, 64]), st.sampled_from([0.01, 0.1, 1.0]))
@settings(deadline=None, max_examples=40)
def test_mirrored_shares_have_mirrored_bins(seed, count, noise):
    """With the same quantile: its draws do not know of mirrors, and differ by their own error."""
    shares, covariance = draw_case(seed, count, noise)
    sizes = np.full(count, 1 / count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readable_bins, "greatest_change", lambda *_: 3.0)
        bounds, low, _ = find_readable_bins(shares, covariance, sizes, 0.95)
        mirrored, mirrored_low, _ = find_readable_bins(shares[::-1], covariance[::-1, ::-1], sizes, 0.95)
    assert mirrored.tolist() == (count - bounds[::-1]).tolist()
    np.testing.assert_allclose(mirrored_low, low[::-1], atol=1e-6)


@pytest.mark.parametrize("noise", [1e-5, 3e-4, 3e-3])
def test_bounds_hold_though_the_bins_were_chosen_by_the_same_errors(noise):
    """Of 400 draws, 5 % miss: more than 38 (9.5 %) do so by chance with odds of 1 in 10,000."""
    rng = np.random.default_rng(1)
    truth, size = rng.dirichlet(np.full(32, 3.0)), np.full(32, 1 / 32)
    covariance = noise * (np.eye(32) - 1 / 32)
    misses = 0
    for _ in range(400):
        errors = np.sqrt(noise) * rng.normal(size=32)
        bounds, low, high = find_readable_bins(truth + errors - errors.mean(), covariance, size, 0.95)
        true_shares = np.add.reduceat(truth, bounds[:-1])
        misses += bool(((true_shares < low - 1e-9) | (true_shares > high + 1e-9)).any())
    assert misses <= 38


def density(estimate, cdf):
    band = estimate.readable_bins()
    return band, np.diff(cdf(band.edges)) / np.diff(band.edges)


@pytest.mark.parametrize("estimator", ["ems", "log_spline"])
def test_no_two_bins_of_a_picture_contradict_the_truth(estimator):
    """Of 60 pictures, 5 % may: more than 9 do so by chance with odds of 1 in 1,000. More reports show more."""
    collection = Collection(name="c", low=0, high=1, buckets=64, epsilon=2.0, estimator=estimator)
    law = stats.beta(5, 2)
    shares = np.diff(law.cdf(np.linspace(0, 1, 65)))
    rng = np.random.default_rng(4)
    misses, shown = 0, []
    for reports in (500, 5000, 50_000):
        tallies = rng.multinomial(reports, collection.mechanism.forward(shares), size=20)
        counts = []
        for estimate in collection.estimate_many(list(tallies)):
            band, true_density = density(estimate, law.cdf)
            misses += bool(((true_density < band.low - 1e-9) | (true_density > band.high + 1e-9)).any())
            counts.append(band.low.size)
        shown.append(np.mean(counts))
    assert misses <= 9
    assert shown == sorted(shown)
    assert 1 <= shown[0] < 8 < shown[-1] <= 64


def test_bins_are_runs_of_whole_buckets_in_units_of_the_domain():
    for domain in ({"low": 1, "high": 1000, "scale": "log"}, {"low": 0, "high": 299, "integer": True}):
        collection = Collection(name="c", buckets=100, epsilon=2.0, **domain)
        values = collection.domain.from_unit(np.random.default_rng(1).beta(2, 5, 200_000))
        estimate = collection.estimate(collection.tally(collection.simulate(values, seed=1)))
        band = estimate.readable_bins()
        assert set(band.edges.tolist()) <= set(estimate.edges.tolist())
        assert 8 < band.low.size <= DENSITY_BINS
        assert (band.edges[0], band.edges[-1]) == (estimate.edges[0], estimate.edges[-1])
        assert (band.low >= 0).all()
        assert (band.low < band.high).all()
        assert band.low @ np.diff(band.edges) < 1 < band.high @ np.diff(band.edges)
        wider = estimate.readable_bins(level=0.99)
        assert wider.low.size <= band.low.size


def test_bins_are_no_finer_than_those_of_the_mechanism():
    collection = Collection(name="c", low=0, high=1, buckets=240, epsilon=4.0, mechanism="local_hashing", bins=16)
    values = np.random.default_rng(1).random(300_000)
    band = collection.estimate(collection.tally(collection.simulate(values, seed=1))).readable_bins()
    np.testing.assert_allclose(band.edges, np.linspace(0, 1, 17))


def test_without_reports_all_that_is_known_is_that_values_lie_in_the_domain():
    collection = Collection(name="c", low=0, high=180, buckets=64, epsilon=1.0)
    band = collection.estimate(collection.tally([])).readable_bins()
    assert [part.tolist() for part in band] == [[0.0, 180.0], [1 / 180], [1 / 180]]


def test_a_single_bucket_is_a_single_bin():
    assert find_readable_bins(np.ones(1), np.zeros((1, 1)), np.ones(1), 0.95)[0].tolist() == [0, 1]


def test_a_mean_alone_has_no_bins():
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, mechanism="piecewise")
    with pytest.raises(NotEstimableError):
        collection.estimate(collection.tally([])).readable_bins()
