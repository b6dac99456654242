from collections import Counter
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram.sampling import Law, favoured_weight, os_below
from tests.helpers.exact import compute_exact_law, is_at_most_exp

small_laws = st.builds(Law, P=st.integers(1, 9), Q=st.integers(1, 9), width=st.integers(1, 5), others=st.integers(0, 6))


@given(small_laws, st.data())
def test_every_outcome_has_its_weight_and_no_other(law, data):
    start = data.draw(st.integers(0, law.others))
    exact = compute_exact_law(lambda below: law.draw(start, below))
    inside = range(start, start + law.width)
    expected = {cell: Fraction(law.P if cell in inside else law.Q, law.T) for cell in range(law.width + law.others)}
    assert exact == expected


@given(small_laws, st.data())
def test_the_vectorised_draw_answers_the_same_to_every_draw(law, data):
    start = data.draw(st.integers(0, law.others))
    draws = np.arange(law.T, dtype=np.uint64)
    many = law.outcomes(np.full(law.T, start), draws)
    assert many.tolist() == [law.draw(start, lambda _, draw=draw: draw) for draw in range(law.T)]


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 20.0])
def test_the_weights_never_exceed_epsilon_and_fall_short_by_less_than_one_word(epsilon):
    P, Q = favoured_weight(epsilon), 2**32
    assert is_at_most_exp(Fraction(P, Q), epsilon)
    assert not is_at_most_exp(Fraction(P + 1, Q), epsilon)
    getcontext().prec = 40
    assert Decimal(epsilon) - (Decimal(P) / Q).ln() <= Decimal("2.4e-10")


def test_the_ends_of_a_full_size_law():
    law = Law.of(epsilon=1.0, width=525, others=1023)
    assert law.draw(7, lambda limit: 0) == 7
    assert law.draw(7, lambda limit: law.width * law.P - 1) == 7 + 524
    assert law.draw(7, lambda limit: law.width * law.P) == 0
    assert law.draw(7, lambda limit: limit - 1) == 525 + 1023 - 1
    ends = np.array([0, law.width * law.P - 1, law.width * law.P, law.T - 1], dtype=np.uint64)
    assert law.outcomes(np.full(4, 7), ends).tolist() == [7, 531, 0, 1547]


def test_a_law_beyond_63_bits_is_refused():
    with pytest.raises(ValueError, match="63 are allowed"):
        Law.of(epsilon=20.0, width=100, others=1)


def test_the_operating_system_draws_every_value():
    # Each of 4 values is missed by 400 draws with probability 0.75**400 < 1e-49.
    assert set(Counter(os_below(4) for _ in range(400))) == {0, 1, 2, 3}
