"""Adaptive smoothing: folds are honest, held-out likelihoods are right, and strength 1 is left only for a reason."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hushgram import Collection
from hushgram.config import parse_collections
from hushgram.estimators.em import Part, maximize
from hushgram.estimators.smoothing import FOLDS, STRONGER, WEAKER, Folds, choose_strengths, split_into_folds
from hushgram.mechanisms import ContinuousSquareWave, SquareWave
from hushgram.metrics import wasserstein
from hushgram.simulation import draw_tally


def make_collection(buckets, epsilon, **options):
    return Collection(name="c", low=0, high=1, buckets=buckets, epsilon=epsilon, smoothing="adaptive", **options)


def make_hill(buckets):
    return np.diff(stats.beta(5, 2).cdf(np.linspace(0, 1, buckets + 1)))


def draw_hill(c, reports, seed):
    return draw_tally(c, make_hill(c.buckets), reports, np.random.default_rng(seed))


def test_folds_sum_to_the_counts_and_follow_from_them_alone():
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 1000, 60).astype(float), rng.integers(0, 5, 30).astype(float)
    folds = split_into_folds([first, second])
    assert [fold.shape for fold in folds] == [(FOLDS, 60), (FOLDS, 30)]
    for fold, tally in zip(folds, (first, second), strict=True):
        assert fold.min() >= 0
        np.testing.assert_array_equal(fold.sum(axis=0), tally)
    for fold, repeated in zip(folds, split_into_folds([first.copy(), second.copy()]), strict=True):
        np.testing.assert_array_equal(fold, repeated)
    second[0] += 1
    assert not np.array_equal(folds[0], split_into_folds([first, second])[0])


def test_each_report_falls_into_any_fold_alike():
    """Pearson's test over 4,000 free figures at 1e-5."""
    tally = np.full(1000, 500.0)
    expected = 500 / FOLDS
    statistic = ((split_into_folds([tally])[0] - expected) ** 2 / expected).sum()
    assert 1e-5 < stats.chi2.sf(statistic, 1000 * (FOLDS - 1)) < 1 - 1e-5


def test_the_held_out_likelihood_is_that_of_fits_to_the_other_folds():
    # Against plain loops over windows and folds, with dense matrices, each fit from a uniform start.
    old, new = SquareWave(32, 2.0), ContinuousSquareWave(32, 1.0)
    rng = np.random.default_rng(3)
    parts = [
        Part(wave, rng.multinomial(8_000, wave.forward(make_hill(32)), size=3).astype(np.float64))
        for wave in (old, new)
    ]
    folds = Folds.of(parts)
    _, start = folds.held_out_likelihood(np.arange(3), 1.0)
    warm, _ = folds.held_out_likelihood(np.arange(3), 0.25, start)
    for window in range(3):
        expected = 0.0
        split = split_into_folds([part.counts[window] for part in parts])
        for fold in range(FOLDS):
            rest = [
                Part(part.mechanism, (part.counts[window] - held[fold])[None, :])
                for part, held in zip(parts, split, strict=True)
            ]
            x = maximize(rest, smoothing=0.25, stopping="converged").x[0]
            expected += sum(
                held[fold] @ np.log(part.mechanism.matrix() @ x) for part, held in zip(parts, split, strict=True)
            )
        assert warm[window] == pytest.approx(expected, abs=0.01)


def test_a_window_climbs_while_it_gains_and_stays_where_all_gains_are_small(monkeypatch):
    gain_of_strength = [
        {5.0: 3.0, 21.0: 6.0, 85.0: 5.0, 0.25: 50.0},  # upwards, and no farther than to the top
        {5.0: -1.0, 0.25: 2.0, 0.0625: 7.0, WEAKER[2]: 7.2, WEAKER[3]: 90.0},  # a step of 0.2 nats ends the climb
        {5.0: 2.0, 21.0: 3.9, 85.0: 0.0},  # too little in all
        {5.0: -9.0, 0.25: -1.0},
        dict.fromkeys(STRONGER, -1.0) | {strength: 5.0 + 2 * k for k, strength in enumerate(WEAKER)},
    ]

    def held_out_likelihood(self, windows, strength, start=None):
        gains = [gain_of_strength[window].get(strength, 0.0) for window in windows]
        return 1000 + np.array(gains), np.zeros((len(windows), FOLDS, 2))

    monkeypatch.setattr(Folds, "held_out_likelihood", held_out_likelihood)
    wave = SquareWave(8, 1.0)
    counts = np.full((len(gain_of_strength), wave.cells), 10.0)
    assert choose_strengths([Part(wave, counts)]).tolist() == [21.0, 0.0625, 1.0, 1.0, WEAKER[-1]]


@pytest.mark.slow
def test_a_windows_estimate_does_not_depend_on_the_windows_beside_it():
    # To the bit. The sizes differ widely, so that strengths do; 70 windows make two blocks.
    c = make_collection(64, 1.0)
    tallies = [
        draw_hill(c, reports, seed) for seed, reports in enumerate([1, 2, 30, 10**5, 10**6, 10**7, *[5_000] * 64])
    ]
    batch = c.estimate_many(tallies)
    parts = [Part(c.mechanism, np.stack(tallies).astype(np.float64))]
    assert len(set(choose_strengths(parts).tolist())) > 2
    for index in [*range(7), 69]:
        alone = c.estimate(tallies[index])
        np.testing.assert_array_equal(batch[index].probabilities, alone.probabilities)
        assert batch[index].iterations == alone.iterations


def test_adaptive_smoothing_is_plain_ems_where_reports_show_no_gain():
    c = make_collection(64, 1.0)
    tallies = [draw_hill(c, reports, seed) for seed, reports in enumerate([1, 3, 10, 100, 1000, 3000])]
    parts = [Part(c.mechanism, np.stack(tallies).astype(np.float64))]
    assert choose_strengths(parts).tolist() == [1.0] * len(tallies)
    for adaptive, full in zip(
        c.estimate_many(tallies), replace(c, smoothing="full").estimate_many(tallies), strict=True
    ):
        np.testing.assert_array_equal(adaptive.probabilities, full.probabilities)


def test_full_smoothing_is_the_default():
    tally = draw_hill(make_collection(64, 1.0), 10**6, 1)
    default, full, adaptive = (
        replace(make_collection(64, 1.0), smoothing=choice).estimate(tally).probabilities
        for choice in (None, "full", "adaptive")
    )
    np.testing.assert_array_equal(default, full)
    assert np.abs(adaptive - full).max() > 1e-4


def test_revisions_in_one_window_are_judged_together():
    c = make_collection(64, 1.0, previous=[{"epsilon": 2.0}])
    old = list(c.revisions)[1]
    tallies = {c.revision: draw_hill(c, 500_000, 1), old: draw_hill(c.revisions[old], 500_000, 2)}
    estimate = c.estimate(tallies)
    parts = [Part(c.revisions[key].mechanism, tally[None, :].astype(np.float64)) for key, tally in tallies.items()]
    (strength,) = choose_strengths(parts)
    assert strength < 1
    np.testing.assert_array_equal(estimate.probabilities, maximize(parts, smoothing=strength).x[0])
    np.testing.assert_array_equal(estimate.probabilities, c.estimate_many([tallies, tallies])[1].probabilities)


def test_intervals_are_those_of_full_smoothing_and_the_fit_test_still_detects_garbage():
    # The law of the error has a fit of its own, so its coverage is that of docs/intervals.md.
    c = make_collection(64, 1.0)
    tally = draw_hill(c, 10**6, 1)
    adaptive, full = c.estimate(tally), replace(c, smoothing="full").estimate(tally)
    for question in (("mean",), ("quantile", 0.5), ("cdf", 0.6)):
        assert adaptive.interval(*question) == full.interval(*question)
    assert adaptive.fit_pvalue > 0.001
    garbage = np.zeros_like(tally)
    garbage[::7] = 10_000
    assert c.estimate(garbage).fit_pvalue < 1e-6


def _compute_log_ratios(c, reports, runs):
    tallies = [draw_hill(c, reports, [99, run]) for run in range(runs)]
    errors = [
        [wasserstein(make_hill(c.buckets), estimate.probabilities) for estimate in way.estimate_many(tallies)]
        for way in (c, replace(c, smoothing="full"))
    ]
    return np.log(errors[0]) - np.log(errors[1])


def test_wide_buckets_are_smoothed_less_and_the_error_falls():
    """W1 of a smooth curve, 10⁶ reports: log ratios have mean -0.65 and deviation 0.20, so that the mean of eight is
    above -0.36, a fall by 30 %, with odds of 1e-5.
    """
    assert _compute_log_ratios(make_collection(128, 1.0), 10**6, runs=8).mean() < np.log(0.7)


@pytest.mark.slow
def test_narrow_buckets_are_smoothed_more_and_the_error_falls():
    """W1 of a smooth curve, 20,000 reports: log ratios have mean -0.16 and deviation 0.15, so that the mean of twenty
    is not below zero with odds of 1e-6.
    """
    assert _compute_log_ratios(make_collection(1024, 4.0), 20_000, runs=20).mean() < 0


def test_collections_files_may_set_adaptive_smoothing():
    text = "collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, smoothing: adaptive}}"
    assert parse_collections(text)["a"].smoothing == "adaptive"
