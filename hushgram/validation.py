"""What a collection may be: every field checked, alone and with the others, and given back in its plain form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from hushgram import checks
from hushgram.checks import CollectionError, refuse
from hushgram.estimators import ESTIMATORS
from hushgram.mechanisms import MECHANISMS
from hushgram.mechanisms.hierarchy import tree_height
from hushgram.mechanisms.moments import LEAST_CELLS
from hushgram.windows import Windows

LEAST_EPSILON, GREATEST_EPSILON = 1e-6, 20.0
MOST_BUCKETS = 1 << 16
MOST_GROUPS = 10_000
FARTHEST = 1e150
"""Squares of what lies within the domain must be finite."""
BRANCHINGS = (2, 4, 8)
MEAN_ONLY = ("stochastic_rounding", "piecewise")
CONTINUOUS = ("square_wave_continuous", "general_wave")

MECHANISM_OPTIONS = ("bandwidth", "output_buckets", "wave_ratio", "symbols", "bins", "branching", "level_decay")
METHOD_OPTIONS = {
    "stopping": (("paper", "converged"), ("ems", "em")),
    "smoothing": (("full", "adaptive"), ("ems",)),
    "solver": (("exact", "admm"), ("hh_admm",)),
    "level_weights": (("variance", "equal"), ("hh", "hh_admm")),
}


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a collection in their plain form; the first wrong one raises a `CollectionError`."""
    c = SimpleNamespace(**given)
    _domain(c)
    _mechanism(c)
    if c.integer:
        _whole_numbers(c)
    _method(c)
    _audience(c)
    return vars(c)


def _domain(c: SimpleNamespace) -> None:
    c.low = checks.number("low", c.low, -FARTHEST, FARTHEST)
    c.high = checks.number("high", c.high, -FARTHEST, FARTHEST)
    checks.one_of("scale", c.scale, ("linear", "log"))
    checks.flag("integer", c.integer)
    checks.label("unit", c.unit, empty=True)
    c.buckets = checks.whole("buckets", c.buckets, 2, MOST_BUCKETS)
    if not c.low < c.high:
        refuse("high", c.high, f"a number above low ({c.low:g})")
    # Buckets must be told apart in floating point, with room to spare.
    if (c.high - c.low) / c.buckets < 64 * math.ulp(max(abs(c.low), abs(c.high))):
        refuse("high", c.high, f"farther from low ({c.low!r}): {c.buckets} buckets between them would not be distinct")
    if c.scale == "log" and c.low < 1 / FARTHEST:
        refuse("low", c.low, "a number above 0 on a log scale")
    if c.scale == "log" and c.high < 1.001 * c.low:
        refuse("high", c.high, "at least 1.001 times low on a log scale")


def _mechanism(c: SimpleNamespace) -> None:
    c.epsilon = checks.number("epsilon", c.epsilon, LEAST_EPSILON, GREATEST_EPSILON)
    kind = MECHANISMS[checks.one_of("mechanism", c.mechanism, MECHANISMS)]
    for name in MECHANISM_OPTIONS:
        value = getattr(c, name)
        if value is None:
            continue
        if name not in kind.options:
            allowed = ", ".join(kind.options) or "no option"
            raise CollectionError(f"{name}: not an option of {c.mechanism}, which takes {allowed}")
        setattr(c, name, _option(c, name, value))
    if c.mechanism == "hierarchy":
        _power(c.buckets, c.branching or 4)
    if c.mechanism == "haar":
        _power(c.buckets, 2)
    if c.mechanism in MEAN_ONLY and c.scale == "log":
        refuse("scale", c.scale, f"linear with {c.mechanism}: the mean of logarithms is not the mean")


def _option(c: SimpleNamespace, name: str, value: object) -> float | int:
    if name in ("bandwidth", "wave_ratio"):
        return checks.number(name, value, 0.0, 1.0)
    if name == "level_decay":
        return checks.number(name, value, 0.1, 1.0)
    if name == "output_buckets":
        return checks.whole(name, value, LEAST_CELLS if c.mechanism == "piecewise" else 2, 4 * MOST_BUCKETS)
    if name == "bins":
        return checks.whole(name, value, 2, c.buckets)
    if name == "branching":
        branching = checks.whole(name, value, min(BRANCHINGS), max(BRANCHINGS))
        return branching if branching in BRANCHINGS else refuse(name, value, ", ".join(map(str, BRANCHINGS)))
    symbols = checks.whole(name, value, 2, 1 << 16)
    if c.mechanism == "local_hashing" and any(symbols % k == 0 for k in range(2, math.isqrt(symbols) + 1)):
        refuse(name, value, "a prime number, for the family to be balanced")
    return symbols


def _power(buckets: int, base: int) -> None:
    if tree_height(buckets, base) is None:
        exponent = max(1, math.floor(math.log(buckets, base)))
        near = [str(count) for count in (base**exponent, base ** (exponent + 1)) if count <= MOST_BUCKETS]
        refuse("buckets", buckets, f"a power of {base}, such as {' or '.join(near)}")


def _whole_numbers(c: SimpleNamespace) -> None:
    """Each bucket, and each bin, must hold equally many whole numbers, or uneven ones would look like a slope."""
    if c.scale == "log":
        refuse("integer", True, "false on a log scale, whose buckets cannot hold equally many whole numbers")
    if c.mechanism in CONTINUOUS:
        refuse(
            "integer", True, f"false with {c.mechanism}, which takes values to fill their bucket; square_wave does not"
        )
    for name in ("low", "high"):
        if not getattr(c, name).is_integer() or abs(getattr(c, name)) > 2**51:
            refuse(name, getattr(c, name), "a whole number of at most 2**51, since integer is true")
    size = int(c.high - c.low) + 1
    for name in () if c.mechanism in MEAN_ONLY else ("buckets", "bins"):
        count = getattr(c, name)
        if count is not None and size % count:
            fitting = [other for other in range(2, min(size, MOST_BUCKETS) + 1) if size % other == 0]
            near = min(fitting, key=lambda other: abs(other - count), default=None)
            advice = "and there is none: take another low or high" if near is None else f"such as {near}"
            refuse(name, count, f"a divisor of the {size} whole numbers from low to high, {advice}")


def _method(c: SimpleNamespace) -> None:
    known = MECHANISMS[c.mechanism].estimators
    c.estimator = checks.one_of("estimator", c.estimator or known[0], ESTIMATORS)
    if c.estimator not in known:
        refuse("estimator", c.estimator, f"{', '.join(known)} with the mechanism {c.mechanism}")
    for name, (choices, estimators) in METHOD_OPTIONS.items():
        if getattr(c, name) is None:
            continue
        checks.one_of(name, getattr(c, name), choices)
        if c.estimator not in estimators:
            raise CollectionError(f"{name}: not an option of {c.estimator}, but of {', '.join(estimators)}")


def _audience(c: SimpleNamespace) -> None:
    c.minimum_reports = checks.whole("minimum_reports", c.minimum_reports, 0, 2**53)
    if not isinstance(c.windows, Windows):
        refuse("windows", c.windows, "a Windows value")
    lists = {"groups": "labels, such as [DE, FR]", "previous": "differences, such as [{epsilon: 2}]"}
    for name, example in lists.items():
        if not isinstance(getattr(c, name), (list, tuple)):
            refuse(name, getattr(c, name), f"a list of {example}")
        setattr(c, name, tuple(getattr(c, name)))
    if len(c.groups) > MOST_GROUPS:
        raise CollectionError(f"groups: got {len(c.groups)} labels, allowed: at most {MOST_GROUPS}")
    seen: set[str] = set()
    for index, group in enumerate(c.groups):
        if checks.label(f"groups[{index}]", group) in seen:
            refuse(f"groups[{index}]", group, "each label only once")
        seen.add(group)
