"""The laws of the log-spline's coefficients and of its error, against long Markov chains and dense matrices."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import eigh, solve_triangular

from hushgram import Collection
from hushgram.estimators.log_spline import posterior as posteriors
from hushgram.estimators.log_spline.basis import basis_of
from hushgram.estimators.log_spline.model import Hyperparameters, Model
from hushgram.estimators.log_spline.posterior import CENTRE, find_mode
from hushgram.estimators.log_spline.search import fit
from hushgram.mechanisms import SquareWave
from tests.helpers.tallies import beta, five_peaks, jumping, shares_of, spiked, tally_of

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
    error = law.error_law(found, [], np.array([counts.sum()]))
    np.testing.assert_array_equal(error.edges, np.arange(33) / 32)
    roughness = 5.0 / np.exp(2 * model.basis.log_frequency)
    deviations = np.sqrt(found.deviations**2 + np.where(model.basis.is_mode, roughness, 0.0))
    curves = sample(model, mechanism, counts, found.a, deviations, found.information, seed=7)
    covariance = error.curve_covariance[1:-1, 1:-1]
    agree(curves, error.curve[1:-1], covariance)
    assert np.sqrt(np.diag(covariance) / np.diag(laplace(model, found))).mean() > 1.08


@pytest.mark.parametrize(("reports", "least", "most"), [(10_000, 0.0, 5.0), (1_000_000, 10.0, np.inf)])
def test_few_reports_of_narrow_peaks_hardly_tell_how_smooth_the_curve_is(reports, least, most):
    """How far apart the evidence is for exponents from 1.2 to 3, each with its best scale. In 20 windows of 10,000
    reports it was at most 3.7 nats, in 20 of a million at least 11.5; the tests take the first three of each."""
    mechanism = SquareWave(1024, 1.0)
    model = Model(basis_of((mechanism,)))
    for seed in range(3):
        counts, best = [tally_of(mechanism, five_peaks(1024), reports, seed)], []
        for exponent in (1.2, 1.6, 2.2, 3.0):
            scales = [Hyperparameters(scale, exponent) for scale in np.arange(-2.0, 13.0, 2.0)]
            fits = [
                find_mode(model, counts, np.zeros(model.size), hyper, free=False, most_steps=60) for hyper in scales
            ]
            best.append(max(log_evidence(found) for found in fits))
        assert least <= max(best) - min(best) <= most


def log_evidence(found):
    """That of the reports, without the hyperprior."""
    deviations = (found.hyper.log_scale - CENTRE.log_scale) / 1.5, (found.hyper.exponent - CENTRE.exponent) / 0.5
    return found.log_evidence + 0.5 * (deviations[0] ** 2 + deviations[1] ** 2)


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


@pytest.mark.parametrize("mechanism", [SquareWave(64, 1.0), SquareWave(64, 2.0, widths=(0.5, 1.0))], ids=["one", "two"])
def test_information_about_a_point_is_that_of_its_share(mechanism):
    """Where a share δ moves to a point from everywhere alike, the cells are y + δ(M - y), about which a report tells
    Σ(M - y)²/y: here by differences of the expected log-likelihood."""
    basis, x, reports, step = basis_of((mechanism,)), beta(64), 1000.0, 1e-3
    cells = mechanism.forward(x)
    found = basis.information_of_points(basis.pools([cells]), np.array([reports]))
    for bucket in (0, 20, 63):
        moved = [(1 - share) * x + share * (np.arange(64) == bucket) for share in (-step, 0.0, step)]
        low, middle, high = (cells @ np.log(mechanism.forward(shares)) for shares in moved)
        curvature = reports * (2 * middle - low - high) / step**2
        assert found[basis.part_of_bucket[bucket]] == pytest.approx(curvature, rel=1e-3)


def test_no_share_is_known_better_than_a_tenth_of_what_reports_tell_without_smoothing():
    """In an empty tail the linear law is surer than that. Ranges without length and the whole have no error."""
    law = import_module("hushgram.estimators.log_spline.uncertainty")
    mechanism = SquareWave(256, 1.0)
    x = shares_of(stats.laplace(0.4, 0.06).cdf, 256)
    found = fit(basis_of((mechanism,)), [tally_of(mechanism, x, 10_000, 3)]).posterior
    error = law.error_law(found, [], np.array([10_000.0]))
    linear = replace(error, least_errors=None)
    start, end = np.arange(64) / 64, np.arange(1, 65) / 64
    _, errors = error.shares_with_errors(start, end)
    _, too_sure = linear.shares_with_errors(start, end)
    point = mechanism.forward(np.eye(256)[4 * np.arange(64) + 2])
    cells = mechanism.forward(found.x)
    alone = 1 / np.sqrt(10_000 * ((point - cells) ** 2 / cells).sum(axis=1))
    np.testing.assert_allclose(errors, np.maximum(too_sure, alone / 10), rtol=0.01)
    assert (errors > 1.1 * too_sure)[-4:].all()
    assert (errors == too_sure)[20:30].all()
    np.testing.assert_allclose(np.sqrt(np.diag(error.bins(np.arange(65) / 64)[1])), errors, rtol=1e-6)
    _, certain = error.shares_with_errors(np.array([0.0, 0.3]), np.array([1.0, 0.3]))
    np.testing.assert_allclose(certain, 0.0, atol=1e-9)
    assert error.curve_errors[[0, -1]] == pytest.approx(0.0, abs=1e-9)
    inner = error.edges[1:-1]
    _, curve_errors = error.shares_with_errors(np.zeros(inner.size), inner)
    np.testing.assert_allclose(error.curve_errors[1:-1], curve_errors, rtol=1e-6)


@pytest.mark.slow
def test_bounds_of_an_empty_tail_hold():
    """The bins of a Laplace density, all at once: of 60 collections 5 % may miss, more than 9 do with odds of 1 in 500.
    A law that is linear in the coefficients alone misses in a third of them."""
    collection = Collection(name="c", low=0, high=1, buckets=1024, epsilon=1.0, estimator="log_spline")
    x = shares_of(stats.laplace(0.4, 0.06).cdf, 1024)
    cells = collection.mechanism.forward(x)
    tallies = np.random.default_rng(8).multinomial(10_000, cells / cells.sum(), size=60)
    density, misses = x.reshape(64, 16).sum(axis=1) * 64, 0
    for estimate in collection.estimate_many(list(tallies)):
        band = estimate.density_band(simultaneous=True)
        misses += bool(((density < band.low) | (density > band.high)).any())
    assert misses <= 9
