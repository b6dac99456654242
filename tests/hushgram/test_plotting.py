"""Estimates as plotting libraries see them: by the PlottableHistogram protocol of UHI, drawn by one of its users."""

import matplotlib as mpl
import numpy as np
import pytest
from uhi.typing.plottable import PlottableAxisGeneric, PlottableHistogram, PlottableTraits

from hushgram import Collection, NotEstimableError
from hushgram.plotting import Axis

COMMUTE = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
VALUES = 180 * np.random.default_rng(5).beta(2, 5, 20_000)
ESTIMATE = COMMUTE.estimate(COMMUTE.tally(COMMUTE.simulate(VALUES, seed=1)))
MEAN_ONLY = Collection(name="c", low=0, high=1, epsilon=1.0, mechanism="piecewise")


def test_an_estimate_is_a_plottable_histogram():
    for estimate in (ESTIMATE, MEAN_ONLY.estimate(MEAN_ONLY.tally([]))):
        assert isinstance(estimate, PlottableHistogram)
        [axis] = estimate.axes
        assert isinstance(axis, PlottableAxisGeneric)
        assert isinstance(axis.traits, PlottableTraits)
        assert estimate.kind == "COUNT"


def test_the_axis_holds_the_edges_of_the_buckets_and_the_unit():
    [axis] = ESTIMATE.axes
    assert len(axis) == 64
    assert axis.label == "minutes"
    assert list(axis) == list(zip(ESTIMATE.edges[:-1], ESTIMATE.edges[1:], strict=True))
    assert axis[-1] == axis[63]
    with pytest.raises(IndexError, match="bin 64 of 64"):
        axis[64]
    assert axis == Axis(ESTIMATE.edges, "minutes")
    assert axis != Axis(ESTIMATE.edges, "hours")
    assert axis != "minutes"


def test_values_are_counts_and_variances_those_of_the_intervals():
    assert ESTIMATE.values().sum() == pytest.approx(20_000)
    assert ESTIMATE.values() == pytest.approx(20_000 * ESTIMATE.probabilities)
    errors = np.sqrt(ESTIMATE.variances())
    low, high = ESTIMATE.interval("probability", ESTIMATE.edges[:-1], ESTIMATE.edges[1:], level=0.5)
    inside = (low > 0) & (high < 1)  # elsewhere an end of the interval was clipped
    half = (high - low)[inside] / 2 * 20_000
    assert half == pytest.approx(0.6744897501960817 * errors[inside])
    assert inside.sum() > 10
    assert ESTIMATE.counts() == pytest.approx(ESTIMATE.values() ** 2 / ESTIMATE.variances())


def test_variances_are_those_of_repeated_collections():
    """The spread of a bucket's count over 200 seeded collections; their standard error is 5 %, the law is cautious."""
    wide = Collection(name="c", low=0, high=1, buckets=8, epsilon=2.0, mechanism="randomized_response")
    values = np.random.default_rng(1).beta(2, 2, 5000)
    estimates = [wide.estimate(wide.tally(wide.simulate(values, seed=seed))) for seed in range(200)]
    spread = np.var([estimate.values() for estimate in estimates], axis=0)
    claimed = np.mean([estimate.variances() for estimate in estimates], axis=0)
    sampling = 5000 * np.histogram(values, 8, (0, 1))[0] / 5000 * (1 - np.histogram(values, 8, (0, 1))[0] / 5000)
    # Values are the same in all runs: the noise of sampling them is in the claimed variance, and not in the spread.
    assert (claimed - sampling) == pytest.approx(spread, rel=0.5)


@pytest.mark.parametrize(("mechanism", "sign"), [("square_wave", 1), ("haar", -1)])
def test_variances_of_neighbours_do_not_add_up(mechanism, sign):
    """Errors of neighbours are correlated: positively in a wave, which is smoothed, and negatively in a tree."""
    c = Collection(name="c", low=0, high=1, buckets=64, epsilon=2.0, mechanism=mechanism)
    estimate = c.estimate(c.tally(c.simulate(np.random.default_rng(1).beta(2, 2, 20_000), seed=1)))
    pairs = estimate.variances().reshape(32, 2).sum(axis=1)
    low, high = estimate.interval("probability", estimate.edges[:-1:2], estimate.edges[2::2], level=0.01)
    joint = ((high - low) / 2 / 0.012533469508069276 * 20_000) ** 2
    inside = (low > 0) & (high < 1)
    assert np.median(sign * (joint - pairs)[inside]) > 0
    assert inside.sum() > 20


def test_estimates_without_a_law_have_no_variances():
    empty = COMMUTE.estimate(COMMUTE.tally([]))
    assert empty.variances() is None
    assert empty.counts() is None
    with pytest.raises(NotEstimableError, match="a mean only"):
        MEAN_ONLY.estimate(MEAN_ONLY.tally([])).values()


def test_a_plotting_library_draws_the_estimate():
    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import mplhep

    figure, axes = plt.subplots()
    try:
        [artist] = mplhep.histplot(ESTIMATE, ax=axes, histtype="step")
        values, edges, _ = artist.stairs.get_data()
        assert values == pytest.approx(ESTIMATE.values())
        assert edges == pytest.approx(ESTIMATE.edges)
        [bars] = artist.errorbar.lines[2]
        ends = np.array(bars.get_segments())[:, :, 1]
        assert np.ptp(ends, axis=1) / 2 == pytest.approx(np.sqrt(ESTIMATE.variances()), rel=1e-6)
    finally:
        plt.close(figure)
