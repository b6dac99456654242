"""What one device may spend on privacy, counted on the device itself: the server never learns of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hushgram._validation import CollectionError, check_number, check_whole, describe_key, refuse, suggest
from hushgram.windows import LONGEST, parse_duration

GREATEST_BUDGET = 1e6
MOST_SLOTS = 10_000
UNITS = 10**9
"""Devices count in billionths of ε, as integers: the sum of reports is exact in every language."""
YEAR_MS = 366 * 86_400_000
EXAMPLE = "a mapping such as {epsilon: 2.0, every: 7d}"


@dataclass(frozen=True)
class Budget:
    """At most `epsilon` in each period of `every` milliseconds; periods are counted from the beginning of 1970."""

    epsilon: float
    every: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_number("device.epsilon", self.epsilon, 0.0, GREATEST_BUDGET))
        object.__setattr__(self, "every", check_whole("device.every in milliseconds", self.every, 1, LONGEST))

    @property
    def amount(self) -> int:
        """The budget in whole billionths of ε, rounded down.

        >>> Budget(0.3, every=1000).amount
        300000000
        """
        return math.floor(Fraction(repr(self.epsilon)) * UNITS)

    @classmethod
    def parse(cls, entry: object) -> Budget:
        """A budget from the `device` entry of a file, which is one over all of its collections."""
        return cls(**_read(entry, ("epsilon", "every")))


@dataclass(frozen=True)
class Device:
    """A device's budget for one collection, the part of each period that it reports in, and its budget for all.

    >>> Device(epsilon=2.0, every=604_800_000, slots=24).reports(1.0)
    2
    """

    epsilon: float
    """The most that a device spends in each period, over all of its reports."""
    every: int
    """How long a period is. Periods are counted from the beginning of 1970, in UTC."""
    slots: int = 1
    """The equal parts of a period, of which a device draws one, once, and reports in no other."""
    total: Budget | None = None
    """The most that a device spends on all collections of a file together, and the period of it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", self.budget.epsilon)
        object.__setattr__(self, "slots", check_whole("device.slots", self.slots, 1, min(MOST_SLOTS, self.every)))
        if self.total is not None and not isinstance(self.total, Budget):
            refuse("device.total", self.total, "a Budget value, or none")

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.every)

    def reports(self, epsilon: float) -> int:
        """The most reports of ε that a device makes in one period."""
        return min(budget.amount // cost(epsilon) for budget in (self.budget, self.total) if budget is not None)

    def reports_in_a_year(self, epsilon: float) -> int:
        """The most reports of ε that a device makes in any year: one of 366 days, which cuts the first period and the
        last.

        >>> Device(epsilon=2.0, every=604_800_000).reports_in_a_year(1.0)
        108
        """
        budgets = [budget for budget in (self.budget, self.total) if budget is not None]
        return min(((YEAR_MS - 1) // budget.every + 2) * (budget.amount // cost(epsilon)) for budget in budgets)

    @classmethod
    def parse(cls, entry: object) -> Device:
        """A device from the `device` entry of a collection in a file."""
        return cls(**_read(entry, ("epsilon", "every", "slots")))


def check_device(device: object, epsilon: float) -> Device | None:
    """A device whose budgets allow one report of ε at least, or none."""
    if device is None:
        return None
    if not isinstance(device, Device):
        refuse("device", device, f"{EXAMPLE}, or a Device value")
    for budget, whose in ((device.budget, "one collection"), (device.total, "all collections together")):
        if budget is not None and budget.amount < cost(epsilon):
            refuse("device.epsilon", budget.epsilon, f"for {whose} at least the ε of one report, {epsilon:g}")
    return device


def cost(epsilon: float) -> int:
    """What a report takes from a budget, in whole billionths of ε, rounded up.

    >>> cost(1.0), cost(1 / 3)
    (1000000000, 333333334)
    """
    return math.ceil(Fraction(repr(epsilon)) * UNITS)


def _read(entry: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        refuse("device", entry, EXAMPLE)
    for key in entry:
        if key not in names:
            allowed = ", ".join(names) + suggest(key, names)
            raise CollectionError(f"device.{describe_key(key)}: unknown, allowed: {allowed}")
    for key in ("epsilon", "every"):
        if key not in entry:
            raise CollectionError(f"device.{key}: missing, allowed: {EXAMPLE}")
    return {**entry, "every": parse_duration("device.every", entry["every"])}
