"""Change over time: the budget of false alarms, what a window is compared with, and what real tallies show."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hushgram import Collection, NotEstimableError, Windows
from hushgram.alpha_spending import HALF_SPENT, share_of_test, spent_share
from hushgram.changes import ChangeDetector, Changes, TimedTally, find_changes, week_before
from hushgram.simulation import draw_tally

HOUR = 3_600_000
DAY = 24 * HOUR
WAVE = Collection(name="c", low=0, high=1, buckets=16, epsilon=1, minimum_reports=100)


def make_window(start, group=None, end=None, reports=200, collection=WAVE, tally=None):
    """A window of an hour, the k-th from the beginning of 1970, in which every device sent the same cell."""
    counts = np.zeros(collection.mechanism.tally_length, dtype=np.int64)
    counts[start % counts.size] = reports
    tallies = {collection.revision: counts if tally is None else tally}
    return TimedTally(group, start * HOUR, (start + 1 if end is None else end) * HOUR, tallies)


def never(_first, _second):
    return 1.0


def scripted(pvalues):
    """A test whose p-values are those of windows by their number."""
    return lambda first, _second: pvalues.get(int(first[0][1].argmax()), 1.0)


def list_verdicts(changes):
    """Comparisons as plain values, in hours."""
    return [
        (
            one.window.group,
            one.window.start // HOUR,
            one.against,
            one.reference.start // HOUR,
            one.reference.end // HOUR,
            one.reference.windows,
            one.differs,
        )
        for one in changes.comparisons
    ]


# ---- The budget


def test_shares_of_tests_are_exactly_what_is_spent():
    exact = [Fraction(HALF_SPENT, (k + HALF_SPENT - 1) * (k + HALF_SPENT)) for k in range(1, 500)]
    assert [share_of_test(k) for k in range(1, 500)] == pytest.approx([float(share) for share in exact], rel=1e-12)
    assert sum(exact) == Fraction(499, 499 + HALF_SPENT)
    assert spent_share(499) == pytest.approx(float(sum(exact)), rel=1e-12)
    assert all(later < earlier for earlier, later in pairwise(exact))


SPANS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 30), st.sampled_from([None, "a", "b", "c"])),
    max_size=60,
    unique_by=lambda span: (span[0], span[1], span[2]),
)


@given(SPANS, st.floats(0.001, 0.999), st.sampled_from([0.0, 1.0, None]), st.randoms(use_true_random=False))
def test_levels_of_all_comparisons_never_add_up_to_more_than_the_rate(spans, rate, pvalue, random):
    """Whatever windows there are and whatever was found: with Bonferroni's inequality this is the guarantee."""
    test = (lambda *_: random.random() ** 8) if pvalue is None else (lambda *_: pvalue)
    windows = [make_window(start, group, start + length) for start, length, group in spans]
    changes = find_changes(WAVE, windows, false_alarm_rate=rate, test=test)
    assert sum(one.level for one in changes.comparisons) <= rate
    assert all(one.differs == (one.pvalue <= one.level) for one in changes.comparisons)


@given(SPANS, st.randoms(use_true_random=False))
def test_no_window_is_compared_with_one_that_shares_its_time(spans, random):
    windows = [make_window(start, group, start + length) for start, length, group in spans]
    changes = find_changes(WAVE, windows, test=lambda *_: random.random() ** 8)
    for one in changes.comparisons:
        assert one.reference.end <= one.window.start
        assert one.reference.group == one.window.group
    judged = sorted({(one.window.start, one.window.end) for one in changes.comparisons})
    assert all(end <= start for (_, end), (start, _) in pairwise(judged))
    passed = {(window.group, window.start, window.end) for window in changes.passed_over}
    assert len(passed) == len(changes.passed_over)
    assert all(window.reason == "overlapping" for window in changes.passed_over)


@given(SPANS, st.integers(0, 60), st.randoms(use_true_random=False))
def test_a_verdict_depends_on_no_later_window_and_on_no_order_of_arrival(spans, cut, random):
    windows = sorted(
        (make_window(start, group, start + length) for start, length, group in spans),
        key=lambda window: (window.start, window.end),
    )
    cut = next((i for i in range(cut, len(windows)) if windows[i].start != windows[i - 1].start), len(windows))
    numbers = {k: random.random() ** 8 for k in range(WAVE.mechanism.cells)}
    whole = find_changes(WAVE, windows, test=scripted(numbers))
    detector = ChangeDetector(WAVE, test=scripted(numbers))
    first, second = detector.judge(windows[:cut]), detector.judge(windows[cut:])
    shuffled = list(windows)
    random.shuffle(shuffled)
    if {w.group for w in windows[:cut]} >= {w.group for w in windows[cut:]}:
        assert list_verdicts(first + second) == list_verdicts(whole)
    assert list_verdicts(first) == list_verdicts(whole)[: len(first.comparisons)]
    assert list_verdicts(find_changes(WAVE, shuffled, test=scripted(numbers))) == list_verdicts(whole)


def test_labels_of_groups_do_not_matter():
    numbers = {4: 1e-9, 5: 1e-9}
    verdicts = {}
    for names in (("a", "b"), ("zebra", "aardvark")):
        windows = [make_window(k, name) for k in range(8) for name in names]
        found = find_changes(WAVE, windows, test=scripted(numbers))
        verdicts[names] = sorted((names.index(group), *rest) for group, *rest in list_verdicts(found))
    assert len({tuple(v) for v in verdicts.values()}) == 1


# ---- What a window is compared with


def test_the_reference_is_all_windows_since_the_last_change():
    changes = find_changes(WAVE, [make_window(k) for k in range(9)], test=scripted({3: 0.0, 4: 0.0}))
    assert list_verdicts(changes) == [
        (None, 1, "preceding", 0, 1, 1, False),
        (None, 2, "preceding", 0, 2, 2, False),
        (None, 3, "preceding", 0, 3, 3, True),
        (None, 4, "changed", 3, 4, 1, True),
        (None, 5, "changed", 4, 5, 1, False),
        (None, 6, "preceding", 5, 6, 1, False),  # neither 3 nor 4: they were chosen for being different
        (None, 7, "preceding", 5, 7, 2, False),
        (None, 8, "preceding", 5, 8, 3, False),
    ]
    [third, fourth] = changes.found
    assert (third.window.start, fourth.window.start) == (3 * HOUR, 4 * HOUR)


def test_the_reference_holds_the_sum_of_its_windows():
    seen = []
    find_changes(WAVE, [make_window(k) for k in range(4)], test=lambda _, second: seen.append(second) or 1.0)
    assert [int(reference[0][1].sum()) for reference in seen] == [200, 400, 600]
    expected = sum(make_window(k).tallies[WAVE.revision] for k in range(3))
    np.testing.assert_array_equal(seen[-1][0][1], expected)


def test_the_same_hour_of_the_week_before_is_a_reference_of_its_own():
    windows = [make_window(k) for k in (0, 1, 167, 168, 169)]
    weekly = [one for one in list_verdicts(find_changes(WAVE, windows, test=never)) if one[2] == "week_before"]
    assert weekly == [(None, 168, "week_before", 0, 1, 1, False), (None, 169, "week_before", 1, 2, 1, False)]
    only = find_changes(WAVE, windows, test=never, against=["week_before"])
    assert list_verdicts(only) == weekly


def test_of_sliding_windows_the_same_one_of_the_week_before_counts():
    """Every five hours one is judged, which a week is no multiple of."""
    windows = [make_window(k, end=k + 5) for k in range(180)]
    compared = list_verdicts(find_changes(WAVE, windows, test=never))
    assert [one[1] for one in compared if one[2] == "preceding"] == list(range(5, 180, 5))
    assert [(one[1], one[3], one[4]) for one in compared if one[2] == "week_before"] == [(170, 2, 7), (175, 7, 12)]


def test_a_week_long_window_is_compared_with_the_week_before_once():
    windows = [make_window(168 * k, end=168 * (k + 1)) for k in range(3)]
    assert {one.against for one in find_changes(WAVE, windows, test=never).comparisons} == {"preceding"}


@pytest.mark.parametrize(("zone", "hours"), [(None, 168), ("Europe/Berlin", 167), ("America/New_York", 168)])
def test_a_week_before_is_one_of_the_clocks_of_the_zone(zone, hours):
    monday = 1_774_857_600_000  # 2026-03-30T08:00Z: clocks in Berlin went forward the day before
    assert monday - week_before(monday, zone and ZoneInfo(zone)) == hours * HOUR


@pytest.mark.parametrize("time", [-(10**17), 10**17])
def test_a_time_outside_of_the_calendar_has_a_week_before(time):
    assert week_before(time, ZoneInfo("Europe/Berlin")) == time - 7 * DAY


def test_local_weeks_follow_the_time_zone_of_the_collection():
    local = replace(WAVE, windows=Windows(time_zone="Europe/Berlin"))
    monday = 1_774_857_600_000 // HOUR
    windows = [make_window(k) for k in (monday - 168, monday - 167, monday)]
    [weekly] = [one for one in find_changes(local, windows, test=never).comparisons if one.against == "week_before"]
    assert weekly.reference.start == (monday - 167) * HOUR


# ---- What is passed over, and why


def test_windows_that_cannot_be_compared_are_passed_over_with_a_reason():
    other = replace(WAVE, high=2.0)  # a domain that `previous` cannot hold
    windows = [
        make_window(0),
        make_window(1, reports=0),
        make_window(2, reports=99),
        make_window(3, collection=other),
        make_window(4, tally=np.zeros(3, dtype=np.int64)),
        make_window(5, tally=np.full(WAVE.mechanism.tally_length, -1)),
        make_window(6),
    ]
    changes = find_changes(WAVE, windows, test=never)
    reasons = {window.start // HOUR: window.reason for window in changes.passed_over}
    assert reasons == {1: "no_reports", 2: "too_few", 3: "unknown_revision", 4: "damaged", 5: "damaged"}
    assert list_verdicts(changes) == [(None, 6, "preceding", 0, 1, 1, False)]


def test_an_earlier_epsilon_is_compared():
    grown = replace(WAVE, previous=[{"epsilon": 2.0}])
    earlier = replace(WAVE, epsilon=2.0)
    windows = [make_window(k, collection=earlier if k < 2 else WAVE) for k in range(4)]
    assert len(find_changes(grown, windows, test=never).comparisons) == 3
    assert [window.reason for window in find_changes(WAVE, windows, test=never).passed_over] == ["unknown_revision"] * 2


def test_reports_that_no_test_can_compare_are_passed_over():
    def refuse(_first, _second):
        raise NotEstimableError("no test")

    changes = find_changes(WAVE, [make_window(k) for k in range(3)], test=refuse)
    assert [window.reason for window in changes.passed_over] == ["not_comparable"] * 2


@pytest.mark.parametrize("windows", [[], [make_window(0)], [make_window(0, "a"), make_window(0, "b")]])
def test_one_window_has_nothing_to_be_compared_with(windows):
    assert find_changes(WAVE, windows) == Changes()


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan"), "5%"])
def test_a_wrong_rate_is_refused(rate):
    with pytest.raises(ValueError, match="false_alarm_rate must be from 0 to 1"):
        find_changes(WAVE, [], false_alarm_rate=rate)


# ---- Real tallies; more of it by `python -m benchmarks.changes`


def draw_windows(rng, laws, reports, collection=WAVE, group=None):
    """Hours whose values have these distributions over the buckets."""
    for hour, law in enumerate(laws):
        tally = draw_tally(collection, law, reports, rng)
        yield TimedTally(group, hour * HOUR, (hour + 1) * HOUR, {collection.revision: tally})


def bucket_law(a, b, buckets=16):
    return np.diff(stats.beta(a, b).cdf(np.linspace(0, 1, buckets + 1)))


@pytest.mark.slow
def test_false_alarms_are_as_many_as_the_levels_allow():
    """At a rate of 1 the levels add up to the expected number of false alarms.

    Over 150 collections of 40 windows these are 13.8. A Poisson number of that mean is below 3 or above 33 with a
    probability of 1e-4.
    """
    rng = np.random.default_rng(5)
    found, expected = 0, 0.0
    for _ in range(150):
        changes = find_changes(WAVE, draw_windows(rng, [bucket_law(5, 2)] * 40, 2000), false_alarm_rate=1.0)
        found += len(changes.found)
        expected += sum(one.level for one in changes.comparisons)
    assert 13.7 < expected < 13.9
    assert 3 <= found <= 33


@pytest.mark.slow
def test_after_a_change_false_alarms_are_no_more_than_the_levels_allow():
    """A change that is found late half of the time: the reference is then chosen by what was found.

    False alarms are those after it, where the reference holds no window from before. The levels of such comparisons
    add up to less than 6; a Poisson number of that mean is above 19 with a probability of 5e-6.
    """
    rng = np.random.default_rng(6)
    false, allowed = 0, 0.0
    for _ in range(100):
        laws = [bucket_law(5, 2)] * 10 + [bucket_law(4, 2)] * 15
        changes = find_changes(WAVE, draw_windows(rng, laws, 2000), false_alarm_rate=1.0)
        later = [one for one in changes.comparisons if one.reference.start >= 10 * HOUR]
        false += sum(one.differs for one in later)
        allowed += sum(one.level for one in later)
    assert 1 < allowed < 6
    assert false <= 19


def test_a_planted_change_is_found_where_it_is_and_nothing_else():
    """A shift of the mean by 0.048, from beta(5, 2) to beta(4, 2), with 20 000 reports a window, for 20 collections.

    As a normal deviate, the p-value has a mean of 9.0 and a deviation of 1.0 (300 simulations), and has to exceed 3.8:
    it is missed with a probability of 2e-7 each. The levels of the others add up to less than 0.002 each, so that there
    are three false alarms in all with one of 1e-5.
    """
    rng = np.random.default_rng(7)
    at_once = others = 0
    for _ in range(20):
        laws = [bucket_law(5, 2)] * 6 + [bucket_law(4, 2)] * 6
        found = find_changes(WAVE, draw_windows(rng, laws, 20_000)).found
        hours = [(change.window.start // HOUR, change.against) for change in found]
        at_once += (6, "preceding") in hours
        others += len(hours) - ((6, "preceding") in hours)
    assert at_once == 20
    assert others <= 2


def test_a_change_against_the_week_before_is_found_in_a_rhythm_of_days():
    """By day another distribution than by night: against the week before nothing but the planted hour differs."""
    rng = np.random.default_rng(8)
    laws = [bucket_law(5, 2) if k % 24 < 12 else bucket_law(2, 5) for k in range(8 * 24)]
    laws[7 * 24 + 3] = bucket_law(2, 5)
    found = find_changes(WAVE, draw_windows(rng, laws, 5000), against=["week_before"]).found
    assert [change.window.start // HOUR for change in found] == [7 * 24 + 3]
