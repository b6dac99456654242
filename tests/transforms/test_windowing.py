"""A stream's windows: every pane is the whole truth so far, nothing accepted is lost, and the last pane is exact."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.coders import typecoders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection, Windows
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import REASONS, DeadLetter, Key
from hushgram.transforms.aggregate import AggregateReports
from hushgram.transforms.coders import DeadLetterCoder
from hushgram.transforms.sources.message_batch import MessageBatch
from hushgram.transforms.tallies import Tallies, TalliesCoder
from hushgram.transforms.windowing import AccumulatePanes, allowed_lateness, is_due, window_fn
from tests.helpers.reports import DAY, HOUR, START, compute_tallies, find_windows, make_report_rows
from tests.helpers.timers import FakeTimer

MINUTE = 60_000
FIXED = Collection(
    name="fixed", low=0, high=1, buckets=4, epsilon=1, groups=["DE", "FR"], minimum_reports=1,
    windows=Windows(max_delay=0, max_age=6 * HOUR, early=MINUTE),
)  # fmt: skip
SLIDING = Collection(
    name="sliding", low=0, high=1, buckets=4, epsilon=1, minimum_reports=1, previous=[{"epsilon": 2}],
    windows=Windows(size=3 * HOUR, every=2 * HOUR, max_delay=0, max_age=6 * HOUR, early=None),
)  # fmt: skip
SPRING = 1_774_652_400_000  # 2026-03-28, 00:00 in Berlin, where the next day has 23 hours
LOCAL_DAYS = {"time_zone": "Europe/Berlin", "max_delay": 0, "max_age": 2 * DAY, "early": None}
LOCAL = [
    Collection(name=name, low=0, high=1, buckets=4, epsilon=1, groups=["DE"], windows=Windows(**times, **LOCAL_DAYS))
    for name, times in {
        "days": {"size": DAY, "every": DAY},
        "sliding days": {"size": 3 * DAY, "every": 2 * DAY},
        "weeks": {"size": 7 * DAY, "every": 7 * DAY},
    }.items()
]
WEEKS = Collection(
    name="weeks", low=0, high=1, buckets=4, epsilon=1, windows=Windows(7 * DAY, 7 * DAY, 0, 2 * DAY, None)
)
SLIDING_WEEKS = replace(WEEKS, name="sliding weeks", windows=replace(WEEKS.windows, size=14 * DAY, week_start="sunday"))


def to_timestamp(milliseconds):
    return Timestamp(micros=1000 * milliseconds)


def make_poll(rows, received):
    messages = tuple(encode_message(REPORT, row) for row in rows)
    times = np.full(len(rows), received, dtype=np.int64)
    return TimestampedValue(MessageBatch("t[0]", np.arange(len(rows)), times, messages), to_timestamp(received))


class StreamScript:
    """A stream in which the clock, the watermark and the time of receipt go together, as in a source without delay."""

    def __init__(self, start=START):
        self.stream = Stream().advance_processing_time(start // 1000).advance_watermark_to(to_timestamp(start))
        self.now = start

    def until(self, milliseconds):
        """Quick: the watermark is there before the clock lets a trigger fire."""
        assert milliseconds > self.now
        self.stream = self.stream.advance_watermark_to(to_timestamp(milliseconds))
        self.stream = self.stream.advance_processing_time((milliseconds - self.now) / 1000)
        self.now = milliseconds
        return self

    def receive(self, *polls):
        self.stream = self.stream.add_elements([make_poll(rows, self.now) for rows in polls])
        return self


class Results:
    """The outputs, collected by a runner in this process."""

    snapshots: list = []  # noqa: RUF012
    histograms: list = []  # noqa: RUF012
    dead_letters: list = []  # noqa: RUF012
    metrics: dict = {}  # noqa: RUF012


def run_stream(script, *collections):
    """All histograms in the order in which they came, and all dead letters."""
    Results.snapshots, Results.histograms, Results.dead_letters = [], [], []
    with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as pipeline:
        outputs = pipeline | script.stream.advance_watermark_to_infinity() | AggregateReports(collections)
        outputs.snapshots | "Keep snapshots" >> beam.Map(lambda snapshot: Results.snapshots.append(snapshot))
        outputs.histograms | "Keep histograms" >> beam.Map(lambda histogram: Results.histograms.append(histogram))
        outputs.dead_letters | "Keep letters" >> beam.Map(lambda letter: Results.dead_letters.append(letter))
    Results.metrics = pipeline.result.metrics().query()
    panes = [
        Counter((item.key, item.pane, item.reports) for item in items)
        for items in (Results.snapshots, Results.histograms)
    ]
    assert panes[0] == panes[1]
    return Results.histograms, Results.dead_letters


def run_batch(rows, received, *collections):
    """The histograms of a batch run over the same messages."""
    Results.histograms = []
    with Pipeline(runner="BundleBasedDirectRunner") as pipeline:
        batches = pipeline | beam.Create([make_poll(rows, received).value])
        outputs = batches | AggregateReports(collections)
        outputs.histograms | beam.Map(lambda histogram: Results.histograms.append(histogram))
    return Results.histograms


def list_panes(histograms, group=None, start=START):
    same_window = [
        histogram for histogram in histograms if (histogram.key.group, histogram.key.window_start) == (group, start)
    ]
    return [(histogram.pane.timing, histogram.reports) for histogram in same_window]


def best_tallies(histograms):
    """Of each window the best pane, in the form of `compute_tallies`."""
    best = {}
    for histogram in histograms:
        if histogram.key not in best or histogram.rank > best[histogram.key].rank:
            best[histogram.key] = histogram
    return {
        (key.collection, key.group, key.window_start, revision): counts.tolist()
        for key, histogram in best.items()
        for revision, (_, counts) in histogram.tallies.items()
    }


def spread_times(rows, start, end):
    """The same reports, at times within some bounds."""
    rng = np.random.default_rng(1)
    return [{**row, "event_time": int(rng.integers(start, end))} for row in rows]


def test_early_on_time_and_late_panes_each_hold_all_reports_so_far():
    rows = spread_times(make_report_rows(FIXED, 40, 1), START, START + 10 * MINUTE)
    script = StreamScript().until(START + 11 * MINUTE).receive(rows[:10]).until(START + 13 * MINUTE)
    script.receive(rows[10:15], rows[15:20]).until(START + 15 * MINUTE)
    script.until(START + HOUR + MINUTE)  # nothing is new, and the on-time pane repeats the whole
    script.receive(rows[20:30]).until(START + HOUR + 3 * MINUTE).receive(rows[30:]).until(START + HOUR + 5 * MINUTE)
    histograms, letters = run_stream(script, FIXED)
    expected = [("early", 10), ("early", 20), ("on_time", 20), ("late", 30), ("late", 40)]
    assert list_panes(histograms) == expected
    assert [histogram.pane.index for histogram in histograms if histogram.key.group is None] == [0, 1, 2, 3, 4]
    so_far = {10: rows[:10], 20: rows[:20], 30: rows[:30], 40: rows}
    for histogram in histograms:
        if histogram.key.group is None:
            assert best_tallies([histogram]) == {
                k: v for k, v in compute_tallies([FIXED], so_far[histogram.reports]).items() if k[1] is None
            }
    assert best_tallies(histograms) == compute_tallies([FIXED], rows)
    assert {histogram.key.group for histogram in histograms} == {None, "DE", "FR"}
    assert not letters


def test_a_group_without_new_reports_has_no_pane_but_the_on_time_one():
    rows = [{**row, "group": "DE"} for row in spread_times(make_report_rows(FIXED, 6, 2), START, START + MINUTE)]
    rows[2:] = [{**row, "group": "FR"} for row in rows[2:]]
    script = StreamScript().until(START + 2 * MINUTE).receive(rows[:2]).until(START + 4 * MINUTE).receive(rows[2:4])
    script.until(START + 6 * MINUTE).until(START + HOUR + MINUTE).receive(rows[4:]).until(START + HOUR + 3 * MINUTE)
    histograms, _ = run_stream(script, FIXED)
    assert list_panes(histograms, "DE") == [("early", 2), ("on_time", 2)]
    assert list_panes(histograms, "FR") == [("early", 2), ("on_time", 2), ("late", 4)]
    assert list_panes(histograms) == [("early", 2), ("early", 4), ("on_time", 4), ("late", 6)]


def test_sliding_windows_without_early_panes():
    rows = make_report_rows(SLIDING, 60, 3, hours=5) + make_report_rows(
        SLIDING, 30, 4, hours=5, revision=list(SLIDING.revisions)[1]
    )
    script = StreamScript().until(START + 5 * HOUR).receive(rows[::3], rows[1::3]).until(START + 10 * HOUR)
    script.receive([row for row in rows[2::3] if row["event_time"] >= START + 4 * HOUR])
    histograms, letters = run_stream(script, SLIDING)
    accepted = [r for index, r in enumerate(rows) if index % 3 != 2 or r["event_time"] >= START + 4 * HOUR]
    assert best_tallies(histograms) == compute_tallies([SLIDING], accepted)
    assert {histogram.pane.timing for histogram in histograms} == {"on_time", "late"}
    assert not letters


def test_each_id_of_a_stream_counts_once_and_repetitions_are_letters():
    rows = spread_times(make_report_rows(FIXED, 30, 5, ids=True), START, START + 10 * MINUTE)
    script = (
        StreamScript().until(START + 11 * MINUTE).receive(rows[:20] + rows[:5], rows[10:25]).until(START + 2 * HOUR)
    )
    script.receive(rows[20:], rows[:1]).until(START + 6 * HOUR + 9 * MINUTE)
    script.receive([row for row in rows if row["event_time"] >= script.now - 6 * HOUR])
    repeated = sum(row["event_time"] >= script.now - 6 * HOUR for row in rows)
    assert repeated
    histograms, letters = run_stream(script, FIXED)
    assert best_tallies(histograms) == compute_tallies([FIXED], rows)
    assert {letter.reason for letter in letters} == {"duplicate"}
    assert sum(letter.reports for letter in letters) == 5 + 10 + 5 + 1 + repeated


def test_metrics_count_reports_refusals_panes_and_estimates():
    rows = spread_times(make_report_rows(FIXED, 30, 1, ids=True), START, START + MINUTE)
    invalid = [{**rows[0], "collection": "nobody"}, {**rows[1], "cell": 99}]
    run_stream(StreamScript().until(START + MINUTE).receive(rows, rows[:5] + invalid).until(START + 2 * HOUR), FIXED)
    counters = {metric.key.metric.name: 0 for metric in Results.metrics["counters"]}
    for metric in Results.metrics["counters"]:
        counters[metric.key.metric.name] += metric.committed
    refused = {name: count for name, count in counters.items() if name.startswith("refused_")}
    assert refused == {"refused_duplicate": 5, "refused_unknown_collection": 1, "refused_cell_out_of_range": 1}
    assert counters["read"] == counters["accepted"] + sum(refused.values()) == 37
    timings = Counter(snapshot.pane.timing for snapshot in Results.snapshots)
    assert {name: counters[f"{name}_panes"] for name in timings} == timings
    assert counters["estimated"] == timings.total()
    distributions = {metric.key.metric.name: metric.committed for metric in Results.metrics["distributions"]}
    assert distributions["ids_in_shard"].max >= 1
    assert distributions["estimate_ms"].count >= 1


def test_an_id_is_known_to_the_last_millisecond_and_too_old_after_it():
    """With no delay the watermark is the time of receipt: no gap may lie between forgetting and being too old."""
    for event in (START, START + 1, START + FIXED.windows.max_age // 8 - 1):
        [row] = spread_times(make_report_rows(FIXED, 1, 6, ids=True), event, event + 1)
        script = StreamScript().until(event + 2).receive([row]).until(event + 6 * HOUR).receive([row])
        script.until(event + 6 * HOUR + 1).receive([row])
        histograms, letters = run_stream(script, FIXED)
        assert [letter.reason for letter in letters] == ["duplicate", "too_old"]
        assert best_tallies(histograms) == compute_tallies([FIXED], [row])


def test_reports_that_are_too_old_or_from_the_future_are_letters_to_the_millisecond():
    now, oldest = START + 8 * HOUR, START + 2 * HOUR
    base = make_report_rows(FIXED, 4, 7)
    times = (oldest, oldest - 1, now + 300_000, now + 300_001)
    rows = [{**row, "event_time": time} for row, time in zip(base, times, strict=True)]
    histograms, letters = run_stream(StreamScript().until(now).receive(rows), FIXED)
    assert {letter.reason: (letter.reports, letter.received_at) for letter in letters} == {
        "too_old": (1, now),
        "from_the_future": (1, now),
    }
    assert best_tallies(histograms) == compute_tallies([FIXED], [rows[0], rows[2]])


@pytest.mark.parametrize("setting", [Windows(max_delay=0, max_age=0), SLIDING.windows, Windows(1001, 1001, 0, 1, None)])
def test_the_engine_drops_nothing_that_was_accepted(setting):
    """The oldest report that counts comes at every place in its window; the watermark is as far as it can be."""
    collection = replace(FIXED, windows=setting)
    script, accepted, refused = StreamScript(), [], 0
    for position in (0, 1, setting.every // 2, setting.every - 1):
        [row] = spread_times(
            make_report_rows(collection, 1, position, ids=position == 1), START + position, START + position + 1
        )
        script.until(max(script.now + 1, START + position + setting.max_age)).receive([row])
        if script.now - row["event_time"] <= setting.max_age:
            accepted.append(row)
        else:
            refused += 1
    histograms, letters = run_stream(script, collection)
    assert best_tallies(histograms) == compute_tallies([collection], accepted)
    assert len(accepted) >= 2
    assert sum(letter.reports for letter in letters) == refused


@pytest.mark.slow
@pytest.mark.parametrize("collections", [LOCAL, [WEEKS, SLIDING_WEEKS]], ids=["in Berlin", "in UTC"])
def test_days_and_weeks_are_the_same_in_batch_and_stream_whatever_the_clocks_do(collections):
    """Reports of five days with a change to summer time in them; a third of them is a day late."""
    rng = np.random.default_rng(3)
    rows = [
        {**row, "event_time": int(SPRING + rng.integers(-DAY, 4 * DAY))}
        for seed, collection in enumerate(collections)
        for row in make_report_rows(collection, 60, seed, ids=True)
    ]
    edges = {edge for row in rows for edge in find_windows(collections[0].windows, row["event_time"])[0]}
    at_edges = [{**rows[0], "event_time": edge - step, "id": None} for edge in edges for step in (0, 1)]
    rows += [row for row in at_edges if SPRING - DAY <= row["event_time"] < SPRING + 4 * DAY]
    arrivals = [row["event_time"] + (DAY if index % 3 == 0 else 0) for index, row in enumerate(rows)]
    script = StreamScript(SPRING - DAY)
    while script.now < SPRING + 5 * DAY:
        before = script.now
        script.until(before + 12 * HOUR)
        script.receive([row for row, arrival in zip(rows, arrivals, strict=True) if before <= arrival < script.now])
    expected = compute_tallies(collections, rows)
    histograms, letters = run_stream(script, *collections)
    assert not letters
    assert best_tallies(histograms) == expected
    assert {histogram.pane.timing for histogram in histograms} == {"on_time", "late"}
    batch = run_batch(rows, SPRING + 4 * DAY, *(_without_age(collection) for collection in collections))
    assert best_tallies(batch) == expected
    for collection in collections:
        times = [row["event_time"] for row in rows if row["collection"] == collection.name]
        own = {window for time in times for window in find_windows(collection.windows, time)}
        for found in (histograms, batch):
            keys = {histogram.key for histogram in found if histogram.key.collection == collection.name}
            assert {(key.window_start, key.window_end) for key in keys} == own


def _without_age(collection):
    return replace(collection, windows=replace(collection.windows, max_age=30 * DAY))


def test_collections_with_other_windows_do_not_disturb_each_other():
    rows = make_report_rows(FIXED, 50, 8, hours=3, ids=True) + make_report_rows(SLIDING, 50, 9, hours=3)
    order = np.random.default_rng(2).permutation(len(rows))
    script = StreamScript()
    for hour in range(1, 4):
        script.until(START + hour * HOUR)
        script.receive([rows[i] for i in order if (hour - 1) * HOUR <= rows[i]["event_time"] - START < hour * HOUR])
    histograms, letters = run_stream(script, FIXED, SLIDING)
    assert best_tallies(histograms) == compute_tallies([FIXED, SLIDING], rows)
    assert not letters


def test_a_time_zone_of_hourly_windows_does_not_move_them():
    zoned = replace(FIXED, name="shown", windows=replace(FIXED.windows, time_zone="Europe/Berlin"))
    rows = make_report_rows(FIXED, 20, 1, hours=2) + make_report_rows(zoned, 20, 2, hours=2)
    histograms, _ = run_stream(StreamScript().until(START + 2 * HOUR).receive(rows), FIXED, zoned)
    assert best_tallies(histograms) == compute_tallies([FIXED, zoned], rows)
    zones = {(snapshot.key.collection, snapshot.time_zone) for snapshot in Results.snapshots}
    assert zones == {("fixed", None), ("shown", "Europe/Berlin")}


class FakeTallyState:
    def __init__(self):
        self.value = None

    def read(self):
        return None if self.value is None else TalliesCoder().decode(self.value)

    def write(self, value):
        self.value = TalliesCoder().encode(value)

    def clear(self):
        self.value = None


REVISION = FIXED.revision
TIMINGS = ["early", "on_time", "late"]
KEY = Key("fixed", None, START, START + HOUR)


def make_tallies(*counts):
    return Tallies({REVISION: (sum(counts), np.array(counts, dtype=np.int64))})


class FakeState:
    value = None

    def read(self):
        return self.value

    def write(self, value):
        coder = AccumulatePanes.HELD.coder
        self.value = coder.decode(coder.encode(value))

    def clear(self):
        self.value = None


class PlayedWindow:
    """`AccumulatePanes` for one window, and what came out of it."""

    def __init__(self, growth=0.0):
        self.fn = AccumulatePanes(lateness_ms=MINUTE, late_growth=growth)
        self.total, self.held, self.timer = FakeTallyState(), FakeState(), FakeTimer()

    def add(self, index, timing, delta):
        return list(self.fn.process((KEY, (index, timing, delta)), self.total, self.held, self.timer))

    def expire(self):
        return list(self.fn.forget(KEY, self.total, self.held))


deltas_of_panes = st.lists(st.tuples(st.sampled_from(TIMINGS), st.integers(0, 2), st.integers(0, 2)), max_size=8)


@given(deltas_of_panes)
def test_panes_only_grow_and_empty_panes_are_dropped_unless_on_time(deltas):
    played, total = PlayedWindow(), np.zeros(2, dtype=np.int64)
    for index, (timing, *new) in enumerate(deltas):
        previous_total, delta = total.copy(), make_tallies(*new) if sum(new) else Tallies()
        total = total + new
        outputs = played.add(index, timing, delta)
        if sum(new) or (previous_total.sum() and timing == "on_time"):
            [(key, (same_index, same_timing, whole))] = outputs
            assert (key, same_index, same_timing) == (KEY, index, timing)
            assert (whole.reports, whole.parts[REVISION][1].tolist()) == (total.sum(), total.tolist())
            whole.parts[REVISION][1][:] = 99  # changing the output must not change the state
        else:
            assert outputs == []
        assert sum(new) == 0 or delta.parts[REVISION][1].tolist() == new
    # The state expires when no acceptable report can come any more, and not before.
    assert played.timer.times == ([to_timestamp(START + HOUR + MINUTE)] if total.sum() else [])
    assert played.expire() == []
    assert (played.total.read(), played.held.read()) == (None, None)


@given(deltas_of_panes, st.sampled_from([0.0, 0.01, 0.3, 1.0]))
def test_late_panes_come_with_growth_and_the_last_pane_has_every_report(deltas, growth):
    played, total, shown = PlayedWindow(growth), np.zeros(2, dtype=np.int64), 0
    for index, (timing, *new) in enumerate(deltas):
        total = total + new
        outputs = played.add(index, timing, make_tallies(*new) if sum(new) else Tallies())
        for _, (same_index, same_timing, whole) in outputs:
            assert (same_index, same_timing, whole.parts[REVISION][1].tolist()) == (index, timing, total.tolist())
            shown = whole.reports
        if sum(new) and not outputs:  # held back: late, and grown by less than the share
            assert timing == "late"
            assert total.sum() - shown < growth * shown
    last = played.expire()
    assert len(last) == (shown < total.sum())
    for key, (index, timing, whole) in last:
        assert (key, timing, whole.parts[REVISION][1].tolist()) == (KEY, "late", total.tolist())
        assert index == max(i for i, (_, *new) in enumerate(deltas) if sum(new))
    assert (played.total.read(), played.held.read()) == (None, None)


counts_of_reports = st.integers(0, 2**53)


@given(st.sampled_from(TIMINGS), counts_of_reports, st.integers(1, 2**53), st.floats(0, 1))
def test_a_pane_is_due_unless_it_is_late_and_has_grown_too_little(timing, shown, new, growth):
    due = is_due(timing, shown, shown + new, growth)
    assert due or timing == "late"
    assert due == (timing != "late" or new >= Fraction(growth) * shown) or math.isclose(new, growth * shown)
    assert is_due(timing, shown, shown + new, 0.0)
    assert is_due(timing, 0, new, growth)
    assert is_due(timing, shown, shown + new + 1, growth) or not due


def test_state_of_a_version_that_held_nothing_back_goes_on():
    """Such a savepoint has the total alone, and all of it was shown."""
    played = PlayedWindow(growth=0.1)
    played.total.write(make_tallies(50, 50))
    assert played.add(7, "late", make_tallies(0, 9)) == []
    [(_, (index, _, whole))] = played.add(8, "late", make_tallies(1, 0))
    assert (index, whole.reports) == (8, 110)
    assert played.expire() == []


@pytest.mark.parametrize("early", [MINUTE, None])
def test_a_stream_holds_late_panes_back_and_shows_everything_when_a_window_expires(early):
    windows = replace(FIXED.windows, late_growth=0.2, early=early)
    collection = replace(FIXED, groups=(), windows=windows)
    rows = spread_times(make_report_rows(collection, 30, 1), START, START + 10 * MINUTE)
    script = StreamScript().until(START + 11 * MINUTE).receive(rows[:10]).until(START + HOUR + MINUTE)
    for minute, (first, last) in enumerate([(10, 11), (11, 12), (12, 14), (14, 15)]):
        script.until(START + HOUR + (3 + 2 * minute) * MINUTE).receive(rows[first:last])
    script.until(START + 3 * HOUR)
    histograms, letters = run_stream(script, collection)
    assert list_panes(histograms) == [("on_time", 10), ("late", 12), ("late", 15)]
    assert best_tallies(histograms) == compute_tallies([collection], rows[:15])
    assert not letters


@pytest.mark.parametrize(
    ("size", "every"),
    [(1, 1), (1001, 1001), (86_399_999, 86_399_999), (1003, 1), (1005, 1003), (16_777_210, 8_388_605), (HOUR, 1001)],
)
def test_windows_are_exact_to_the_millisecond(size, every):
    setting = Windows(size=size, every=every if size // math.gcd(size, every) <= 10_000 else every - 1)
    rng = np.random.default_rng(size)
    for time in [START, START - 1, -1, 0, *rng.integers(-START, START, 3).tolist()]:
        slice_start = time // setting.slice * setting.slice
        windows = window_fn(setting).assign(WindowFn.AssignContext(to_timestamp(slice_start)))
        edges = {(window.start.micros, window.end.micros) for window in windows}
        starts = range(time // setting.every * setting.every, time - size, -setting.every)
        assert edges == {(1000 * start, 1000 * (start + size)) for start in starts}
        assert len(windows) == len(edges)
        assert {(1000 * start, 1000 * end) for start, end in setting.holding(time)} == edges
        assert setting.holding(time) == setting.holding(slice_start)


def test_lateness_covers_the_oldest_report_and_one_window():
    assert allowed_lateness(FIXED.windows) >= FIXED.windows.max_age + FIXED.windows.size
    assert isinstance(window_fn(FIXED.windows), FixedWindows)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
longs = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, START, -(2**63), 2**63 - 1]))


@settings(max_examples=200, deadline=None)
@given(
    st.builds(
        DeadLetter,
        reason=st.sampled_from(REASONS),
        reports=st.none() | st.integers(0, 2**63 - 1),
        detail=texts,
        source=texts,
        position=st.none() | longs,
        received_at=st.one_of(st.integers(0, 2 * START), longs),
        payload=st.binary(max_size=50),
    )
)
def test_dead_letters_survive_a_round_trip_through_their_coder(letter):
    coder = typecoders.registry.get_coder(DeadLetter)
    assert isinstance(coder, DeadLetterCoder)
    assert coder.decode(coder.encode(letter)) == letter


def test_long_payloads_of_dead_letters_are_cut_by_their_coder():
    coder = DeadLetterCoder()
    letter = DeadLetter("too_large", None, "", "", 1, START, bytes(10_000))
    assert Counter(coder.decode(coder.encode(letter)).payload) == {0: 4096}
