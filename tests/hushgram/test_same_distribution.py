"""The test that two sets of tallies come from one distribution: its laws, its size, its power and its refusals."""

import itertools

import numpy as np
import pytest
from scipy import stats

from hushgram import Collection, NotEstimableError
from hushgram.comparison import same_distribution
from hushgram.comparison.chi_square_mixture import mixture_tail

HALF_HOURS = 64
SHAPES = {
    "hill": lambda u: stats.beta.pdf(u, 5, 2),
    "zeros": lambda u: np.where(u < 1 / HALF_HOURS, 30.0, 1.0),
    "stairs": lambda u: 1.0 + 3 * (np.floor(8 * u) % 2),
}
MECHANISMS = {
    "wave": {},
    "wave, ε 3": {"epsilon": 3.0},
    "several widths": {"widths": (0.5, 1.0)},
    "continuous": {"mechanism": "square_wave_continuous"},
    "triangle": {"mechanism": "general_wave", "wave_ratio": 0.0},
    "more buckets": {"buckets": 128},
    "response": {"mechanism": "randomized_response"},
    "hashing": {"mechanism": "local_hashing"},
    "tree": {"mechanism": "hierarchy"},
    "haar": {"mechanism": "haar"},
    "rounding": {"mechanism": "stochastic_rounding"},
    "piecewise": {"mechanism": "piecewise"},
}


def mechanism(name):
    options = {"buckets": HALF_HOURS, "epsilon": 1.0} | MECHANISMS[name]
    return Collection(name="c", low=0, high=1, **options).mechanism


def shares(shape, buckets):
    # Evenly spread within each of 64 parts, so that all numbers of buckets can express it.
    density = np.repeat(SHAPES[shape]((np.arange(HALF_HOURS) + 0.5) / HALF_HOURS), buckets // HALF_HOURS)
    return density / density.sum()


def expected(name, shape, reports):
    """The tally of a number of reports without any chance in it, but for rounding."""
    of = mechanism(name)
    return of, np.rint(reports * of.forward(shares(shape, of.buckets))).astype(np.int64)


def drawn(name, shape, reports, rng, runs):
    of = mechanism(name)
    cells = of.forward(shares(shape, of.buckets))
    return [(of, tally) for tally in rng.multinomial(reports, cells / cells.sum(), size=runs)]


# The tail of a mixture ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [0.3, 1.0, 2.9, 3.1, 5.0, 20.0, 60.0])
def test_tail_of_pairs_of_equal_weights_is_that_of_a_sum_of_exponentials(q):
    """2wE is w(Z² + Z²): for different w, P(Σ 2w_i E_i > q) = Σ_i e^(-q/2w_i) Π_{j≠i} w_i/(w_i - w_j)."""
    weights = np.array([1.0, 0.4, 0.1])
    exact = sum(np.exp(-q / (2 * w)) * np.prod([w / (w - other) for other in weights if other != w]) for w in weights)
    assert mixture_tail(q, np.repeat(weights, 2)) == pytest.approx(exact, rel=0.035, abs=1e-12)


@pytest.mark.parametrize("freedom", [1, 2, 6, 24])
@pytest.mark.parametrize("share", [0.9, 0.5, 0.05, 1e-3, 1e-9])
def test_tail_of_equal_weights_is_that_of_chi_square(freedom, share):
    q = stats.chi2.isf(share, freedom)
    assert mixture_tail(3 * q, np.full(freedom, 3.0)) == pytest.approx(share, rel=0.035)


def test_tail_falls_from_one_to_zero_and_is_smooth_across_the_mean():
    weights = 1 / np.arange(1.0, 25) ** 2
    tails = np.array([mixture_tail(q, weights) for q in np.linspace(0, 20, 4001)])
    assert tails[0] == 1
    assert 0 < tails[-1] < 1e-4
    assert np.diff(tails).max() < 2e-3
    assert np.abs(np.diff(tails)).max() < 0.01


def test_without_weights_nothing_is_unusual():
    assert mixture_tail(5.0, np.zeros(3)) == 1.0


# The test itself ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "other"), [*itertools.combinations(MECHANISMS, 2)])
def test_without_chance_one_distribution_is_never_told_apart(name, other, shape):
    """The score has expectation zero whatever the distribution, the mechanisms and the numbers of reports are."""
    first, second = expected(name, shape, 10**7), expected(other, shape, 3 * 10**6)
    assert same_distribution([first], [second]) > 0.99


@pytest.mark.parametrize("name", MECHANISMS)
def test_without_chance_two_distributions_are_told_apart(name):
    assert same_distribution([expected(name, "hill", 10**5)], [expected(name, "stairs", 10**5)]) < 1e-4


@pytest.mark.parametrize("names", [("wave", "wave"), ("wave", "wave, ε 3"), ("haar", "several widths")])
def test_either_side_may_come_first(names):
    rng = np.random.default_rng(5)
    (first,), (second,) = (drawn(name, "hill", 4000, rng, 1) for name in names)
    assert same_distribution([first], [second]) == pytest.approx(same_distribution([second], [first]), rel=1e-6)


def test_tallies_of_one_mechanism_add_up():
    rng = np.random.default_rng(5)
    (wave, one), (_, two), other = drawn("wave", "hill", 4000, rng, 3)
    apart, together = [(wave, one), (wave, two)], [(wave, one + two)]
    assert same_distribution(apart, [other]) == same_distribution(together, [other])


@pytest.mark.parametrize("name", ["rounding", "piecewise"])
def test_where_only_means_are_known_it_is_the_test_of_two_means(name):
    rng = np.random.default_rng(5)
    of, one = drawn(name, "hill", 4000, rng, 1)[0]
    _, two = drawn(name, "stairs", 9000, rng, 1)[0]
    values, both = of.cell_values(), one + two
    variance = float(values**2 @ both) / both.sum() - (float(values @ both) / both.sum()) ** 2
    gap = values @ one / one.sum() - values @ two / two.sum()
    z = gap / np.sqrt(variance * (1 / one.sum() + 1 / two.sum()))
    assert same_distribution([(of, one)], [(of, two)]) == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([("wave", 300)], [("wave", 300)]),
        ([("wave", 1000)], [("wave", 50_000)]),
        ([("wave", 20_000)], [("wave, ε 3", 5_000)]),
        ([("wave", 20_000), ("wave, ε 3", 1000)], [("wave", 500), ("wave, ε 3", 20_000)]),
        ([("haar", 10_000)], [("triangle", 10_000)]),
        ([("hashing", 5_000)], [("hashing", 10_000)]),
    ],
)
def test_one_distribution_is_told_apart_as_rarely_as_promised(first, second):
    """1000 runs of which 5 % are rejected: fewer than 29 or more than 73 with a chance of 1 in 1000, in each row."""
    rng, runs = np.random.default_rng(11), 1000
    sides = [[drawn(name, "zeros", reports, rng, runs) for name, reports in side] for side in (first, second)]
    pairs = zip(*(zip(*side, strict=True) for side in sides), strict=True)
    assert 29 <= sum(same_distribution(one, other) < 0.05 for one, other in pairs) <= 73


def test_a_side_without_reports_is_refused():
    wave, tally = expected("wave", "hill", 1000)
    with pytest.raises(NotEstimableError, match="the second of the two has no reports"):
        same_distribution([(wave, tally)], [(wave, 0 * tally)])
    with pytest.raises(NotEstimableError, match="the first of the two has no reports"):
        same_distribution([], [(wave, tally)])
