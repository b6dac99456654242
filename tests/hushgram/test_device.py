"""Budgets of devices: read from a file, checked, and no part of a revision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram import Budget, Collection, CollectionError, Device
from hushgram.config import parse_collections
from hushgram.device import UNITS, cost

WEEK = 7 * 86_400_000
FILE = """
device: %s
collections:
  a: {domain: {low: 0, high: 1}, epsilon: 1.0, device: %s}
  b: {domain: {low: 0, high: 1}, epsilon: 2.0}
"""
VALID = {"name": "c", "low": 0, "high": 1, "epsilon": 1.0}


def test_a_file_has_budgets_of_collections_and_one_over_all():
    read = parse_collections(FILE % ("{epsilon: 4, every: 1d}", "{epsilon: 2.0, every: 7d, slots: 24}"))
    assert read["a"].device == Device(2.0, WEEK, 24, Budget(4.0, 86_400_000))
    assert read["b"].device == Device(4.0, 86_400_000, total=Budget(4.0, 86_400_000))
    assert read["a"].manifest()["device"] == {
        "epsilon": "1.0",
        "cost": UNITS,
        "budget": {"amount": 2 * UNITS, "every_ms": WEEK},
        "slots": 24,
        "total": {"amount": 4 * UNITS, "every_ms": 86_400_000},
    }


def test_a_budget_changes_neither_the_revision_nor_those_before():
    plain = Collection(**VALID, previous=[{"epsilon": 3.0}])
    limited = Collection(**VALID, previous=[{"epsilon": 3.0}], device=Device(1.0, WEEK, 7))
    assert list(plain.revisions) == list(limited.revisions)
    assert plain != limited
    assert Collection(**limited.to_dict()) == limited


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("{epsilon: 2}", "device.every: missing"),
        ("{every: 7d}", "device.epsilon: missing"),
        (
            "{epsilon: 0.5, every: 7d}",
            "device.epsilon: got 0.5, allowed: for one collection at least the ε of",
        ),
        ("{epsilon: -1, every: 7d}", "device.epsilon: got -1"),
        ("{epsilon: 2, every: 7}", "device.every: got 7"),
        ("{epsilon: 2, every: 0s}", "device.every in milliseconds: got 0"),
        ("{epsilon: 2, every: 7d, slots: 0}", "device.slots: got 0"),
        ("{epsilon: 2, every: 5ms, slots: 6}", "device.slots: got 6, allowed: a whole number from 1 to 5"),
        (
            "{epsilon: 2, every: 7d, slot: 2}",
            "device.slot: unknown, allowed: epsilon, every, slots .did you mean",
        ),
        ("7", "device: got 7, allowed: a mapping such as"),
    ],
)
def test_wrong_budgets_are_refused_with_their_place(device, message):
    with pytest.raises(CollectionError, match=f"collection 'a': {message}"):
        parse_collections(FILE % ("{epsilon: 4, every: 1d}", device))


@pytest.mark.parametrize(
    ("total", "message"),
    [
        ("{epsilon: 1.5, every: 7d}", "collection 'b': device.epsilon: got 1.5, allowed: for one collection at least"),
        ("{epsilon: 4, every: 7d, slots: 2}", "device.slots: unknown"),
        ("[]", "device: got .., allowed: a mapping"),
    ],
)
def test_a_wrong_total_is_refused(total, message):
    with pytest.raises(CollectionError, match=message):
        parse_collections(FILE % (total, "{epsilon: 1.0, every: 7d}"))


def test_values_of_other_types_are_refused():
    for device in (2.0, "7d", {"epsilon": 1.0}, Budget(1.0, WEEK)):
        with pytest.raises(CollectionError, match="device: got"):
            Collection(**VALID, device=device)
    with pytest.raises(CollectionError, match="total"):
        Device(1.0, WEEK, total=2.0)


@given(st.floats(1e-6, 20.0), st.integers(1, 1000))
def test_a_budget_allows_as_many_reports_as_it_is_a_multiple_of_their_epsilon(epsilon, times):
    """Counted in billionths, rounded against the device: never more than the budget, and at most one less."""
    reports = Device(min(epsilon * times, 1e6), WEEK).reports(epsilon)
    assert reports * epsilon <= epsilon * times * (1 + 1e-12)
    assert reports >= times * (1 - 2e-9 / epsilon) - 1


@pytest.mark.parametrize(
    ("budget", "epsilon", "reports"), [(0.3, 0.1, 3), (2.0, 1.0, 2), (1.0, 1 / 3, 2), (2.5, 1.0, 2)]
)
def test_decimals_mean_what_they_say(budget, epsilon, reports):
    assert Device(budget, WEEK).reports(epsilon) == reports
    assert cost(epsilon) >= epsilon * UNITS * (1 - 1e-12)


def test_a_year_counts_the_periods_that_it_touches():
    assert Device(2.0, WEEK).reports_in_a_year(1.0) == 54 * 2
    assert Device(2.0, WEEK, total=Budget(3.0, 30 * 86_400_000)).reports_in_a_year(1.0) == 14 * 3
