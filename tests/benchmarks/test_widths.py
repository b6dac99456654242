"""The comparison of widths: its statistics on made-up errors, its tallies, and the whole of it on few buckets."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from benchmarks import widths
from benchmarks.widths import Comparison, Setting, average, choose, compare, critical, measure, verdict
from hushgram.planning import WIDTH_SETS
from hushgram.planning.widths import BEST_SETS

errors = arrays(float, (12, 2), elements=st.floats(0.01, 1))
SETTING = Setting("search", 1.0, "ems", "beta(5, 2)", 10_000, ((0.5, 1.0), (0.75, 1.25)), 32, 3)


def make_comparison(ratio, z=0.0):
    return Comparison(np.array([ratio, ratio]), np.array([0.01, 0.01]), np.array([z, z]))


@given(errors, st.floats(0.5, 2))
def test_a_ratio_that_is_the_same_in_every_pair_is_known_exactly(one, factor):
    seen = compare(factor * one, one)
    assert seen.ratio == pytest.approx([factor, factor])
    assert seen.error == pytest.approx([0, 0], abs=1e-12)


@given(errors, errors)
def test_each_side_is_as_much_worse_as_the_other_is_better(several, one):
    there, back = compare(several, one), compare(one, several)
    assert there.ratio * back.ratio == pytest.approx([1, 1])
    assert there.z == pytest.approx(-back.z)
    assert ((there.z > 0) == (there.ratio > 1))[np.abs(there.ratio - 1) > 1e-9].all()


def test_standard_errors_are_those_of_paired_runs():
    """5000 samples of 100 pairs: standard deviations of them are known to 1 %, which is five times less than allowed.
    Taken as independent, they would be six times as large."""
    rng = np.random.default_rng(1)
    common = 1 + 0.3 * rng.standard_normal((5000, 100, 2))
    several, one = (common + 0.05 * rng.standard_normal(common.shape) for _ in range(2))
    seen = [compare(*pair) for pair in zip(several, one, strict=True)]
    expected = np.std([each.ratio for each in seen], axis=0)
    assert np.mean([each.error for each in seen], axis=0) == pytest.approx(expected, rel=0.05)
    assert np.std([each.z for each in seen], axis=0) == pytest.approx([1, 1], rel=0.05)


@given(st.lists(st.floats(0.5, 2), min_size=1, max_size=8), st.lists(st.floats(-5, 5), min_size=8, max_size=8))
def test_an_average_lies_among_its_settings_and_is_known_better(ratios, zs):
    parts = [make_comparison(ratio, z) for ratio, z in zip(ratios, zs, strict=False)]
    overall = average(parts)
    assert min(ratios) * (1 - 1e-9) <= overall.ratio[0] <= max(ratios) * (1 + 1e-9)
    assert overall.z[0] == max(zs[: len(ratios)])
    relative = [float(each.error[0] / each.ratio[0]) for each in parts]
    assert overall.error[0] / overall.ratio[0] <= max(relative) / len(parts) ** 0.5 * (1 + 1e-9)


@given(st.integers(1, 10_000), st.integers(10, 1000))
def test_many_comparisons_together_are_as_seldom_wrong_as_one(comparisons, runs):
    limit = critical(comparisons, runs)
    assert comparisons * stats.t.sf(limit, runs - 1) == pytest.approx(stats.norm.sf(3))
    assert critical(comparisons + 1, runs) > limit > critical(comparisons, runs + 1) > 3


@pytest.mark.parametrize(
    ("w1", "ks", "z", "expected"),
    [
        (0.90, 0.95, 2.0, "yes"),
        (0.90, 0.96, 2.0, "no: gains too little"),
        (0.96, 0.90, 2.0, "no: gains too little"),
        (0.80, 0.80, 3.1, "no: worse somewhere"),
    ],
)
def test_a_default_gains_in_both_errors_and_loses_nowhere(w1, ks, z, expected):
    assert verdict(Comparison(np.array([w1, ks]), np.zeros(2), np.array([0.0, z])), limit=3.0) == expected


def test_the_set_is_chosen_for_both_estimators_together():
    found = [[make_comparison(ratio) for ratio in row] for row in ((0.8, 0.9, 0.85), (1.2, 0.9, 1.0))]
    assert choose(WIDTH_SETS[:3], found) == WIDTH_SETS[1]


def test_tallies_repeat_but_for_the_stage_and_the_estimator():
    first = measure(SETTING)
    assert first.shape == (3, 3, 2)
    assert (first > 0).all()
    assert (measure(SETTING) == first).all()
    alone = Setting(**{**vars(SETTING), "sets": SETTING.sets[1:]})
    assert (measure(alone) == first[[0, 2]]).all()
    for other in ({"stage": "judgement"}, {"estimator": "log_spline"}):
        generators = [Setting(**{**vars(SETTING), **other}).generator(0), SETTING.generator(0)]
        assert generators[0].random() != generators[1].random()


def rows_of(printed):
    """The cells of each table."""
    return [
        [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][2:]
        for part in printed.split("## ")[1:]
    ]


@pytest.fixture
def few_settings(monkeypatch):
    monkeypatch.setattr(widths, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(widths, "WIDTH_SETS", WIDTH_SETS[:2])
    monkeypatch.setattr(widths, "EPSILONS", (1.0, 4.0))
    monkeypatch.setattr(widths, "DATA", ("taxi",))
    monkeypatch.setattr(widths, "REPORTS", (10_000,))


def test_every_row_is_printed_and_kept(few_settings, tmp_path, capsys):
    output = tmp_path / "new" / "widths.md"
    widths.main(["--runs", "3", "--search-runs", "2", "--buckets", "64", "--output", str(output)])
    printed = capsys.readouterr().out
    assert output.read_text() == printed
    search, judgement, verdicts, alone = rows_of(printed)
    assert [row[:3] for row in search] == [
        [estimator, epsilon, str(list(each))]
        for epsilon in ("1", "4")
        for estimator in ("ems", "log_spline")
        for each in WIDTH_SETS[:2]
    ]
    assert [row[:2] for row in judgement] == [[e, epsilon] for epsilon in ("1", "4") for e in ("ems", "log_spline")]
    assert [row[0] for row in verdicts] == ["1", "4"]
    for row in verdicts:
        assert {each[2] for each in judgement if each[1] == row[0]} == {row[1]}
        assert row[-1] in ("yes", "no: gains too little", "no: worse somewhere")
    # One setting of each estimator, so that its averages are those of its row.
    assert [row[2:] for row in alone] == [
        [figure for row in judgement if row[1] == epsilon for figure in row[5:7]] for epsilon in ("1", "4")
    ]


def test_without_a_search_the_best_sets_known_are_judged(few_settings, tmp_path, capsys):
    widths.main(["--runs", "2", "--search-runs", "0", "--buckets", "64", "--output", str(tmp_path / "widths.md")])
    judgement, verdicts, _ = rows_of(capsys.readouterr().out)
    expected = {epsilon: str(list(BEST_SETS[float(epsilon)])) for epsilon in ("1", "4")}
    assert all(row[2] == expected[row[1]] for row in judgement)
    assert {row[0]: row[1] for row in verdicts} == expected
