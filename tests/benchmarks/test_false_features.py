"""The count of features: of a curve that has one in every window, and of one that has none."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks import false_features
from benchmarks.false_features import count


def test_a_point_mass_is_counted_in_each_window_and_a_smooth_curve_has_none(monkeypatch):
    """The mass is a tenth of 10⁵ reports at ε = 2, which chance cannot hide."""
    smooth = false_features.shares_of("uniform")
    pointed = 0.9 * smooth + 0.1 * (np.arange(smooth.size) == 400)
    monkeypatch.setattr(false_features, "shares_of", lambda shape: pointed if shape == "pointed" else smooth)
    assert count(("pointed", 100_000, 2.0, 3))["any"] == 3
    assert count(("smooth", 100_000, 2.0, 3))["any"] == 0


def test_shapes_are_distributions():
    for shape in false_features.SHAPES:
        shares = false_features.shares_of(shape)
        assert abs(shares.sum() - 1) < 1e-9
        assert shares.min() >= 0


def test_only_the_settings_asked_for_have_rows(monkeypatch, capsys):
    monkeypatch.setattr(false_features, "ProcessPoolExecutor", ThreadPoolExecutor)
    arguments = ["--runs", "2", "--shapes", "uniform", "two spikes", "--reports", "100000", "--epsilons", "1", "4"]
    false_features.main(arguments)
    header, _, *rows, total = capsys.readouterr().out.splitlines()
    assert header.strip("| ").split(" | ")[-2:] == ["uniform", "two spikes"]
    assert [row.strip("| ").split(" | ")[:3] for row in rows] == [["100 000", "1.0", "4"], ["100 000", "4.0", "4"]]
    assert rows[1].strip("| ").split(" | ")[-2:] == ["0", "2"]
    assert "of 8 windows" in total
