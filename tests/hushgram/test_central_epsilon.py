"""The central ε: by enumeration of all tallies at small sizes, by direct sums, and against published figures."""

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hushgram import Collection
from hushgram.central_epsilon import MOST_REPORTS, central_delta, central_epsilon
from hushgram.mechanisms import (
    MECHANISMS,
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
)
from hushgram.mechanisms.blanket import Blanket
from tests.helpers.exact import compute_exact_law

EXACT = {
    "square wave": lambda e: SquareWave(5, e, bits=3),
    "narrow square wave": lambda e: SquareWave(5, e, bandwidth=0.0, bits=3),
    "square wave wider than the domain": lambda e: SquareWave(3, e, bandwidth=0.7, bits=3),
    "square waves of two widths": lambda e: SquareWave(4, e, bits=3, widths=(0.5, 1.25)),
    "randomized response": lambda e: RandomizedResponse(4, e, bits=3),
    "local hashing": lambda e: LocalHashing(4, e, symbols=2, bits=3),
    "hashing of half a family": lambda e: LocalHashing(3, e, symbols=2, bits=3),
    "hierarchy": lambda e: Hierarchy(4, e, branching=2, level_decay=0.5, bits=2),
    "haar": lambda e: HaarResponse(4, e, bits=3),
    "deep haar": lambda e: HaarResponse(8, e, bits=3),
    "stochastic rounding": lambda e: StochasticRounding(4, e, bits=3, grid_steps=5),
}
"""Mechanisms whose declared blanket is the whole of it."""
PART = {
    "continuous square wave": lambda e: ContinuousSquareWave(4, e, output_buckets=5, bits=2, grid_steps=12),
    "wide continuous wave": lambda e: ContinuousSquareWave(4, e, 0.8, output_buckets=5, bits=2, grid_steps=12),
    "trapezoid": lambda e: GeneralWave(4, e, 0.4, output_buckets=6, bits=2, grid_steps=12),
    "triangle": lambda e: GeneralWave(3, e, 0.0, output_buckets=4, bits=2, grid_steps=12),
    "piecewise": lambda e: Piecewise(4, e, output_buckets=5, bits=2, grid_steps=12),
}
"""Mechanisms whose declared blanket leaves out what pooling steps to cells, or sloping sides, hide besides."""
EPSILONS = (0.4, 1.0, 2.5)


@lru_cache
def enumerate_laws(name: str, epsilon: float) -> np.ndarray:
    """The exact probability of each cell, positions × cells."""
    mechanism = {**EXACT, **PART}[name](epsilon)
    laws = [compute_exact_law(lambda below, at=at: mechanism.perturb(at, below)) for at in range(mechanism.positions)]
    return np.array([[float(law.get(cell, 0)) for cell in range(mechanism.cells)] for law in laws])


def compute_tally_laws(laws: np.ndarray, others: tuple[int, ...]) -> np.ndarray:
    """The probability of each tally, for each value of the first device, the others' values being known."""
    cells = laws.shape[1]
    tuples = np.array(list(itertools.product(range(cells), repeat=len(others) + 1)))
    _, which = np.unique(np.sort(tuples, axis=1), axis=0, return_inverse=True)
    rest = np.ones(1)
    for value in others:
        rest = np.multiply.outer(rest, laws[value]).ravel()
    return np.stack([np.bincount(which.ravel(), np.multiply.outer(law, rest).ravel()) for law in laws])


def compute_direct_delta(laws: np.ndarray, first: int, second: int, epsilon: float, reports: int) -> float:
    """The blanket's δ of two values from all of ω, by plain sums: no grid, no transform, no claim about kinds."""
    blanket = laws.min(axis=0)
    step = {0.0: 1 - blanket.sum()}
    for mass, one, other in zip(blanket, laws[first], laws[second], strict=True):
        value = round((one - math.exp(epsilon) * other) / mass, 10)
        step[value] = step.get(value, 0.0) + mass
    total = {0.0: 1.0}
    for _ in range(reports):
        after: dict[float, float] = {}
        for (value, mass), (more, share) in itertools.product(total.items(), step.items()):
            at = round(value + more, 10)
            after[at] = after.get(at, 0.0) + mass * share
        total = after
    return sum(max(value, 0.0) * mass for value, mass in total.items()) / reports


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", [*EXACT, *PART])
def test_no_tally_tells_two_values_apart_by_more_than_the_bound(name, epsilon):
    laws = enumerate_laws(name, epsilon)
    blanket = {**EXACT, **PART}[name](epsilon).blanket
    ends = (0, len(laws) // 2, len(laws) - 1)
    for reports in (1, 2, 3, 4) if laws.shape[1] <= 6 else (1, 2, 3):
        for others in itertools.combinations_with_replacement(ends, reports - 1):
            tallies = compute_tally_laws(laws, others)
            for central in (0.0, 0.3 * epsilon, 0.7 * epsilon, 0.95 * epsilon):
                exceeding = tallies[:, None] - math.exp(central) * tallies[None]
                worst = float(np.maximum(exceeding, 0.0).sum(axis=2).max())
                assert worst <= central_delta(blanket, central, reports) + 1e-15, (reports, others, central)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", [*EXACT, *PART])
def test_the_declared_blanket_is_that_of_the_two_values_told_apart_best(name, epsilon):
    # All pairs of values in both orders; sums of a few values are on a fine grid, so that little is added to them.
    laws = enumerate_laws(name, epsilon)
    blanket = {**EXACT, **PART}[name](epsilon).blanket
    pairs = list(itertools.permutations(range(len(laws)), 2))
    for reports, central in itertools.product(
        (1, 2, 3) if name in EXACT else (1, 2), (0.0, 0.2 * epsilon, 0.6 * epsilon)
    ):
        worst = max(compute_direct_delta(laws, *pair, central, reports) for pair in pairs)
        bound = central_delta(blanket, central, reports)
        assert worst <= bound * (1 + 1e-8) + 1e-15
        if name in EXACT:
            assert bound <= 1.01 * worst


@pytest.mark.parametrize("reports", [1, 2, 5, 14])
def test_the_transform_is_not_below_direct_sums(reports):
    for name, epsilon, share in itertools.product(("square wave", "haar"), (0.5, 3.0), (0.0, 0.1, 0.4, 0.8)):
        laws = enumerate_laws(name, epsilon)
        direct = compute_direct_delta(laws, 0, len(laws) - 1, share * epsilon, reports)
        bound = central_delta(EXACT[name](epsilon).blanket, share * epsilon, reports)
        assert direct <= bound * (1 + 1e-8) + 1e-15
        assert bound <= 1.02 * direct + 2e-16


@pytest.mark.parametrize("reports", [10**3, 10**5])
def test_randomized_response_of_a_bit_has_its_exact_law(reports):
    """A tally of bits is a binomial count; where all others have the same value, its δ is a sum."""
    mechanism = RandomizedResponse(2, 1.0)
    counts = np.arange(reports + 1)
    none = stats.binom.pmf(counts, reports, mechanism.law.q)
    others = stats.binom.pmf(np.arange(-1, reports + 1), reports - 1, mechanism.law.q)
    one = (1 - mechanism.law.p) * others[1:] + mechanism.law.p * others[:-1]
    central = central_epsilon(mechanism.blanket, reports, 1e-8)

    def compute_delta(epsilon):
        pairs = ((one, none), (none, one))
        return max(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() for first, second in pairs)

    assert compute_delta(central) <= 1e-8
    assert compute_delta(central / 1.5) > 1e-8  # and the bound is not idle


def test_it_is_below_the_general_bound_of_hiding_among_the_clones():
    """Feldman, McMillan, Talwar 2021 state 0.1675 to 0.1728 for any mechanism, n = 1e5, ε = 4, δ = 1e-6."""
    kinds = (
        SquareWave(1024, 4.0),
        SquareWave(1024, 4.0, widths=(0.5, 1.0)),
        ContinuousSquareWave(256, 4.0),
        GeneralWave(256, 4.0),
        RandomizedResponse(2, 4.0),
        RandomizedResponse(1024, 4.0),
        LocalHashing(1024, 4.0),
        SeededHashing(1024, 4.0),
        HaarResponse(1024, 4.0),
        Hierarchy(1024, 4.0),
        StochasticRounding(64, 4.0),
        Piecewise(64, 4.0, output_buckets=256),
    )
    for mechanism in kinds:
        assert 0.02 < central_epsilon(mechanism.blanket, 10**5, 1e-6) < 0.1675, mechanism.name
    assert {mechanism.name for mechanism in kinds} == set(MECHANISMS)


blankets = st.builds(
    lambda epsilon, bandwidth: SquareWave(32, epsilon, bandwidth).blanket, st.floats(0.01, 6.0), st.floats(0.0, 1.0)
)


@settings(deadline=None, max_examples=15)
@given(blankets, st.integers(1, 10**4), st.floats(1e-12, 0.1))
def test_it_falls_with_reports_and_delta_and_is_never_above_the_local_epsilon(blanket, reports, delta):
    # The grid moves with the sum, so that neighbouring bounds agree up to some thousandths.
    central = central_epsilon(blanket, reports, delta)
    assert 0 <= central <= math.log1p(blanket.excess)
    assert central_epsilon(blanket, 4 * reports, delta) <= 1.005 * central
    assert central_epsilon(blanket, reports, min(4 * delta, 0.5)) <= 1.005 * central
    assert central_delta(blanket, central, reports, 1e-6 * delta) <= delta or central == math.log1p(blanket.excess)


@pytest.mark.parametrize("reports", [100, 10**4, 10**6])
def test_it_grows_with_the_local_epsilon(reports):
    found = [central_epsilon(SquareWave(64, e).blanket, reports, 1e-8) for e in (0.1, 0.5, 1.0, 2.0, 4.0)]
    assert found == sorted(found)


@pytest.mark.parametrize("epsilon", [1e-6, 20.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-8, 0.999])
@pytest.mark.parametrize("reports", [1, 7, 10**5])
def test_extremes_have_an_answer(epsilon, delta, reports):
    assert 0 <= central_epsilon(SquareWave(16, epsilon).blanket, reports, delta) <= epsilon


def test_more_reports_than_the_grid_takes_count_as_many_as_it_takes():
    blanket = SquareWave(16, 4.0).blanket
    assert central_delta(blanket, 0.003, 10**15) == central_delta(blanket, 0.003, MOST_REPORTS) > 0
    assert central_delta(blanket, math.log1p(blanket.excess) * (1 - 1e-12), MOST_REPORTS, 1e-300) == math.inf


def test_one_report_is_protected_by_its_own_epsilon_alone():
    blanket = RandomizedResponse(2, 1.0).blanket
    # δ(ε) = q(e^ε₀ - e^ε), solved for ε
    exact = math.log(1 + blanket.excess - 0.01 / blanket.apart)
    assert central_epsilon(blanket, 1, 0.01) == pytest.approx(exact, rel=1e-3)
    assert central_epsilon(blanket, 1, 0.01) >= exact


def test_a_law_that_is_the_same_for_all_values_reveals_nothing():
    assert central_epsilon(Blanket(0.0, 0.25, 0.0), 1, 1e-8) == 0.0


def test_a_collection_tells_its_central_epsilon():
    commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
    assert commute.central_epsilon(10**4) == central_epsilon(commute.mechanism.blanket, 10**4, 1e-8)
    assert commute.central_epsilon(1) <= 1.0
    assert commute.central_epsilon(np.int64(10**4), delta=1e-5) < commute.central_epsilon(10**4)


def test_a_mechanism_without_a_blanket_has_no_central_epsilon(monkeypatch):
    monkeypatch.setattr(SquareWave, "blanket", None)
    assert Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0).central_epsilon(10**4) is None


@pytest.mark.parametrize("reports", [0, -1, 1.5, True, "many", None, math.nan])
def test_reports_must_be_counted(reports):
    commute = Collection(name="commute", low=0, high=180, epsilon=1.0)
    with pytest.raises(ValueError, match="reports must be a whole number of 1 or more, got "):
        commute.central_epsilon(reports)


@pytest.mark.parametrize("delta", [0, -1e-8, 1, 1.0, 2, math.nan, True, "small", None])
def test_delta_must_be_a_probability(delta):
    commute = Collection(name="commute", low=0, high=180, epsilon=1.0)
    with pytest.raises(ValueError, match="delta must be between 0 and 1, and neither, got "):
        commute.central_epsilon(100, delta)
