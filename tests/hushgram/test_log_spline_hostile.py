"""The log-spline on tallies that hardly any honest devices send: an answer, finite, and without a warning."""

import numpy as np
import pytest

from hushgram import Collection
from tests.helpers.tallies import beta

OTHERS = [
    {"mechanism": "square_wave_continuous"},
    {"mechanism": "general_wave"},
    {"mechanism": "square_wave", "widths": (0.5, 0.75, 1, 1.25)},
    {"mechanism": "square_wave", "previous": ({"epsilon": 3.0},)},
]


def collection_of(buckets, epsilon, **options):
    return Collection(name="c", low=0, high=1, buckets=buckets, epsilon=epsilon, estimator="log_spline", **options)


def check(estimate):
    """All that a snapshot holds."""
    assert estimate.probabilities.min() >= 0
    assert estimate.probabilities.sum() == pytest.approx(1)
    low, high = estimate.interval("mean")
    assert 0 <= low <= high <= 1
    for bounds in (estimate.band(), estimate.density_band()):
        assert (bounds.low <= bounds.high).all()  # and so neither is no number
    assert len(estimate.readable_bins().edges) > 1
    assert estimate.fit_pvalue is None or 0 <= estimate.fit_pvalue <= 1


@pytest.mark.parametrize("reports", [30, 10**3, 10**5, 10**7, 10**9, 10**12, 10**15])
@pytest.mark.parametrize(("buckets", "epsilon"), [(16, 1.0), (64, 1.0), (256, 8.0), (1024, 1.0), (1024, 4.0)])
def test_reports_that_are_all_the_same(buckets, epsilon, reports):
    send_one_cell(collection_of(buckets, epsilon), reports)


@pytest.mark.parametrize("reports", [0, 1, 10, 30, 10**6])
@pytest.mark.parametrize("options", OTHERS, ids=str)
@pytest.mark.parametrize(("buckets", "epsilon"), [(17, 1.0), (64, 2.0)])
def test_reports_of_other_waves_and_of_two_revisions_that_are_all_the_same(buckets, epsilon, options, reports):
    send_one_cell(collection_of(buckets, epsilon, **options), reports)


def send_one_cell(collection, reports):
    """The same one from every revision."""
    cells = [each.mechanism.cells for each in collection.revisions.values()]
    for cell in (0, 1, min(cells) // 2, min(cells) - 1):
        tallies = [np.zeros(count, dtype=np.int64) for count in cells]
        for counts in tallies:
            counts[cell] = reports
        check(collection.estimate(dict(zip(collection.revisions, tallies, strict=True))))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 10.0])
@pytest.mark.parametrize(("epsilon", "reports"), [(1.0, 10**5), (1.0, 10**7), (4.0, 10**6)])
def test_junk_in_one_cell_beside_honest_reports(epsilon, reports, share):
    collection = collection_of(1024, epsilon)
    honest = np.random.default_rng(1).multinomial(reports, collection.mechanism.forward(beta(1024)))
    for cell in (0, honest.size // 2):
        counts = honest.copy()
        counts[cell] += int(share * reports)
        check(collection.estimate(counts))


@pytest.mark.parametrize(("buckets", "epsilon"), [(64, 4.0), (256, 2.0), (1024, 4.0)])
@pytest.mark.parametrize("reports", [10**5, 10**6, 10**7, 10**8])
def test_one_value_that_all_devices_share(buckets, epsilon, reports):
    """The median is the bucket of that value, or one beside it: EMS, which may stand in, spreads it as far."""
    collection = collection_of(buckets, epsilon)
    for bucket in (0, buckets // 3):
        x = np.zeros(buckets)
        x[bucket] = 1
        cells = collection.mechanism.forward(x)
        estimate = collection.estimate(np.random.default_rng(2).multinomial(reports, cells / cells.sum()))
        check(estimate)
        assert estimate.quantile(0.5) == pytest.approx((bucket + 0.5) / buckets, abs=1.5 / buckets)
