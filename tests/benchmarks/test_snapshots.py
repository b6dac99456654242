"""The benchmark of snapshots: panes that grow, and a row for every comparison. No time is asserted."""

import numpy as np

from benchmarks import snapshots


def test_a_pane_holds_the_one_before():
    collection = snapshots.COLLECTIONS["log_spline"]
    (_, _, before), (_, _, after) = snapshots.draw_panes(collection, "taxi", 10_000, seed=1)
    assert (before.reports, after.reports) == (9_000, 10_000)
    [(_, earlier)], [(_, later)] = before.parts.values(), after.parts.values()
    assert (later >= earlier).all()
    assert later.sum() == 10_000


def test_ratios_are_medians_with_their_range():
    assert snapshots._faster([2.0, 9.0, 4.0], [1.0, 1.0, 1.0]) == "4.0× faster (2.0× to 9.0×)"
    assert snapshots._slower([2.0, 9.0, 4.0], [1.0, 1.0, 1.0]) == "4.0× the time (2.0× to 9.0×)"


def test_every_comparison_has_a_row(monkeypatch):
    for name, value in (("SETTINGS", (("taxi", 10_000),)), ("WINDOWS", 1), ("TOGETHER", 2)):
        monkeypatch.setattr(snapshots, name, value)
    monkeypatch.setattr(snapshots, "time_before", lambda folder: {"ems": [1.0]})
    plain, compared = snapshots.measure(), snapshots.measure("a checkout")
    assert len(compared) == len(plain) + 5
    assert all(np.size(row) == 3 for row in compared)
    assert [target for _, _, target in compared if target] == ["≥ 6×", "≥ 12×", "≥ 1×", "≤ 1×"]
