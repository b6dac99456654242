"""The benchmark of changes: what it simulates, and that its rows are complete."""

import numpy as np
import pytest

from benchmarks import changes
from hushgram.alpha_spending import share_of_test


@pytest.mark.parametrize("shape", ["beta(5, 2)", "income"])  # the hours of taxis go round
def test_a_shift_moves_the_mean_by_as_much(shape):
    places = (np.arange(changes.BUCKETS) + 0.5) / changes.BUCKETS
    before, after = (changes.shifted(shape, shift) for shift in (0.0, 0.03))
    assert before.sum() == pytest.approx(1.0)
    assert after.sum() == pytest.approx(1.0)
    assert abs(places @ after - places @ before) == pytest.approx(0.03, abs=0.004)


def test_groups_add_up_to_the_whole():
    collection = changes.make_collection(groups=3)
    laws = [changes.shifted("taxi", 0.0)] * 2
    windows = list(changes.simulate(collection, laws, 100, np.random.default_rng(1)))
    assert [window.group for window in windows] == [None, *collection.groups] * 2
    whole, *parts = (window.tallies[collection.revision] for window in windows[:4])
    np.testing.assert_array_equal(whole, sum(parts))
    assert whole.sum() == 300


def test_levels_are_those_of_all_comparisons(monkeypatch):
    monkeypatch.setattr(changes, "HOURS", 5)
    found, levels = changes.quiet_collection(("beta(5, 2)", 2000, 0), 1.0, seed=1)
    assert found >= 0
    assert levels == pytest.approx(sum(share_of_test(k) / 3 for k in range(2, 6)))


def test_every_part_prints_a_row_for_each_setting(monkeypatch):
    monkeypatch.setattr(changes, "HOURS", 3)
    monkeypatch.setattr(changes, "SHIFTS", (0.05,))
    rows = [
        len(list(part(map_all, range(2)))) for part in (changes.false_alarms, changes.after_a_change, changes.power)
    ]
    assert rows == [len(changes.SETTINGS) + 2, 2, 1 + 2 * len(changes.SHAPES)]


def map_all(function, seeds):
    return [function(seed) for seed in seeds]
