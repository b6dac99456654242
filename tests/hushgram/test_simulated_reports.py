"""The noise of a simulation is independent of values drawn with the same seed, and of other simulations."""

import random
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.paper.two_phase import simulate_variance
from hushgram import Collection
from hushgram.mechanisms import MECHANISMS
from hushgram.sampling import simulation_generator

SEED, REPORTS = 42, 20_000

MEAN_ONLY = {name for name, kind in MECHANISMS.items() if kind.mean_only}


def draw_uniform(generator):
    return generator.random(REPORTS)


GENERATORS = {
    "default_rng": lambda seed: draw_uniform(np.random.default_rng(seed)),
    "default_rng of a list": lambda seed: draw_uniform(np.random.default_rng([seed])),
    "default_rng, spawned": lambda seed: draw_uniform(np.random.default_rng(seed).spawn(1)[0]),
    "default_rng, float32": lambda seed: np.random.default_rng(seed).random(REPORTS, dtype=np.float32),
    "default_rng, 32 bits": lambda seed: np.random.default_rng(seed).integers(0, 2**32, REPORTS) / 2**32,
    "default_rng, 63 bits": lambda seed: np.random.default_rng(seed).integers(0, 2**63, REPORTS) / 2**63,
    "SeedSequence": lambda seed: draw_uniform(np.random.default_rng(np.random.SeedSequence(seed))),
    "SeedSequence, spawned": lambda seed: draw_uniform(np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1])),
    "PCG64": lambda seed: draw_uniform(np.random.Generator(np.random.PCG64(seed))),
    "PCG64DXSM": lambda seed: draw_uniform(np.random.Generator(np.random.PCG64DXSM(seed))),
    "MT19937": lambda seed: draw_uniform(np.random.Generator(np.random.MT19937(seed))),
    "Philox": lambda seed: draw_uniform(np.random.Generator(np.random.Philox(seed))),
    "Philox with a key": lambda seed: draw_uniform(np.random.Generator(np.random.Philox(key=seed))),
    "SFC64": lambda seed: draw_uniform(np.random.Generator(np.random.SFC64(seed))),
    "RandomState": lambda seed: np.random.RandomState(seed).random_sample(REPORTS),
    "np.random.seed": lambda seed: _draw_with_global_seed(seed),
    "random.Random": lambda seed: np.array(list(map(random.Random.random, [random.Random(seed)] * REPORTS))),
}
"""Uniform values from the generators that people seed."""


def _draw_with_global_seed(seed):
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(seed)  # noqa: NPY002
        return np.random.random(REPORTS)  # noqa: NPY002
    finally:
        np.random.set_state(state)  # noqa: NPY002


@pytest.fixture(scope="module")
def values():
    return {name: np.asarray(draw(SEED), dtype=np.float64) for name, draw in GENERATORS.items()}


def make_collection(mechanism, name="c"):
    buckets = 16 if mechanism == "hierarchy" else 8  # of the hierarchy a power of four
    return Collection(name=name, low=0, high=1, buckets=buckets, epsilon=1.0, mechanism=mechanism)


def count_outcomes(c, cells, buckets):
    """By the bucket of the value: how often each outcome came, and the probability of each."""
    if c.mechanism.name != "seeded_hashing":
        counts = [np.bincount(cells[buckets == bucket], minlength=c.mechanism.cells) for bucket in range(c.buckets)]
        return np.array(counts), np.stack([c.mechanism.forward(row) for row in np.eye(c.buckets)])
    # Its cells are too many to count: an outcome is an eighth of the seeds, and whether the report supports the value.
    eighths, p = cells // c.mechanism.g >> 29, c.mechanism.law.p
    chunks = [[cells[(buckets == bucket) & (eighths == eighth)] for eighth in range(8)] for bucket in range(c.buckets)]
    support = np.array([[c.tally(chunk)[bucket] for chunk in row] for bucket, row in enumerate(chunks)])
    sizes = np.array([[chunk.size for chunk in row] for row in chunks])
    return np.hstack([support, sizes - support]), np.repeat([[p / 8, (1 - p) / 8]], 8, axis=1).repeat(c.buckets, axis=0)


def compute_pvalue(c, values, cells):
    """The chi-square test that, given the bucket of its value, every outcome has the probability of the law."""
    counts, law = count_outcomes(c, cells, np.minimum((values * c.buckets).astype(int), c.buckets - 1))
    expected = counts.sum(axis=1, keepdims=True) * law / law.sum(axis=1, keepdims=True)
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), law.size - c.buckets)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_is_independent_of_values_drawn_with_the_same_seed(mechanism, values):
    # Each of the 170 pairs fails by chance once in 10⁹.
    c = make_collection(mechanism)
    for name, sample in values.items():
        assert compute_pvalue(c, sample, c.simulate(sample, seed=SEED)) > 1e-9, name


@pytest.mark.parametrize("mechanism", sorted(set(MECHANISMS) - {"general_wave", "piecewise"}))
def test_the_independence_test_detects_noise_of_the_same_stream(mechanism, values):
    """By values of 64 or of 32 bits, as wide as the mechanism's first draws.

    Two waves reject so many draws that they are out of step with the values at once.
    """
    c = make_collection(mechanism)
    samples = [values[name] for name in ("default_rng", "default_rng, 32 bits")]
    assert min(compute_pvalue(c, sample, c.simulate(sample, np.random.default_rng(SEED))) for sample in samples) < 1e-50


def compare_cells(c, first, second):
    """How many standard deviations more cells are equal, place by place, than of independent devices in bucket 0."""
    law = c.mechanism.forward(np.eye(c.buckets)[0])
    chance = float((law**2).sum() / law.sum() ** 2)
    return ((first == second).mean() - chance) / np.sqrt(chance * (1 - chance) / first.size)


@pytest.mark.parametrize("mechanism", sorted(set(MECHANISMS) - {"seeded_hashing", *MEAN_ONLY}))
def test_simulations_with_one_seed_share_no_noise(mechanism):
    # Values of one bucket, whose cells would be equal if the noise were. Each fails by chance once in 10⁹.
    c, n = make_collection(mechanism), 10_000
    rng = np.random.default_rng(1)
    first_values, second_values = rng.random((2, n)) / c.buckets
    cells = c.simulate(first_values, seed=1)
    others = {
        "another group": c.simulate(second_values, seed=1),
        "another collection": make_collection(mechanism, "d").simulate(first_values, seed=1),
        "another revision": replace(c, high=2.0).simulate(2 * first_values, seed=1),
        "another order": c.simulate(first_values[::-1], seed=1),
        "another value at the end": c.simulate([*first_values[:-1], second_values[-1]], seed=1),
        "another seed": c.simulate(first_values, seed=2),
    }
    for name, other in others.items():
        assert abs(compare_cells(c, cells, other)) < 6.1, name


def test_an_equal_simulation_gives_equal_cells():
    values = np.linspace(-1, 3, 200_000)  # several chunks
    c = Collection(name="c", low=0, high=2, epsilon=1.0)
    cells = c.simulate(values, seed=5)
    for equal_values in (values.tolist(), values.copy(), np.repeat(values, 2)[::2], values.astype(">f8")):
        np.testing.assert_array_equal(c.simulate(equal_values, seed=np.int64(5)), cells)
    np.testing.assert_array_equal(c.simulate([0, 1], seed=5), c.simulate([-0.0, 1.0], seed=5))


def test_parameters_that_reports_do_not_depend_on_do_not_change_the_simulation():
    c, values = Collection(name="c", low=0, high=2, epsilon=1.0), np.linspace(0, 2, 1000)
    other = replace(c, unit="m", estimator="em", groups=["a"], previous=[{"epsilon": 2.0}])
    np.testing.assert_array_equal(c.simulate(values, seed=1), other.simulate(values, seed=1))


def test_a_generator_is_drawn_from_as_it_is():
    c, rng = Collection(name="c", low=0, high=1, epsilon=1.0), np.random.default_rng(3)
    first, second = c.simulate([0.5] * 1000, rng), c.simulate([0.5] * 1000, rng)
    assert (first != second).any()  # it advanced
    np.testing.assert_array_equal(first, c.simulate([0.5] * 1000, np.random.default_rng(3)))


@pytest.mark.parametrize("seed", [-1, 1.5, None, "1", True, [1], np.random.SeedSequence(1)])
def test_a_wrong_seed_is_named(seed):
    c = Collection(name="c", low=0, high=1, epsilon=1.0)
    for simulate in (c.simulate, lambda values, seed: simulate_variance(c, values, seed)):
        with pytest.raises(ValueError, match="seed must be a whole number of zero or more, got "):
            simulate([0.5], seed)


def test_simulation_streams_differ_between_purposes_however_their_names_are_split():
    draws = [simulation_generator(1, *purpose).integers(2**63) for purpose in (("ab", "c"), ("a", "bc"), ("abc",), ())]
    assert len(set(draws)) == len(draws)


def test_a_simulated_variance_has_a_stream_of_its_own():
    c = Collection(name="c", low=0, high=1, epsilon=1.0, mechanism="stochastic_rounding")
    values = np.random.default_rng(SEED).random(1000)
    variance = simulate_variance(c, values, SEED)
    assert variance == simulate_variance(c, values, SEED)
    assert variance != simulate_variance(c, values, np.random.default_rng(SEED))
