"""The benchmark of comparisons: its rivals against scipy's, its known differences, and every part of it on few runs."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import comparison
from benchmarks.comparison import Truth, bump, chi_square, kolmogorov_smirnov, share, shifted
from benchmarks.datasets import SMOOTH


def test_the_rivals_are_the_known_tests():
    rng = np.random.default_rng(1)
    first, second = rng.integers(5, 50, 64), rng.integers(5, 50, 64)
    known = stats.chi2_contingency(np.stack([first, second]), correction=False).pvalue
    assert chi_square(first, second) == pytest.approx(known)
    ks = stats.ks_2samp(np.repeat(np.arange(64), first), np.repeat(np.arange(64), second), method="asymp")
    assert kolmogorov_smirnov(first, second) == pytest.approx(ks.pvalue, rel=0.1)  # of which scipy corrects the size


@pytest.mark.parametrize("change", [lambda x: shifted(x, 10), lambda x: bump(x, 0.04)])
def test_changes_keep_a_distribution_one(change):
    x = SMOOTH["beta(5, 2)"](1024)
    changed = change(x)
    assert changed.sum() == pytest.approx(1)
    assert changed.min() >= 0
    assert np.abs(np.cumsum(changed - x)).max() > 0.01


def test_a_shift_by_ten_buckets_is_one_of_all_quantiles():
    x = SMOOTH["beta(5, 2)"](1024)
    truth = Truth(x, shifted(x, 10))
    assert truth.quantiles == pytest.approx(np.full(9, -10 / 1024), abs=1e-6)
    assert truth.mean == pytest.approx(-10 / 1024, abs=1e-5)


def test_a_share_comes_with_its_error():
    assert share([True] * 25 + [False] * 75) == "25.0 ± 4.3"


@pytest.mark.parametrize("part", comparison.RUNS)
def test_every_part_gives_rows_as_wide_as_its_heading(part, monkeypatch):
    monkeypatch.setattr(comparison, "LOOKS", 2)
    [(_, heading, measure, settings)] = [each for each in comparison.parts("log_spline") if each[0] == part]
    assert len(measure(settings[0], runs=2)) == len(heading)
