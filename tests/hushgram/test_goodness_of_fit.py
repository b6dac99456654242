"""Goodness of fit: silent on honest reports, loud on others."""

import numpy as np
import pytest
from scipy import stats

from hushgram import Collection
from hushgram.estimators.em import Part, maximize
from hushgram.estimators.ems import FIT_ITERATIONS, fits
from hushgram.estimators.goodness_of_fit import CLEAR, LEAST_EXPECTED, pearson, pool
from hushgram.estimators.uncertainty import coarsened, light_fits
from hushgram.mechanisms import SquareWave

KINDS = ["square_wave", "square_wave_continuous", "general_wave", "randomized_response", "local_hashing", "hierarchy"]


def _compute_p_values(kind, runs, device_epsilon=1.0, reports=20_000):
    c = Collection(name="c", low=0, high=1, buckets=64, epsilon=1.0, mechanism=kind)
    device = Collection(name="c", low=0, high=1, buckets=64, epsilon=device_epsilon, mechanism=kind)
    rng = np.random.default_rng(1)
    cells = [device.simulate(rng.beta(5, 2, reports), rng) for _ in range(runs)]
    return np.array([e.fit_pvalue for e in c.estimate_many([c.tally(sample) for sample in cells])])


@pytest.mark.parametrize("kind", KINDS)
def test_the_fit_test_passes_honest_reports(kind):
    # The test is conservative: of 100 honest windows, 6 or more below 0.01 has probability less than 6e-4.
    assert (_compute_p_values(kind, 100) < 0.01).sum() <= 5


@pytest.mark.parametrize("kind", ["randomized_response", "local_hashing", "hierarchy"])
def test_the_fit_test_passes_honest_reports_about_many_values(kind):
    c = Collection(name="c", low=0, high=1, buckets=1024, epsilon=1.0, mechanism=kind)
    rng = np.random.default_rng(1)
    estimates = c.estimate_many([c.tally(c.simulate(rng.beta(5, 2, 100_000), rng)) for _ in range(10)])
    assert min(e.fit_pvalue for e in estimates) > 1e-3


def test_both_tree_estimators_test_the_same_tree():
    options = {"name": "c", "low": 0, "high": 1, "buckets": 64, "epsilon": 1.0, "mechanism": "hierarchy"}
    kinds = [Collection(**options, estimator=estimator) for estimator in ("hh", "hh_admm")]
    cells = kinds[0].simulate(np.random.default_rng(1).beta(5, 2, 20_000), seed=1)
    fits = [kind.estimate(kind.tally(cells)).fit_pvalue for kind in kinds]
    assert fits[0] == fits[1] > 0.01
    poisoned = np.concatenate([cells, np.full(300, kinds[0].mechanism.cells - 1)])
    assert kinds[0].estimate(kinds[0].tally(poisoned)).fit_pvalue < 1e-9


def test_the_fit_test_passes_spiky_data():
    c = Collection(name="c", low=0, high=1, buckets=256, epsilon=4.0)
    values = np.random.default_rng(1).choice([0.1, 0.25, 0.5, 0.75], 300_000)
    assert c.estimate(c.tally(c.simulate(values, seed=2))).fit_pvalue > 1e-3


@pytest.mark.parametrize("kind", ["square_wave", "square_wave_continuous"])
def test_the_fit_test_detects_reports_of_another_law(kind):
    c = Collection(name="c", low=0, high=1, buckets=64, epsilon=1.0, mechanism=kind)
    rng = np.random.default_rng(1)
    uniform_noise = rng.integers(0, c.mechanism.cells, 20_000)
    poisoned = np.concatenate([c.simulate(rng.beta(5, 2, 20_000), rng), np.full(400, 3)])
    assert c.estimate(c.tally(uniform_noise)).fit_pvalue < 1e-4
    assert c.estimate(c.tally(poisoned)).fit_pvalue < 1e-6


def test_the_fit_test_detects_a_larger_epsilon_than_declared():
    # Clients at ε = 4 put more into their band than any distribution could through ε = 1.
    c = Collection(name="c", low=0, high=1, buckets=64, epsilon=1.0, bandwidth=0.1)
    device = Collection(name="c", low=0, high=1, buckets=64, epsilon=4.0, bandwidth=0.1)
    cells = device.simulate(np.full(20_000, 0.3), seed=1)
    assert c.estimate(c.tally(cells)).fit_pvalue < 1e-9


def test_a_clear_fit_is_tested_as_it_is_and_another_after_more_steps():
    """Each window by itself, whatever is beside it. A spike shows where the lightly smoothed fit is too smooth."""
    wave = SquareWave(256, 4.0)
    rng = np.random.default_rng(3)
    values = [rng.beta(5, 2, 100_000), rng.choice([0.1, 0.25, 0.5, 0.75], 300_000), rng.beta(2, 5, 100_000)]
    part = Part(wave, np.stack([wave.tally(wave.perturb_many(wave.locate(row), rng)) for row in values]) * 1.0)
    estimates = maximize([part], smoothing=1.0).x
    [near] = [coarse.mechanism.forward(light_fits([part])) for coarse in coarsened([part])]
    pvalues = fits([part], [near], estimates)
    plain = [pearson([(near[row], part.counts[row])]) for row in range(3)]
    closer = maximize([part], smoothing=0.0, tolerance=0.0, max_iterations=FIT_ITERATIONS, start=estimates).x
    assert plain[1] < CLEAR < min(plain[0], plain[2])
    assert pvalues == [plain[0], pearson([(wave.forward(closer[1]), part.counts[1])]), plain[2]]
    assert pvalues[1] > 1e-3
    for row in range(3):
        one = slice(row, row + 1)
        assert fits([Part(wave, part.counts[one])], [near[one]], estimates[one]) == [pvalues[row]]


def test_pearson_is_the_textbook_one_where_nothing_is_pooled():
    expected, counts = np.array([0.2, 0.3, 0.5]), np.array([25, 28, 47])
    assert pearson([(expected, counts)]) == pytest.approx(stats.chisquare(counts, 100 * expected).pvalue)
    assert pearson([(np.array([1.0]), np.array([10]))]) is None


def test_pools_hold_all_reports_and_enough_of_them():
    rng = np.random.default_rng(1)
    for size in (1, 2, 50):
        expected, counts = rng.random(size) * 4, rng.integers(0, 5, size)
        pooled, actual = pool(expected, counts)
        assert pooled.sum() == pytest.approx(expected.sum())
        assert actual.sum() == counts.sum()
        assert pooled.size == 1 or pooled.min() >= LEAST_EXPECTED
