"""Checks of single values from outside: each wrong one is told with its name, what was given and what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import NoReturn


class CollectionError(ValueError):
    """A collection that cannot be: the message names the field, what was given and what is allowed."""


def refuse(name: str, given: object, allowed: str) -> NoReturn:
    text = repr(given)
    shown = text if len(text) <= 80 else text[:77] + "..."
    raise CollectionError(f"{name}: got {shown}, allowed: {allowed}")


def number(name: str, value: object, low: float = -math.inf, high: float = math.inf, allowed: str = "") -> float:
    """A finite number from `low` to `high`."""
    allowed = allowed or f"a number from {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        refuse(name, value, allowed)
    result = float(value)
    if not (math.isfinite(result) and low <= result <= high):
        refuse(name, value, allowed)
    return result


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
        refuse(name, value, "a printable text of 1 to 128 characters")
    return value


def one_of(name: str, value: object, choices: Iterable[str]) -> str:
    choices = list(choices)
    if value not in choices:
        refuse(name, value, ", ".join(choices) + hint(value, choices))
    return str(value)


def hint(given: object, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(given), list(choices), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
