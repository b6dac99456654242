"""Rivals beyond the paper: the laws of their parts, by enumeration and by independent references."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.paper.data import population, truth
from benchmarks.paper.rivals import factorization
from benchmarks.paper.rivals.factorization import (
    Channel,
    estimate_by_factorization,
    nearest_distribution,
    optimised_channel,
    prefix_variance,
    project_columns,
)
from benchmarks.paper.rivals.measure import RIVALS, measure_rival
from benchmarks.paper.rivals.pripl_tree import (
    Frequency,
    Node,
    balanced_tree,
    draw_frequencies,
    estimate_by_pripl_tree,
    make_consistent,
    oue_variance,
    query_error,
    remove_nodes,
    spread,
)
from benchmarks.paper.rivals.segments import Segments, _Sums, fit_segments
from benchmarks.paper.trials import Setting
from hushgram.estimators import tree as product_tree
from hushgram.simulation import METRICS

# Line segments -------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(4, 60))
@settings(max_examples=60, deadline=None)
def test_heights_are_those_of_least_squares(seed, size):
    """The tridiagonal equations against a general solver with a column for each hat."""
    rng = np.random.default_rng(seed)
    histogram = rng.random(size)
    inner = rng.choice(np.arange(1, size - 1), rng.integers(0, size - 2), replace=False)
    knots = np.array([0, *sorted(inner), size - 1])
    hats = np.array([np.interp(np.arange(size), knots, unit) for unit in np.eye(knots.size)]).T
    expected = np.linalg.lstsq(hats, histogram)[0]
    [heights], [residuals] = _Sums.of(histogram).fit(knots[None])
    assert np.allclose(heights, expected, atol=1e-9)
    assert residuals == pytest.approx(((hats @ expected - histogram) ** 2).sum(), abs=1e-9)


@pytest.mark.parametrize("bend", range(1, 19))
def test_the_one_breakpoint_of_a_bent_line_is_found(bend):
    bent = np.interp(np.arange(20), [0, bend, 19], [1.0, 3.0, 0.5])
    fit = fit_segments(bent, bent, least_mass=0.0)
    assert fit.bounds.tolist() == [0, bend, 20]
    assert np.allclose(fit.slopes, np.diff([1.0, 3.0, 0.5]) / np.diff([0, bend, 19]))
    assert fit.masses.sum() == pytest.approx(bent.sum())


def test_segments_are_limited_and_thin_ones_are_not_split():
    rng = np.random.default_rng(1)
    jagged, smooth = (np.abs(np.cumsum(rng.normal(0, 1, 256))) for _ in range(2))
    for most in (4, 8, 16):
        assert fit_segments(jagged, smooth, least_mass=0.0, most=most).masses.size == most
    assert fit_segments(jagged, smooth, least_mass=2 * smooth.sum()).masses.size == 1
    # The whole has enough for a split, and neither part of it.
    assert fit_segments(jagged, smooth, least_mass=0.99 * smooth.sum()).masses.size == 2


# The tree ------------------------------------------------------------------------------------------------------------


def _nodes(node: Node):
    for child in node.children:
        yield child
        yield from _nodes(child)


def _leaves(node: Node):
    return [each.span for each in _nodes(node) if not each.children]


@given(st.lists(st.integers(1, 4), min_size=2, max_size=7))
@settings(max_examples=30, deadline=None)
def test_the_error_of_a_tree_is_that_of_answering_every_range(sizes):
    """Each range is answered by the nodes within it whose parent is not; each node has its share of the devices."""
    bounds = np.cumsum([0, *sizes])
    tree = balanced_tree(0, len(sizes))
    parents = {child.span: node for node in (tree, *_nodes(tree)) for child in node.children}
    shares, left = {}, {tree.span: 1.0}
    for node in _nodes(tree):  # parents come before their children
        available = left[parents[node.span].span]
        shares[node.span] = available / node.height
        left[node.span] = available - shares[node.span]

    def within(node, first, last):
        return first <= bounds[node.span[0]] and bounds[node.span[1]] - 1 <= last

    total = sum(
        1 / shares[node.span]
        for first in range(bounds[-1])
        for last in range(first, bounds[-1])
        for node in _nodes(tree)
        if within(node, first, last) and not within(parents[node.span], first, last)
    )
    assert query_error(tree, bounds) == pytest.approx(total)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=32))
@settings(max_examples=30, deadline=None)
def test_removing_nodes_keeps_the_leaves_and_lowers_the_error(sizes):
    bounds, tree = np.cumsum([0, *sizes]), balanced_tree(0, len(sizes))
    thinned = remove_nodes(tree, bounds)
    assert _leaves(thinned) == _leaves(tree)
    assert query_error(thinned, bounds) <= query_error(tree, bounds)
    for node in (thinned, *_nodes(thinned)):
        if node.children:
            assert [child.span[0] for child in node.children[1:]] == [child.span[1] for child in node.children[:-1]]
            assert (node.children[0].span[0], node.children[-1].span[1]) == node.span


@given(st.lists(st.integers(1, 60), min_size=2, max_size=32), st.integers(100, 10_000))
@settings(max_examples=30, deadline=None)
def test_every_path_asks_all_devices_once(sizes, reports):
    tree = remove_nodes(balanced_tree(0, len(sizes)), np.cumsum([0, *sizes]))
    users = np.random.default_rng(reports).multinomial(reports, np.ones(len(sizes)) / len(sizes))
    observed = dict(draw_frequencies(tree, users, reports, 1.0, np.random.default_rng(1)))
    assert set(observed) == {node.span for node in _nodes(tree)}
    for leaf, _ in _leaves(tree):
        asked = [
            oue_variance(1.0, 1) / frequency.variance
            for (first, end), frequency in observed.items()
            if first <= leaf < end
        ]
        assert sum(asked) == pytest.approx(reports)


def test_frequencies_of_nodes_are_unbiased():
    """Each mean of 400 within five standard errors: of 6 nodes one is outside once in 3·10⁵ seeds."""
    users = np.array([10, 400, 90, 1500])
    tree, rng = balanced_tree(0, 4), np.random.default_rng(5)
    runs = [dict(draw_frequencies(tree, users, 2000, 1.0, rng)) for _ in range(400)]
    for node in _nodes(tree):
        values = [run[node.span].value for run in runs]
        expected = users[slice(*node.span)].sum() / 2000
        assert abs(np.mean(values) - expected) < 5 * np.std(values) / 20
        # The formula is that of a rare value, others vary more; 0.7 is four deviations of a variance of 400 runs away.
        assert np.var(values) > 0.7 * runs[0][node.span].variance


def _exact(tree, masses, variance=1e-4):
    return {node.span: Frequency(float(masses[slice(*node.span)].sum()), variance) for node in _nodes(tree)}


@given(st.integers(0, 2**32), st.integers(1, 32))
@settings(max_examples=60, deadline=None)
def test_segments_have_no_negative_mass_and_sum_to_one(seed, leaves):
    rng = np.random.default_rng(seed)
    tree = remove_nodes(balanced_tree(0, leaves), np.arange(leaves + 1))
    observed = {node.span: Frequency(rng.normal(0.1, 0.3), rng.random()) for node in _nodes(tree)}
    masses = make_consistent(tree, observed, rng.dirichlet(np.ones(leaves)))
    assert (masses >= 0).all()
    assert masses.sum() == pytest.approx(1)


@pytest.mark.parametrize("leaves", [1, 2, 7, 32])
def test_without_noise_the_tree_gives_back_what_it_was_given(leaves):
    masses = np.random.default_rng(leaves).dirichlet(np.ones(leaves))
    tree = remove_nodes(balanced_tree(0, leaves), 3 * np.arange(leaves + 1))
    assert np.allclose(make_consistent(tree, _exact(tree, masses), masses), masses, atol=1e-12)


def test_with_equal_variances_the_tree_is_that_of_least_squares():
    """Against the product's solver. The first phase is put so far away that it weighs next to nothing."""
    rng, tree = np.random.default_rng(3), balanced_tree(0, 8)
    levels = [np.ones(1), *(rng.dirichlet(np.full(2**level, 40.0)) for level in (1, 2, 3))]
    observed = {}
    for node in _nodes(tree):
        width = node.span[1] - node.span[0]
        observed[node.span] = Frequency(float(levels[3 - int(math.log2(width))][node.span[0] // width]), 1e-4)
    expected = product_tree.make_consistent(levels, np.array([np.inf, 1.0, 1.0, 1.0]))[-1]
    assert (expected > 0).all()
    assert np.allclose(make_consistent(tree, observed, np.full(8, 1e4)), expected, atol=1e-7)


def test_without_noise_a_piecewise_linear_distribution_is_exact():
    knots, heights = [0, 40, 41, 200, 255], [0.2, 3.0, 1.0, 2.0, 0.0]
    shape = np.interp(np.arange(256), knots, heights)
    shape /= shape.sum()
    bounds = np.array([*knots[:-1], 256])
    masses = np.add.reduceat(shape, bounds[:-1])
    segments = Segments(bounds, np.diff(np.interp(knots, np.arange(256), shape)) / np.diff(knots), masses)
    tree = remove_nodes(balanced_tree(0, 4), bounds)
    result = spread(segments, make_consistent(tree, _exact(tree, masses), masses))
    assert np.allclose(result, shape, atol=1e-15)


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_no_slope_makes_a_bucket_negative(seed):
    rng = np.random.default_rng(seed)
    bounds = np.array([0, *sorted(rng.choice(np.arange(1, 64), 5, replace=False)), 64])
    masses = rng.dirichlet(np.ones(6)) * (rng.random(6) < 0.8)
    spread_out = spread(Segments(bounds, rng.normal(0, 0.1, 6), masses), masses)
    assert (spread_out >= 0).all()
    assert np.allclose(np.add.reduceat(spread_out, bounds[:-1]), masses)


# The optimised channel -----------------------------------------------------------------------------------------------


@pytest.fixture(params=[0.5, 1.0, 2.0, 4.0])
def optimised(request):
    return request.param, optimised_channel(request.param, 16)


def _randomized_response(epsilon, values):
    weights = np.ones((values, values)) + (math.exp(epsilon) - 1) * np.eye(values)
    return weights / weights.sum(axis=0)


def test_the_channel_is_private_and_a_channel(optimised):
    epsilon, channel = optimised
    assert (channel.matrix > 0).all()
    assert np.allclose(channel.matrix.sum(axis=0), 1, atol=1e-12)
    for report in channel.matrix:
        assert report.max() / report.min() <= math.exp(epsilon) * (1 + 1e-12)


def test_the_reading_is_exact_in_expectation(optimised):
    _, channel = optimised
    assert np.allclose(channel.reading @ channel.matrix, np.eye(16), atol=1e-9)
    assert np.allclose(channel.reading.sum(axis=0), 1, atol=1e-9)  # so the last prefix is 1


def test_the_objective_is_the_variance_of_the_prefixes_and_below_that_of_randomized_response(optimised):
    epsilon, channel = optimised
    readings = np.cumsum(channel.reading, axis=0)
    enumerated = sum((readings**2 @ channel.matrix[:, value]).sum() for value in range(16))
    error, _ = prefix_variance(channel.matrix)
    assert error == pytest.approx(enumerated)
    assert error < prefix_variance(_randomized_response(epsilon, 16))[0]


def test_the_slope_is_that_of_the_objective():
    rng = np.random.default_rng(2)
    matrix, direction = rng.random((20, 5)) + 0.1, rng.normal(0, 1, (20, 5))
    step = 1e-6
    ahead, behind = (prefix_variance(matrix + sign * step * direction)[0] for sign in (1, -1))
    assert (prefix_variance(matrix)[1] * direction).sum() == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_columns_move_to_the_nearest_that_are_allowed(seed):
    """The way to the nearest point of a convex set makes no acute angle with the way on to any other of its points."""
    rng, ratio = np.random.default_rng(seed), math.e
    floors = rng.dirichlet(np.ones(8)) * rng.uniform(1 / ratio, 1)
    wild = rng.normal(0, 0.3, (8, 3))
    nearest = project_columns(wild, floors, ratio)
    others = project_columns(rng.random((8, 3)), floors, ratio)
    for column in (nearest, others):
        assert np.allclose(column.sum(axis=0), 1)
        assert (column >= floors[:, None] * (1 - 1e-12)).all()
        assert (column <= ratio * floors[:, None] * (1 + 1e-12)).all()
    assert (((wild - nearest) * (others - nearest)).sum(axis=0) < 1e-9).all()


def test_the_same_channel_is_found_again():
    first = optimised_channel(1.5, 8).matrix
    optimised_channel.cache_clear()
    assert np.array_equal(optimised_channel(1.5, 8).matrix, first)


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_nearest_distribution_is_one(seed):
    rng = np.random.default_rng(seed)
    result = nearest_distribution(np.append(rng.normal(0.5, 0.7, 12), 1.0))
    assert (result >= 0).all()
    assert result.sum() == pytest.approx(1)
    shares = rng.dirichlet(np.ones(13))
    assert np.allclose(nearest_distribution(np.cumsum(shares)), shares)


def test_a_tally_has_a_report_of_each_device():
    """Each of 12 cells within five deviations: one is outside once in 10⁵ seeds."""
    channel = Channel(project_columns(np.random.default_rng(1).random((12, 3)), np.full(12, 0.05), math.e))
    devices = np.array([50_000, 0, 30_000])
    tally = channel.draw_tally(devices, np.random.default_rng(2))
    assert tally.sum() == 80_000
    expected = channel.matrix @ devices
    assert (np.abs(tally - expected) < 5 * np.sqrt(expected)).all()


# The whole -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimate", [estimate_by_pripl_tree, estimate_by_factorization])
@pytest.mark.parametrize("reports", [300, 20_000])
def test_a_rival_gives_a_distribution_near_the_truth(estimate, reports, monkeypatch):
    """KS times √n was 0.9 to 1.7 on average over 60 seeds, with deviations up to 0.6: eight comes to none in 10⁶."""
    monkeypatch.setattr(factorization, "BINS", 32)
    devices = population("beta", reports)
    result = estimate(devices, 4.0, 64, np.random.default_rng(1))
    assert result.size == 64
    assert (result >= 0).all()
    assert result.sum() == pytest.approx(1)
    assert METRICS["ks"](truth(devices, 64), result) < 8 / math.sqrt(reports)


@pytest.mark.parametrize("name", RIVALS)
def test_rivals_are_measured_as_methods_are(name):
    setting = Setting("rivals", "income", 2.0, 16, (name,), 3, None, 2000)
    rows = measure_rival(setting)
    assert [row.metric for row in rows] == list(METRICS)
    assert {(row.figure, row.method, row.data, row.epsilon, row.buckets, row.runs) for row in rows} == {
        ("rivals", name, "income", 2.0, 16, 3)
    }
    assert all(0 < row.mean < 0.2 and row.error > 0 for row in rows if row.metric != "quantiles")
    assert measure_rival(setting) == rows
