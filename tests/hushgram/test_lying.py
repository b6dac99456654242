"""If devices lie: bounds by all vertices of what is possible, by attacks on estimates, and against the closed form."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

from hushgram import Collection, NotEstimableError
from hushgram.lying import find_excess
from hushgram.mechanisms import ContinuousSquareWave, GeneralWave, RandomizedResponse, SquareWave
from hushgram.mechanisms.square_wave import Band
from hushgram.possible import PossibleUnder, possible_under_bands

SHARES = (0.003, 0.02, 0.2, 0.7)
WAVES = {
    "square wave": SquareWave(4, 1.0),
    "narrow wave": SquareWave(5, 2.0, 0.0),
    "wave of few cells": SquareWave(5, 2.0, 0.3),
    "wave wider than the domain": SquareWave(3, 1.0, 0.9),
    "two widths": SquareWave(4, 1.0, widths=(0.5, 1.0)),
}
SLOPES = {
    "continuous wave": ContinuousSquareWave(4, 1.0, output_buckets=5),
    "trapezoid": GeneralWave(4, 1.0, output_buckets=6),
}
EDGES = np.linspace(0, 1, 65)
SHAPES = {
    "beta": np.diff(stats.beta(5, 2).cdf(EDGES)),
    "two hills": np.diff((stats.norm(0.25, 0.05).cdf(EDGES) + stats.norm(0.7, 0.1).cdf(EDGES)) / 2),
    "a spike": 0.5 * np.eye(64)[20] + 0.5 / 64,
}


def list_vertices(matrix: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """All corners of x ≥ 0, Σx = 1, Mx ≤ limits: wherever as many constraints meet as there are dimensions."""
    buckets = matrix.shape[1]
    rows, ends = np.vstack([matrix, -np.eye(buckets)]), np.concatenate([limits, np.zeros(buckets)])
    found = []
    for active in itertools.combinations(range(len(rows)), buckets - 1):
        system = np.vstack([rows[list(active)], np.ones(buckets)])
        if abs(np.linalg.det(system)) > 1e-12:
            corner = np.linalg.solve(system, np.append(ends[list(active)], 1.0))
            if (rows @ corner <= ends + 1e-10).all():
                found.append(corner)
    return np.array(found)


def compute_extremes(vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least and the greatest distribution function, and both ends of the mean bucket."""
    curves = np.cumsum(vertices, axis=1)
    means = vertices @ np.arange(vertices.shape[1])
    return curves.min(axis=0), curves.max(axis=0), np.array([means.min(), means.max()])


def draw_distributions(buckets: int) -> list[np.ndarray]:
    rng = np.random.default_rng(buckets)
    return [rng.dirichlet(np.ones(buckets)), rng.dirichlet(np.full(buckets, 0.3)), np.eye(buckets)[buckets // 2]]


def list_attacks(mechanism: SquareWave) -> dict[str, np.ndarray]:
    """Laws of lies: the worst that are known, and some that no values would cause."""
    width, cells = mechanism.laws[0].width, mechanism.cells
    return {
        "honest": None,
        "top cells": np.repeat([0.0, 1 / width], [cells - width, width]),
        "bottom cells": np.repeat([1 / width, 0.0], [width, cells - width]),
        "last cell": np.eye(cells)[-1],
        "middle cell": np.eye(cells)[cells // 2],
        "honest-looking lies at the maximum": mechanism.matrix()[:, -1],
    }


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", WAVES)
def test_curves_are_the_extremes_of_all_vertices(name, share):
    mechanism = WAVES[name]
    rng = np.random.default_rng(3)
    for x in draw_distributions(mechanism.buckets):
        for excess in (np.zeros(mechanism.cells), rng.exponential(0.01, mechanism.cells)):
            possible = possible_under_bands(mechanism.bands, x, excess, share)
            limits = (mechanism.forward(x) + excess) / (1 - share)
            least, greatest, means = compute_extremes(list_vertices(mechanism.matrix(), limits))
            np.testing.assert_allclose(possible.least[1:], least, atol=1e-9)
            np.testing.assert_allclose(possible.greatest[1:], greatest, atol=1e-9)
            offsets = np.arange(mechanism.buckets, dtype=float)
            found = [possible.mean(offsets, upper) for upper in (False, True)]
            np.testing.assert_allclose(found, means, atol=1e-8)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", [*SLOPES, "square wave", "two widths"])
def test_linear_programmes_have_the_extremes_of_all_vertices(name, share):
    mechanism = {**SLOPES, **WAVES}[name]
    for x in draw_distributions(mechanism.buckets):
        y = mechanism.forward(x)
        possible = PossibleUnder(mechanism, y, share)
        least, greatest, means = compute_extremes(list_vertices(mechanism.matrix(), y / (1 - share)))
        edges = range(1, mechanism.buckets + 1)
        np.testing.assert_allclose([possible.bound(edge, False) for edge in edges], least, atol=1e-6)
        np.testing.assert_allclose([possible.bound(edge, True) for edge in edges], greatest, atol=1e-6)
        offsets = np.arange(mechanism.buckets, dtype=float)
        np.testing.assert_allclose([possible.mean(offsets, upper) for upper in (False, True)], means, atol=1e-5)


@pytest.mark.parametrize("kind", [ContinuousSquareWave, GeneralWave])
def test_where_a_programme_does_not_end_fewer_cells_give_valid_bounds_nearly_as_sharp(kind, monkeypatch):
    mechanism = kind(96, 2.0, output_buckets=192)
    x = np.random.default_rng(7).dirichlet(np.full(96, 2.0))
    y = mechanism.forward(x)
    offsets = np.arange(96) / 96
    exact = PossibleUnder(mechanism, y, 0.02)
    sharp = [(exact.bound(edge, True), exact.bound(edge, False)) for edge in (30, 60)]
    sharp += [(exact.mean(offsets, True), exact.mean(offsets, False))]
    monkeypatch.setattr("hushgram.possible.MOST_ITERATIONS", 0)
    assert PossibleUnder(mechanism, y, 0.02).bound(30, True) == 1.0  # no solver at all: anything is possible

    def refuse_all_cells(*arguments, **options):
        return linprog(
            *arguments, **{**options, "options": {"maxiter": 0 if options["method"] == "highs-ipm" else 10**5}}
        )

    monkeypatch.setattr("hushgram.possible.linprog", refuse_all_cells)
    fewer = PossibleUnder(mechanism, y, 0.02)
    wide = [(fewer.bound(edge, True), fewer.bound(edge, False)) for edge in (30, 60)]
    wide += [(fewer.mean(offsets, True), fewer.mean(offsets, False))]
    for (high, low), (higher, lower) in zip(sharp, wide, strict=True):
        assert high - 1e-6 <= higher <= high + 0.2 * (high - low)
        assert low + 1e-6 >= lower >= low - 0.2 * (high - low)


@pytest.mark.parametrize("bandwidth", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("widths", [None, (0.5, 1.7)])
def test_a_linear_programme_and_shortest_paths_agree_where_both_apply(bandwidth, widths):
    # An uneven excess asks for paths that go on and back several times.
    mechanism = SquareWave(30, 1.0, bandwidth, widths=widths)
    rng = np.random.default_rng(5)
    for concentration, share in itertools.product((0.05, 1.0), (0.001, 0.1)):
        x = rng.dirichlet(np.full(30, concentration))
        excess = rng.exponential(0.03, mechanism.cells) * (rng.random(mechanism.cells) < 0.5)
        curves = possible_under_bands(mechanism.bands, x, excess, share)
        programme = PossibleUnder(mechanism, mechanism.forward(x) + excess, share)
        for edge, upper in itertools.product(range(1, 30, 2), (False, True)):
            assert programme.bound(edge, upper) == pytest.approx(curves.bound(edge, upper), abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(2, 40),
    st.floats(0.1, 6.0),
    st.floats(0.0, 1.0),
    st.floats(0.001, 0.9),
    st.sampled_from([0.02, 0.3, 1.0, 30.0]),
    st.integers(0, 2**32),
)
def test_the_closed_form_is_never_exceeded(buckets, epsilon, bandwidth, share, concentration, seed):
    x = np.random.default_rng(seed).dirichlet(np.full(buckets, concentration))
    curve = np.concatenate([[0.0], np.cumsum(x)])
    for kind in (SquareWave(buckets, epsilon, bandwidth), SquareWave(buckets, epsilon, bandwidth, widths=(0.5, 2.0))):
        collection = Collection(name="any", low=0, high=1, buckets=buckets, epsilon=epsilon, mechanism=kind)
        possible = possible_under_bands(kind.bands, x, np.zeros(kind.cells), share)
        ceiling = collection.lying_bound(share) + 1e-9
        assert (possible.greatest - curve).max() <= ceiling
        assert (curve - possible.least).max() <= ceiling
        # both curves are distributions, and possible themselves
        for one in (possible.least, possible.greatest):
            assert (np.diff(one) >= -1e-12).all()
            assert ((1 - share) * kind.forward(np.diff(one)) <= kind.forward(x) + 1e-9).all()


def test_the_closed_form_is_not_idle():
    kind = SquareWave(64, 1.0)
    x = np.full(64, 1 / 64)
    possible = possible_under_bands(kind.bands, x, np.zeros(kind.cells), 0.01)
    moved = max((possible.greatest - EDGES).max(), (EDGES - possible.least).max())
    assert moved > 0.5 * 0.01 / (kind.laws[0].width * kind.laws[0].gap)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["ems", "em"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_no_attack_hides_the_honest_distribution(epsilon, estimator):
    # Cells without noise: of 10^12 reports, four standard deviations are less than the 1e-4 that is allowed here.
    collection = Collection(name="attacked", low=0, high=1, buckets=64, epsilon=epsilon, estimator=estimator)
    mechanism = collection.mechanism
    for x, share in itertools.product(SHAPES.values(), (0.01, 0.1)):
        honest = x / x.sum()
        cells, curve = mechanism.forward(honest), np.cumsum(honest)
        laws = [
            cells if lies is None else (1 - share) * cells + share * lies for lies in list_attacks(mechanism).values()
        ]
        for estimate in collection.estimate_many([np.rint(1e12 * law).astype(np.int64) for law in laws]):
            lying = estimate.if_lying(share)
            low, high = lying.cdf(EDGES[1:])
            assert (low <= curve + 1e-4).all()
            assert (curve <= high + 1e-4).all()
            mean = honest @ (EDGES[1:] + EDGES[:-1]) / 2
            assert lying.mean.low - 1e-4 <= mean <= lying.mean.high + 1e-4


def test_lies_that_no_values_explain_move_an_estimate_farther_than_the_closed_form_and_are_bounded_all_the_same():
    collection = Collection(name="attacked", low=0, high=1, buckets=64, epsilon=1.0, estimator="em")
    cells = collection.mechanism.forward(np.full(64, 1 / 64))
    law = 0.99 * cells + 0.01 * np.eye(cells.size)[-1]
    estimate = collection.estimate(np.rint(1e12 * law).astype(np.int64))
    moved = np.abs(estimate.cdf(EDGES) - EDGES).max()
    assert moved > 2 * collection.lying_bound(0.01)
    assert estimate.fit_pvalue < 1e-6
    low, high = estimate.if_lying(0.01).cdf(EDGES)
    assert (low <= EDGES + 1e-4).all()
    assert (high + 1e-4 >= EDGES).all()


def make_estimate(**options):
    collection = Collection(**{"name": "commute", "low": 0, "high": 180, "epsilon": 1.0, "buckets": 64, **options})
    values = np.random.default_rng(11).gamma(4.0, 12.0, 20_000)
    return collection.estimate(collection.tally(collection.simulate(values, seed=7)))


ESTIMATES = {
    "square wave": make_estimate(),
    "two widths": make_estimate(widths=[0.5, 1.0]),
    "log-spline": make_estimate(estimator="log_spline"),
    "randomized response": make_estimate(mechanism="randomized_response", buckets=16),
    "bins": make_estimate(mechanism="randomized_response", buckets=64, bins=8),
    "whole numbers": make_estimate(integer=True, high=191),
    "log scale": make_estimate(low=1, scale="log"),
    "continuous wave": make_estimate(mechanism="square_wave_continuous", buckets=24),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_share_0_gives_back_the_estimate(name):
    estimate = ESTIMATES[name]
    lying = estimate.if_lying(0)
    points, shares = np.linspace(0.5, 200, 37), np.array([0.01, 0.25, 0.5, 0.9, 1.0])
    assert lying.mean == pytest.approx((estimate.mean, estimate.mean), rel=1e-9)
    for end in lying.cdf(points):
        np.testing.assert_allclose(end, estimate.cdf(points), atol=1e-12)
    for end in lying.quantile(shares):
        np.testing.assert_allclose(end, estimate.quantile(shares), rtol=1e-6)


@pytest.mark.parametrize("name", ESTIMATES)
def test_bounds_hold_the_estimate_and_grow_with_the_share(name):
    estimate = ESTIMATES[name]
    points, shares = np.array([5.0, 40.0, 90.0]), np.array([0.1, 0.5, 0.9])
    before = None
    for share in (0.0, 0.001, 0.02, 0.3, 1.0):
        lying = estimate.if_lying(share)
        now = [*lying.cdf(points), *lying.quantile(shares), *map(np.atleast_1d, lying.mean)]
        for low, high, middle in (
            (now[0], now[1], estimate.cdf(points)),
            (now[2], now[3], estimate.quantile(shares)),
            (now[4], now[5], estimate.mean),
        ):
            assert (low <= middle + 1e-6).all()
            assert (middle <= high + 1e-6).all()
        if before is not None:
            assert all((after <= first + 1e-6).all() for after, first in zip(now[::2], before[::2], strict=True))
            assert all((after >= first - 1e-6).all() for after, first in zip(now[1::2], before[1::2], strict=True))
        before = now
    low, high = estimate.if_lying(1.0).cdf(points[1:])
    assert low.max() == 0
    assert high.min() == 1


def test_a_quantile_is_where_the_curve_of_bounds_reaches_its_share():
    lying = ESTIMATES["square wave"].if_lying(0.05)
    low, high = lying.quantile([0.2, 0.5, 0.8])
    np.testing.assert_allclose(lying.cdf(low).high, [0.2, 0.5, 0.8], atol=1e-9)
    np.testing.assert_allclose(lying.cdf(high).low, [0.2, 0.5, 0.8], atol=1e-9)
    assert lying.median == lying.quantile(0.5)


def test_answers_have_the_shape_of_questions():
    lying = ESTIMATES["square wave"].if_lying(0.01)
    assert isinstance(lying.cdf(30).low, float)
    assert isinstance(lying.quantile(0.5).high, float)
    assert lying.cdf([[30, 60]]).low.shape == lying.quantile([[0.1, 0.2]]).high.shape == (1, 2)
    assert repr(lying).startswith("Lying(share=0.01, mean=")
    assert pickle.loads(pickle.dumps(lying)).mean == lying.mean


def test_randomized_response_is_a_wave_of_one_cell():
    kind = RandomizedResponse(5, 1.0)
    np.testing.assert_allclose(Band(5, kind.law).matrix(), [kind.forward(row) for row in np.eye(5)])


def test_liars_may_choose_their_revision():
    collection = Collection(
        name="commute", low=0, high=180, buckets=64, epsilon=1.0, previous=[{"epsilon": 3.0}], estimator="em"
    )
    rng = np.random.default_rng(2)
    tallies = {
        revision: known.tally(known.simulate(rng.gamma(4.0, 12.0, 50_000), seed=1))
        for revision, known in collection.revisions.items()
    }
    together = collection.estimate(tallies)
    assert len(together.tallies) == 2
    bounds = together.if_lying(0.02).cdf([30, 60])
    for alone in together.tallies:
        part = type(together)(
            *(getattr(together, name) for name in ("domain", "buckets", "reports", "status", "solution")), (alone,)
        )
        low, high = part.if_lying(0.02).cdf([30, 60])
        assert (bounds.low <= low).all()
        assert (high <= bounds.high).all()


def test_without_reports_everything_is_possible():
    collection = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
    lying = collection.estimate(np.zeros(collection.mechanism.cells, np.int64)).if_lying(0.01)
    assert lying.cdf(90) == (0.0, 1.0)
    assert lying.mean.low < 2
    assert lying.mean.high > 178


def test_chance_is_not_taken_for_an_excess():
    # 40 tallies of 600 runs each; a run is clear by chance once in 30 000, and then by little.
    rng = np.random.default_rng(9)
    expected = rng.dirichlet(np.full(200, 5.0))
    found = [find_excess(expected, rng.multinomial(10**6, expected)) for _ in range(40)]
    assert np.mean([excess.any() for excess in found]) <= 0.2
    assert (found <= 0.06 * expected.max()).all()


def test_an_excess_covers_the_cells_that_it_is_in():
    expected = np.full(40, 0.025)
    counts = np.full(40, 1000)
    counts[30] += 500
    excess = find_excess(expected, counts)
    assert excess[30] >= counts[30] / counts.sum() - 0.025
    assert excess[:14].max() == 0
    broad = np.full(40, 1000)
    broad[8:24] += 60  # none of them clear by itself
    excess = find_excess(expected, broad)
    assert (excess[8:24] >= 0.5 * 60 / broad.sum()).all()
    assert excess[30:].max() == 0


@pytest.mark.parametrize("share", [-0.01, 1.01, np.nan, np.inf, "1 %", None, True, [0.1]])
def test_a_share_outside_0_to_1_is_refused(share):
    collection = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
    with pytest.raises(ValueError, match="share must be from 0 to 1, got "):
        ESTIMATES["square wave"].if_lying(share)
    with pytest.raises(ValueError, match="share must be from 0 to 1, got "):
        collection.lying_bound(share)


@pytest.mark.parametrize("mechanism", ["local_hashing", "seeded_hashing", "hierarchy", "haar"])
def test_other_mechanisms_have_no_bounds(mechanism):
    estimate = make_estimate(mechanism=mechanism)
    with pytest.raises(NotEstimableError, match=f"known of waves and randomized_response, not of {mechanism}"):
        estimate.if_lying(0.01)
    assert Collection(name="a", low=0, high=1, buckets=64, epsilon=1.0, mechanism=mechanism).lying_bound(0.1) is None


def test_a_mean_alone_has_no_bounds():
    with pytest.raises(NotEstimableError, match="estimates a mean only"):
        make_estimate(mechanism="piecewise").if_lying(0.01)


def test_a_programme_that_would_take_long_is_refused():
    collection = Collection(name="a", low=0, high=1, buckets=4096, epsilon=1.0, mechanism="square_wave_continuous")
    estimate = collection.estimate(np.full(4096, 10))
    with pytest.raises(NotEstimableError, match="4096 buckets × 4096 cells, allowed: at most 4194304 entries"):
        estimate.if_lying(0.01)


@pytest.mark.parametrize(("epsilon", "ceiling"), [(0.5, 0.047), (1, 0.027), (2, 0.018), (4, 0.014)])
def test_the_closed_form_of_a_square_wave(epsilon, ceiling):
    collection = Collection(name="commute", low=0, high=180, buckets=128, epsilon=epsilon)
    assert collection.lying_bound(0.01) == pytest.approx(ceiling, abs=6e-4)
    assert collection.lying_bound(0) == 0
    assert collection.lying_bound(1) == 1
    response = Collection(name="yes", low=0, high=1, buckets=2, epsilon=epsilon, mechanism="randomized_response")
    assert response.lying_bound(0.01) == pytest.approx(0.01 / response.mechanism.law.gap)
