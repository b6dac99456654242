"""Which windows a log covers in part: the first and the last of it, and none that is merely quiet."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram.pipelines.formatting import notes, warnings
from hushgram.pipelines.partial_windows import Cut, cut_windows
from hushgram.schemas.records import Events, Pane
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import WAVE, make_snapshot

DAY = 24 * HOUR
MINUTE = 60_000
SNAPSHOT = replace(make_snapshot(WAVE), heavy_low_end=None, heavy_high_end=None, fit=0.5)


def make_window(start, end, times, group=None, timing="on_time"):
    """A window with an upload at each of some times."""
    events = Events(int(min(times)), int(max(times)), len(times))
    key = replace(SNAPSHOT.key, window_start=start, window_end=end, group=group)
    return replace(SNAPSHOT, key=key, reports=len(times), events=events, pane=Pane(timing=timing))


def make_windows(times, size=DAY, every=None, first=START):
    """The windows of a log of some event times."""
    every, times = every or size, np.asarray(times)
    starts = np.arange(first - size + every, times.max() + 1, every).tolist()
    contents = [(start, times[(times >= start) & (times < start + size)]) for start in starts]
    return [make_window(start, start + size, events_inside) for start, events_inside in contents if events_inside.size]


def draw_times(start, end, count, seed=1):
    return np.random.default_rng(seed).integers(start, end, count)


def test_the_windows_that_a_log_begins_and_ends_in_are_cut():
    begin, end = START + 5 * HOUR + 12 * MINUTE, START + 2 * DAY + 17 * HOUR
    log = np.append(draw_times(begin, end, 5000), [begin, end - 1])
    cuts = cut_windows(make_windows(log))
    assert cuts == {(START, START + DAY): Cut(begins=begin), (START + 2 * DAY, START + 3 * DAY): Cut(ends=end)}
    first, _, last = make_windows(log)
    assert notes(first, cuts[START, START + DAY]) == ["the log begins at 05:12, inside this window"]
    assert notes(last, cuts[START + 2 * DAY, START + 3 * DAY]) == ["the log ends at 17:00, inside this window"]
    assert warnings(first, cuts[START, START + DAY]) == ["begins_inside"]
    assert notes(first) == []


def test_one_window_may_be_cut_at_both_ends():
    log = [START + 2 * HOUR, *draw_times(START + 2 * HOUR, START + 5 * HOUR, 500), START + 5 * HOUR - 1]
    assert cut_windows(make_windows(log)) == {(START, START + DAY): Cut(START + 2 * HOUR, START + 5 * HOUR)}


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 400), st.integers(1, 5), st.integers(0, 2**32))
def test_a_log_that_covers_its_windows_cuts_none(uploads, days, seed):
    """However few uploads there are; 2e-9 for each end of the log."""
    assert cut_windows(make_windows(draw_times(START, START + days * DAY, uploads, seed))) == {}


def test_quiet_times_inside_of_the_log_cut_nothing():
    log = draw_times(START, START + 5 * HOUR, 20_000)
    quiet = (log < START + HOUR) | (log >= START + 2 * HOUR + 50 * MINUTE)
    assert cut_windows(make_windows(log[quiet], HOUR)) == {}


def test_nights_that_every_day_has_are_not_ends_of_the_log():
    days = [draw_times(START + day * DAY + 6 * HOUR, START + day * DAY + 22 * HOUR, 4000, day) for day in range(4)]
    assert cut_windows(make_windows(np.concatenate(days))) == {}
    days[0] = days[0][days[0] >= START + 12 * HOUR]
    assert list(cut_windows(make_windows(np.concatenate(days)))) == [(START, START + DAY)]


def test_batches_whose_time_is_that_of_their_first_report_cut_no_window():
    """Uploads of a thousand reports, each with the time of its first: the last one is long before the window's end."""
    log = np.sort(draw_times(START, START + 2 * HOUR, 40_000))
    assert cut_windows(make_windows(log[::1000], HOUR)) == {}
    late = log[log >= START + 40 * MINUTE]
    assert list(cut_windows(make_windows(late[::100], HOUR))) == [(START, START + HOUR)]


@pytest.mark.parametrize("size", [HOUR, DAY])
@pytest.mark.parametrize("grain", [1000, 15 * MINUTE, HOUR])
def test_times_rounded_to_a_grain_last_as_long_as_the_grain(size, grain):
    log = draw_times(START, START + 2 * DAY, 50_000)
    assert cut_windows(make_windows(log // grain * grain, size)) == {}
    cut = log[log < START + DAY + 16 * HOUR + HOUR // 2]
    cuts = cut_windows(make_windows(cut // grain * grain, size))
    expected = START + DAY + 16 * HOUR + (HOUR if grain == HOUR else HOUR // 2)
    last = (expected - 1) // size * size
    assert cuts == ({} if expected % size == 0 else {(last, last + size): Cut(ends=expected)})


def test_every_sliding_window_that_the_log_begins_inside_of_is_cut():
    begin = START + 10 * MINUTE
    log = [begin, *draw_times(begin, START + 3 * HOUR, 20_000), START + 3 * HOUR - 1]
    cuts = cut_windows(make_windows(log, HOUR, 20 * MINUTE))
    starts = [start for (start, _), cut in cuts.items() if cut.begins == begin]
    assert starts == [START - 40 * MINUTE, START - 20 * MINUTE, START]
    assert all(cut == Cut(begins=begin) or cut == Cut(ends=START + 3 * HOUR) for cut in cuts.values())


def test_a_window_that_is_still_open_is_not_cut_at_its_end():
    log = make_windows(draw_times(START, START + 90 * MINUTE, 9000), HOUR)
    assert list(cut_windows(log)) == [(START + HOUR, START + 2 * HOUR)]
    assert cut_windows([log[0], replace(log[1], pane=Pane(timing="early"))]) == {}


def test_the_fullest_group_decides_whether_a_window_is_cut():
    whole = make_window(START, START + HOUR, draw_times(START, START + HOUR, 5000))
    group = make_window(START, START + HOUR, draw_times(START + HOUR // 2, START + HOUR, 2000), group="DE")
    assert cut_windows([group, whole]) == {}
    assert list(cut_windows([group])) == [(START, START + HOUR)]
    assert cut_windows([replace(group, events=None)]) == {}
    earlier = replace(whole, key=replace(whole.key, window_start=START - HOUR, window_end=START), events=None)
    assert cut_windows([earlier, group]) == {}
    assert cut_windows([]) == {}
