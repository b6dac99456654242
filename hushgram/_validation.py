"""Checks of single values from outside: an error names the field, the value and what is allowed."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NoReturn

LEAST_EPSILON, GREATEST_EPSILON = 1e-6, 20.0
MOST_BUCKETS = 1 << 16
MOST_GROUPS = 10_000
ALL_GROUPS = "(all)"
"""How results name all groups together, where a name is needed."""
FARTHEST = 1e150
"""The greatest distance of a domain's ends from zero: squares of values must be finite."""


class CollectionError(ValueError):
    """Invalid parameters of a collection: the message names the field, its value and what is allowed."""


def describe(value: object) -> str:
    """A value for a message, shortened however large or deeply nested it is."""
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:  # a whole number of thousands of digits
        return "a huge whole number" if isinstance(value, int) else f"a huge value of type {type(value).__name__}"


def describe_key(value: object) -> str:
    """A key of a mapping for a message: a printable text stays as it is."""
    return value if isinstance(value, str) and value.isprintable() and len(value) <= 40 else describe(value)


def refuse(name: str, value: object, allowed: str) -> NoReturn:
    """Raises the error for a wrong value."""
    raise CollectionError(f"{name}: got {describe(value)}, allowed: {allowed}")


def check_number(name: str, value: object, low: float, high: float) -> float:
    """A number from `low` to `high`."""
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            result = float(value) + 0.0  # no negative zero: it would be equal, but not look equal
        except OverflowError:
            result = math.inf
        if low <= result <= high:
            return result
    refuse(name, value, f"a number from {low:g} to {high:g}")


def check_whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        refuse(name, value, f"a whole number from {low} to {high}")
    return int(value)


def check_share(name: str, value: object) -> float:
    """A share, from 0 to 1, of a question rather than of a collection: a plain `ValueError` names it."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {describe(value)}")
    return float(value) + 0.0


def check_flag(name: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        refuse(name, value, "true or false")
    return value


def check_label(name: str, value: object, empty: bool = False) -> str:
    """A printable text of at most 128 characters."""
    if isinstance(value, bool):
        refuse(name, value, "a text; YAML reads yes, no, on and off as true and false: put it in quotes")
    if (
        not isinstance(value, str)
        or len(value) > 128
        or not value.isprintable()
        or "\ufffd" in value  # which stands for what was not text
        or not (value.strip() or empty)
    ):
        advice = "; put a number in quotes" if isinstance(value, Real) else ""
        refuse(name, value, f"a printable text of 1 to 128 characters{advice}")
    return value


def check_one_of(name: str, value: object, choices: Iterable[str]) -> str:
    """One of several texts; an error suggests the closest."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        refuse(name, value, ", ".join(choices) + suggest(value, choices))
    return value


def check_list(name: str, value: object, example: str) -> tuple[Any, ...]:
    """A list, as a tuple; `example` describes its items in the error."""
    if not isinstance(value, (list, tuple)):
        refuse(name, value, f"a list of {example}")
    return tuple(value)


def check_groups(groups: object) -> tuple[str, ...]:
    """Labels of groups, no two of them equal."""
    labels = check_list("groups", groups, "labels, such as [DE, FR]")
    if len(labels) > MOST_GROUPS:
        raise CollectionError(f"groups: got {len(labels)} labels, allowed: at most {MOST_GROUPS}")
    seen: set[str] = set()
    for index, group in enumerate(labels):
        if check_label(f"groups[{index}]", group) in seen:
            refuse(f"groups[{index}]", group, "each label only once")
        if group == ALL_GROUPS:
            refuse(f"groups[{index}]", group, "any other label: results name all groups together so")
        seen.add(group)
    return labels


def suggest(value: object, choices: Iterable[str]) -> str:
    """A suggestion for a misspelt name, to be put after the list of allowed names; empty if none is close."""
    close = difflib.get_close_matches(describe(value).strip("'"), list(choices), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
