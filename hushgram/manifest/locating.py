"""How a device turns a value into one of the law's positions: by doubles in a fixed order, without logarithms.

On a log scale the edges of the buckets are listed; where positions are too many for that, knots, between which they are
spaced evenly. Both are computed in decimal arithmetic, so that every machine writes the same text.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

from hushgram.domain import Domain
from hushgram.mechanisms import GeneralWave, Mechanism, Piecewise, StochasticRounding

KNOTS = 1024
"""Parts of a log scale between knots. Straight lines between them leave the logarithm by less than
ln(high / low) / (8 · 1024²) of the domain: 2e-6 over six decades, the width of 1/500 of one of 1024 buckets."""
DIGITS, FEWER_DIGITS = Context(prec=50), Context(prec=30)
"""The last digits are left out again: what errors have made of 10 must be 10."""


def locating(domain: Domain, mechanism: Mechanism) -> dict[str, Any]:
    """The `locate` entry of a manifest."""
    on_grid = isinstance(mechanism, (GeneralWave, Piecewise, StochasticRounding))  # which round; 1 has its own position
    if domain.scale == "linear":
        return {
            "method": "scale",
            "whole": domain.integer,
            "start": repr(domain.start),
            "length": repr(domain.length),
            "steps": mechanism.positions - 1 if on_grid else mechanism.positions,
            "round": "half_even" if on_grid else "down",
        }
    if on_grid:
        inner = map(repr, log_edges(domain, KNOTS))
        knots = [repr(domain.low), *inner, repr(domain.high)]
        return {"method": "knots", "knots": knots, "steps": mechanism.positions - 1, "round": "half_even"}
    return {"method": "edges", "edges": [repr(edge) for edge in log_edges(domain, mechanism.positions)]}


def log_edges(domain: Domain, parts: int) -> list[float]:
    """The edges between equal parts of a log scale, each the least double that is not below low·(high/low)^(k/parts).

    >>> log_edges(Domain(1, 1000, "log"), 3)
    [10.0, 100.0]
    """
    low, high = Decimal(domain.low), Decimal(domain.high)
    step = DIGITS.divide(DIGITS.ln(DIGITS.divide(high, low)), Decimal(parts))
    factor, edge, edges = DIGITS.exp(step), low, []
    for _ in range(parts - 1):
        edge = DIGITS.multiply(edge, factor)
        edges.append(_double_from(FEWER_DIGITS.plus(edge)))
    return edges


def _double_from(exact: Decimal) -> float:
    """The least double that is not below a number."""
    nearest = float(exact)
    return nearest if Decimal(nearest) >= exact else math.nextafter(nearest, math.inf)
