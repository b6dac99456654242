"""Intervals for any shape: the law of their weights at every value, how often they hold, and what a user sees."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

from hushgram import Collection
from hushgram.any_shape.bounds import Bounds
from hushgram.any_shape.pilot import FEW, make_design
from hushgram.any_shape.weights import Weighting
from hushgram.config import parse_collections
from hushgram.mechanisms import ContinuousSquareWave, GeneralWave, RandomizedResponse, SquareWave

# Words of few bits and few steps of the grid: every position of a device can be tried.
GRID = {"bits": 12, "grid_steps": 1 << 9}
MECHANISMS = {
    "square wave": [SquareWave(24, 1.0)],
    "several widths": [SquareWave(24, 2.0, widths=(0.5, 0.75, 1.0, 1.25))],
    "continuous": [ContinuousSquareWave(16, 1.0, **GRID)],
    "continuous, few cells": [ContinuousSquareWave(16, 1.0, output_buckets=5, **GRID)],
    "trapezoid": [GeneralWave(16, 1.0, 0.6, output_buckets=23, **GRID)],
    "triangle": [GeneralWave(9, 2.0, 0.0, **GRID)],
    "randomized response": [RandomizedResponse(6, 1.0)],
    "two revisions": [SquareWave(24, 1.0), SquareWave(24, 3.0)],
    "two kinds": [SquareWave(16, 1.0), ContinuousSquareWave(16, 2.0, **GRID)],
}


def _draw_tally(mechanism, reports, seed):
    rng = np.random.default_rng(seed)
    return mechanism.tally(mechanism.perturb_many(mechanism.locate(rng.beta(2, 5, reports)), rng))


def _laws(mechanism, buckets):
    """P(cell | position) by the integers of the device's law; and pairs of a bucket and a position of its values."""
    if not isinstance(mechanism, GeneralWave):
        return mechanism.forward(np.eye(buckets)), np.arange(buckets), np.arange(buckets)
    law, grid = mechanism.law, mechanism.grid
    laws = np.full((mechanism.positions, mechanism.cells), law.Q / law.T * grid.cell)
    for position in range(mechanism.positions):
        steps = position + np.add.outer(np.arange(grid.plateau), np.arange(grid.ramp)).ravel()
        counts = np.bincount(steps // grid.cell, minlength=mechanism.cells)
        laws[position] += (law.P - law.Q) / law.T / grid.ramp * counts
    units = np.linspace(0, 1, 40 * mechanism.positions)  # so fine that rounding is seen on both sides of a step
    return laws, np.minimum((units * buckets).astype(int), buckets - 1), mechanism.locate(units)


def _expected(design, laws, weights):
    """For each bucket the least and the greatest that weights come to at its values; of two kinds, at any two."""
    parts = np.split(weights, np.cumsum(design.transition.sizes)[:-1])
    low, high = np.zeros(design.x.size), np.zeros(design.x.size)
    for (law, bucket, position), share, part in zip(laws, design.transition.shares, parts, strict=True):
        least, greatest = np.full(design.x.size, np.inf), np.full(design.x.size, -np.inf)
        np.minimum.at(least, bucket, (law @ part)[position])
        np.maximum.at(greatest, bucket, (law @ part)[position])
        low, high = low + share * least, high + share * greatest
    return low, high


@pytest.mark.parametrize("reports", [300, 4000])
@pytest.mark.parametrize("mechanisms", MECHANISMS.values(), ids=MECHANISMS)
def test_weights_are_on_the_right_side_of_the_question_at_every_value(mechanisms, reports):
    design = make_design([(mechanism, _draw_tally(mechanism, reports, 1)) for mechanism in mechanisms])
    weighting = Weighting(design)
    d = weighting.buckets
    laws = [_laws(mechanism, d) for mechanism in mechanisms]
    rng = np.random.default_rng(2)
    start, end = np.sort(rng.integers(0, d + 1, (2, 8)), axis=0)
    start[:3], end[2:4] = 0, d
    ramp = rng.integers(0, d, 8)
    averages = np.stack([np.arange(d) / d, (np.arange(d) / d - 0.4) ** 2, rng.normal(size=d)])
    shares = ((start[:, None] <= np.arange(d)) & (np.arange(d) < end[:, None])).astype(float)
    for side in (-1, 1):
        weights = [*weighting.for_shares(start, end, ramp, side), *weighting.for_averages(averages, side)]
        for row, question in zip(weights, [*shares, *averages], strict=True):
            low, high = _expected(design, laws, row)
            beyond = (high - question).max() if side < 0 else (question - low).max()
            scale = max(1.0, float(np.abs(row).max()))
            assert beyond <= 1e-9 * scale
            if len(mechanisms) == 1 and design.transition.sees_within_buckets is False:
                assert beyond >= -1e-9 * scale  # no further from the question than it must be


@pytest.mark.parametrize("side", [-1, 1])
def test_weights_are_the_closed_form_up_to_a_constant(side):
    """w = D⁻¹M G⁻¹g with every matrix written out, of a ramp, of a range and of a line."""
    wave = SquareWave(40, 1.0)
    design = make_design([(wave, _draw_tally(wave, 5000, 1))])
    weighting = Weighting(design)
    M, y, bucket = wave.matrix(), wave.forward(design.x), np.arange(40)
    G = M.T @ np.diag(1 / y) @ M
    falling = np.clip((20 - bucket) / 5, 0, 1) if side < 0 else np.clip((24 - bucket) / 5, 0, 1)
    rising = np.clip((bucket - 7) / 5, 0, 1) if side < 0 else np.clip((bucket - 3) / 5, 0, 1)
    for g, found in (
        (falling, weighting.for_shares(np.array([0]), np.array([20]), np.array([4]), side)),
        (falling + rising - 1, weighting.for_shares(np.array([8]), np.array([20]), np.array([4]), side)),
        (bucket / 40, weighting.for_averages(bucket[None] / 40, side)),
    ):
        expected = np.diag(1 / y) @ M @ np.linalg.solve(G, g)
        np.testing.assert_allclose(found[0] - found[0].mean(), expected - expected.mean(), atol=1e-6)
        np.testing.assert_allclose(M.T @ found[0], g, atol=1e-8)


def test_the_pilot_is_thinned_by_the_tally_alone_and_its_reports_are_not_weighed():
    wave = SquareWave(32, 1.0)
    tally = _draw_tally(wave, 50_000, 1)
    one, two = (make_design([(wave, tally)]) for _ in range(2))
    np.testing.assert_array_equal(one.counts, two.counts)
    assert (one.counts <= tally).all()
    # 5 000 reports, give or take five standard deviations of 67.
    assert abs(50_000 - one.reports - 5000) < 340
    few = make_design([(wave, _draw_tally(wave, FEW - 1, 1))])
    assert few.few
    assert few.reports == FEW - 1
    np.testing.assert_allclose(few.x, 1 / 32)


# How often they hold -------------------------------------------------------------------------------------------------

ATOMS = {
    "zeros": ([0.0, 3.0, 7.7], [0.3, 0.5, 0.2]),
    "two spikes": ([2.5, 5.0], [0.49, 0.51]),
    "both ends": ([0.0, 8.0], [0.5, 0.5]),
    "comb": (np.arange(0, 8, 0.5), np.full(16, 1 / 16)),
}
"""Values and their shares: on edges of buckets and between them, at the ends, with nothing smooth about them."""
KINDS = {
    "wave": {},
    "widths": {"widths": [0.5, 1.0]},
    "continuous": {"mechanism": "square_wave_continuous"},
    "categories": {"mechanism": "randomized_response", "bins": 8},
}


def _hits(collection, values, shares, reports, runs):
    """How often the interval held each of: mean, variance, median, cdf at points, a share, bins at once, the band."""
    rng = np.random.default_rng(5)
    values, shares = np.asarray(values), np.asarray(shares)
    curve = np.cumsum(shares)
    mean = shares @ values
    median = values[np.searchsorted(curve, 0.5)]
    points = np.concatenate([values, [-1.0, 0.0, 1.0, 4.2, 5.0, 8.0]])
    cdf = np.array([shares[values <= point].sum() for point in points])
    hits = np.zeros(6 + points.size)
    for _ in range(runs):
        estimate = collection.estimate(
            collection.tally(collection.simulate(rng.choice(values, reports, p=shares), rng))
        )
        low, high = estimate.interval("cdf", points)
        band = estimate.band()
        bins = estimate.density_band(8, simultaneous=True)
        share = shares[(values >= 2.5) & (values <= 5.0)].sum()
        below = [np.interp(points, band.points, bound) for bound in band[1:]]
        binned = np.histogram(values, bins=[*range(8), 8.1], weights=shares)[0]
        hits += [
            _holds(estimate.interval("mean"), mean),
            _holds(estimate.interval("variance"), shares @ (values - mean) ** 2),
            _holds(estimate.interval("median"), median),
            _holds(estimate.interval("probability", 2.5, 5.0), share),
            bool(((bins.low - 1e-9 <= binned) & (binned <= bins.high + 1e-9)).all()),
            bool(((below[0] - 1e-9 <= cdf) & (cdf <= below[1] + 1e-9))[points >= 0].all()),
            *((low - 1e-9 <= cdf) & (cdf <= high + 1e-9)),
        ]
    return hits


def _holds(interval, value):
    return interval.low - 1e-9 <= value <= interval.high + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reports"),
    [("wave", 200), ("wave", 1500), ("wave", 30_000), ("widths", 1500), ("continuous", 1500), ("categories", 1500)],
)
def test_intervals_hold_for_point_masses(kind, reports):
    # Each of 8 to 28 figures for each of 24 settings holds in 95 % of runs at least; in 28 or fewer of 40 with
    # probability 4e-7.
    collection = Collection(name="c", low=0, high=8, buckets=32, epsilon=1.5, intervals="any_shape", **KINDS[kind])
    for values, shares in ATOMS.values():
        assert _hits(collection, values, shares, reports, runs=40).min() > 28


def test_smooth_intervals_do_not_hold_for_point_masses():
    """Or the test above would show nothing."""
    smooth = Collection(name="c", low=0, high=8, buckets=64, epsilon=1.5)
    assert _hits(smooth, *ATOMS["zeros"], 30_000, runs=20).min() < 5


@pytest.mark.parametrize(
    "domain",
    [
        {"low": 0, "high": 63, "integer": True},
        {"low": -40, "high": 151, "integer": True},  # three whole numbers to a bucket
        {"low": 1, "high": 10_000, "scale": "log"},
        {"low": 1e6, "high": 1e6 + 9},
    ],
    ids=str,
)
def test_quantiles_and_cdf_of_one_value_hold_on_every_domain(domain):
    # All values are one. The bounds of each of 8 figures fail in 5 % of runs at most: 6 or more of 40 for 2 % of them,
    # 12 or more for 1e-6.
    collection = Collection(name="c", buckets=64, epsilon=2.0, intervals="any_shape", **domain)
    value = float(collection.domain.from_unit(0.5) + (0.5 if collection.integer else 0.0))
    missed = np.zeros(8)
    for seed in range(40):
        estimate = collection.estimate(collection.tally(collection.simulate([value] * 3000, seed=seed)))
        below = value - 1 if collection.integer else np.nextafter(value, -np.inf)
        missed += [
            *(not _holds(estimate.interval("quantile", q), value) for q in (0.05, 0.5, 0.95)),
            not _holds(estimate.interval("cdf", value), 1.0),
            not _holds(estimate.interval("cdf", below), 0.0),
            not _holds(estimate.interval("probability", value, value), 1.0),
            not _holds(estimate.interval("mean"), value),
            not _holds(estimate.interval("std"), 0.0),
        ]
    assert missed.max() < 12
    low, high = estimate.interval("median")
    assert collection.low <= low <= high <= collection.high
    assert high - low < (collection.high - collection.low) / 2


# What a user sees ----------------------------------------------------------------------------------------------------


def _estimate(reports=20_000, **options):
    collection = Collection(
        **{"name": "c", "low": 0, "high": 60, "buckets": 64, "epsilon": 1.0, "intervals": "any_shape", **options}
    )
    values = collection.domain.from_unit(np.random.default_rng(1).beta(2, 5, reports))
    return collection.estimate(collection.tally(collection.simulate(values, seed=1)))


def _answers(estimate):
    band, bins, readable = estimate.band(), estimate.density_band(2), estimate.readable_bins()
    singles = [estimate.interval(of) for of in ("mean", "variance", "std", "median")]
    several = [estimate.interval("quantile", [0.0, 0.05, 0.5, 1.0]), estimate.interval("cdf", [-1.0, 0.0, 30.0, 99.0])]
    several += [estimate.interval("probability", [-5, 10, 70], [99, 20, 80]), (band.low, band.high)]
    several += [(bins.low, bins.high), (readable.low, readable.high)]
    return [*singles, *several]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"buckets": 2},
        {"epsilon": 1e-6},
        {"epsilon": 16.0},
        {"mechanism": "general_wave", "buckets": 8},
        {"mechanism": "square_wave_continuous", "output_buckets": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("reports", [0, 1, 2, 10, 999, 1000])
def test_few_reports_give_wide_intervals_and_no_warnings(reports, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = _estimate(reports, **options)
        answers = _answers(estimate)
    assert estimate.status == ("no_reports" if reports == 0 else "too_few" if reports < 1000 else "ok")
    for low, high in answers:
        assert np.isfinite(low).all()
        assert np.isfinite(high).all()
        assert (np.asarray(low) <= np.asarray(high)).all()
    mean, *_ = answers
    assert 0 <= mean.low <= mean.high <= 60
    if reports < 2:
        assert mean == (0, 60)
        assert estimate.interval("median") == (0, 60)


def test_what_is_certain_needs_no_report():
    estimate = _estimate(1)
    assert estimate.interval("cdf", -0.1) == (0, 0)
    assert estimate.interval("cdf", 60) == (1, 1)
    assert estimate.interval("probability", 0, 60) == (1, 1)
    assert estimate.interval("probability", 61, 70) == (0, 0)
    low, high = estimate.interval("cdf", [[]])
    assert low.shape == high.shape == (1, 0)


def test_more_reports_make_narrower_intervals_and_a_higher_level_wider_ones():
    few, many = (_estimate(reports) for reports in (2000, 200_000))
    for question in (("mean",), ("std",), ("median",), ("cdf", 20.0), ("probability", 10, 30)):
        widths = [np.subtract(*estimate.interval(*question)[::-1]) for estimate in (few, many)]
        assert widths[1] < widths[0] / 2
        assert widths[1] < np.subtract(*many.interval(*question, level=0.999)[::-1])
    assert (many.band().high - many.band().low).mean() < (few.band().high - few.band().low).mean() / 2


def test_a_question_between_edges_is_answered_by_the_edges_around_it():
    estimate = _estimate(mechanism="randomized_response", bins=4, buckets=64)
    at_edge, beyond = estimate.interval("cdf", 15.0), estimate.interval("cdf", 29.0)
    assert at_edge == beyond  # values of the bin from 15 to 30 may lie anywhere in it
    assert estimate.interval("probability", 16, 29).low == 0
    assert estimate.interval("probability", 16, 29).high == estimate.interval("probability", 15, 29).high


def test_the_band_is_a_staircase_that_rises_and_the_table_has_it():
    estimate = _estimate(200_000)
    band = estimate.band()
    assert (np.diff(band.points) > 0).all()
    assert (np.diff(band.low) >= 0).all()
    assert (np.diff(band.high) >= 0).all()
    assert (band.low[0], band.low[-1], band.high[-1]) == (0, 1, 1)
    assert band.high[0] > 0  # values may be the least one
    frame = estimate.to_frame()
    assert (frame["cdf_low"] <= frame["cdf_high"]).all()


def test_equal_tallies_have_equal_intervals_also_in_another_process():
    one, two = _estimate(), _estimate()
    assert one.interval("mean") == two.interval("mean")
    assert pickle.loads(pickle.dumps(two)).interval("quantile", 0.3) == one.interval("quantile", 0.3)


def test_reports_of_two_revisions_are_weighed_together():
    # Those of ε = 3 are worth far more: beside them, the others must not widen the intervals.
    collection = Collection(
        name="c", low=0, high=1, buckets=64, epsilon=3.0, intervals="any_shape", previous=[{"epsilon": 0.5}]
    )
    assert collection.revisions.keys() > {collection.revision}
    new, old = collection.revisions.values()
    values = np.random.default_rng(1).beta(2, 5, 40_000)
    tallies = {each.revision: each.tally(each.simulate(values, seed=1)) for each in (new, old)}
    both, alone = collection.estimate(tallies), collection.estimate(tallies[new.revision])
    # Of the mean there is one choice of weights; of a share the pilots may choose other ramps.
    for question, factor in ((("mean",), 1.01), (("cdf", 0.3), 1.1)):
        low, high = both.interval(*question)
        assert high - low < factor * np.subtract(*alone.interval(*question)[::-1])
    assert _holds(both.interval("mean"), values.mean())


def test_an_estimate_says_what_its_intervals_assume():
    estimate = _estimate(2000)
    assert estimate.intervals == "any_shape"
    assert "intervals for distributions of any shape" in estimate._repr_html_()
    smooth = _estimate(2000, intervals="smooth")
    assert smooth.intervals == "smooth"
    assert "intervals for smooth distributions" in smooth._repr_html_()
    assert estimate.interval("cdf", 30) != smooth.interval("cdf", 30)
    assert estimate.variances() is None
    np.testing.assert_array_equal(estimate.probabilities, smooth.probabilities)


def test_the_kind_of_intervals_is_a_key_of_the_file_and_no_concern_of_devices():
    text = "collections: {c: {domain: {low: 0, high: 60}, buckets: 64, epsilon: 1, intervals: any_shape}}"
    collection = parse_collections(text)["c"]
    assert collection.intervals == "any_shape"
    assert collection.to_dict()["intervals"] == "any_shape"
    assert collection == Collection(**collection.to_dict())
    assert replace(collection, intervals="smooth").revision == collection.revision
    assert "intervals" not in replace(collection, intervals="smooth").to_dict()


def test_with_few_reports_bounds_are_those_of_maurer_and_pontil():
    wave = SquareWave(16, 1.0)
    design = make_design([(wave, _draw_tally(wave, 400, 1))])
    start, end, ramp = np.array([0]), np.array([5]), np.array([3])
    bounds = Bounds(design)
    bounds._choose_ramps = lambda *_: ramp
    [weights] = bounds.weighting.for_shares(start, end, ramp, 1)
    each = np.repeat(weights, design.counts.astype(int))
    odds = np.log(2 / 0.025)
    margin = np.sqrt(2 * each.var(ddof=1) * odds / 400) + 7 * np.ptp(weights) * odds / (3 * 399)
    assert bounds.shares(start, end, 0.025, 1)[0] == pytest.approx(min(each.mean() + margin, 1.0))
