import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushgram import metrics

distributions = st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed).dirichlet(np.ones(12), size=2))


@given(distributions)
def test_wasserstein_is_scipys(pair):
    points = np.arange(12) / 12
    expected = stats.wasserstein_distance(points, points, *pair)
    assert metrics.wasserstein(*pair) == pytest.approx(expected)


@given(distributions)
def test_ks_and_the_widest_ranges(pair):
    differences = [abs(pair[0][:k].sum() - pair[1][:k].sum()) for k in range(13)]
    assert metrics.kolmogorov_smirnov(*pair) == pytest.approx(max(differences))
    assert metrics.range_query_error(*pair, 1.0) == pytest.approx(0)


@given(distributions)
def test_range_queries_by_brute_force(pair):
    errors = [abs(pair[0][start : start + 5].sum() - pair[1][start : start + 5].sum()) for start in range(8)]
    assert metrics.range_query_error(*pair, 0.4) == pytest.approx(np.mean(errors))


@given(distributions)
def test_mean_and_variance(pair):
    centres = (np.arange(12) + 0.5) / 12
    means = [np.average(centres, weights=x) for x in pair]
    variances = [np.average((centres - m) ** 2, weights=x) for m, x in zip(means, pair, strict=True)]
    assert metrics.mean_error(*pair) == pytest.approx(abs(means[0] - means[1]))
    assert metrics.variance_error(*pair) == pytest.approx(abs(variances[0] - variances[1]))


def test_wasserstein_knows_near_from_far_as_in_the_papers_example():
    true, near, far = [0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]
    assert metrics.wasserstein(true, near) < metrics.wasserstein(true, far)


def test_quantiles_are_the_last_bucket_within_the_share():
    true, shifted = np.eye(10)[2], np.eye(10)[5]
    assert metrics.quantile_error(true, shifted) == pytest.approx(0.3)
    assert metrics.quantile_error(true, true) == 0
    assert metrics.quantile_error([0.5, 0.5], [0.25, 0.75], (0.5,)) == pytest.approx(0.0)


@pytest.mark.parametrize("pair", [([1, 0], [1, 0, 0]), ([[1.0]], [[1.0]]), ([], [])])
def test_metrics_refuse_distributions_of_different_length(pair):
    with pytest.raises(ValueError, match="same length"):
        metrics.wasserstein(*pair)


def test_a_share_outside_the_domain_is_refused():
    with pytest.raises(ValueError, match="share must be"):
        metrics.range_query_error([1, 0], [0, 1], 1.5)
