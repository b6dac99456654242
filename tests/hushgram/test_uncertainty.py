"""Coverage of the intervals, in a small version of `benchmarks/coverage.py`, and the law behind them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushgram import Collection
from hushgram.estimators.em import Part, maximize
from hushgram.estimators.types import Uncertainty, part_bounds
from hushgram.estimators.uncertainty import coarsened, light_fits, sandwich, worth
from hushgram.mechanisms import SquareWave

SHAPES = {"hill": stats.beta(5, 2), "edge": stats.beta(1, 6)}


def _count_hits(collection, shape, reports, runs):
    """How many of the runs' intervals held the mean, the median and the lower quartile's cdf."""
    rng = np.random.default_rng(11)
    truth = SHAPES[shape]
    tallies = [collection.tally(collection.simulate(truth.rvs(reports, random_state=rng), rng)) for _ in range(runs)]
    hits = np.zeros(3, dtype=int)
    for e in collection.estimate_many(tallies):
        questions = [("mean",), ("quantile", 0.5), ("cdf", truth.ppf(0.25))]
        for index, (question, value) in enumerate(zip(questions, (truth.mean(), truth.median(), 0.25), strict=True)):
            low, high = e.interval(*question)
            hits[index] += low <= value <= high
    return hits


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("reports", [30, 1000, 100_000])
def test_intervals_of_waves_cover_the_truth(shape, epsilon, reports):
    # At a coverage of 97 % (docs/intervals.md has more), 68 or fewer of 80 has probability 6e-6, for each of 36.
    collection = Collection(name="c", low=0, high=1, buckets=128, epsilon=epsilon)
    assert _count_hits(collection, shape, reports, runs=80).min() > 68


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reports", [30, 1000, 100_000])
def test_intervals_of_the_log_spline_cover_the_truth(shape, reports):
    # At a coverage of 97 %, as above, for each of 18.
    collection = Collection(name="c", low=0, high=1, buckets=128, epsilon=1.0, estimator="log_spline")
    assert _count_hits(collection, shape, reports, runs=80).min() > 68


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("estimator", ["ems", "log_spline"])
def test_intervals_of_extreme_quantiles_cover_the_truth(shape, estimator):
    # At a coverage of 95 %, 30 or fewer of 40 has probability 2.1e-5, for each of 16.
    shares = [0.001, 0.01, 0.99, 0.999]
    collection = Collection(name="c", low=0, high=1, buckets=128, epsilon=1, estimator=estimator, quantiles=shares)
    rng, truth, reports = np.random.default_rng(12), SHAPES[shape], 100_000
    tallies = [collection.tally(collection.simulate(truth.rvs(reports, random_state=rng), rng)) for _ in range(40)]
    values = truth.ppf(shares)
    bounds = [estimate.interval("quantile", shares) for estimate in collection.estimate_many(tallies)]
    assert min(sum((low <= values) & (values <= high) for low, high in bounds)) > 30


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("square_wave_continuous", {}),
        ("general_wave", {}),
        ("hierarchy", {}),
        ("haar", {}),
        ("randomized_response", {"bins": 16}),
        ("local_hashing", {"bins": 16}),
    ],
)
def test_intervals_of_the_other_mechanisms_cover_the_truth(mechanism, options):
    # At a coverage of 95 %, 68 or fewer of 80 has probability 6e-4, for each of 14 figures; the seed is fixed. Bins of
    # a sixteenth have an error of their own inside a bin, so the median and the quartile's cdf are not asked of them.
    collection = Collection(name="c", low=0, high=1, buckets=64, epsilon=1.0, mechanism=mechanism, **options)
    hits = _count_hits(collection, "hill", 20_000, runs=80)
    assert (hits[:1] if options else hits).min() > 68


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["randomized_response", "local_hashing", "hierarchy", "haar"])
def test_closed_form_intervals_are_as_wide_as_the_scatter_of_estimates(mechanism):
    # The standard error that the interval of the mean claims, against the scatter of 300 unconstrained means: within
    # 25 %, six times the relative error of that scatter.
    bins = {} if mechanism in ("hierarchy", "haar") else {"bins": 16}
    c = Collection(name="c", low=100, high=160, buckets=64, epsilon=2.0, mechanism=mechanism, **bins)
    rng = np.random.default_rng(2)
    laws = [
        c.estimate(c.tally(c.simulate(100 + 60 * rng.beta(5, 2, 5000), rng))).solution.uncertainty() for _ in range(300)
    ]
    offsets, _ = c.domain.moments(laws[0].edges)
    scatter = np.std([law.centre @ offsets for law in laws])
    claimed = np.mean([np.sqrt(offsets @ law.covariance @ offsets) for law in laws])
    assert claimed == pytest.approx(scatter, rel=0.25)


@pytest.mark.parametrize("low", [0.0, 1e3, -1e6, 1e9])
@pytest.mark.parametrize("mechanism", ["square_wave", "randomized_response", "local_hashing", "hierarchy", "haar"])
def test_intervals_do_not_depend_on_where_the_domain_begins(mechanism, low):
    values = 60 * stats.beta(5, 2).rvs(20_000, random_state=1)
    bins = {"bins": 16} if mechanism in ("randomized_response", "local_hashing") else {}
    readings = []
    for start in (0.0, low):
        c = Collection(name="c", low=start, high=start + 60, buckets=64, epsilon=2.0, mechanism=mechanism, **bins)
        e = c.estimate(c.tally(c.simulate(start + values, np.random.default_rng(1))))
        readings.append(
            np.r_[np.subtract(e.interval("mean"), start), e.interval("variance"), e.mean - start, e.variance]
        )
    np.testing.assert_allclose(readings[0], readings[1], rtol=1e-4, atol=1e-4)
    low_end, high_end = readings[0][:2]
    assert 0 < high_end - low_end < 12


@pytest.mark.slow
def test_more_reports_and_more_epsilon_make_narrower_intervals():
    values = stats.beta(5, 2).rvs(100_000, random_state=1)

    def measure_width(epsilon, reports):
        c = Collection(name="c", low=0, high=1, buckets=128, epsilon=epsilon)
        low, high = c.estimate(c.tally(c.simulate(values[:reports], seed=1))).interval("mean")
        return high - low

    assert measure_width(1.0, 100_000) < 0.02
    assert measure_width(1.0, 100_000) < measure_width(1.0, 10_000) / 2 < measure_width(1.0, 1_000) / 4
    assert measure_width(2.0, 10_000) < measure_width(1.0, 10_000) < measure_width(0.5, 10_000)


def test_parts_of_unequal_length_give_the_answers_of_equal_ones():
    # 1000 buckets make 256 parts of 3 or 4; 1024 make parts of 4. The answers differ by the grid, not by more.
    values = 60 * stats.beta(5, 2).rvs(50_000, random_state=1)
    readings = []
    for buckets in (1000, 1024):
        c = Collection(name="c", low=0, high=60, buckets=buckets, epsilon=4.0)
        e = c.estimate(c.tally(c.simulate(values, seed=1)))
        readings.append([*e.interval("mean"), *e.interval("quantile", 0.5), *e.interval("variance")])
    np.testing.assert_allclose(readings[0], readings[1], rtol=0.05)


@pytest.mark.parametrize("buckets", [24, 300])
def test_the_law_of_a_wave_is_that_of_dense_matrices(buckets):
    """A⁻¹S(B·diag(x) - xxᵀ)SᵀA⁻ᵀ/N of two revisions, with every matrix written out (docs/mathematics.md)."""
    waves = [SquareWave(buckets, 1.0), SquareWave(buckets, 2.0)]
    rng = np.random.default_rng(3)
    parts = [Part(w, w.tally(w.perturb_many(w.locate(rng.beta(5, 2, 20_000)), rng))[None] * 1.0) for w in waves]
    [light] = light_fits(parts)
    [law] = sandwich(parts, light[None])
    np.testing.assert_array_equal(law.centre, light)

    size, ends = light.size, np.diff(part_bounds(buckets))
    smoothing = np.eye(size) - 0.025 * (np.diff(np.eye(size), axis=0).T @ np.diff(np.eye(size), axis=0))
    spread = np.repeat(np.eye(size) / ends[:, None], ends, axis=1).T

    def noise(x):
        information = sum(M.T @ np.diag(0.5 / (M @ x)) @ M for M in (w.matrix() @ spread for w in waves))
        B = np.diag(x) @ information
        A = np.eye(size) - smoothing @ (np.eye(size) - B) + 1 / size
        response = np.linalg.inv(A) @ smoothing
        return response @ (B @ np.diag(x) - np.outer(x, x)) @ response.T

    full = maximize(coarsened(parts), smoothing=1.0, stopping="converged").x[0]
    curve = np.cumsum(light - full)[:-1]
    reach = round(0.05 * size)
    shifted = [np.roll(curve, shift) for shift in sorted({-reach, -(reach // 2), 0, reach // 2, reach})]
    bias = np.mean([np.outer(*[np.diff(row, prepend=0.0, append=0.0)] * 2) for row in shifted], axis=0)
    outweighed = 1 / (1 + 20_000 * sum(map(worth, waves)))
    expected = ((1 - outweighed) * noise(light) + outweighed * noise(ends / buckets)) / 40_000 + bias
    np.testing.assert_allclose(law.covariance, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 8))
def test_sums_and_bins_of_a_law_are_those_of_its_parts(seed, parts, bins):
    """Against the covariance of the parts itself, with the share of each part that lies in each bin as weights."""
    rng = np.random.default_rng(seed)
    edges = np.concatenate([[0.0], np.sort(rng.uniform(size=parts - 1)), [1.0]])
    points = np.concatenate([[0.0], np.sort(rng.choice([*edges, *rng.uniform(size=bins)], bins - 1)), [1.0]])
    centre, root = rng.dirichlet(np.ones(parts)), rng.normal(size=(parts, parts))
    law = Uncertainty.of_parts(edges, centre, root @ root.T)
    np.testing.assert_allclose(law.covariance, root @ root.T, atol=1e-9)
    lower, upper = np.maximum(points[:-1, None], edges[:-1]), np.minimum(points[1:, None], edges[1:])
    weights = np.maximum(upper - lower, 0.0) / np.diff(edges)
    shares, covariance = law.bins(points)
    np.testing.assert_allclose(shares, weights @ centre, atol=1e-9)
    np.testing.assert_allclose(covariance, weights @ root @ root.T @ weights.T, atol=1e-9)
    sums, errors = law.sums_with_errors(weights)
    np.testing.assert_allclose(sums, weights @ centre, atol=1e-9)
    np.testing.assert_allclose(errors**2, np.diag(covariance), atol=1e-9)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 8))
def test_what_scatters_inside_parts_is_that_of_independent_pieces_with_a_fixed_sum(seed, parts, bins):
    """A part of variance v scatters by v(wδ - ww'), w and w' the shares of the part that two bins hold."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(0, 1, parts + 1)
    points = np.concatenate([[0.0], np.sort(rng.choice([*edges, *rng.uniform(size=bins)], bins - 1)), [1.0]])
    centre, root, scatter = rng.dirichlet(np.ones(parts)), rng.normal(size=(parts, parts)), rng.random(parts)
    straight = Uncertainty.of_parts(edges, centre, root @ root.T)
    law = replace(straight, scatter=scatter)
    weights = np.clip(points[1:, None], edges[:-1], edges[1:]) - np.clip(points[:-1, None], edges[:-1], edges[1:])
    weights *= parts
    shares, covariance = law.bins(points)
    expected = np.diag(weights @ scatter) - (weights * scatter) @ weights.T
    np.testing.assert_allclose(covariance - straight.bins(points)[1], expected, atol=1e-9)
    sums, errors = law.shares_with_errors(points[:-1], points[1:])
    np.testing.assert_allclose(sums, shares, atol=1e-9)
    np.testing.assert_allclose(errors**2, np.diag(covariance), atol=1e-9)
