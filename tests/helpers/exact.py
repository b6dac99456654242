"""The exact law of anything that draws integers: every sequence of draws is tried, and weighed as a fraction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

from hushgram.sampling import Below


class _Choice(Exception):  # noqa: N818 - not an error, a question
    def __init__(self, limit: int) -> None:
        self.limit = limit


def compute_exact_law(sample: Callable[[Below], int]) -> dict[int, Fraction]:
    """The probability of each outcome of `sample`, by running it on all sequences of draws that it can request."""
    law: dict[int, Fraction] = defaultdict(Fraction)
    pending: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while pending:
        draws, weight = pending.pop()
        replay = iter(draws)

        def below(limit: int, replay: object = replay) -> int:
            try:
                return next(replay)  # type: ignore[call-overload]
            except StopIteration:
                raise _Choice(limit) from None

        try:
            law[sample(below)] += weight
        except _Choice as choice:
            pending += [((*draws, draw), weight / choice.limit) for draw in range(choice.limit)]
    return dict(law)


def is_at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """ratio ≤ e^ε, decided in 60 digits."""
    digits = Context(prec=60)
    return Decimal(ratio.numerator) <= digits.multiply(digits.exp(Decimal(epsilon)), Decimal(ratio.denominator))


def compute_worst_ratio(laws: list[dict[int, Fraction]]) -> Fraction:
    """The greatest ratio of the probabilities of one cell under two inputs; every input must reach the same cells."""
    cells = set(laws[0])
    assert all(set(law) == cells for law in laws), "a cell that only some inputs can report gives them away"
    return max(max(law[cell] for law in laws) / min(law[cell] for law in laws) for cell in cells)
