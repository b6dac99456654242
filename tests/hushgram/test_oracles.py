"""Randomized response and both kinds of hashing: collisions, support, unbiasedness, limits."""

import itertools
import math

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection, CollectionError
from hushgram.mechanisms import LocalHashing, RandomizedResponse, SeededHashing, frequency_oracle
from hushgram.mechanisms.hashing import MOST_PRODUCTS, TABLE_LIMIT, best_prime, count_digits
from hushgram.mechanisms.xxh32 import DecimalTexts


@pytest.mark.parametrize(("values", "symbols"), [(2, 2), (7, 2), (9, 3), (20, 3), (30, 5), (50, 7)])
def test_any_two_values_collide_in_exactly_one_of_g_functions(values, symbols):
    oracle = LocalHashing(values, 1.0, symbols)
    hashes = oracle.symbol(np.arange(oracle.functions)[:, None], np.arange(values))
    for first, second in itertools.combinations(range(values), 2):
        assert int((hashes[:, first] == hashes[:, second]).sum()) * symbols == oracle.functions


@pytest.mark.parametrize("oracle", [LocalHashing(30, 1.0), LocalHashing(64, 3.0), LocalHashing(5, 2.0, 7)], ids=str)
def test_support_from_the_table_is_support_report_by_report(oracle):
    rng = np.random.default_rng(1)
    cells = oracle.perturb_many(rng.integers(0, oracle.buckets, 500), rng)
    functions, symbols = np.divmod(cells, oracle.g)
    by_report = sum(oracle.symbol(f, np.arange(oracle.buckets)) == s for f, s in zip(functions, symbols, strict=True))
    assert oracle.support(oracle.tally(cells)).tolist() == by_report.tolist()


def test_support_stays_whole_with_billions_of_reports():
    oracle = LocalHashing(100, 1.0)
    tally = np.random.default_rng(2).integers(0, 10**9, oracle.cells)
    hashes = oracle.symbol(np.arange(oracle.functions)[:, None], np.arange(100))
    direct = tally.reshape(-1, oracle.g)[np.arange(oracle.functions)[:, None], hashes].sum(axis=0)
    assert oracle.support(tally).tolist() == direct.tolist()


@pytest.mark.parametrize(
    "oracle",
    [RandomizedResponse(12, 1.0), LocalHashing(12, 1.0), LocalHashing(12, 3.0), LocalHashing(30, 0.3)],
    ids=str,
)
def test_the_expected_estimate_is_the_distribution_itself(oracle):
    x = np.random.default_rng(1).dirichlet(np.ones(oracle.buckets))
    cells = oracle.forward(x)
    assert cells.sum() == pytest.approx(1)
    if isinstance(oracle, LocalHashing):
        hashes = oracle.symbol(np.arange(oracle.functions)[:, None], np.arange(oracle.buckets))
        support = cells.reshape(-1, oracle.g)[np.arange(oracle.functions)[:, None], hashes].sum(axis=0)
    else:
        support = cells
    p, q = oracle.support_probabilities
    np.testing.assert_allclose((support - q) / (p - q), x, atol=1e-12)


def test_the_law_of_hashing_by_value_is_the_law_of_its_cells():
    oracle = LocalHashing(7, 1.0, 3, bits=2)
    for value in range(7):
        law = oracle.forward(np.eye(7)[value]).reshape(-1, 3)
        for function in range(oracle.functions):
            hash_symbol = int(oracle.symbol(np.array([function]), np.array([value]))[0])
            expected = np.where(np.arange(3) == hash_symbol, oracle.law.p, oracle.law.q) / oracle.functions
            np.testing.assert_allclose(law[function], expected, rtol=1e-12)


@pytest.mark.parametrize("mechanism", ["randomized_response", "local_hashing", "seeded_hashing"])
def test_estimates_are_unbiased(mechanism):
    # 300 runs of 2000 reports; each of 8 means is within 5 standard errors: fails by chance once in 200 000.
    c = Collection(name="c", low=0, high=8, integer=False, buckets=8, epsilon=1.0, mechanism=mechanism)
    rng = np.random.default_rng(1)
    truth = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05, 0.0])
    values = np.repeat(np.arange(8) + 0.5, (truth * 2000).astype(int))
    runs = np.stack([c.mechanism.frequencies(c.tally(c.simulate(values, rng))) for _ in range(300)])
    error = np.abs(runs.mean(axis=0) - truth) / (runs.std(axis=0) / math.sqrt(300))
    assert error.max() < 5
    predicted = np.diag(c.mechanism.covariance(truth, np.arange(8))) / 2000
    # The sample here is fixed, so the variance lacks the sampling part that `covariance` includes.
    np.testing.assert_allclose(runs.var(axis=0), predicted - truth * (1 - truth) / 2000, rtol=0.5)


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize(
    "oracle", [RandomizedResponse(12, 1.0), LocalHashing(12, 1.0), LocalHashing(40, 2.0, 7)], ids=str
)
def test_the_covariance_of_frequencies_is_that_of_the_support_by_each_cell(oracle, length):
    x = np.random.default_rng(5).dirichlet(np.full(oracle.buckets, 0.5))
    cells = np.eye(oracle.cells, dtype=np.int64)
    one_report = np.stack([oracle.frequencies(cell) for cell in cells])
    starts = np.arange(0, oracle.buckets, length)
    runs = np.add.reduceat(one_report, starts, axis=1)
    centred = runs - oracle.forward(x) @ runs
    expected = centred.T @ (oracle.forward(x)[:, None] * centred)
    np.testing.assert_allclose(oracle.covariance(x, starts), expected, atol=1e-10)


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 5.0])
def test_the_covariance_of_many_values_is_asked_of_few_runs(epsilon):
    oracle = LocalHashing(4096, epsilon)
    assert 32 <= oracle.most_runs <= 1024
    assert oracle.most_runs**2 * oracle.cells <= MOST_PRODUCTS


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["randomized_response", "seeded_hashing"])
def test_the_covariance_of_frequencies_is_the_stated_one(mechanism):
    # 4000 runs: a variance has a relative error of 2.2 %; five times that for 10 of them, once in 100 000 by chance.
    c = Collection(name="c", low=0, high=8, buckets=8, epsilon=1.0, mechanism=mechanism)
    rng = np.random.default_rng(1)
    truth = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05, 0.0])
    values = rng.choice(np.arange(8) + 0.5, (4000, 500), p=truth)
    runs = np.stack([c.mechanism.frequencies(c.tally(c.simulate(sample, rng))) for sample in values])
    stated, observed = c.mechanism.covariance(truth, np.arange(8)) / 500, np.cov(runs, rowvar=False)
    np.testing.assert_allclose(np.diag(stated), np.diag(observed), rtol=0.11)
    for row in (np.arange(8) - 3.5, np.arange(8) < 3):
        assert row @ stated @ row == pytest.approx(row @ observed @ row, rel=0.11)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 10**14), min_size=1, max_size=30, unique=True),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5),
)
def test_xxh32_of_decimal_texts_is_the_reference_implementations(values, seeds):
    values = sorted(values)
    hashes = DecimalTexts.of(np.array(values)).hash(np.array(seeds, dtype=np.uint32))
    expected = [[xxhash.xxh32(str(value).encode(), seed=seed).intdigest() for seed in seeds] for value in values]
    assert hashes.tolist() == expected


@pytest.mark.parametrize("values", [2, 10, 11, 150, 1024, 12_000])
def test_seeded_support_is_counted_as_the_classic_clients_define_it(values):
    oracle = SeededHashing(values, 1.0)
    assert oracle.g == round(math.e) + 1
    rng = np.random.default_rng(1)
    cells = oracle.perturb_many(rng.integers(0, values, 40), rng)
    expected = [0] * values
    for cell in cells.tolist():
        seed, symbol = divmod(cell, oracle.g)
        for value in range(values):
            expected[value] += xxhash.xxh32(str(value).encode(), seed=seed).intdigest() % oracle.g == symbol
    tally = oracle.tally(cells)
    assert tally.tolist() == [*expected, 40]


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 3.0, 6.0, 10.0, 20.0])
@pytest.mark.parametrize("size", [2, 4, 64, 1024, 4096, 65_536])
def test_no_table_exceeds_the_limit(size, epsilon):
    oracle = frequency_oracle(size, epsilon)
    assert oracle.cells <= TABLE_LIMIT
    hashing = LocalHashing(size, epsilon)
    assert hashing.cells <= TABLE_LIMIT
    assert all(hashing.g % k for k in range(2, hashing.g))
    assert hashing.functions >= size
    assert oracle.noise <= min(hashing.noise, RandomizedResponse(size, epsilon).noise)


def test_frequency_oracles_beyond_the_table_limit():
    assert best_prime(2**17, 1.0) == 2
    assert best_prime(2**17 + 1, 1.0) is None
    assert isinstance(frequency_oracle(2**18, 1.0), RandomizedResponse)
    with pytest.raises(ValueError, match="too many"):
        frequency_oracle(2**18 + 1, 1.0)
    with pytest.raises(ValueError, match="more than 262144 cells"):
        LocalHashing(2**17 + 1, 1.0).law  # noqa: B018
    with pytest.raises(CollectionError, match="more than 262144 cells"):
        Collection(name="c", low=0, high=1, epsilon=1, buckets=1024, mechanism="local_hashing", symbols=509)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0])
def test_randomized_response_wins_where_the_paper_says(epsilon):
    # GRR iff k - 2 < 3e^ε, up to the rounding of e^ε + 1 to a prime.
    for size in (2, 4, 8, 16, 32, 64, 128, 256):
        boundary = (size - 2) / (3 * math.exp(epsilon))
        if not 0.7 < boundary < 1.4:
            assert isinstance(frequency_oracle(size, epsilon), RandomizedResponse) == (boundary < 1)


@pytest.mark.parametrize(("size", "base", "digits"), [(2, 2, 1), (3, 2, 2), (1024, 2, 10), (1025, 2, 11), (5, 7, 1)])
def test_count_digits_is_the_logarithm_rounded_up(size, base, digits):
    assert count_digits(size, base) == digits


@pytest.mark.parametrize("bins", [16, 32, 64, 10])
@pytest.mark.parametrize("mechanism", ["randomized_response", "local_hashing"])
def test_binning_spreads_bins_evenly_over_buckets(bins, mechanism):
    c = Collection(name="c", low=0, high=1, epsilon=2.0, buckets=320, bins=bins, mechanism=mechanism)
    assert c.mechanism.buckets == bins
    e = c.estimate(c.tally(c.simulate(np.random.default_rng(1).beta(5, 2, 50_000), seed=1)))
    by_bin = e.probabilities.reshape(bins, -1)
    assert by_bin.min() >= 0
    assert e.probabilities.sum() == pytest.approx(1)
    np.testing.assert_allclose(by_bin, by_bin[:, :1] * np.ones((1, 320 // bins)), atol=1e-12)
    assert e.interval("mean")[0] < 5 / 7 < e.interval("mean")[1]


def test_bins_that_do_not_divide_the_buckets_keep_their_mass():
    c = Collection(name="c", low=0, high=1, epsilon=8.0, buckets=7, bins=3, mechanism="randomized_response")
    e = c.estimate(np.array([30_000, 60_000, 10_000]))
    assert e.probabilities.sum() == pytest.approx(1)
    assert e.cdf(2 / 7) == pytest.approx(0.3 * 6 / 7, abs=0.001)
    assert e.cdf(3 / 7) == pytest.approx(0.3 + 0.6 * 2 / 7, abs=0.001)
