"""Checks of single values from outside: each wrong one is told with its name, what was given and what is allowed."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import NoReturn


class CollectionError(ValueError):
    """A collection that cannot be: the message names the field, what was given and what is allowed."""


def shown(value: object) -> str:
    """A value for a message: short, however large or deeply nested it is."""
    try:
        return " ".join(reprlib.repr(value).split())
    except ValueError:  # a whole number of thousands of digits
        return f"a huge {type(value).__name__}"


def key(value: object) -> str:
    """A key of a mapping for a message: as it is, if it is a text that can be shown."""
    return value if isinstance(value, str) and value.isprintable() and len(value) <= 40 else shown(value)


def refuse(name: str, given: object, allowed: str) -> NoReturn:
    raise CollectionError(f"{name}: got {shown(given)}, allowed: {allowed}")


def number(name: str, value: object, low: float, high: float) -> float:
    """A number from `low` to `high`."""
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            result = float(value) + 0.0  # no negative zero: it would be equal, but not look equal
        except OverflowError:
            result = math.inf
        if low <= result <= high:
            return result
    refuse(name, value, f"a number from {low:g} to {high:g}")


def whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        refuse(name, value, f"a whole number from {low} to {high}")
    return int(value)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        refuse(name, value, "true or false")
    return value


def label(name: str, value: object, empty: bool = False) -> str:
    """A printable text of at most 128 characters."""
    if isinstance(value, bool):
        refuse(name, value, "a text; YAML reads yes, no, on and off as true and false: put it in quotes")
    if not isinstance(value, str) or len(value) > 128 or not value.isprintable() or not (value.strip() or empty):
        advice = "; put a number in quotes" if isinstance(value, Real) else ""
        refuse(name, value, f"a printable text of 1 to 128 characters{advice}")
    return value


def one_of(name: str, value: object, choices: Iterable[str]) -> str:
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        refuse(name, value, ", ".join(choices) + hint(value, choices))
    return value


def hint(given: object, choices: Iterable[str]) -> str:
    """A suggestion for a misspelt name, to follow the list of what is allowed."""
    close = difflib.get_close_matches(shown(given).strip("'"), list(choices), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
