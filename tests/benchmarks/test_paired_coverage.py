"""The paired comparison of intervals: its test against scipy's, its rows on made-up collections, the whole in small."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks import paired_coverage
from benchmarks.coverage import Setting, bins_held, curve_held, draw, shares_held
from benchmarks.paired_coverage import (
    Held,
    Part,
    compare,
    coverage_row,
    holm,
    join,
    kind_rows,
    mcnemar,
    measure,
    part_rows,
    widths_row,
)

METHOD = {"estimator": "ems", "intervals": "smooth", "mechanism": "square_wave"}
SETTING = Setting("uniform", 5000, 1.0, 64, 4, METHOD)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def make_held(curve, together, single, widths=1.0):
    runs = len(together)
    return Held(np.array(curve, bool), np.array(together, bool), np.array(single, bool), np.full((runs, 5), widths))


def all_held(runs, held=True, widths=1.0):
    """Mean, median, band and the nine deciles of a uniform distribution, and two bins."""
    return make_held(np.full((runs, 12), held), np.full(runs, held), np.full((runs, 2), held), widths)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_exact_p_value_is_that_of_the_sign_test(worse, better):
    expected = stats.binomtest(worse, worse + better, alternative="greater").pvalue if worse + better else 1.0
    assert mcnemar(worse, better) == pytest.approx(expected)


@given(probabilities)
def test_corrected_p_values_are_those_of_holms_steps(p):
    """Each hypothesis is refused at a level if it and all with smaller p are, at the level over those that remain."""
    corrected = holm(p)
    assert all(a >= b for a, b in zip(corrected, p, strict=True))
    for level in (0.01, 0.05, 0.3):
        refused = set()
        for step, index in enumerate(np.argsort(p, kind="stable")):
            if p[index] * (len(p) - step) > level:
                break
            refused.add(int(index))
        assert {index for index, each in enumerate(corrected) if each <= level} == refused


def test_only_discordant_collections_count():
    ems, log_spline = all_held(10), all_held(10)
    log_spline.curve[:3, 0] = False  # the mean, of three collections
    ems.curve[4, 0] = False
    log_spline.single[5:7, 1] = False  # a bin, of two
    ems.curve[:, 2] = False  # the band, of all
    parts = {part.name: part for part in compare(SETTING, ems, log_spline)}
    deciles = [f"F = {round(64 * k / 10) / 64:.2f}" for k in range(1, 10)]
    assert list(parts) == ["mean", "median", *deciles, "band", "bins", "all bins"]
    assert (parts["mean"].only_ems, parts["mean"].only_log_spline, parts["mean"].shares) == (3, 1, (0.9, 0.7))
    assert (parts["bins"].only_ems, parts["bins"].only_log_spline, parts["bins"].shares) == (2, 0, (1.0, 0.9))
    assert (parts["band"].only_ems, parts["band"].only_log_spline, parts["band"].shares) == (0, 10, (0.0, 1.0))
    assert parts["mean"].worse == pytest.approx(5 / 16)
    assert parts["band"].better == pytest.approx(2**-10)
    assert all(part.worse == 1 for name, part in parts.items() if name not in ("mean", "bins"))


def test_what_is_surely_worse_stays_so_among_all_parts():
    parts = [
        Part("taxi", 10_000, "band", 5, 5, (0.9, 0.9)),
        Part("taxi", 10_000, "F = 0.10", 20, 0, (1.0, 0.8)),
        Part("taxi", 10_000, "F = 0.20", 20, 1, (1.0, 0.95)),
        Part("taxi", 10_000, "F = 0.30", 5, 0, (1.0, 0.95)),
        Part("taxi", 10_000, "F = 0.40", 0, 50, (0.5, 1.0)),
    ]
    rows = part_rows(parts)
    assert [row[2] for row in rows[:3]] == ["F = 0.10", "F = 0.20", "F = 0.30"]
    assert [row[-1] for row in rows] == ["surely worse", "surely worse", "", "", ""]  # 1/32 alone would be enough
    assert kind_rows(parts) == [["band", "1", "0", "0", "0", "1", "1"], ["deciles", "4", "2", "1", "1", "1", "1"]]


def test_shares_are_of_all_and_the_least_of_one_epsilon():
    good, bad = all_held(4), all_held(4)
    bad.curve[0, 5] = False
    bad.single[:2, 0] = False
    mean, _, deciles, worst, band, bins, together = coverage_row([good, bad])
    assert (mean, deciles, worst) == ("100 (100)", "99 (97)", "88 (75)")
    assert (band, bins, together) == ("100 (100)", "88 (75)", "100 (100)")


def test_widths_are_medians_and_their_ratio():
    ems = join([all_held(1, widths=width) for width in (1.0, 2.0, 9.0)])
    assert widths_row(ems, all_held(3, widths=3.0)) == ["2, 3 (1.50)"] * 5


def test_both_estimators_see_the_same_tallies():
    truth, tallies = draw(SETTING)
    _, same = draw(Setting(**{**vars(SETTING), "method": {**METHOD, "estimator": "log_spline"}}))
    assert all((a == b).all() for a, b in zip(tallies, same, strict=True))
    held = measure(SETTING)
    estimates = SETTING.collection(METHOD).estimate_many(tallies)
    assert held.shares[[0, 1, 2, 3, 4]] == pytest.approx(shares_held(estimates, truth))
    assert (held.curve == curve_held(estimates, truth)).all()
    assert held.counts.shape == (4, 14)
    assert ((held.widths > 0) & (held.widths < 100)).all()


def test_a_distribution_that_is_far_off_is_held_by_nothing():
    truth, tallies = draw(SETTING)
    far = np.zeros_like(truth)
    far[-1] = 1.0
    estimates = SETTING.collection(METHOD).estimate_many(tallies)
    assert not curve_held(estimates, far)[:, :3].any()
    together, last = bins_held(estimates, far)[:, [0, -1]].T
    assert not together.any()
    assert not last.any()


def test_every_row_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(paired_coverage, "ProcessPoolExecutor", ThreadPoolExecutor)
    arguments = ["--runs", "2", "--buckets", "64", "--shapes", "uniform", "one jump", "--reports", "1000", "5000"]
    paired_coverage.main([*arguments, "--epsilons", "1", "2"])
    running, *tables = capsys.readouterr().out.split("\n## ")
    assert len(running.strip().splitlines()) == 2 * 4
    parts = 2 * (2 + 9 + 3) + 2 * (2 + len(deciles_of("one jump")) + 3)
    assert [len(each.strip().splitlines()) - 4 for each in tables] == [4, 4, 4, parts, 6]


def deciles_of(shape):
    setting = Setting(**{**vars(SETTING), "shape": shape})
    return [name for name in paired_coverage.part_names(setting) if name.startswith("F")]
