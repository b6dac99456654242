"""The laws of the log-spline's coefficients and of its error, against long Markov chains and dense matrices."""

from importlib import import_module

import numpy as np
import pytest
from scipy.linalg import eigh, solve_triangular

from hushgram.estimators.log_spline import posterior as posteriors
from hushgram.estimators.log_spline.basis import basis_of
from hushgram.estimators.log_spline.model import Model
from hushgram.estimators.log_spline.posterior import CENTRE, find_mode
from hushgram.estimators.log_spline.search import fit
from hushgram.mechanisms import SquareWave
from tests.helpers.tallies import beta, jumping, spiked, tally_of

DRAWS, LEAPS, STEP = 20_000, 5, 0.3


def sample(model, mechanism, counts, start, deviations, information, seed):
    """Distribution functions from the exact posterior, by Hamiltonian Monte Carlo.

    It moves in coordinates in which the normal approximation is a standard one, so that most proposals are accepted and
    successive draws hardly correlate (0.1 and less).
    """
    root = posteriors.factorise(information, deviations)
    scale = solve_triangular(root, np.diag(deviations), lower=True).T
    rng = np.random.default_rng(seed)

    def evaluate(z):
        a = start + scale @ z
        x = model.distribution(a)
        cells = mechanism.forward(x)
        pull = mechanism.backward(counts / cells) - counts.sum()
        gradient = scale.T @ (model.gradient(x * pull) - a / deviations**2)
        return counts @ np.log(cells) - 0.5 * ((a / deviations) ** 2).sum(), gradient, x

    z = np.zeros(model.size)
    value, gradient, x = evaluate(z)
    curves, accepted = np.empty((DRAWS, model.basis.buckets - 1)), 0
    for draw in range(DRAWS):
        momentum = rng.standard_normal(z.size)
        energy = value - 0.5 * momentum @ momentum
        there, slope, moving = z, gradient, momentum + 0.5 * STEP * gradient
        for leap in range(LEAPS):
            there = there + STEP * moving
            level, slope, shares = evaluate(there)
            moving = moving + (STEP if leap < LEAPS - 1 else 0.5 * STEP) * slope
        if np.log(rng.random()) < level - 0.5 * moving @ moving - energy:
            z, value, gradient, x = there, level, slope, shares
            accepted += 1
        curves[draw] = np.cumsum(x)[:-1]
    assert accepted > 0.9 * DRAWS
    return curves


def agree(curves, centre, covariance):
    """Means within 0.07 deviations, and deviations within 5 %, of the distribution function and of each bucket.

    By chance the chain's means err by 0.008 deviations and its deviations by 0.6 %; the rest is the approximation's own
    error, which is up to 0.035 and 3 %. A seed in ten thousand or fewer would fail.
    """
    shares = np.diff(np.eye(centre.size), axis=0)
    for draws, mean, law in (
        (curves, centre, covariance),
        (curves @ shares.T, shares @ centre, shares @ covariance @ shares.T),
    ):
        deviations = np.sqrt(np.diag(law))
        np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean), 0.07 * deviations)
        np.testing.assert_allclose(draws.std(axis=0), deviations, rtol=0.05)


@pytest.fixture(scope="module")
def window():
    """A fit to so many reports that the posterior is nearly normal, its hyperparameters fixed. The distribution has no
    empty tail, where the logarithm is not determined and Laplace's approximation is not meant to hold."""
    mechanism = SquareWave(32, 2.0)
    counts = tally_of(mechanism, (beta(32) + 1 / 32) / 2, 3_000_000, 4)
    model = Model(basis_of((mechanism,)))
    found = find_mode(model, [counts], np.zeros(model.size), CENTRE, free=False, most_steps=60)
    return mechanism, counts, model, found


def laplace(model, found):
    factor = solve_triangular(found.root, (model.slopes(found.x) * found.deviations).T, lower=True).T
    curve = np.cumsum(factor, axis=0)[:-1]
    return curve @ curve.T


@pytest.mark.slow
def test_the_posterior_is_that_of_a_long_markov_chain(window):
    mechanism, counts, model, found = window
    curves = sample(model, mechanism, counts, found.a, found.deviations, found.information, seed=6)
    agree(curves, np.cumsum(found.x)[:-1], laplace(model, found))


@pytest.mark.slow
def test_the_law_behind_intervals_is_that_of_a_long_markov_chain_under_its_prior(window, monkeypatch):
    """The prior is the estimate's with the spectrum of jumps beside it; allowances for bias and scatter are none. On
    average it makes the distribution function a tenth less sure than the estimate's, and buckets a fifth."""
    law = import_module("hushgram.estimators.log_spline.uncertainty")
    monkeypatch.setattr(law, "BIAS", 0.0)
    monkeypatch.setattr(law, "SCATTER", 0.0)
    mechanism, counts, model, found = window
    error = law.error_law(found, [])
    np.testing.assert_array_equal(error.edges, np.arange(33) / 32)
    roughness = 5.0 / np.exp(2 * model.basis.log_frequency)
    deviations = np.sqrt(found.deviations**2 + np.where(model.basis.is_mode, roughness, 0.0))
    curves = sample(model, mechanism, counts, found.a, deviations, found.information, seed=7)
    covariance = error.curve_covariance[1:-1, 1:-1]
    agree(curves, error.curve[1:-1], covariance)
    assert np.sqrt(np.diag(covariance) / np.diag(laplace(model, found))).mean() > 1.08


@pytest.mark.parametrize(
    ("buckets", "epsilon", "x", "near"),
    [
        (512, 1.0, beta(512), 0.005),
        (1000, 0.5, beta(1000), 0.005),
        (1024, 2.0, beta(1024), 0.01),
        (1024, 4.0, beta(1024), 0.01),
        (1024, 2.0, spiked(1024, 0.31), 0.1),
        (1024, 2.0, jumping(1024, 3.0), 0.1),
    ],
    ids=["512", "1000", "1024", "1024, ε = 4", "a point mass", "a jump"],
)
def test_pooled_information_is_that_of_every_bucket_and_cell(buckets, epsilon, x, near):
    """Precisions of whatever sum of coefficients, with 256 pools of cells and parts of the domain, are those of dense
    matrices: to a hundredth, and beside a feature, whose place within its part matters, to a tenth."""
    mechanism = SquareWave(buckets, epsilon)
    counts = tally_of(mechanism, x, 300_000, 2)
    found = fit(basis_of((mechanism,)), [counts]).posterior
    assert found.model.basis.matrix.shape[0] <= 256 < mechanism.cells
    jacobian = mechanism.forward(found.model.slopes(found.x).T).T
    dense = counts.sum() * jacobian.T @ (jacobian / mechanism.forward(found.x)[:, None])
    change, cells = found.model.sensitivity(found.x)
    pooled = counts.sum() * change.T @ (change / cells[:, None])
    precisions = [
        np.eye(found.a.size) + found.deviations[:, None] * information * found.deviations
        for information in (pooled, dense)
    ]
    ratios = eigh(*precisions, eigvals_only=True)
    assert 1 - near < ratios[0] <= ratios[-1] < 1 + near
