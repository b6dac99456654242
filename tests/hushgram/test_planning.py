"""The planner: its errors are those of devices simulated one by one; searches and advice on known laws."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from hushgram import Collection, CollectionError
from hushgram.planning import (
    BEST_SETS,
    MOST_REPORTS,
    WIDTH_SETS,
    Alternative,
    Outlook,
    Runs,
    Shape,
    Target,
    advise,
    alternatives,
    best_set,
    differs,
    figures_of,
    grid,
    keeps_reports,
    levels,
    make_plannable,
    outlook,
    parse_target,
    reports_for,
    reports_needed,
    width_alternatives,
)
from hushgram.planning.advice import BEYOND_NOISE
from hushgram.simulation import METRICS, Summary, regroup
from hushgram.windows import Windows

BETA = stats.beta(5, 2)


def make_collection(**options):
    return Collection(name="c", **{"low": 0, "high": 180, "buckets": 64, "epsilon": 2.0, "unit": "minutes", **options})


def make_beta_shape(planned):
    return Shape("beta", np.diff(BETA.cdf(np.linspace(0, 1, grid(planned) + 1))))


KINDS = [
    make_collection(),
    make_collection(mechanism="hierarchy"),
    make_collection(mechanism="local_hashing", bins=16),
    make_collection(low=0, high=127, integer=True, buckets=32),
    make_collection(low=1, high=1e6, scale="log"),
    make_collection(estimator="log_spline", widths=BEST_SETS[2.0]),
    make_collection(mechanism="piecewise"),
]
IDS = ["wave", "tree", "bins", "integers", "log", "widths", "mean"]


def simulate_devices(planned, reports, runs, seed):
    """Every value drawn and perturbed by itself: nothing here goes through the planner's way of drawing."""
    rng = np.random.default_rng(seed)
    truth = make_beta_shape(planned).distribution
    for _ in range(runs):
        values = planned.domain.from_unit(BETA.rvs(reports, random_state=rng))
        estimate = planned.estimate(planned.tally(planned.simulate(values, rng)))
        figures = {"mean": np.ptp(estimate.interval("mean")) / 2}
        if estimate.probabilities is not None:
            histogram = regroup(estimate.probabilities, truth.size)
            figures |= {name: METRICS[name](truth, histogram) for name in ("w1", "ks")}
            figures["p50"] = np.ptp(estimate.interval("quantile", 0.5)) / 2
            figures["bins"] = estimate.readable_bins().edges.size - 1
        yield figures


@pytest.mark.slow
@pytest.mark.parametrize("planned", KINDS, ids=IDS)
def test_planned_errors_are_those_of_simulated_devices(planned):
    """31 figures at four standard errors: once in 500 choices of the seed one is off by chance."""
    planned_outlook = outlook(planned, [make_beta_shape(planned)], 3000, figures_of(planned), Runs(60, 60), seed=1)
    simulated = list(simulate_devices(planned, 3000, 60, seed=2))
    for name in figures_of(planned):
        expected, summary = planned_outlook.mean(name), Summary.of([figures[name] for figures in simulated])
        assert summary.mean == pytest.approx(expected.mean, abs=4 * math.hypot(summary.error, expected.error)), name


@pytest.mark.parametrize(
    ("planned", "target"),
    [
        (make_collection(), Target("w1", 0.01)),
        (make_collection(), Target("p50", 4.0)),
        (make_collection(mechanism="hierarchy"), Target("ks", 0.05)),
        (make_collection(mechanism="piecewise"), Target("mean", 1.0)),
    ],
    ids=["w1", "median", "ks", "mean"],
)
def test_the_reports_that_a_target_needs_reach_it(planned, target):
    """The mean of 60 runs, whose errors vary by a third or less, and the search's own 30, are off by 5 % each: beyond
    20 % once in 2,000 choices of the seed. Half the reports would be off by 40 %."""
    need = reports_needed(planned, make_beta_shape(planned), target, 1000, Runs(30, 30), seed=1)
    mean = np.mean([figures[target.figure] for figures in simulate_devices(planned, need.reports, 60, seed=3)])
    assert mean == pytest.approx(target.most, rel=0.2)


@pytest.mark.parametrize("kind", [{}, {"mechanism": "hierarchy"}, {"mechanism": "local_hashing", "bins": 16}])
def test_planned_errors_do_not_rise_with_epsilon_or_reports(kind):
    """Each step must not rise by more than four standard errors: once in 1,000 choices of the seed one of 33 does."""
    by_epsilon = [(make_collection(epsilon=epsilon, **kind), 5000) for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0)]
    by_reports = [(make_collection(**kind), reports) for reports in (100, 1000, 10_000, 100_000)]
    for ladder in (by_epsilon, by_reports):
        outlooks = [
            outlook(planned, [make_beta_shape(planned)], reports, figures_of(planned), Runs(16, 4), seed=1)
            for planned, reports in ladder
        ]
        for before, after in pairwise(outlooks):
            for name in ("w1", "ks", "mean"):
                next_figure, previous_figure = after.mean(name), before.mean(name)
                assert next_figure.mean <= previous_figure.mean + 4 * math.hypot(
                    next_figure.error, previous_figure.error
                ), name


def test_the_outlook_of_a_shape_does_not_depend_on_other_shapes():
    planned = KINDS[0]
    flat = Shape("flat", np.full(grid(planned), 1 / grid(planned)))
    both = outlook(planned, [flat, make_beta_shape(planned)], 500, ["w1", "mean"], Runs(4, 2), seed=5)
    alone = outlook(planned, [make_beta_shape(planned)], 500, ["w1", "mean"], Runs(4, 2), seed=5)
    assert both.figures["w1"]["beta"] == alone.figures["w1"]["beta"]
    assert both.figures["w1"]["beta"].runs == 4
    assert both.figures["mean"]["beta"].runs == 2
    assert both.worst("w1")[1].mean == max(summary.mean for summary in both.figures["w1"].values())
    # Intervals alone take a shorter way to the same result.
    widths = outlook(planned, [make_beta_shape(planned)], 500, ["mean"], Runs(4, 2), seed=5)
    assert widths.figures["mean"] == alone.figures["mean"]


def test_planned_errors_include_the_bias_of_few_buckets():
    """Two buckets cannot tell a narrow hill from half the domain, however many reports there are."""
    planned = make_collection(buckets=2, mechanism="randomized_response", epsilon=10.0)
    hill = np.zeros(grid(planned))
    hill[100] = 1.0
    assert outlook(planned, [Shape("hill", hill)], 10**6, ["w1"], Runs(2, 2), seed=1).mean("w1").mean > 0.1


# Levels ---------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**9), st.integers(1, 50), st.integers(1, 100), st.sampled_from([1, 2, 6]))
def test_levels_share_the_reports(reports, groups, windows, overlap):
    kind = Windows.parse({"size": f"{overlap}h", "every": "1h"})
    shared_levels = levels(reports, groups, windows, kind)
    assert len(shared_levels) == (1 + (groups > 1)) * (1 + (windows > 1))
    assert shared_levels[-1].reports == reports
    assert shared_levels[-1].share == 1
    assert [level.reports for level in shared_levels[::2]] == sorted(level.reports for level in shared_levels[::2])
    for level in shared_levels:
        assert level.reports <= level.share * reports < level.reports + 1
    assert shared_levels[0].share == pytest.approx(min(1, overlap / windows) / groups)


# Alternatives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "planned", [*KINDS, make_collection(low=0, high=89, integer=True, buckets=90), make_collection(epsilon=20.0)]
)
def test_alternatives_are_valid_and_differ(planned):
    candidates = alternatives(planned)
    assert candidates[0].collection is planned
    assert len({repr(other.collection) for other in candidates}) == len(candidates)
    for other in candidates[1:]:
        assert other.collection.domain == planned.domain
        assert (other.collection.epsilon != planned.epsilon) == (other.kind == "epsilon")
        assert (
            outlook(other.collection, [make_beta_shape(planned)], 50, ["mean"], Runs(2, 2), seed=1).mean("mean").mean
            > 0
        )
    kinds = {other.kind for other in candidates}
    assert {"epsilon", "mechanism"} < kinds


def test_alternatives_of_the_usual_collection():
    default = make_collection(buckets=1024, epsilon=1.0)
    parameters = [
        (
            candidate.collection.epsilon,
            candidate.collection.mechanism.name,
            candidate.collection.estimator,
            candidate.collection.buckets,
            getattr(candidate.collection.mechanism, "bins", None),
        )
        for candidate in alternatives(default)
    ]
    assert parameters == [
        (1.0, "square_wave", "ems", 1024, None),
        (0.5, "square_wave", "ems", 1024, None),
        (2.0, "square_wave", "ems", 1024, None),
        (1.0, "square_wave", "ems", 256, None),
        (1.0, "square_wave", "log_spline", 1024, None),
        (1.0, "hierarchy", "hh_admm", 1024, None),
        (1.0, "local_hashing", "norm_sub", 1024, 16),
        (1.0, "local_hashing", "norm_sub", 1024, 32),
        (1.0, "local_hashing", "norm_sub", 1024, 64),
    ]


@pytest.mark.parametrize("mechanism", ["square_wave", "square_wave_continuous", "general_wave"])
@pytest.mark.parametrize(
    ("now", "then"),
    [
        ({}, "log_spline"),
        ({"smoothing": "adaptive", "stopping": "converged"}, "log_spline"),
        ({"estimator": "em", "stopping": "converged"}, "log_spline"),
        ({"estimator": "log_spline"}, "ems"),
    ],
)
def test_waves_have_one_other_estimator_which_is_for_the_same_reports(mechanism, now, then):
    present, *others = alternatives(make_collection(mechanism=mechanism, **now))
    [other] = [other for other in others if other.kind == "estimator"]
    assert other.collection == make_collection(mechanism=mechanism, estimator=then)
    assert [each.kind for each in others if keeps_reports(each, present)] == ["estimator"]


@pytest.mark.parametrize("planned", [*KINDS[1:3], KINDS[-1], make_collection(buckets=15)])
def test_trees_bins_means_and_few_buckets_have_no_other_estimator(planned):
    present, *others = alternatives(planned)
    assert not any(other.kind == "estimator" or keeps_reports(other, present) for other in others)


def test_another_mechanism_comes_with_its_own_estimator():
    for planned in (*KINDS, make_collection(estimator="log_spline"), make_collection(smoothing="adaptive")):
        for other in alternatives(planned):
            if other.kind == "mechanism":
                assert other.collection.estimator == other.collection.mechanism.estimators[0]
                assert other.collection.smoothing is None


def make_estimators_tried(now, then, error=0.002, **options):
    """A collection and its other estimator with their W1, each known to the same standard error."""
    present, *others = alternatives(make_collection(buckets=256, **options))
    both = [present, *(other for other in others if other.kind == "estimator")]
    return [(each, make_outlook(each, mean, error)) for each, mean in zip(both, (now, then), strict=True)]


def make_outlook(other, mean, error):
    return Outlook(other.collection, 1, {"w1": {"s": Summary(mean, error, 8)}})


@pytest.mark.parametrize(
    ("options", "now", "then", "expected"),
    [
        ({}, 0.10, 0.07, "log_spline"),
        ({}, 0.10, 0.097, "ems"),  # within the noise
        ({}, 0.07, 0.10, "ems"),
        ({"estimator": "log_spline"}, 0.07, 0.10, "log_spline"),
        ({"estimator": "log_spline"}, 0.10, 0.07, "ems"),
        ({"estimator": "em"}, 0.10, 0.07, "log_spline"),
    ],
)
def test_other_widths_are_tried_with_the_better_estimator(options, now, then, expected):
    others = width_alternatives(make_estimators_tried(now, then, **options))
    assert [other.kind for other in others] == ["widths"]
    assert [other.collection.mechanism.widths for other in others] == [BEST_SETS[2.0]]
    assert {other.collection.estimator for other in others} == {expected}
    assert {other.collection.epsilon for other in others} == {2.0}


def test_one_width_is_tried_beside_several():
    for widths, others in ((BEST_SETS[2.0], [None]), ((0.3, 0.9), [None, BEST_SETS[2.0]])):
        tried = make_estimators_tried(0.10, 0.10, widths=widths)
        assert [other.collection.mechanism.widths for other in width_alternatives(tried)] == others


@pytest.mark.parametrize("planned", [*KINDS[1:3], KINDS[-1], make_collection(mechanism="general_wave")])
def test_only_square_waves_have_widths_to_try(planned):
    present = alternatives(planned)[0]
    assert width_alternatives([(present, make_outlook(present, 0.1, 0.002))]) == []


@given(st.integers(2, 64), st.floats(0.1, 8))
def test_widths_that_few_buckets_round_to_the_same_are_not_tried(buckets, epsilon):
    present = Alternative("now", make_collection(buckets=buckets, epsilon=epsilon))
    tried = width_alternatives([(present, make_outlook(present, 0.1, 0.002))])
    for other in tried:
        assert len(set(other.collection.mechanism.half_widths)) == len(other.collection.mechanism.widths)
        assert not keeps_reports(other, present)
    halves = make_collection(buckets=buckets, epsilon=epsilon, widths=best_set(epsilon)).mechanism.half_widths
    assert len(tried) == (len(set(halves)) == len(halves))


def test_the_sets_that_plans_try_are_among_those_that_are_compared():
    assert set(BEST_SETS.values()) < set(WIDTH_SETS)
    assert [best_set(epsilon) for epsilon in (0.1, *BEST_SETS, 10.0)] == [
        BEST_SETS[known] for known in (0.5, *BEST_SETS, 4.0)
    ]
    for widths in WIDTH_SETS:
        assert make_collection(widths=widths).mechanism.widths == widths


def test_seeded_hashing_is_planned_as_local_hashing():
    seeded = make_collection(mechanism="seeded_hashing", bins=32, groups=("a",), previous=({"epsilon": 1.0},))
    assert make_plannable(seeded) == make_collection(mechanism="local_hashing", bins=32)
    assert make_plannable(make_collection(groups=("a",))) == make_collection()


TRIALS = {
    "now": make_collection(),
    "epsilon": make_collection(epsilon=4.0),
    "buckets": make_collection(buckets=16),
    "mechanism": make_collection(mechanism="hierarchy"),
    "estimator": make_collection(estimator="log_spline"),
    "widths": make_collection(estimator="log_spline", widths=BEST_SETS[2.0]),
}


def make_trials(*figures):
    """The present collection and rivals, each with its W1 and that figure's standard error."""
    others = [Alternative(kind, collection) for kind, collection in TRIALS.items()][: len(figures)]
    return [(other, make_outlook(other, *figure)) for other, figure in zip(others, figures, strict=True)]


def test_advice_is_given_beyond_noise_only_and_never_another_epsilon():
    advice = advise(make_trials((0.10, 0.002), (0.02, 0.001), (0.09, 0.002), (0.07, 0.002)))
    assert advice.choice.collection.mechanism.name == "hierarchy"
    assert advice.gain == pytest.approx(0.3)
    assert advise(make_trials((0.10, 0.02), (0.02, 0.001), (0.09, 0.02), (0.07, 0.02))).choice.kind == "now"
    assert advise(make_trials((0.10, 1e-6), (0.02, 1e-6), (0.098, 1e-6), (0.099, 1e-6))).choice.kind == "now"


@pytest.mark.parametrize(
    ("estimator", "widths", "choice", "server_only"),
    [
        (0.080, 0.078, "estimator", None),  # widths gain nothing beyond the noise
        (0.080, 0.085, "estimator", None),
        (0.080, 0.050, "widths", "estimator"),
        (0.099, 0.050, "widths", None),
        (0.120, 0.099, "now", None),
    ],
)
def test_what_devices_need_not_learn_of_is_preferred_unless_another_is_better(estimator, widths, choice, server_only):
    figures = [0.10, 0.02, 0.10, 0.12, estimator, widths]
    advice = advise(make_trials(*((figure, 0.002) for figure in figures)))
    assert advice.choice.kind == choice
    assert advice.then.mean == dict(zip(TRIALS, figures, strict=True))[choice]
    assert (advice.server_only and advice.server_only[0].kind) == server_only


figures_of_trials = st.lists(st.tuples(st.floats(0.01, 1), st.floats(1e-4, 0.1)), min_size=6, max_size=6)


@given(figures_of_trials)
def test_no_change_is_advised_that_the_simulation_does_not_show(figures):
    """Whatever was seen, by how much ever: the advice is the present, or better than it beyond the noise; and where
    devices would have to change, also better than what needs no such change."""
    tried = make_trials(*figures)
    advice, seen = advise(tried), {other.kind: outlook.mean("w1") for other, outlook in tried}
    assert advice.choice.kind != "epsilon"
    assert advice.then == seen[advice.choice.kind]
    if advice.choice.kind != "now":
        apart = seen["now"].mean - advice.then.mean
        assert apart > BEYOND_NOISE * math.hypot(seen["now"].error, advice.then.error)
        assert apart > 0.05 * seen["now"].mean
    improved = seen["estimator"].mean < seen["now"].mean and differs(seen["estimator"], seen["now"])
    if improved and not keeps_reports(advice.choice, tried[0][0]):
        assert advice.then.mean < seen["estimator"].mean
        assert differs(advice.then, seen["estimator"])
        assert advice.server_only == (tried[4][0], seen["estimator"])
    else:
        assert advice.server_only is None
    assert (advice.as_good is None) or advice.choice.kind == "now"


def test_fewer_buckets_are_recommended_where_they_do_no_worse():
    assert advise(make_trials((0.10, 0.01), (0.1, 0.01), (0.101, 0.01), (0.2, 0.01))).as_good.collection.buckets == 16
    assert advise(make_trials((0.10, 0.01), (0.1, 0.01), (0.12, 0.01), (0.2, 0.01))).as_good is None


def test_alternatives_differ_for_better_and_for_worse():
    assert differs(Summary(2.0, 0.01, 8), Summary(1.0, 0.01, 8))
    assert differs(Summary(1.0, 0.01, 8), Summary(2.0, 0.01, 8))
    assert not differs(Summary(1.0, 0.3, 8), Summary(2.0, 0.3, 8))


# Targets --------------------------------------------------------------------------------------------------------------

COMMUTE = make_collection()
amounts = st.floats(0.001, 100).map(lambda x: round(x, 4))
spaces = st.sampled_from(["", " ", "  "])


@given(
    st.sampled_from(["mean", "median", "p5", "p90", "p99.9", "Median"]),
    st.sampled_from(["±", "+-", "+/-"]),
    amounts,
    st.sampled_from(["", "minutes"]),
    spaces,
)
def test_targets_of_intervals_are_read_as_they_are_written(name, sign, amount, unit, space):
    figure = {"median": "p50"}.get(name.lower(), name)
    assert parse_target(f"{space}{name}{space}{sign}{space}{amount}{space}{unit}", COMMUTE) == Target(figure, amount)


@given(st.sampled_from(["w1", "W1", "ks", "KS"]), st.sampled_from([" ", " <= ", "≤", "="]), st.floats(1e-6, 0.999))
def test_targets_of_errors_are_read_as_they_are_written(name, sign, amount):
    assert parse_target(f"{name}{sign}{amount}", COMMUTE) == Target(name.lower(), amount)


@given(st.one_of(st.text(), st.from_regex(r"(mean|median|p[0-9]+|w1|ks) ?(±|\+-)? ?[-0-9.e]+.{0,5}", fullmatch=True)))
def test_texts_that_are_not_targets_are_refused_in_one_line(text):
    message = ""
    try:
        assert parse_target(text, COMMUTE).most > 0
    except CollectionError as error:
        message = str(error)
    assert not message or message.startswith("target: got")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median", "such as 'median ± 2'"),
        ("median ± 2 hours", "the collection's unit, minutes"),
        ("p0 ± 2", "between p0 and p100"),
        ("p100 ± 2", "between p0 and p100"),
        ("p1000 ± 2", "between p0 and p100"),
        ("w1 2", "above 0 and below 1"),
        ("w1 0.01 minutes", "such as"),
        ("mean ± 0", "above 0 and below 180"),
        ("mean ± 1.2.3", "such as"),
        ("variance ± 1", "such as"),
    ],
)
def test_an_impossible_target_is_refused_with_possible_ones(text, message):
    with pytest.raises(CollectionError, match=message):
        parse_target(text, COMMUTE)


def test_a_mechanism_of_means_has_targets_of_means():
    mean = make_collection(mechanism="piecewise")
    assert parse_target("mean ± 2", mean) == Target("mean", 2.0)
    for text in ("median ± 2", "w1 0.1"):
        with pytest.raises(CollectionError, match="the mean only with piecewise"):
            parse_target(text, mean)


@given(
    st.floats(0.1, 10),
    st.floats(0.25, 0.6),
    st.floats(0, 0.02),
    st.floats(0.003, 0.05),
    st.integers(1, 10**6),
)
@example(scale=0.109375, slope=0.5625, floor=0.013671875, most=0.0234375, start=26182)  # the line leads past 85
def test_the_search_finds_the_reports_at_which_an_error_reaches_its_target(scale, slope, floor, most, start):
    def law(reports):
        return floor + scale * reports**-slope

    need = reports_for(most, law, start)
    assert len(need.seen) <= 12
    assert list(need.seen) == [(reports, law(reports)) for reports in sorted(reports for reports, _ in need.seen)]
    if need.reports is None:
        assert law(MOST_REPORTS) > most
    else:
        assert law(need.reports) == pytest.approx(most, rel=0.05) or law(10) <= most
    if law(MOST_REPORTS) > 1.05 * most:
        assert need.reports is None


def test_the_search_for_a_sample_size_evens_out_noise():
    """Errors known to 3 % leave the number of reports known to a few times that: 200 searches stay within 25 %."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        need = reports_for(0.01, lambda n: 3 / n**0.5 * rng.normal(1, 0.03), 1000)
        assert need.reports == pytest.approx(90_000, rel=0.25)
