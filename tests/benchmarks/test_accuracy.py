"""The comparison of the log-spline with EMS: its counts and rule on made-up ratios, and the whole on few buckets."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from benchmarks import accuracy
from benchmarks.accuracy import Row, Setting, count, distances, judge, measure, report, summarise
from benchmarks.datasets import HARD, KEPT_ASIDE, SMOOTH, SPIKY
from benchmarks.widths import Comparison
from hushgram.estimators.log_spline import candidates


def make_row(shape="taxi", w1=1.0, ks=1.0, tv=1.0, error=0.0, left=0, reports=1000):
    seen = Comparison(np.array([w1, ks, tv]), np.full(3, error), np.zeros(3))
    return Row(Setting(shape, reports, 1.0, 10), seen, left)


def test_every_shape_is_a_distribution_of_one_group():
    assert sorted(name for group in accuracy.GROUPS.values() for name in group) == sorted(accuracy.SHAPES)
    assert [len(group) for group in accuracy.GROUPS.values()] == [10, 6, 6]
    assert not KEPT_ASIDE.keys() & {**SMOOTH, **SPIKY, **HARD}.keys()
    for shape in accuracy.SHAPES.values():
        x = shape(1024)
        assert x.shape == (1024,)
        assert x.sum() == pytest.approx(1)
        assert (x >= 0).all()


def test_distances_of_neighbouring_masses():
    x, truth = np.zeros(128), np.zeros(128)
    x[1], truth[2] = 1.0, 1.0  # one bucket apart, in neighbouring bins of two buckets
    assert distances(x, truth) == [1 / 128, 1.0, 1.0]


def test_what_is_above_surely_is_above_by_two_standard_errors():
    assert make_row(w1=1.2, ks=1.11, tv=1.0, error=0.04).above(1.1) == [True, True, False]
    assert make_row(w1=1.2, ks=1.11, tv=1.0, error=0.04).above(1.1, surely=True) == [True, False, False]
    assert make_row(w1=1.2, error=0.06).above(1.1, surely=True) == [False] * 3


def test_counts_and_means_of_a_group():
    rows = [make_row(w1=1.2, ks=1.07, error=0.01, left=3), make_row(w1=1.12, ks=0.5, error=0.02)]
    assert count("two", rows) == ["two", "2", "2 / 2 / 1", "1 / 0 / 0", "0 / 0 / 0", "3 of 20"]
    name, w1, ks, tv = summarise("taxi", [make_row(w1=0.5, ks=2.0), make_row(w1=2.0, ks=2.0)])
    assert (name, w1, ks, tv) == (
        "taxi",
        "1.00 ± 0.00 (at most 2.00)",
        "2.00 ± 0.00 (at most 2.00)",
        "1.00 ± 0.00 (at most 1.00)",
    )


@pytest.mark.parametrize(
    ("grid", "aside", "expected"),
    [
        ((0.79, 0.69), (0.89, 0.84), ["met", "met", "met"]),
        ((0.81, 0.69), (0.89, 0.84), ["met", "missed", "met"]),
        ((0.79, 0.71), (0.89, 0.86), ["met", "missed", "missed"]),
        ((0.79, 1.11), (0.91, 0.84), ["missed", "missed", "missed"]),
    ],
)
def test_a_default_is_better_on_average_and_nowhere_much_worse(grid, aside, expected):
    groups = {"grid": [make_row(w1=grid[0], ks=grid[1])], "kept aside": [make_row(w1=aside[0], ks=aside[1])]}
    assert [row[-1] for row in judge(groups)] == expected


def test_the_rule_counts_shapes_that_have_guided_the_tuning_and_leaves_the_density_out():
    groups = {"grid": [make_row(w1=0.5, ks=0.5, tv=3.0)], "kept aside": [make_row(w1=0.5, ks=0.5)]}
    assert judge(groups)[0][1:] == ["at most 0.50 and 0.50: 0 of 2 settings above, 0 of them surely", "met"]
    seen = judge({**groups, "guided the tuning": [make_row(w1=1.2, ks=1.2, error=0.01)]})[0]
    assert seen[1:] == ["at most 1.20 and 1.20: 1 of 3 settings above, 1 of them surely", "missed"]


def test_settings_above_the_limit_are_listed(capsys):
    report([make_row(w1=1.2), make_row(tv=1.5, reports=10_000), make_row("stairs", ks=1.11), make_row("plateau")])
    printed = capsys.readouterr().out
    above = printed.split("| above |")[1].split("\n\n")[0].splitlines()[2:]
    assert [row.split(" | ")[0] for row in above] == ["| taxi", "| stairs"]
    assert "| **kept aside** | 1.00 ± 0.00 (at most 1.00)" in printed


def test_both_estimators_see_the_same_tallies(monkeypatch):
    monkeypatch.setattr(accuracy, "BUCKETS", 64)
    setting = Setting("taxi", 5000, 1.0, 3)
    found, left = accuracy.errors(setting, "ems")
    assert found.shape == (3, 3)
    assert (found == accuracy.errors(setting, "ems")[0]).all()
    assert left == 0
    row = measure(setting)
    ours, _ = accuracy.errors(setting, "log_spline")
    assert row.seen.ratio == pytest.approx(ours.mean(axis=0) / found.mean(axis=0))


@pytest.mark.parametrize("options", [[], ["--no-jumps"]], ids=["as it is", "without jumps"])
def test_jumps_may_be_left_out(options, monkeypatch, capsys):
    """Of a jump that the reports show clearly: with it, the density's error is a tenth of that of EMS, and without
    it over a half."""
    monkeypatch.setattr(accuracy, "ProcessPoolExecutor", ThreadPoolExecutor)
    for name in ("PROMISING_GAIN", "PROMISING_FREE_GAIN"):  # so that what the option changes is undone
        monkeypatch.setattr(candidates, name, getattr(candidates, name))
    accuracy.main(["--runs", "2", "--shapes", "one jump", "--reports", "10000000", "--epsilons", "4", *options])
    [row] = capsys.readouterr().out.split("\n\n")[0].splitlines()[2:]
    total_variation = float(row.split(" | ")[5].split(" ± ")[0])
    assert (total_variation > 0.3) == bool(options)


def test_every_row_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(accuracy, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr(accuracy, "BUCKETS", 64)
    shapes = ["taxi", "needle", "plateau"]
    accuracy.main(["--runs", "2", "--shapes", *shapes, "--reports", "1000", "--epsilons", "1", "2"])
    rows, means, counts, _, rule = capsys.readouterr().out.split("\n\n")
    assert [row.split(" | ")[0].strip("| ") for row in rows.splitlines()[2:]] == [s for s in shapes for _ in range(2)]
    assert [row.split(" | ")[0].strip("| ") for row in means.splitlines()[2:]] == [
        *("taxi", "**grid**", "needle", "**guided the tuning**", "plateau", "**kept aside**")
    ]
    assert [row.split(" | ")[1] for row in counts.splitlines()[2:]] == ["2", "2", "2", "6"]
    assert len(rule.strip().splitlines()) == 2 + 3
