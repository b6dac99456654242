"""Mechanisms that estimate a mean, and the variance by two phases."""

import numpy as np
import pytest

from benchmarks.paper.two_phase import second_phase, simulate_variance, squared_distances
from hushgram import Collection, NotEstimableError
from hushgram.mechanisms import Piecewise, StochasticRounding
from hushgram.mechanisms.mean_only import LEAST_CELLS
from tests.helpers.exact import compute_exact_law


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_stochastic_rounding_is_unbiased_at_every_position(epsilon):
    mechanism = StochasticRounding(4, epsilon, bits=4, grid_steps=10)
    values = mechanism.cell_values()
    for position in range(11):
        law = compute_exact_law(lambda below, at=position: mechanism.perturb(at, below))
        assert sum(float(p) * values[cell] for cell, p in law.items()) == pytest.approx(position / 10)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_piecewise_is_unbiased_up_to_the_width_of_a_cell(epsilon):
    mechanism = Piecewise(4, epsilon, output_buckets=40, bits=4, grid_steps=200)
    values = mechanism.cell_values()
    width = values[1] - values[0]
    for position in range(0, mechanism.positions, 25):
        law = compute_exact_law(lambda below, at=position: mechanism.perturb(at, below))
        mean = sum(float(p) * values[cell] for cell, p in law.items())
        assert mean == pytest.approx(position / mechanism.wave.grid.domain, abs=0.13 * width)


def test_piecewise_has_the_papers_shape():
    for epsilon in (0.5, 1.0, 4.0):
        wave, root = Piecewise(4, epsilon).wave, np.exp(epsilon / 2)
        # On [-s, s] with s = (√e^ε + 1)/(√e^ε - 1), the favoured interval has length 2/(√e^ε - 1).
        favoured = wave.grid.plateau / (wave.cells * wave.grid.cell)
        assert favoured == pytest.approx((2 / (root - 1)) / (2 * (root + 1) / (root - 1)), rel=1e-5)
        # cell_values maps the output's ends to (-s and s) on the scale where values run over [-1, 1].
        ends = 2 * Piecewise(4, epsilon).cell_values()[[0, -1]] - 1
        s = (root + 1) / (root - 1)
        assert ends == pytest.approx([-s, s], rel=2e-3)


@pytest.mark.parametrize("mechanism", ["stochastic_rounding", "piecewise"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_means_are_covered_in_the_collections_units(mechanism, epsilon):
    # 400 intervals at 95 %: fewer than 360 cover with probability below 1e-4.
    c = Collection(name="c", low=-20, high=60, epsilon=epsilon, mechanism=mechanism)
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        e = c.estimate(c.tally(c.simulate(-20 + 80 * rng.beta(5, 2, 3000), rng)))
        low, high = e.interval("mean")
        covered += low <= -20 + 80 * 5 / 7 <= high
    assert 360 <= covered <= 400


def test_mean_only_mechanisms_refuse_a_distribution():
    c = Collection(name="c", low=0, high=10, epsilon=1, mechanism="piecewise")
    e = c.estimate(c.tally(c.simulate([4.0] * 2000, seed=1)))
    assert e.probabilities is None
    assert "mean=" in repr(e)
    questions = [lambda: e.quantile(0.5), lambda: e.cdf(3), lambda: e.variance, lambda: e.interval("cdf", 3), e.band]
    for question in (*questions, lambda: e.interval("variance"), lambda: e.interval("quantile", 0.5)):
        with pytest.raises(NotEstimableError, match="mean only"):
            question()
    assert e.fit_pvalue is None


@pytest.mark.parametrize("mechanism", ["stochastic_rounding", "piecewise"])
def test_a_mean_of_whole_numbers_stays_within_them(mechanism):
    c = Collection(name="c", low=0, high=15, epsilon=1, mechanism=mechanism, integer=True)
    for values in ([0] * 3, [15] * 3, []):
        e = c.estimate(c.tally(c.simulate(values, seed=1)))
        assert 0 <= e.interval("mean")[0] <= e.mean <= e.interval("mean")[1] <= 15


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0, 20.0])
def test_the_least_cells_keep_the_bias_of_piecewise_small(epsilon):
    mechanism = Piecewise(512, epsilon, LEAST_CELLS)
    means = np.stack([mechanism.forward(row) for row in np.eye(512)]) @ mechanism.cell_values()
    bias = np.abs(means - (np.arange(512) + 0.5) / 512).max()
    assert bias < (0.001 if epsilon <= 8 else 0.003)


@pytest.mark.parametrize("mechanism", ["stochastic_rounding", "piecewise"])
def test_two_revisions_are_weighted_by_precision(mechanism):
    c = Collection(name="c", low=0, high=1, epsilon=1.0, mechanism=mechanism, previous=[{"epsilon": 4.0}])
    sharp = list(c.revisions)[1]
    values = np.random.default_rng(1).beta(5, 2, 20_000)
    tallies = {
        c.revision: c.tally(c.simulate(values, seed=1)),
        sharp: c.revisions[sharp].tally(c.revisions[sharp].simulate(values, seed=2)),
    }
    both, alone = c.estimate(tallies), c.estimate({sharp: tallies[sharp]})
    assert np.diff(both.interval("mean")) < np.diff(alone.interval("mean"))
    assert both.mean == pytest.approx(values.mean(), abs=0.02)


@pytest.mark.parametrize("mechanism", ["stochastic_rounding", "piecewise"])
def test_the_variance_by_two_phases(mechanism):
    # Over 60 runs the mean of the estimates is within 5 standard errors of the truth: once in a million by chance.
    c = Collection(name="c", low=0, high=180, epsilon=2.0, mechanism=mechanism)
    rng = np.random.default_rng(3)
    values = 180 * rng.beta(5, 2, 20_000)
    runs = np.array([simulate_variance(c, values, rng) for _ in range(60)])
    # The first phase's own error adds its variance to what the second one measures: about 2 of 820 here.
    assert runs.mean() == pytest.approx(values.var(), abs=5 * runs.std() / np.sqrt(60) + 4)


def test_the_second_phase_covers_the_farthest_value():
    c = Collection(name="c", low=0, high=10, epsilon=1.0, mechanism="piecewise", integer=False)
    second = second_phase(c, 2.5)
    assert (second.low, second.high) == (0.0, 56.25)
    assert squared_distances(c, [-5, 2.5, 99], 2.5).tolist() == [6.25, 0.0, 56.25]
