"""Values at the ends of the domain: heavy where they are clipped, plausible where a distribution merely leans there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets import SMOOTH, SPIKY
from hushgram import Collection
from hushgram.estimators.em import Part
from hushgram.estimators.strips import least_squares
from hushgram.heavy_ends import find_heavy_ends_of_values, plausible_excess, strip_bounds, strip_width

MECHANISMS = {
    "square_wave": {"buckets": 256},
    "square_wave, em": {"buckets": 256, "estimator": "em"},
    "square_wave, 16 buckets": {"buckets": 16},
    "square_wave_continuous": {"buckets": 128},
    "general_wave": {"buckets": 128},
    "hierarchy": {"buckets": 64},
    "hierarchy, hh": {"buckets": 64, "estimator": "hh"},
    "haar": {"buckets": 64},
    "randomized_response": {"buckets": 64, "bins": 16},
    "local_hashing": {"buckets": 64},
    "seeded_hashing": {"buckets": 64},
}
REPORTS, WINDOWS = 20_000, 4


def make_collection(mechanism, **options):
    return Collection(name="c", low=0, high=1, epsilon=2.0, mechanism=mechanism.partition(",")[0], **options)


def find_ends(collection, values, seed=5):
    return collection.estimate(collection.tally(collection.simulate(values, seed))).heavy_ends


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_honest_shape_has_a_heavy_end(mechanism):
    """The steepest of them, income, is more than three standard errors below the limit, and four above it are heavy:
    less than 1e-11 for each of 2 ends, 6 shapes and 4 windows."""
    collection = make_collection(mechanism, **MECHANISMS[mechanism])
    rng = np.random.default_rng(3)
    reports, windows = (4000, 2) if mechanism == "seeded_hashing" else (REPORTS, WINDOWS)
    tallies = []
    for shape in {**SMOOTH, **SPIKY}.values():
        for _ in range(windows):
            values = (rng.choice(1024, reports, p=shape(1024)) + rng.random(reports)) / 1024
            tallies.append(collection.tally(collection.simulate(values, rng)))
    assert {estimate.heavy_ends for estimate in collection.estimate_many(tallies)} == {(None, None)}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("end", [0, 1])
def test_values_beyond_an_end_are_noticed_there(mechanism, end):
    """The difference of the strips is at least ten standard errors above the limit, and four are enough: less than 1e-8
    for each mechanism."""
    collection = make_collection(mechanism, **MECHANISMS[mechanism])
    heavy_ends = find_ends(collection, np.full(REPORTS, 1000.0 if end else -3.0))
    assert heavy_ends[1 - end] is None
    assert heavy_ends[end] > 0.85


def test_most_values_beyond_an_end_are_noticed():
    """Uniform up to 2.5 times the domain: 60 % are clipped. Below the limit by chance: less than 1e-6."""
    collection = Collection(name="c", low=0, high=1, epsilon=1.0)
    low, high = find_ends(collection, np.random.default_rng(1).random(100_000) * 2.5)
    assert low is None
    assert high == pytest.approx(0.65, abs=0.06)


@pytest.mark.parametrize("buckets", [2, 3, 4, 8])
def test_few_buckets_are_not_heavy_because_each_holds_much(buckets):
    """Of shapes up to an exponential distribution with a mean of a tenth of the domain. The limit is far: 1e-9."""
    collection = Collection(name="c", low=0, high=1, epsilon=2.0, buckets=buckets)
    rng = np.random.default_rng(2)
    for values in (rng.random(50_000), rng.beta(1, 5, 50_000), rng.exponential(0.1, 50_000)):
        assert find_ends(collection, values) == (None, None)
        assert find_ends(collection, 1 - values) == (None, None)


def test_a_few_buckets_are_heavy_where_all_is_in_the_last():
    """The end is at 1 ± 0.003, its neighbour at 0 ± 0.004, the limit 0.84."""
    collection = Collection(name="c", low=0, high=1, epsilon=4.0, buckets=8)
    assert find_ends(collection, np.full(50_000, 7.0)) == (None, pytest.approx(1.0, abs=0.02))


SECONDS = np.random.default_rng(4).gamma(4, 0.3, 50_000)
UNITS = {
    "milliseconds": {"low": 0, "high": 10_000},
    "whole milliseconds": {"low": 0, "high": 9_999, "integer": True, "buckets": 1000},
    "milliseconds on a log scale": {"low": 1, "high": 10_000, "scale": "log"},
    "hours": {"low": 0, "high": 0.0001},
}


@pytest.mark.parametrize("unit", UNITS)
def test_seconds_sent_to_a_collection_of_another_unit_are_noticed(unit):
    """Nearly all lie in an outermost strip; 1e-6 each that the noise hides it."""
    collection = Collection(name="c", epsilon=1.0, **UNITS[unit])
    heavy_ends = find_ends(collection, SECONDS)
    heavy = 1 if unit == "hours" else 0
    assert (heavy_ends[heavy] or 0) > 0.85, heavy_ends
    assert heavy_ends[1 - heavy] is None
    matching = Collection(name="c", low=0.1, high=10, epsilon=1.0, scale="log" if "log" in unit else "linear")
    assert find_ends(matching, SECONDS) == (None, None)


def test_reports_of_two_revisions_are_judged_together():
    """Neither has enough reports alone."""
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, previous=[{"epsilon": 1.2}])
    tallies = {
        revision: part.tally(part.simulate(np.full(3000, 9.0), seed=index))
        for index, (revision, part) in enumerate(collection.revisions.items())
    }
    assert collection.estimate(tallies).heavy_ends[1] > 0.85
    for revision, tally in tallies.items():
        assert collection.estimate({revision: tally}).reports == 3000


def test_a_mean_only_mechanism_and_an_empty_tally_have_no_heavy_ends():
    mean = Collection(name="c", low=0, high=1, epsilon=1.0, mechanism="piecewise")
    assert find_ends(mean, np.ones(5000)) == (None, None)
    wave = Collection(name="c", low=0, high=1, epsilon=1.0)
    assert wave.estimate(wave.tally([])).heavy_ends == (None, None)


def test_the_standard_errors_of_the_fit_without_smoothing_are_right():
    """Its errors over 400 windows, in their own standard errors, vary by 1 ± 0.035; and their mean is 0 ± 0.05."""
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=64)
    rng = np.random.default_rng(8)
    counts = np.stack([collection.tally(collection.simulate(rng.random(2000), rng)) for _ in range(400)])
    laws = least_squares([Part(collection.mechanism, counts.astype(float))])
    errors = np.array([(law.centre - 1 / 16) / np.sqrt(np.diag(law.covariance)) for law in laws])
    assert errors.std(axis=0) == pytest.approx(np.ones(16), abs=0.2)
    assert errors.mean(axis=0) == pytest.approx(np.zeros(16), abs=0.25)


def test_a_tiny_epsilon_reports_no_heavy_end():
    collection = Collection(name="c", low=0, high=1, epsilon=1e-6, mechanism="general_wave", buckets=64)
    assert find_ends(collection, np.zeros(5000)) == (None, None)


@given(st.integers(2, 5000))
def test_strips_lie_alike_from_either_end(buckets):
    bounds, width = strip_bounds(buckets), strip_width(buckets)
    assert (bounds[0], bounds[-1]) == (0, buckets)
    assert (np.diff(bounds) > 0).all()
    assert (buckets - bounds[::-1]).tolist() == bounds.tolist()
    assert bounds[1] == width
    assert width / buckets <= max(1 / buckets, 2 / 16)


def test_heavy_ends_of_known_values_have_the_same_limit():
    assert find_heavy_ends_of_values(np.random.default_rng(1).random(1000)) == (None, None)
    assert find_heavy_ends_of_values(np.zeros(10)) == (1.0, None)
    assert find_heavy_ends_of_values(np.array([0.5, 0.5, 1.0, 1.0, 1.0])) == (None, 0.6)
    assert find_heavy_ends_of_values(np.array([0.5, 0.5, 0.0, 0.5])) == (None, None)
    assert find_heavy_ends_of_values(np.zeros(0)) == (None, None)
    assert plausible_excess(1 / 16) == pytest.approx(0.51, abs=0.01)
    assert plausible_excess(1 / 4) > 0.98
