import numpy as np
import pytest

from hushgram import Collection
from hushgram.estimators.haar import leaves_from_differences
from hushgram.mechanisms import HaarResponse
from hushgram.mechanisms.haar import walsh_hadamard


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_the_fast_transform_is_the_dense_matrix(size):
    dense = np.array([[(-1) ** (r & j).bit_count() for j in range(size)] for r in range(size)])
    values = np.random.default_rng(1).standard_normal(size)
    np.testing.assert_allclose(walsh_hadamard(values), dense @ values)
    np.testing.assert_allclose(walsh_hadamard(walsh_hadamard(values)), size * values)


def test_leaves_are_restored_from_their_differences():
    x = np.random.default_rng(2).dirichlet(np.ones(16))
    differences = [np.array([1, -1]) @ x.reshape(nodes, 2, -1).sum(axis=2).T for nodes in (8, 4, 2, 1)]
    np.testing.assert_allclose(leaves_from_differences(differences), x)


def test_the_expected_estimate_is_the_distribution_itself():
    response = HaarResponse(16, 1.0)
    x = np.random.default_rng(3).dirichlet(np.ones(16))
    differences = []
    for part in response.split(response.forward(x)):
        gap = walsh_hadamard(part[:, 1] - part[:, 0]) / part.sum() / response.law.gap
        differences.append(gap)
    np.testing.assert_allclose(leaves_from_differences(differences), x, atol=1e-12)


def test_a_collection_on_haar_finds_ranges():
    c = Collection(name="c", low=0, high=1, buckets=64, epsilon=2.0, mechanism="haar")
    values = np.random.default_rng(4).beta(5, 2, 200_000)
    e = c.estimate(c.tally(c.simulate(values, seed=5)))
    # The standard error of a range is below 0.005; five of them fail by chance less than once in a million.
    assert e.probability(0.5, 0.75) == pytest.approx(np.mean((values > 0.5) & (values < 0.75)), abs=0.025)
    low, high = e.interval("probability", 0.5, 0.75)
    assert low < e.probability(0.5, 0.75) < high


@pytest.mark.parametrize("mechanism", ["haar", "hierarchy"])
def test_two_revisions_of_a_tree_are_weighted_by_precision(mechanism):
    c = Collection(name="c", low=0, high=1, buckets=64, epsilon=1.0, mechanism=mechanism, previous=[{"epsilon": 4.0}])
    sharp = list(c.revisions)[1]
    values = np.random.default_rng(4).beta(5, 2, 100_000)
    tallies = {c.revision: c.tally(c.simulate(values, seed=1))}
    alone = c.estimate(dict(tallies))
    tallies[sharp] = c.revisions[sharp].tally(c.revisions[sharp].simulate(values, seed=2))
    both, sharp_alone = c.estimate(tallies), c.estimate({sharp: tallies[sharp]})
    widths = [np.diff(e.interval("mean"))[0] for e in (both, sharp_alone, alone)]
    assert widths[0] < widths[1] < widths[2]
    assert both.mean == pytest.approx(sharp_alone.mean, abs=widths[1])
