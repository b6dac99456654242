"""α-spending: how small a p-value has to be, for tests without end that share one false-alarm rate.

The k-th test has the level α·γ_k, and the γ_k add up to one. By Bonferroni's inequality the chance that any true
hypothesis is ever rejected is at most α, however many tests there will be and however they depend on one another (Tian,
Ramdas: Online control of the familywise error rate, Statistical Methods in Medical Research 30, 2021, section 2).
"""

from __future__ import annotations

HALF_SPENT = 100
"""The number of tests after which half of α is spent. The first hundred have nearly equal levels; the level of the
ten-thousandth is a ten-thousandth of the first one's, so that the differences it finds are half as large again."""


def spent_share(tests: int) -> float:
    """The share of α that the first tests have spent together.

    >>> [spent_share(tests) for tests in (0, 100, 900)]
    [0.0, 0.5, 0.9]
    """
    return tests / (tests + HALF_SPENT)


def share_of_test(number: int) -> float:
    """The share of α that one test has, counted from 1: γ_k = h / ((k + h - 1)(k + h)), h = `HALF_SPENT`.

    >>> round(sum(share_of_test(number) for number in range(1, 101)), 12) == spent_share(100)
    True
    """
    return HALF_SPENT / ((number + HALF_SPENT - 1) * (number + HALF_SPENT))
