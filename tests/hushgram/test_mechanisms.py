"""The law of every mechanism: by enumeration of all draws at small sizes, in integers at full size, and on samples."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hushgram import Collection
from hushgram.mechanisms import (
    ContinuousSquareWave,
    GeneralWave,
    HaarResponse,
    Hierarchy,
    LocalHashing,
    Piecewise,
    RandomizedResponse,
    SeededHashing,
    SquareWave,
    StochasticRounding,
    best_bandwidth,
)
from tests.helpers.exact import compute_exact_law, compute_worst_ratio, is_at_most_exp

EPSILONS = (0.3, 1.0, 2.5)
SMALL = {
    "square wave": lambda e: SquareWave(5, e, bits=3),
    "wide square wave": lambda e: SquareWave(4, e, bandwidth=0.9, bits=3),
    "narrow square wave": lambda e: SquareWave(4, e, bandwidth=0.0, bits=3),
    "square waves of two widths": lambda e: SquareWave(4, e, bits=3, widths=(0.5, 1.25)),
    "continuous square wave": lambda e: ContinuousSquareWave(4, e, output_buckets=5, bits=2, grid_steps=24),
    "trapezoid": lambda e: GeneralWave(4, e, 0.4, output_buckets=6, bits=2, grid_steps=24),
    "triangle": lambda e: GeneralWave(3, e, 0.0, output_buckets=4, bits=2, grid_steps=24),
    "randomized response": lambda e: RandomizedResponse(5, e, bits=3),
    "local hashing": lambda e: LocalHashing(7, e, symbols=3, bits=2),
    "hierarchy": lambda e: Hierarchy(9, e, branching=3, bits=2),
    "haar": lambda e: HaarResponse(8, e, bits=3),
    "stochastic rounding": lambda e: StochasticRounding(4, e, bits=3, grid_steps=10),
    "piecewise": lambda e: Piecewise(4, e, output_buckets=6, bits=2, grid_steps=24),
}


@pytest.fixture(scope="module", params=[(name, e) for name in SMALL for e in EPSILONS], ids=str)
def mechanism_and_laws(request):
    """A mechanism with a small word, and the exact law of each of its positions."""
    name, epsilon = request.param
    mechanism = SMALL[name](epsilon)
    laws = [compute_exact_law(lambda below, at=at: mechanism.perturb(at, below)) for at in range(mechanism.positions)]
    return mechanism, laws


def test_no_cell_distinguishes_two_inputs_by_more_than_epsilon(mechanism_and_laws):
    mechanism, laws = mechanism_and_laws
    assert all(sum(law.values()) == 1 for law in laws)
    assert set().union(*laws) == set(range(mechanism.cells))
    assert is_at_most_exp(compute_worst_ratio(laws), mechanism.epsilon)


def test_the_stated_law_is_the_law_of_the_device(mechanism_and_laws):
    # Over the buckets, positions evenly within each; on a grid, up to the half step by which its ends differ.
    mechanism, laws = mechanism_and_laws
    exact = np.array([[float(law.get(cell, 0)) for cell in range(mechanism.cells)] for law in laws])
    if mechanism.positions == mechanism.buckets:
        for bucket in range(mechanism.buckets):
            np.testing.assert_allclose(mechanism.forward(np.eye(mechanism.buckets)[bucket]), exact[bucket], rtol=1e-9)
    else:
        average = np.r_[0.5, np.ones(len(exact) - 2), 0.5] @ exact / (len(exact) - 1)
        uniform = np.full(mechanism.buckets, 1 / mechanism.buckets)
        np.testing.assert_allclose(mechanism.forward(uniform), average, atol=2e-3)


def test_the_simulation_has_the_law_of_the_device(mechanism_and_laws):
    # Chi-square on 20 000 draws at two positions; each fails by chance once in 10 million.
    mechanism, laws = mechanism_and_laws
    for position in (0, mechanism.positions - 1):
        rng = np.random.default_rng(position + 17)
        cells = mechanism.perturb_many(np.full(20_000, position), rng)
        expected = np.array([float(laws[position].get(cell, 0)) for cell in range(mechanism.cells)])
        counts = np.bincount(cells, minlength=mechanism.cells)
        assert counts[expected == 0].sum() == 0
        keep = expected > 0
        assert stats.chisquare(counts[keep], 20_000 * expected[keep] / expected.sum()).pvalue > 1e-7


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("bandwidth", [None, 0.0, 0.3, 0.9])
def test_the_square_wave_is_p_on_its_band_and_q_elsewhere(epsilon, bandwidth):
    wave = SquareWave(5, epsilon, bandwidth, bits=4)
    [law_of_wave], [half_width] = wave.laws, wave.half_widths
    P, Q, T = law_of_wave.P, law_of_wave.Q, law_of_wave.T
    for bucket in range(5):
        law = compute_exact_law(lambda below, at=bucket: wave.perturb(at, below))
        band = range(bucket, bucket + 2 * half_width + 1)
        assert law == {cell: Fraction(P if cell in band else Q, T) for cell in range(wave.cells)}


def test_a_wave_of_several_widths_is_each_of_them_with_the_same_probability():
    wave = SquareWave(5, 1.0, bits=3, widths=(0.5, 1.0, 2.0))
    singles = [SquareWave(5, 1.0, factor * best_bandwidth(1.0), bits=3) for factor in wave.widths]
    assert wave.laws == tuple(single.laws[0] for single in singles)
    assert wave.cells == sum(single.cells for single in singles)
    for bucket in range(5):
        expected, start = {}, 0
        for single in singles:
            law = compute_exact_law(lambda below, at=bucket, single=single: single.perturb(at, below))
            expected |= {start + cell: probability / 3 for cell, probability in law.items()}
            start += single.cells
        assert compute_exact_law(lambda below, at=bucket: wave.perturb(at, below)) == expected


@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_a_general_wave_is_a_trapezoid_on_a_floor(ratio):
    wave = GeneralWave(4, 1.0, ratio, output_buckets=5, bits=3, grid_steps=40)
    grid, P, Q, T = wave.grid, wave.law.P, wave.law.Q, wave.law.T
    foot = grid.plateau + grid.ramp - 1
    assert grid.domain + foot == wave.cells * grid.cell
    for position in (0, 1, grid.domain // 2, grid.domain):
        steps = [Fraction(Q, T)] * (wave.cells * grid.cell)
        for step in range(foot):
            height = min(step + 1, grid.ramp, foot - step)  # rises by 1/ramp a step, stays, falls
            steps[position + step] += Fraction((P - Q) * height, T * grid.ramp)
        expected = {cell: sum(steps[cell * grid.cell : (cell + 1) * grid.cell]) for cell in range(wave.cells)}
        assert compute_exact_law(lambda below, at=position: wave.perturb(at, below)) == expected


def test_seeded_hashing_is_randomized_response_given_the_seed():
    oracle = SeededHashing(12, 1.0, bits=3)
    P, Q, T = oracle.law.P, oracle.law.Q, oracle.law.T
    for seed in (0, 1, 2**32 - 1):
        for value in range(12):

            def sample(below, seed=seed, value=value):
                first = iter([seed])
                return oracle.perturb(value, lambda limit: next(first, None) if limit == 2**32 else below(limit))

            law = compute_exact_law(sample)
            assert {cell // oracle.g for cell in law} == {seed}
            assert sorted(law.values()) == sorted([Fraction(P, T)] + [Fraction(Q, T)] * (oracle.g - 1))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 7.0, 10.0])
@pytest.mark.parametrize("buckets", [2, 3, 16, 1000, 1024, 4096])
def test_full_size_laws_in_integers(epsilon, buckets):
    wave = SquareWave(buckets, epsilon)
    [law] = wave.laws
    assert law.width == 2 * math.floor(best_bandwidth(epsilon) * buckets) + 1
    assert wave.cells == law.width + buckets - 1
    assert law.T < 2**63
    # One favoured cell against one other: the weights that the draws at the ends of each cell's run add up to.
    assert is_at_most_exp(Fraction(law.P, law.Q), epsilon)
    for bucket in (0, buckets // 2, buckets - 1):
        runs = dict.fromkeys(range(wave.cells), 0)
        for index in range(law.width):
            ends = [wave.perturb(bucket, lambda _, r=r: r) for r in (index * law.P, (index + 1) * law.P - 1)]
            assert ends == [bucket + index] * 2
            runs[ends[0]] += law.P
        for index in range(0, buckets - 1):
            begin = law.width * law.P + index * law.Q
            ends = [wave.perturb(bucket, lambda _, r=r: r) for r in (begin, begin + law.Q - 1)]
            assert ends[0] == ends[1]
            runs[ends[0]] += law.Q
        assert sum(runs.values()) == law.T
        assert set(runs.values()) == {law.P, law.Q}
    continuous = ContinuousSquareWave(buckets, epsilon)
    assert continuous.grid.plateau * law.P + continuous.grid.domain * law.Q == continuous.law.T
    assert abs(continuous.grid.plateau / continuous.grid.domain / 2 - best_bandwidth(epsilon)) < 1e-6


def test_bandwidth_is_stable_where_the_formula_cancels():
    assert best_bandwidth(1e-12) == pytest.approx(0.5, abs=1e-12)
    # b(ε) = 1/2 - ε/3 + O(ε²), and both branches meet at 1.
    assert best_bandwidth(1e-5) == pytest.approx(0.5 - 1e-5 / 3, abs=1e-9)
    assert best_bandwidth(1 - 1e-12) == pytest.approx(best_bandwidth(1.0), rel=1e-10)
    values = [best_bandwidth(e) for e in np.geomspace(1e-9, 12, 400)]
    assert all(a > b > 0 for a, b in itertools.pairwise(values))


def _measure_epsilon(first, second, cells):
    """The greatest log-ratio of the frequencies of cells, and of all cells from one on, under two inputs."""
    a = np.bincount(first, minlength=cells) / first.size
    b = np.bincount(second, minlength=cells) / second.size
    events = [(a[c], b[c]) for c in range(cells)] + [(a[c:].sum(), b[c:].sum()) for c in range(1, cells)]
    return max(abs(math.log(x / y)) for x, y in events if min(x, y) > 0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_epsilon_measured_on_samples(epsilon):
    # 10⁶ reports of either end of the domain. The rarest event has probability above 0.006, so a log-ratio has a
    # standard error below 0.019; 59 events, 5.5 standard errors: fails by chance less than once in 400 000.
    c = Collection(name="c", low=0, high=1, buckets=16, epsilon=epsilon)
    first, second = (c.simulate(np.full(1_000_000, value), seed) for value, seed in ((0.0, 1), (1.0, 2)))
    measured = _measure_epsilon(first, second, c.mechanism.cells)
    assert abs(measured - epsilon) < 0.105


def test_the_device_has_the_law_of_its_mechanism():
    # The device's own code path, with a seeded stand-in for the system's generator; chi-square, 1 in 10 million.
    wave = SquareWave(8, 1.0)
    generator = random.Random(5)
    counts = np.bincount([wave.perturb(3, generator.randrange) for _ in range(50_000)], minlength=wave.cells)
    assert stats.chisquare(counts, 50_000 * wave.matrix()[:, 3]).pvalue > 1e-7


MERGED = [
    Collection(name="c", low=0, high=1, epsilon=1.5, buckets=64, mechanism=mechanism)
    for mechanism in (
        "square_wave",
        "square_wave_continuous",
        "general_wave",
        "randomized_response",
        "local_hashing",
        "seeded_hashing",
        "hierarchy",
        "haar",
        "stochastic_rounding",
        "piecewise",
    )
]


@pytest.mark.parametrize("collection", MERGED, ids=lambda c: c.mechanism.name)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_split_any_order_any_grouping_gives_one_tally(collection, data):
    values = data.draw(st.lists(st.floats(0, 1), max_size=40))
    cells = collection.simulate(np.array(values), seed=data.draw(st.integers(0, 2**32)))
    whole = collection.tally(cells)
    shuffled = cells[np.array(data.draw(st.permutations(range(len(values)))), dtype=int)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    parts = [collection.tally(chunk) for chunk in np.split(shuffled, cuts)]
    order = data.draw(st.permutations(range(len(parts))))
    merged = sum((parts[index] for index in order), np.zeros_like(whole))
    assert merged.tolist() == whole.tolist()
    assert collection.mechanism.reports(whole) == len(values)


def test_a_large_array_is_tallied_as_its_parts_are():
    c = MERGED[0]
    cells = c.simulate(np.random.default_rng(1).random(300_000), seed=2)
    assert c.tally(cells).tolist() == np.bincount(cells, minlength=c.mechanism.cells).tolist()
    assert cells.dtype == np.uint8
