"""Simulated collections: tallies drawn at once follow the law of devices one by one."""

import numpy as np
import pytest
from scipy import stats

from hushgram import Collection
from hushgram.simulation import METRICS, Summary, draw_tally, regroup, simulate_tally

TRUTH = np.arange(1, 65) / np.arange(1, 65).sum()

COLLECTIONS = [
    Collection(name="c", low=-3, high=5, buckets=64, epsilon=1.0, **options)
    for options in (
        {"mechanism": "square_wave"},
        {"mechanism": "square_wave_continuous"},
        {"mechanism": "general_wave"},
        {"mechanism": "randomized_response", "bins": 16},
        {"mechanism": "local_hashing"},
        {"mechanism": "hierarchy"},
        {"mechanism": "haar"},
        {"mechanism": "stochastic_rounding"},
        {"mechanism": "piecewise"},
    )
]


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda c: c.mechanism.name)
def test_both_ways_of_drawing_follow_the_mechanisms_law(collection):
    """Pearson's test of each; 18 tests at 1e-5 fail by chance once in 5,000 choices of the seed."""
    mechanism = collection.mechanism
    expected = 400_000 * mechanism.forward(regroup(TRUTH, mechanism.buckets))
    population = np.random.default_rng(1).multinomial(400_000, TRUTH)
    for tally in (
        draw_tally(collection, TRUTH, 400_000, np.random.default_rng(2)),
        simulate_tally(collection, population, np.random.default_rng(3)),
    ):
        assert tally.sum() == 400_000
        frequent = expected >= 5
        statistic = ((tally - expected)[frequent] ** 2 / expected[frequent]).sum()
        assert stats.chi2.sf(statistic, max(int(frequent.sum()) - 1, 1)) > 1e-5


def test_a_tally_of_support_cannot_be_drawn():
    seeded = Collection(name="c", low=0, high=1, buckets=64, epsilon=1.0, mechanism="seeded_hashing")
    with pytest.raises(ValueError, match="seeded_hashing keeps no histogram"):
        draw_tally(seeded, TRUTH, 10, np.random.default_rng(1))


def test_a_simulated_tally_keeps_its_population_exactly():
    """At the largest ε randomized response is all but the truth: the chance of one other report is 1e-5."""
    collection = Collection(name="c", low=0, high=1, buckets=8, epsilon=20.0, mechanism="randomized_response")
    population = np.array([5, 0, 3, 100, 1, 0, 0, 7])
    assert simulate_tally(collection, population, np.random.default_rng(1)).tolist() == population.tolist()


def test_every_metric_is_zero_on_the_truth_and_not_elsewhere():
    for name, metric in METRICS.items():
        assert metric(TRUTH, TRUTH) == 0, name
        assert metric(TRUTH, TRUTH[::-1]) > 0.01 or name == "variance", name


def test_a_summary_of_one_run_has_no_standard_error():
    assert np.isnan(Summary.of([1.0]).error)


def test_regrouping_keeps_the_distribution_function():
    fine = regroup(TRUTH, 640)
    assert np.allclose(regroup(fine, 64), TRUTH)
    assert np.allclose(np.cumsum(regroup(TRUTH, 16)), np.cumsum(TRUTH)[3::4])
