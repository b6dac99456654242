"""The greatest of many errors: against its law where that is known, and for covariances without a root of their own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushgram.greatest_error import DRAWS, _draws, greatest_change, greatest_error


def bridge(size):
    """The covariance of a Brownian bridge at equal steps, which is 0 at both ends, as that of an error of a cdf is."""
    t = np.linspace(0, 1, size)
    return np.minimum(t[:, None], t) - np.outer(t, t)


@pytest.mark.parametrize("size", [1, 5, 64, 65, 300])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_independent_errors_have_the_power_of_one(size, level):
    """Of draws, a share within 4.5 standard errors of the level is below its quantile: the odds are 1 in 100,000 for
    each of ten."""
    half = greatest_error(np.eye(size), level)
    share = (2 * stats.norm.cdf(half) - 1) ** size
    assert share == pytest.approx(level, abs=4.5 * np.sqrt(level * (1 - level) / DRAWS))


def test_a_bridge_has_the_law_of_kolmogorov():
    """On 257 points the supremum is 2 % below that of the whole path; five standard errors are allowed besides."""
    half = greatest_error(bridge(257), 0.95)
    assert stats.kstwobign.cdf(half) == pytest.approx(0.945, abs=5 * np.sqrt(0.95 * 0.05 / DRAWS))


def test_errors_scale():
    assert greatest_error(1e-12 * bridge(100), 0.9) == pytest.approx(1e-6 * greatest_error(bridge(100), 0.9))
    assert greatest_error(np.zeros((3, 3)), 0.9) == 0


def test_close_laws_have_close_quantiles():
    """A root by eigenvectors would draw anew: these turn when two eigenvalues cross."""
    rng = np.random.default_rng(1)
    base = bridge(257)
    for _ in range(10):
        noise = 1e-7 * rng.standard_normal(base.shape)
        noise[[0, -1]] = 0
        near = base + noise @ noise.T + 1e-7 * base
        assert greatest_error(near, 0.95) == pytest.approx(greatest_error(base, 0.95), rel=1e-5)


def test_fewer_errors_are_drawn_as_the_first_of_more():
    size = 100
    padded = np.zeros((130, 130))
    padded[:size, :size] = bridge(size)
    assert greatest_error(padded, 0.95) == pytest.approx(greatest_error(bridge(size), 0.95), rel=1e-4)


def test_negative_directions_of_an_approximate_covariance_do_not_count():
    scale, directions = np.array([-0.5, 0.0, 2.0]), np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    indefinite = (directions * scale) @ directions.T
    positive = 2.0 * np.outer(directions[:, 2], directions[:, 2])
    expected = stats.norm.ppf(0.975) * np.sqrt(2.0) * np.abs(directions[:, 2]).max()
    for covariance in (indefinite, positive):  # within four standard errors of a quantile of 1000 draws
        assert greatest_error(covariance, 0.95) == pytest.approx(expected, rel=0.1)


def test_changes_are_those_of_their_own_law():
    """Steps of a walk, each over its deviation, are independent: the odds of failing are those above."""
    variances = np.array([1.0, 4.0, 0.25, 9.0, 1e-4])
    walk = np.pad(np.cumsum(np.cumsum(np.diag(variances), axis=0), axis=1), (1, 0))
    half = greatest_change(walk, [1], 0.95)
    assert (2 * stats.norm.cdf(half) - 1) ** 5 == pytest.approx(0.95, abs=4.5 * np.sqrt(0.95 * 0.05 / DRAWS))


def test_changes_that_are_known_do_not_count():
    """A bridge returns to zero: from end to end it changes by a rounding error at most."""
    inner = greatest_change(bridge(17), [8], 0.95)
    assert greatest_change(bridge(17), [8, 16], 0.95) == inner
    assert greatest_change(np.zeros((2, 2)), [1], 0.95) == 0


@given(st.integers(0, 2**32), st.integers(2, 12))
def test_changes_are_greatest_over_all_lengths(seed, size):
    """Against the draws themselves, pair by pair."""
    root = np.random.default_rng(seed).normal(size=(size, size))
    covariance, lengths = root @ root.T, sorted({1, size // 2, size - 1} - {0})
    draws = _draws(covariance)
    pairs = [(start, start + length) for length in lengths for start in range(size - length)]
    deviations = [np.sqrt((root[end] - root[start]) @ (root[end] - root[start])) for start, end in pairs]
    changes = [
        np.abs(draws[:, end] - draws[:, start]) / deviation
        for (start, end), deviation in zip(pairs, deviations, strict=True)
    ]
    expected = np.quantile(np.max(changes, axis=0), 0.9)
    assert greatest_change(covariance, lengths, 0.9) == pytest.approx(expected, rel=1e-4)
