"""Days and weeks of time zones: they divide time without gap or overlap, and begin when the zone's clocks say so."""

import json
import pickle
import subprocess
import sys
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hushgram import CollectionError, Windows
from hushgram.local_days import DAY_MS, LocalDays, local_days
from hushgram.windows import WEEKDAYS

HOUR = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY = (date(1, 1, 5) - EPOCH.date()).days
LAST_DAY = (date(2199, 12, 25) - EPOCH.date()).days

zones = st.sampled_from(sorted(zoneinfo.available_timezones()))
days = st.integers(-80_000, LAST_DAY) | st.integers(FIRST_DAY, LAST_DAY)


def read_clock(zone, time):
    """The local time of a clock, by the standard library."""
    return (EPOCH + timedelta(milliseconds=time)).astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def to_milliseconds(zone, *moment):
    return int(datetime(*moment, tzinfo=zoneinfo.ZoneInfo(zone)).timestamp() * 1000)


def find_start(zone, *day):
    number = (date(*day) - EPOCH.date()).days
    return int(local_days(zone).begins(np.array([number]))[0])


def measure_days(zone, first, count):
    """Hours of some days one after another."""
    number = (first - EPOCH.date()).days
    return (np.diff(local_days(zone).begins(np.arange(number, number + count + 1))) / HOUR).tolist()


@settings(deadline=None)  # a zone is read when it is first asked for
@given(zones, days)
@example("America/St_Johns", (date(1988, 10, 30) - EPOCH.date()).days)  # clocks go back one minute past midnight
@example("America/Juneau", (date(1867, 10, 18) - EPOCH.date()).days)  # a day is lived twice
def test_days_divide_time_and_agree_with_the_standard_library(zone, day):
    calendar = local_days(zone)
    edges = calendar.begins(np.arange(day - 2, day + 4))
    assert (np.diff(edges) >= 0).all()
    for number, start, end in zip(range(day - 2, day + 3), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        today = EPOCH.date() + timedelta(days=number)
        # Whatever the clock shows earlier is an earlier date, and at the edge it is this one, or a later one if the
        # zone skipped this one.
        assert read_clock(zone, start - 1).date() < today
        assert read_clock(zone, start).date() >= today
        if start < end:
            inside = np.array([start, (start + end) // 2, end - 1])
            assert calendar.numbers(inside).tolist() == [number] * 3


@settings(deadline=None)  # a zone is read when it is first asked for
@given(zones, st.integers(2_000, 2_199), st.integers(0, 365))
def test_a_day_begins_at_midnight_wherever_there_is_one(zone, year, day):
    """By another way than ours: the standard library's from local time to UTC."""
    midnight = datetime(year, 1, 1) + timedelta(days=day)
    start = int(local_days(zone).begins(np.array([(midnight.date() - EPOCH.date()).days]))[0])
    local_midnight = midnight.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    if local_midnight.astimezone(UTC).astimezone(local_midnight.tzinfo).replace(tzinfo=None) == midnight:
        assert start == int(local_midnight.timestamp()) * 1000
    else:  # the clock skips it
        assert read_clock(zone, start) > midnight
        assert read_clock(zone, start - 1) < midnight


@pytest.mark.parametrize(
    ("zone", "first", "expected"),
    [
        ("Europe/Berlin", date(2026, 3, 28), [24, 23, 24]),
        ("Europe/Berlin", date(2026, 10, 24), [24, 25, 24]),
        ("Australia/Lord_Howe", date(2026, 4, 4), [24, 24.5, 24]),
        ("America/Sao_Paulo", date(2018, 11, 3), [24, 23, 24]),  # no midnight: clocks go from 00:00 to 01:00
        ("America/Havana", date(2026, 10, 31), [24, 25, 24]),  # midnight twice: clocks go from 01:00 to 00:00
        ("Asia/Beirut", date(2026, 10, 23), [24, 25, 24]),  # clocks go from 00:00 to 23:00
        ("Africa/Cairo", date(2026, 4, 23), [24, 23, 24]),
        ("Pacific/Apia", date(2011, 12, 29), [24, 0, 24]),  # the zone went without 30 December 2011
        ("Asia/Kolkata", date(2026, 3, 28), [24, 24, 24]),
        ("America/Nuuk", date(2150, 3, 27), [24, 23, 24]),  # by the rule alone
        ("UTC", date(2026, 3, 28), [24, 24, 24]),
    ],
)
def test_local_days_with_known_lengths(zone, first, expected):
    assert measure_days(zone, first, 3) == expected


def test_times_beyond_the_table_keep_an_offset():
    """From the first millisecond of the year 1 to long after the last year that is looked up."""
    calendar = local_days("Europe/Berlin")
    times = np.array([-62_135_596_800_000, 2**53])
    numbers = calendar.numbers(times)
    assert (calendar.begins(numbers) <= times).all()
    assert (times < calendar.begins(numbers + 1)).all()
    assert (calendar.begins(numbers + 1) - calendar.begins(numbers)).tolist() == [DAY_MS, DAY_MS]


@settings(deadline=None)  # a zone is read when it is first asked for
@given(zones, st.integers(-(10**13), 7 * 10**12), st.integers(1, 10), st.integers(0, 9), st.sampled_from(WEEKDAYS))
@example("Pacific/Apia", 1_325_239_200_000, 7, 1, "monday")
def test_windows_of_days_hold_every_time_as_often_as_they_overlap(zone, time, size, every, week_start):
    every = max(1, size - every)
    setting = Windows(size=size * DAY_MS, every=every * DAY_MS, time_zone=zone, week_start=week_start)
    windows = setting.holding(time)
    assert len(windows) in (size // every, -(-size // every))
    assert len(set(windows)) == len(windows)
    assert all(start <= time < end for start, end in windows)
    edges = np.array(windows).ravel()
    assert (setting.days.begins(setting.days.numbers(edges)) == edges).all()
    # One that begins on a date that the zone skipped begins with the next.
    assert all(setting.size - setting.between(*window) in (0, DAY_MS, -DAY_MS) for window in windows)
    # Slices lie in windows as a whole, and one begins where the other ends.
    [number] = setting.slice_numbers(np.array([time])).tolist()
    start, end = setting.slice_start(number), setting.slice_start(number + 1)
    assert start <= time < end
    assert setting.holding(start) == windows == setting.holding(end - 1)
    assert not ((start < edges) & (edges < end)).any()


@settings(deadline=None)  # a zone is read when it is first asked for
@given(zones | st.none(), st.integers(-(10**13), 7 * 10**12), st.integers(1, 3), st.sampled_from(WEEKDAYS))
def test_weeks_begin_on_their_day_and_follow_one_another(zone, time, weeks, week_start):
    length = weeks * 7 * DAY_MS
    setting = Windows(size=length, every=length, time_zone=zone, week_start=week_start)
    [(start, end)] = setting.holding(time)
    assert start <= time < end
    [(before, end_before)] = setting.holding(start - 1)
    assert (end_before, setting.holding(end)[0][0]) == (start, end)
    clock_time = read_clock(zone or "UTC", start)
    # A week whose first day the zone skipped begins a day late.
    skipped = read_clock(zone or "UTC", start - 1).date() + timedelta(days=1) < clock_time.date()
    assert skipped or clock_time.weekday() == WEEKDAYS.index(week_start)
    assert before < start


def test_without_a_zone_weeks_begin_on_monday_and_other_windows_at_multiples_of_their_size():
    monday = to_milliseconds("UTC", 2026, 3, 23)
    week = Windows.parse({"size": "7d"})
    assert week.holding(monday) == [(monday, monday + 7 * DAY_MS)]
    assert week.holding(monday - 1) == [(monday - 7 * DAY_MS, monday)]
    sunday = Windows.parse({"size": "1w", "week_start": "sunday"})
    assert sunday.holding(monday) == [(monday - DAY_MS, monday + 6 * DAY_MS)]
    for size in (1, 1001, HOUR, DAY_MS, 3 * DAY_MS, 8 * DAY_MS):
        assert Windows(size=size, every=size).holding(monday + 5) == [
            ((monday + 5) // size * size, (monday + 5) // size * size + size)
        ]


def test_a_sliding_week_of_local_days():
    setting = Windows.parse({"size": "7d", "every": "1d", "time_zone": "Europe/Berlin"})
    noon = to_milliseconds("Europe/Berlin", 2026, 3, 29, 12)
    expected = [
        (
            to_milliseconds("Europe/Berlin", 2026, 3, 29 - offset),
            to_milliseconds("Europe/Berlin", 2026, 3, 29 - offset) + 7 * DAY_MS,
        )
        for offset in range(7)
    ]
    # Six of the seven have lost an hour to summer time, and so has the seventh: it is the hour of the day in question.
    assert setting.holding(noon) == [(start, end - HOUR) for start, end in expected]


BERLIN = {"time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"time_zone": "Europe/Berlim"},
            "windows.time_zone: got 'Europe/Berlim', allowed: a name of the IANA time zone database, such as "
            "Europe/Berlin (did you mean Europe/Berlin?)",
        ),
        ({"time_zone": "../../etc/passwd"}, "windows.time_zone: got '../../etc/passwd', allowed: a name"),
        ({"time_zone": 2}, "windows.time_zone: got 2, allowed: a name"),
        ({"time_zone": "Europe"}, "windows.time_zone: got 'Europe'"),
        ({"week_start": "Monday"}, "windows.week_start: got 'Monday', allowed: monday, tuesday"),
        ({"size": "36h", **BERLIN}, "windows.size: got 36h in time zone Europe/Berlin, allowed: whole days"),
        ({"size": "36h", "every": "1d", **BERLIN}, "windows.size: got 36h"),
        (
            {"size": "6h", **BERLIN},
            "windows.every: got 6h, which does not divide the days of Europe/Berlin evenly; "
            "allowed: whole days, or 1h and what divides it",
        ),
        ({"size": "1h", "time_zone": "Asia/Kolkata"}, "or 30m and what divides it"),
        ({"size": "1h", "time_zone": "Asia/Kathmandu"}, "or 15m and what divides it"),
        (
            {"time_zones": "UTC"},
            "windows.time_zones: unknown, allowed: size, every, max_delay, max_age, early, time_zone, week_start, "
            "late_growth (did you mean time_zone?)",
        ),
    ],
)
def test_impossible_windows_are_refused_in_one_line(parameters, message):
    with pytest.raises(CollectionError) as error:
        Windows.parse(parameters)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("zone", "every"), [("Europe/Berlin", "1h"), ("Asia/Kolkata", "30m"), ("Asia/Kathmandu", "5m")]
)
def test_windows_shorter_than_a_day_are_of_equal_length_and_divide_local_days(zone, every):
    setting = Windows.parse({"size": every, "time_zone": zone})
    assert setting == Windows.parse({"size": every, "every": every, "time_zone": zone})
    midnight = find_start(zone, 2026, 3, 29)
    assert setting.holding(midnight) == [(midnight, midnight + setting.size)]
    assert setting.days is None


def test_different_windows_have_different_texts():
    """A branch of the pipeline, and its state, is found by such a name."""
    parameters = [
        {}, {"week_start": "sunday"}, {"time_zone": "UTC"}, {"time_zone": "Europe/Berlin"},
        {"time_zone": "Europe/Berlin", "week_start": "sunday"},
    ]  # fmt: skip
    settings_list = [Windows.parse({"size": "1w", **options}) for options in parameters]
    assert len({str(setting) for setting in settings_list}) == len(set(settings_list)) == len(settings_list)
    assert str(settings_list[0]) == "windows of 1w every 1w, delay 2m, age 1d, early 1m"
    assert str(settings_list[-1]) == f"{settings_list[0]}, days of Europe/Berlin, weeks from sunday"
    # And so only where windows differ: a zone by which hours are shown leaves them, and their state, where they are.
    hours = Windows.parse({"size": "1h", "time_zone": "Europe/Berlin", "week_start": "sunday"})
    assert str(hours) == str(Windows())


def test_time_zone_transitions_are_pickled_with_the_windows():
    """A worker of another version of the database, or of a zone it has never heard of, finds the windows of the job."""
    setting = Windows(size=DAY_MS, every=DAY_MS, time_zone="Europe/Berlin")
    object.__setattr__(setting, "days", LocalDays(np.array([-(2**62), 10 * DAY_MS]), np.array([0, 5 * HOUR])))
    object.__setattr__(setting, "time_zone", "Moon/Tranquility")
    unpickled = pickle.loads(pickle.dumps(setting))
    assert unpickled.holding(20 * DAY_MS) == [(20 * DAY_MS - 5 * HOUR, 21 * DAY_MS - 5 * HOUR)]


def test_a_machine_without_a_time_zone_database_uses_the_package():
    """The days of twenty years that no later version corrects."""
    script = (
        "import zoneinfo; assert not zoneinfo.TZPATH; import numpy as np; from hushgram.local_days import local_days;"
        "print(local_days('Europe/Berlin').begins(np.arange(11_000, 18_000)).tolist())"
    )
    environment = {"PYTHONTZPATH": "", "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == local_days("Europe/Berlin").begins(np.arange(11_000, 18_000)).tolist()
