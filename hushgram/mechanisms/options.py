"""Options of mechanisms: fields of a mechanism's dataclass, each with the check of its value.

A mechanism declares an option once, as a field. From it follow what a collection and a collections file accept, what an
error message allows, and whether the option may differ between the revisions of one window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from hushgram._validation import check_number, check_whole

Check = Callable[[str, object, int], Any]
"""Takes an option's name, its value and the collection's buckets; returns the value in plain form, or raises."""


@dataclass(frozen=True)
class Option:
    """The check and the default of an option, and whether revisions of one window may differ in it (`varies`)."""

    check: Check
    default: Any
    varies: bool


def option(default: Any, check: Check, *, varies: bool = True) -> Any:
    """A dataclass field that is an option; a default of None leaves the choice to the mechanism."""
    return field(default=default, metadata={"option": Option(check, default, varies)})


def options_of(kind: type) -> dict[str, Option]:
    """The options that a mechanism declares, by name.

    >>> from hushgram.mechanisms import Hierarchy
    >>> {name: option.default for name, option in options_of(Hierarchy).items()}
    {'branching': 4, 'level_decay': 1.0}
    """
    return {entry.name: entry.metadata["option"] for entry in fields(kind) if "option" in entry.metadata}


def number(low: float, high: float) -> Check:
    """A number from `low` to `high`."""
    return lambda name, value, buckets: check_number(name, value, low, high)


def whole_number(low: int, high: int) -> Check:
    """A whole number from `low` to `high`."""
    return lambda name, value, buckets: check_whole(name, value, low, high)
