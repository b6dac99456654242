"""The shares of values whose quantiles results hold: always the same, and those that a collection adds."""

from __future__ import annotations

from numbers import Real

from hushgram._validation import check_list, refuse

STANDARD_SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""The quantiles that all results hold, and that tables, pages and comparisons rely on: 5 %, 10 %, … 95 %."""
MOST_SHARES = 100
SAME_SHARE = 1e-9
"""Shares that differ by less are taken for equal: 3 · 0.05 is not 0.15."""


def check_quantiles(quantiles: object, name: str = "quantiles") -> tuple[float, ...]:
    """Shares between 0 and 1, no two of them equal, in ascending order.

    >>> check_quantiles([0.999, 0.5])
    (0.5, 0.999)
    """
    shares = check_list(name, quantiles, "shares of the values, such as [0.99, 0.999]")
    if len(shares) > MOST_SHARES:
        refuse(name, quantiles, f"at most {MOST_SHARES} shares")
    checked: list[float] = []
    for index, value in enumerate(shares):
        where = f"{name}[{index}]"
        share = float(value) if not isinstance(value, bool) and isinstance(value, Real) else 0.0
        if not SAME_SHARE <= share <= 1 - SAME_SHARE:
            percent = ", as 0.99 for 99 %" if 1 < share < 100 else ""
            refuse(where, value, f"a number between 0 and 1{percent}")
        if any(abs(share - other) < SAME_SHARE for other in checked):
            refuse(where, value, "each share only once")
        checked.append(share)
    return tuple(sorted(checked))


def with_standard(quantiles: tuple[float, ...]) -> tuple[float, ...]:
    """The standard shares and some more, in ascending order, each once.

    >>> with_standard((0.5, 0.999))[-2:]
    (0.95, 0.999)
    """
    more = (share for share in quantiles if all(abs(share - other) >= SAME_SHARE for other in STANDARD_SHARES))
    return tuple(sorted((*STANDARD_SHARES, *more)))
