"""An estimate read in the units of its collection, its intervals, and its behaviour when there is little to read."""

import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection, Domain, Estimate, NotEstimableError
from hushgram.estimators.types import Solution
from hushgram.greatest_error import greatest_deviation
from hushgram.mechanisms import MECHANISMS


def _make_estimate(probabilities, **domain):
    probabilities = np.asarray(probabilities, dtype=float)
    return Estimate(Domain(**domain), probabilities.size, 1000, "ok", Solution(probabilities=probabilities))


distributions = st.integers(0, 2**32).map(lambda seed: np.random.default_rng(seed).dirichlet(np.full(16, 0.5)))


@given(distributions, st.floats(0, 1))
def test_the_quantile_inverts_the_distribution_function(x, q):
    e = _make_estimate(x, low=-5, high=27)
    value = e.quantile(q)
    assert e.cdf(value) == pytest.approx(q, abs=1e-9)
    if value > -5:
        assert e.cdf(value - 1e-6) < q + 1e-12


@given(distributions)
def test_moments_are_those_of_values_spread_evenly_in_each_bucket(x):
    e = _make_estimate(x, low=-5, high=27)
    fine = -5 + 32 * (np.arange(16_000) + 0.5) / 16_000
    weights = np.repeat(x, 1000) / 1000
    mean = weights @ fine
    assert e.mean == pytest.approx(mean, abs=1e-6)
    assert e.variance == pytest.approx(weights @ (fine - mean) ** 2, rel=1e-5)


@given(distributions)
def test_on_a_log_scale_values_are_spread_evenly_in_the_logarithm(x):
    e = _make_estimate(x, low=1, high=65536, scale="log")
    fine = 65536 ** ((np.arange(160_000) + 0.5) / 160_000)
    weights = np.repeat(x, 10_000) / 10_000
    mean = weights @ fine
    assert e.mean == pytest.approx(mean, rel=1e-6)
    assert e.variance == pytest.approx(weights @ (fine - mean) ** 2, rel=1e-5, abs=1e-9)
    assert e.cdf(256) == pytest.approx(x[:8].sum())
    assert e.quantile(x[:4].sum()) == pytest.approx(16, rel=1e-6)


@given(distributions)
def test_whole_numbers_are_read_as_whole_numbers(x):
    e = _make_estimate(x, low=3, high=18, integer=True)
    numbers = np.arange(3, 19)
    assert e.mean == pytest.approx(x @ numbers)
    assert e.variance == pytest.approx(x @ (numbers - x @ numbers) ** 2)
    for number in (3, 7, 18):
        assert e.cdf(number) == pytest.approx(x[: number - 2].sum())
        assert e.cdf(number + 0.9) == pytest.approx(e.cdf(number))
        assert e.probability(number, number) == pytest.approx(x[number - 3])
    for q in (0.1, 0.5, 0.9):
        least = next(number for number in numbers if e.cdf(number) >= q - 1e-12)
        assert e.quantile(q) == least


def test_every_whole_number_is_its_own_quantile():
    e = _make_estimate(np.random.default_rng(1).dirichlet(np.ones(1000)), low=0, high=999, integer=True)
    assert [e.quantile(e.cdf(number)) for number in range(1000)] == list(range(1000))


@pytest.mark.parametrize("integer", [False, True])
def test_infinity_is_beyond_either_end(integer):
    e = _make_estimate(np.full(16, 1 / 16), low=0, high=15, integer=integer)
    assert (e.cdf(-math.inf), e.cdf(math.inf), e.probability(-math.inf, math.inf)) == (0, 1, 1)


@pytest.mark.parametrize(
    "domain",
    [
        {"low": 1e9, "high": 1e9 + 60},
        {"low": -1e149, "high": 1e149},
        {"low": 1e-149, "high": 1e149, "scale": "log"},
        {"low": 1.0, "high": 1.002, "scale": "log"},
        {"low": 1e12, "high": 1.01e12, "scale": "log"},
    ],
    ids=str,
)
def test_extreme_domains_are_read_without_loss(domain):
    c = Collection(name="c", epsilon=2.0, buckets=64, **domain)
    units = np.random.default_rng(1).beta(5, 2, 20_000)
    values = c.domain.from_unit(units)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        e = c.estimate(c.tally(c.simulate(values, seed=1)))
        log = domain.get("scale") == "log"
        offsets = np.sort(np.log(values) if log else values)
        quantile = math.log(e.quantile(0.5)) if log else e.quantile(0.5)
        span = offsets[-1] - offsets[0]
        assert abs(quantile - np.median(offsets)) < 0.05 * span
        greatest = ((c.high - c.low) / 2) ** 2
        assert 0 <= e.interval("variance")[0] <= e.interval("variance")[1] <= greatest
        assert 0 < e.variance <= greatest
        assert c.low <= e.interval("mean")[0] < e.interval("mean")[1] <= c.high
        assert c.low <= e.mean <= c.high
    # The bottom and the top of the domain are two ordinary values of the alphabet.
    assert all(0 <= c.report(value) < c.mechanism.cells for value in (c.low, c.high, -1e308, 1e308))


def test_an_estimate_survives_pickling():
    for mechanism, kind in MECHANISMS.items():
        c = Collection(name="c", low=0, high=60, epsilon=1.0, buckets=16, mechanism=mechanism)
        e = c.estimate(c.tally(c.simulate(np.linspace(1, 50, 2000), seed=1)))
        unpickled = pickle.loads(pickle.dumps(e))
        assert unpickled.interval("mean") == e.interval("mean")
        assert unpickled.fit_pvalue == e.fit_pvalue
        assert pickle.loads(pickle.dumps(c)) == c
        assert len({c, pickle.loads(pickle.dumps(c))}) == 1, kind


def test_no_answer_is_a_negative_zero():
    e = _make_estimate([0.9, 0.1], low=0, high=1, integer=True)
    answers = [e.median, *e.quantile([0.0, 0.1, 0.5]), *_make_estimate([0.5, 0.5], low=-1, high=0, integer=True).edges]
    assert not np.signbit([answer for answer in answers if answer == 0]).any()
    assert f"{e.median:.3f}" == "0.000"


def test_several_whole_numbers_in_a_bucket():
    e = _make_estimate([0.25, 0.75], low=0, high=7, integer=True)
    assert e.mean == pytest.approx(0.25 * 1.5 + 0.75 * 5.5)
    values = np.arange(8)
    weights = np.repeat([0.25, 0.75], 4) / 4
    assert e.variance == pytest.approx(weights @ values**2 - (weights @ values) ** 2)


def test_outside_the_domain_there_is_no_probability():
    e = _make_estimate([0.5, 0.5], low=0, high=10)
    assert (e.cdf(-1), e.cdf(0), e.cdf(10), e.cdf(99)) == (0, 0, 1, 1)
    assert e.cdf(float("inf")) == 1
    assert e.probability(-5, 5) == pytest.approx(0.5)
    assert (e.quantile(0), e.quantile(1)) == (0, 10)
    assert e.edges.tolist() == [0, 5, 10]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", None])
def test_a_wrong_share_of_a_quantile_is_named(share):
    with pytest.raises(ValueError, match="q must be from 0 to 1"):
        _make_estimate([1.0, 0.0], low=0, high=1).quantile(share)


def test_invalid_questions_to_an_estimate_are_refused_with_a_reason():
    e = _make_estimate([0.5, 0.5], low=0, high=1)
    with pytest.raises(ValueError, match="x must be a number"):
        e.cdf(float("nan"))
    with pytest.raises(ValueError, match="low must not be above high"):
        e.probability(1, 0)
    with pytest.raises(ValueError, match="no interval of 'mode', allowed: mean"):
        e.interval("mode")
    for question, message in [
        (lambda: e.interval(["mean"]), "no interval of \\['mean'\\], allowed: mean, variance, std, median, quantile"),
        (lambda: e.interval(None), "no interval of None, allowed: mean"),
        (lambda: e.interval("cdf"), "an interval of cdf takes x, got \\(\\)"),
        (lambda: e.interval("mean", 3), "an interval of mean takes no number, got \\(3,\\)"),
        (lambda: e.interval("probability", 3), "an interval of probability takes low and high"),
        (lambda: e.interval("mean", level="0.95"), "level must be between 0 and 1, got '0.95'"),
        (lambda: e.probability(None, 1), "low must be a number, got None"),
        (lambda: e.probability("a", "b"), "low must be a number, got 'a'"),
        (lambda: e.cdf(10**400), "x must be a number"),
        (lambda: e.cdf(True), "x must be a number, got True"),
    ]:
        with pytest.raises(ValueError, match=message):
            question()
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            e.interval("mean", level=level)
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            e.band(level)


ALL_PAIRS = [(name, estimator) for name, kind in MECHANISMS.items() for estimator in kind.estimators]


@pytest.mark.parametrize(("mechanism", "estimator"), ALL_PAIRS)
@pytest.mark.parametrize("reports", [0, 1, 10])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 8.0])
def test_few_reports_give_a_status_and_finite_numbers(mechanism, estimator, reports, epsilon):
    c = Collection(name="c", low=0, high=60, epsilon=epsilon, buckets=64, mechanism=mechanism, estimator=estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        e = c.estimate(c.tally(c.simulate(np.linspace(1, 50, reports), seed=1)))
        assert e.status == ("no_reports" if reports == 0 else "too_few")
        assert e.reports == reports
        numbers = [e.mean, *e.interval("mean")]
        if e.probabilities is not None:
            assert e.probabilities.sum() == pytest.approx(1)
            numbers += [e.variance, *e.interval("variance"), e.quantile(0.5), *e.interval("quantile", 0.5)]
            numbers += [e.cdf(20), *e.interval("cdf", 20), *e.interval("probability", 10, 20)]
            for array in e.band():
                assert np.isfinite(array).all()
            assert e.fit_pvalue is None or 0 <= e.fit_pvalue <= 1
        assert np.isfinite(numbers).all()
        assert 0 <= e.interval("mean")[0] <= e.interval("mean")[1] <= 60
        if reports == 0:
            assert e.interval("mean") == (0, 60)
    assert repr(e).startswith(f"Estimate(reports={reports}, status=")


@pytest.mark.parametrize("reports", [1, 10])
def test_few_reports_have_wide_intervals(reports):
    c = Collection(name="c", low=0, high=60, epsilon=0.5, buckets=64)
    e = c.estimate(c.tally(c.simulate([50.0] * reports, seed=1)))
    low, high = e.interval("mean")
    assert high - low > 25


@pytest.mark.parametrize(("mechanism", "estimator"), ALL_PAIRS)
def test_every_pair_of_mechanism_and_estimator_finds_a_distribution(mechanism, estimator):
    c = Collection(name="c", low=0, high=60, epsilon=3.0, buckets=16, mechanism=mechanism, estimator=estimator)
    values = 60 * np.random.default_rng(1).beta(5, 2, 40_000)
    e = c.estimate(c.tally(c.simulate(values, seed=2)))
    # The worst standard error, of seeded hashing, is 0.4 minutes; five of them fail by chance less than once in 10⁶.
    assert e.mean == pytest.approx(values.mean(), abs=2)
    low, high = e.interval("mean")
    assert low < high
    if e.probabilities is not None:
        truth = np.histogram(values, 16, (0, 60))[0] / values.size
        assert np.abs(np.cumsum(e.probabilities - truth)).max() < 0.1
        assert e.interval("quantile", 0.5)[0] <= e.interval("quantile", 0.5)[1]
        points, lower, upper = e.band()
        assert (lower <= upper).all()
        assert points[0] == 0
        assert points[-1] == 60
        assert e.fit_pvalue is None or e.fit_pvalue > 1e-4


def test_a_wider_level_is_a_wider_interval_and_the_band_holds_the_curve():
    c = Collection(name="c", low=0, high=60, epsilon=1.0, buckets=600)
    values = 60 * np.random.default_rng(1).beta(5, 2, 50_000)
    e = c.estimate(c.tally(c.simulate(values, seed=2)))
    for question in (("mean",), ("variance",), ("quantile", 0.3), ("cdf", 40), ("probability", 20, 45)):
        narrow, usual, wide = (e.interval(*question, level=level) for level in (0.5, 0.95, 0.999))
        assert wide[0] < usual[0] < narrow[0] < narrow[1] < usual[1] < wide[1]
    points, lower, upper = e.band()
    assert points.size == 257
    curve = np.array([e.cdf(point) for point in points])
    assert ((lower <= curve) & (curve <= upper)).all()
    low, high = e.interval("cdf", points[128])
    assert lower[128] < low < high < upper[128]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_intervals_of_a_quantile_and_of_the_curve_agree(seed):
    c = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=32)
    e = c.estimate(c.tally(c.simulate(np.random.default_rng(seed).beta(2, 2, 3000), seed=seed)))
    low, high = e.interval("quantile", 0.5)
    edges = np.linspace(0, 1, 33)
    for x in edges[(edges > low + 1e-9) & (edges < high - 1e-9)]:
        below, above = e.interval("cdf", x)
        assert below <= 0.5 + 1e-9
        assert above >= 0.5 - 1e-9


def test_the_law_of_the_error_is_computed_once_and_only_on_demand():
    calls = []
    solution = Solution(
        probabilities=np.array([0.5, 0.5]), uncertainty=lambda: calls.append("u"), fit=lambda: calls.append("f")
    )
    e = Estimate(Domain(0, 1), 2, 10, "ok", solution)
    assert e.mean == 0.5
    assert calls == []
    e.interval("mean"), e.interval("cdf", 0.3), e.band()
    assert calls == ["u"]
    e.fit_pvalue, e.fit_pvalue  # noqa: B018
    assert calls == ["u", "f"]


COMMUTE = Collection(name="commute", low=0, high=60, epsilon=1.0, buckets=64, unit="minutes")
ESTIMATE = COMMUTE.estimate(COMMUTE.tally(COMMUTE.simulate(60 * np.random.default_rng(3).beta(2, 5, 5000), seed=1)))
AGES = Collection(name="ages", low=0, high=99, epsilon=1.0, buckets=50, integer=True)
AGE = AGES.estimate(AGES.tally(AGES.simulate(np.random.default_rng(4).integers(10, 80, 5000), seed=1)))

shares = st.lists(st.floats(0, 1), max_size=8)
values = st.lists(st.floats(-20, 120) | st.sampled_from([-math.inf, math.inf, 0.0, 60.0]), max_size=8)


@settings(max_examples=50, deadline=None)
@given(shares, values, st.sampled_from([ESTIMATE, AGE]))
def test_many_numbers_at_once_have_the_answers_of_each(q, x, e):
    high = [value + 5 for value in x]
    assert e.quantile(q).tolist() == [e.quantile(share) for share in q]
    assert e.cdf(x).tolist() == [e.cdf(value) for value in x]
    assert e.probability(x, high).tolist() == [e.probability(*pair) for pair in zip(x, high, strict=True)]
    for question, single_questions in (
        (("quantile", q), [("quantile", share) for share in q]),
        (("cdf", x), [("cdf", value) for value in x]),
        (("probability", x, high), [("probability", *pair) for pair in zip(x, high, strict=True)]),
    ):
        low, upper = e.interval(*question)
        # A variance of zero is rounded to 10⁻¹⁶ or so, whose root is an error.
        assert low == pytest.approx([e.interval(*single).low for single in single_questions], abs=1e-7)
        assert upper == pytest.approx([e.interval(*single).high for single in single_questions], abs=1e-7)


def test_answers_have_the_shape_of_their_questions():
    grid = np.array([[0.1, 0.5], [0.9, 1.0]])
    assert ESTIMATE.quantile(grid).shape == (2, 2)
    assert ESTIMATE.interval("cdf", 60 * grid).high.shape == (2, 2)
    assert ESTIMATE.probability(0, 60 * grid).shape == (2, 2)
    assert ESTIMATE.quantile([]).shape == (0,)
    assert ESTIMATE.interval("quantile", []).low.shape == (0,)
    for scalar in (0.5, 1, np.float32(0.5), np.int64(1), np.array(0.5)):
        assert type(ESTIMATE.quantile(scalar)) is float
        assert type(ESTIMATE.cdf(scalar)) is float
        assert type(ESTIMATE.probability(scalar, 2)) is float
        assert [type(end) for end in ESTIMATE.interval("quantile", scalar)] == [float, float]
    for statistic in ("mean", "variance", "std", "median"):
        assert [type(end) for end in ESTIMATE.interval(statistic)] == [float, float]


def test_an_invalid_number_among_many_is_named():
    for question, message in [
        (lambda: ESTIMATE.quantile([0.5, 1.5]), "q must be from 0 to 1, got 1.5"),
        (lambda: ESTIMATE.quantile([0.5, math.nan]), "q must be from 0 to 1"),
        (lambda: ESTIMATE.quantile([[0.5], [0.1, 0.2]]), "q must be from 0 to 1"),
        (lambda: ESTIMATE.cdf(["a"]), "x must be a number"),
        (lambda: ESTIMATE.interval("cdf", [1.0, math.nan]), "x must be a number"),
        (lambda: ESTIMATE.probability([1, 9], [2, 3]), "low must not be above high, got 9 and 3"),
        (lambda: ESTIMATE.probability([1, 2], [1, 2, 3]), "shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            question()


def test_deviation_and_median_are_read_like_the_others():
    assert ESTIMATE.std == math.sqrt(ESTIMATE.variance)
    assert ESTIMATE.median == ESTIMATE.quantile(0.5)
    assert ESTIMATE.interval("median") == ESTIMATE.interval("quantile", 0.5)
    assert np.square(ESTIMATE.interval("std")) == pytest.approx(ESTIMATE.interval("variance"))
    assert ESTIMATE.interval("std").low < ESTIMATE.std < ESTIMATE.interval("std").high
    assert ESTIMATE.density @ np.diff(ESTIMATE.edges) == pytest.approx(1)


def test_arrays_of_an_estimate_are_read_only():
    for e in (ESTIMATE, pickle.loads(pickle.dumps(ESTIMATE))):
        arrays = {"probabilities": e.probabilities, "edges": e.edges, "density": e.density}
        for name, array in {**arrays, **e.band()._asdict()}.items():
            assert not array.flags.writeable, name
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
                array.flags.writeable = True


def test_a_mean_only_estimate_refuses_questions_about_the_distribution():
    c = Collection(name="c", low=0, high=1, epsilon=1.0, mechanism="stochastic_rounding")
    e = c.estimate(c.tally(c.simulate([0.5] * 100, seed=1)))
    for question in (
        lambda: e.std, lambda: e.median, lambda: e.density, lambda: e.quantile(0.5), lambda: e.cdf([0.5]),
        lambda: e.interval("std"), lambda: e.interval("quantile", [0.5]), e.band, e.values, e.to_frame,
    ):  # fmt: skip
        with pytest.raises(NotEstimableError, match="a mean only"):
            question()


def test_the_repr_of_an_estimate_has_the_unit():
    assert repr(ESTIMATE).startswith("Estimate(reports=5000, status='ok', mean=")
    assert f"median={ESTIMATE.median:.6g} minutes)" in repr(ESTIMATE)


# The density band ----------------------------------------------------------------------------------------------------


def _estimate_beta(**options):
    collection = Collection(**{"name": "c", "low": 0, "high": 180, "buckets": 64, "epsilon": 1.0, **options})
    values = collection.domain.from_unit(np.random.default_rng(1).beta(5, 2, 20_000))
    return collection.estimate(collection.tally(collection.simulate(values, seed=2)))


@pytest.mark.parametrize("options", [{}, {"low": 1, "scale": "log"}, {"estimator": "log_spline"}], ids=str)
def test_bounds_of_a_bin_are_the_interval_of_its_probability_over_its_width(options):
    e = _estimate_beta(**options)
    band = e.density_band(8, level=0.9)
    low, high = e.interval("probability", band.edges[:-1], band.edges[1:], level=0.9)
    np.testing.assert_allclose(band.low * np.diff(band.edges), low, atol=1e-9)
    np.testing.assert_allclose(band.high * np.diff(band.edges), high, atol=1e-9)


def test_bins_are_runs_of_whole_buckets():
    e = _estimate_beta()
    assert e.density_band().edges.tolist() == e.edges.tolist()
    assert e.density_band(7).edges.size == 8
    assert set(e.density_band(7).edges) <= set(e.edges)


def test_simultaneous_bounds_are_wider_and_no_wider_than_by_bonferroni():
    """The greatest of 16 correlated errors is drawn 1000 times, which makes a difference of one in a hundred."""
    e = _estimate_beta()
    each, together = e.density_band(16), e.density_band(16, simultaneous=True)
    bonferroni = e.density_band(16, level=1 - 0.05 / 16)
    inside = (each.low > 0) & (bonferroni.low > 0)
    assert inside.any()
    assert (together.high > each.high).all()
    assert (together.low[inside] < each.low[inside]).all()
    assert (together.high < 1.05 * bonferroni.high).all()


def test_one_bin_alone_has_simultaneous_bounds_like_its_own():
    e = _estimate_beta()
    first = e.solution.uncertainty().bins(np.array([0, 26]) / e.buckets)[1]
    assert greatest_deviation(first, 0.95) == pytest.approx(1.96, abs=0.15)


def test_without_reports_a_density_may_be_anything():
    collection = Collection(name="c", low=0, high=180, buckets=64, epsilon=1.0)
    band = collection.estimate(collection.tally([])).density_band(4)
    assert band.low.tolist() == [0.0] * 4
    np.testing.assert_allclose(band.high, 1 / 45)


@pytest.mark.parametrize("bins", [0, 65, -1, 2.5, True, "8"])
def test_bins_must_be_whole_and_no_more_than_buckets(bins):
    with pytest.raises(ValueError, match="bins must be a whole number from 1 to 64"):
        _estimate_beta().density_band(bins)


def test_a_mean_alone_has_no_density():
    with pytest.raises(NotEstimableError):
        _estimate_beta(mechanism="piecewise").density_band()
