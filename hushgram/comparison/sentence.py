"""A comparison in words, for readers who know no statistics."""

from __future__ import annotations

import math

from hushgram.comparison.differences import Difference

MOST_DECIMALS = 12


def describe_difference(
    what: str,
    difference: Difference[float],
    unit: str,
    names: tuple[str, str],
    level: float,
    detectable: float,
    differs: float | None = None,
) -> str:
    """A difference in a sentence; `differs` is the p-value of a test that has found one.

    >>> hours = Difference(0.4, 0.1, 0.7)
    >>> describe_difference("median", hours, "hours", ("A", "B"), 0.95, 0.43)
    'The median of A is 0.4 hours higher than that of B, 95 % interval 0.1 to 0.7.'
    >>> describe_difference("median", Difference(0.1, -0.2, 0.4), "hours", ("A", "B"), 0.95, 0.43)
    'No difference between A and B was detected; in 4 of 5 cases, one of 0.4 hours in the median would have been.'
    >>> describe_difference("median", Difference(0.1, -0.2, 0.4), "hours", ("A", "B"), 0.95, 0.43, 0.002)
    'A and B differ (p = 0.002), though not clearly in the median: by -0.2 to 0.4 hours, 95 % interval.'
    """
    value, low, high = difference
    of_unit = f" {unit}" if unit else ""
    places = decimals((high - low) / 2)
    if difference.is_clear:
        word = "higher" if low > 0 else "lower"
        near, far = sorted((abs(low), abs(high)))
        while round(near, places) == 0 and places < MOST_DECIMALS:  # what is not zero must not look like it
            places += 1
        return (
            f"The {what} of {names[0]} is {fixed(abs(value), places)}{of_unit} {word} than that of {names[1]}, "
            f"{percent(level)} interval {fixed(near, places)} to {fixed(far, places)}."
        )
    if differs is not None:
        return (
            f"{names[0]} and {names[1]} differ ({pvalue_text(differs)}), though not clearly in the {what}: "
            f"by {fixed(low, places)} to {fixed(high, places)}{of_unit}, {percent(level)} interval."
        )
    return (
        f"No difference between {names[0]} and {names[1]} was detected; in 4 of 5 cases, "
        f"one of {fixed(detectable, decimals(detectable))}{of_unit} in the {what} would have been."
    )


def fixed(value: float, places: int) -> str:
    """A number with this many decimal places; zero has no sign.

    >>> fixed(-0.04, 1), fixed(12345.678, 2)
    ('0.0', '12,345.68')
    """
    return f"{round(value, places) + 0.0:,.{places}f}"


def decimals(scale: float, digits: int = 1) -> int:
    """The decimal places that show the asked digits of a number of this size, and one more where it begins with a 1.

    >>> decimals(0.3), decimals(0.12), decimals(30.0), decimals(0.0), decimals(0.3, 2)
    (1, 2, 0, 0, 2)
    """
    return max(0, math.ceil(-math.log10(scale / 2)) + digits - 1) if 0 < scale < math.inf else 0


def percent(level: float) -> str:
    """A confidence level.

    >>> percent(0.95), percent(1 - 0.05 / 3)
    ('95 %', '98.3 %')
    """
    return f"{100 * level:.3g} %"


def pvalue_text(pvalue: float) -> str:
    """A p-value in words.

    >>> pvalue_text(0.0213), pvalue_text(3e-9), pvalue_text(0.5)
    ('p = 0.021', 'p < 0.0001', 'p = 0.5')
    """
    return "p < 0.0001" if pvalue < 1e-4 else f"p = {pvalue:.2g}"
