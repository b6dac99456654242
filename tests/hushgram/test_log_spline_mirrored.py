"""The log-spline looks at a domain from either end alike: mirrored reports have mirrored estimates and intervals."""

import numpy as np
import pytest
from scipy import stats

from hushgram import Collection
from hushgram.estimators.log_spline.basis import basis_of
from hushgram.estimators.log_spline.search import fit
from tests.helpers.tallies import beta, jumping, shares_of, spiked, tally_of

SMOOTH = beta(256)
HILL = 0.8 * beta(512) + 0.2 * shares_of(stats.norm(0.3, 0.01).cdf, 512)
WINDOWS = {
    "smooth": (SMOOTH, 7, []),
    "point": (spiked(512, 0.3), 7, ["point"]),
    "hill": (HILL, 3, ["hill"]),
    "hill that stands in for a point": (spiked(256, 0.3), 8, ["hill"]),
    "jump": (jumping(512, 4.0), 7, ["jump"]),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_mirrored_reports_have_mirrored_estimates_and_intervals(window):
    """Features are where the mirror has them: a jump before bucket b is one before bucket d - b. Intervals agree to a
    hundredth of their widths; what is left is where climbing ends, and how far the allowance for bias is carried."""
    x, seed, kinds = WINDOWS[window]
    buckets = x.size
    collection = Collection(name="c", low=0, high=1, buckets=buckets, epsilon=2.0, estimator="log_spline")
    counts = tally_of(collection.mechanism, x, 400_000, seed)
    basis = basis_of((collection.mechanism,))
    features, others = (fit(basis, [row]).posterior.model.features for row in (counts, counts[::-1]))
    assert [feature.kind for feature in features] == kinds
    mirrored = [buckets - other.bucket - (other.kind != "jump") for other in others]
    assert [(feature.kind, feature.bucket) for feature in features] == [
        (other.kind, bucket) for other, bucket in zip(others, mirrored, strict=True)
    ]

    estimate, other = collection.estimate_many([counts.astype(np.int64), counts[::-1].astype(np.int64)])
    curve, backwards = np.cumsum(estimate.probabilities), np.cumsum(other.probabilities[::-1])
    np.testing.assert_allclose(backwards, curve, atol=5e-4)
    points = np.linspace(0.05, 0.95, 19)
    low, high = estimate.interval("cdf", points)
    other_low, other_high = other.interval("cdf", 1 - points)
    near = 0.015 * float(np.mean(high - low))
    np.testing.assert_allclose(1 - other_high, low, atol=near)
    np.testing.assert_allclose(1 - other_low, high, atol=near)
    low, high = estimate.interval("mean")
    other_low, other_high = other.interval("mean")
    assert (1 - other_high, 1 - other_low) == pytest.approx((low, high), abs=0.02 * (high - low))
    low, high = estimate.interval("quantile", points)
    other_low, other_high = other.interval("quantile", 1 - points)
    np.testing.assert_allclose(1 - other_high, low, atol=1 / buckets)
    np.testing.assert_allclose(1 - other_low, high, atol=1 / buckets)
