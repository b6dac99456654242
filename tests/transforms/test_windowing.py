"""A stream's windows: every pane is the whole truth so far, nothing accepted is lost, and the last pane is exact."""

import math
from collections import Counter
from dataclasses import replace

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
from hushgram.transforms.windowing import AccumulatePanes, allowed_lateness, window_fn
from tests.helpers.reports import DAY, HOUR, START, compute_tallies, find_windows, make_report_rows

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


def at(milliseconds):
    return Timestamp(micros=1000 * milliseconds)


def poll(rows, received):
    messages = tuple(encode_message(REPORT, row) for row in rows)
    times = np.full(len(rows), received, dtype=np.int64)
    return TimestampedValue(MessageBatch("t[0]", np.arange(len(rows)), times, messages), at(received))


class Script:
    """A stream in which the clock, the watermark and the time of receipt go together, as in a source without delay."""

    def __init__(self, start=START):
        self.stream = Stream().advance_processing_time(start // 1000).advance_watermark_to(at(start))
        self.now = start

    def until(self, milliseconds):
        """Quick: the watermark is there before the clock lets a trigger fire."""
        assert milliseconds > self.now
        self.stream = self.stream.advance_watermark_to(at(milliseconds))
        self.stream = self.stream.advance_processing_time((milliseconds - self.now) / 1000)
        self.now = milliseconds
        return self

    def receive(self, *polls):
        self.stream = self.stream.add_elements([poll(rows, self.now) for rows in polls])
        return self


class Kept:
    """What came out, by hand of a runner in this process."""

    snapshots: list = []  # noqa: RUF012
    histograms: list = []  # noqa: RUF012
    dead_letters: list = []  # noqa: RUF012
    metrics: dict = {}  # noqa: RUF012


def run(script, *collections):
    """All histograms in the order in which they came, and all dead letters."""
    Kept.snapshots, Kept.histograms, Kept.dead_letters = [], [], []
    with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as pipeline:
        out = pipeline | script.stream.advance_watermark_to_infinity() | AggregateReports(collections)
        out.snapshots | "Keep snapshots" >> beam.Map(lambda snapshot: Kept.snapshots.append(snapshot))
        out.histograms | "Keep histograms" >> beam.Map(lambda histogram: Kept.histograms.append(histogram))
        out.dead_letters | "Keep letters" >> beam.Map(lambda letter: Kept.dead_letters.append(letter))
    Kept.metrics = pipeline.result.metrics().query()
    panes = [Counter((one.key, one.pane, one.reports) for one in some) for some in (Kept.snapshots, Kept.histograms)]
    assert panes[0] == panes[1]
    return Kept.histograms, Kept.dead_letters


def run_batch(rows, received, *collections):
    """The histograms of a batch run over the same messages."""
    Kept.histograms = []
    with Pipeline(runner="BundleBasedDirectRunner") as pipeline:
        read = pipeline | beam.Create([poll(rows, received).value])
        out = read | AggregateReports(collections)
        out.histograms | beam.Map(lambda histogram: Kept.histograms.append(histogram))
    return Kept.histograms


def panes_of(histograms, group=None, start=START):
    same_window = [one for one in histograms if (one.key.group, one.key.window_start) == (group, start)]
    return [(one.pane.timing, one.reports) for one in same_window]


def last(histograms):
    """Of each window the best pane, as exact_tallies tells them."""
    best = {}
    for one in histograms:
        if one.key not in best or one.rank > best[one.key].rank:
            best[one.key] = one
    return {
        (key.collection, key.group, key.window_start, revision): counts.tolist()
        for key, one in best.items()
        for revision, (_, counts) in one.tallies.items()
    }


def within(rows, start, end):
    """The same reports, at times within some bounds."""
    rng = np.random.default_rng(1)
    return [{**row, "event_time": int(rng.integers(start, end))} for row in rows]


def test_early_on_time_and_late_panes_are_each_the_whole_truth_so_far():
    rows = within(make_report_rows(FIXED, 40, 1), START, START + 10 * MINUTE)
    script = Script().until(START + 11 * MINUTE).receive(rows[:10]).until(START + 13 * MINUTE)
    script.receive(rows[10:15], rows[15:20]).until(START + 15 * MINUTE)
    script.until(START + HOUR + MINUTE)  # nothing is new, and the on-time pane repeats the whole
    script.receive(rows[20:30]).until(START + HOUR + 3 * MINUTE).receive(rows[30:]).until(START + HOUR + 5 * MINUTE)
    histograms, letters = run(script, FIXED)
    expected = [("early", 10), ("early", 20), ("on_time", 20), ("late", 30), ("late", 40)]
    assert panes_of(histograms) == expected
    assert [one.pane.index for one in histograms if one.key.group is None] == [0, 1, 2, 3, 4]
    so_far = {10: rows[:10], 20: rows[:20], 30: rows[:30], 40: rows}
    for one in histograms:
        if one.key.group is None:
            assert last([one]) == {
                k: v for k, v in compute_tallies([FIXED], so_far[one.reports]).items() if k[1] is None
            }
    assert last(histograms) == compute_tallies([FIXED], rows)
    assert {one.key.group for one in histograms} == {None, "DE", "FR"}
    assert not letters


def test_a_group_that_says_nothing_new_has_no_pane_but_the_on_time_one():
    rows = [{**row, "group": "DE"} for row in within(make_report_rows(FIXED, 6, 2), START, START + MINUTE)]
    rows[2:] = [{**row, "group": "FR"} for row in rows[2:]]
    script = Script().until(START + 2 * MINUTE).receive(rows[:2]).until(START + 4 * MINUTE).receive(rows[2:4])
    script.until(START + 6 * MINUTE).until(START + HOUR + MINUTE).receive(rows[4:]).until(START + HOUR + 3 * MINUTE)
    histograms, _ = run(script, FIXED)
    assert panes_of(histograms, "DE") == [("early", 2), ("on_time", 2)]
    assert panes_of(histograms, "FR") == [("early", 2), ("on_time", 2), ("late", 4)]
    assert panes_of(histograms) == [("early", 2), ("early", 4), ("on_time", 4), ("late", 6)]


def test_sliding_windows_without_early_panes():
    rows = make_report_rows(SLIDING, 60, 3, hours=5) + make_report_rows(
        SLIDING, 30, 4, hours=5, revision=list(SLIDING.revisions)[1]
    )
    script = Script().until(START + 5 * HOUR).receive(rows[::3], rows[1::3]).until(START + 10 * HOUR)
    script.receive([row for row in rows[2::3] if row["event_time"] >= START + 4 * HOUR])
    histograms, letters = run(script, SLIDING)
    counted = [r for i, r in enumerate(rows) if i % 3 != 2 or r["event_time"] >= START + 4 * HOUR]
    assert last(histograms) == compute_tallies([SLIDING], counted)
    assert {one.pane.timing for one in histograms} == {"on_time", "late"}
    assert not letters


def test_each_id_counts_once_and_the_others_are_letters():
    rows = within(make_report_rows(FIXED, 30, 5, ids=True), START, START + 10 * MINUTE)
    script = Script().until(START + 11 * MINUTE).receive(rows[:20] + rows[:5], rows[10:25]).until(START + 2 * HOUR)
    script.receive(rows[20:], rows[:1]).until(START + 6 * HOUR + 9 * MINUTE)
    script.receive([row for row in rows if row["event_time"] >= script.now - 6 * HOUR])
    again = sum(row["event_time"] >= script.now - 6 * HOUR for row in rows)
    assert again
    histograms, letters = run(script, FIXED)
    assert last(histograms) == compute_tallies([FIXED], rows)
    assert {letter.reason for letter in letters} == {"duplicate"}
    assert sum(letter.reports for letter in letters) == 5 + 10 + 5 + 1 + again


def test_everything_is_counted_as_it_goes():
    rows = within(make_report_rows(FIXED, 30, 1, ids=True), START, START + MINUTE)
    odd = [{**rows[0], "collection": "nobody"}, {**rows[1], "cell": 99}]
    run(Script().until(START + MINUTE).receive(rows, rows[:5] + odd).until(START + 2 * HOUR), FIXED)
    counters = {found.key.metric.name: 0 for found in Kept.metrics["counters"]}
    for found in Kept.metrics["counters"]:
        counters[found.key.metric.name] += found.committed
    refused = {name: count for name, count in counters.items() if name.startswith("refused_")}
    assert refused == {"refused_duplicate": 5, "refused_unknown_collection": 1, "refused_cell_out_of_range": 1}
    assert counters["read"] == counters["accepted"] + sum(refused.values()) == 37
    timings = Counter(snapshot.pane.timing for snapshot in Kept.snapshots)
    assert {name: counters[f"{name}_panes"] for name in timings} == timings
    assert counters["estimated"] == timings.total()
    spread = {found.key.metric.name: found.committed for found in Kept.metrics["distributions"]}
    assert spread["ids_in_shard"].max >= 1
    assert spread["estimate_ms"].count >= 1


def test_an_id_is_known_to_the_last_millisecond_and_too_old_after_it():
    """With no delay the watermark is the time of receipt: no gap may lie between forgetting and being too old."""
    for event in (START, START + 1, START + FIXED.windows.max_age // 8 - 1):
        [row] = within(make_report_rows(FIXED, 1, 6, ids=True), event, event + 1)
        script = Script().until(event + 2).receive([row]).until(event + 6 * HOUR).receive([row])
        script.until(event + 6 * HOUR + 1).receive([row])
        histograms, letters = run(script, FIXED)
        assert [letter.reason for letter in letters] == ["duplicate", "too_old"]
        assert last(histograms) == compute_tallies([FIXED], [row])


def test_what_is_too_old_or_from_the_future_is_a_letter_to_the_millisecond():
    now, oldest = START + 8 * HOUR, START + 2 * HOUR
    base = make_report_rows(FIXED, 4, 7)
    times = (oldest, oldest - 1, now + 300_000, now + 300_001)
    rows = [{**row, "event_time": time} for row, time in zip(base, times, strict=True)]
    histograms, letters = run(Script().until(now).receive(rows), FIXED)
    assert {letter.reason: (letter.reports, letter.received_at) for letter in letters} == {
        "too_old": (1, now),
        "from_the_future": (1, now),
    }
    assert last(histograms) == compute_tallies([FIXED], [rows[0], rows[2]])


@pytest.mark.parametrize("setting", [Windows(max_delay=0, max_age=0), SLIDING.windows, Windows(1001, 1001, 0, 1, None)])
def test_the_engine_drops_nothing_that_was_accepted(setting):
    """The oldest report that counts comes at every place in its window; the watermark is as far as it can be."""
    collection = replace(FIXED, windows=setting)
    script, accepted, refused = Script(), [], 0
    for place in (0, 1, setting.every // 2, setting.every - 1):
        [row] = within(make_report_rows(collection, 1, place, ids=place == 1), START + place, START + place + 1)
        script.until(max(script.now + 1, START + place + setting.max_age)).receive([row])
        if script.now - row["event_time"] <= setting.max_age:
            accepted.append(row)
        else:
            refused += 1
    histograms, letters = run(script, collection)
    assert last(histograms) == compute_tallies([collection], accepted)
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
    script = Script(SPRING - DAY)
    while script.now < SPRING + 5 * DAY:
        before = script.now
        script.until(before + 12 * HOUR)
        script.receive([row for row, when in zip(rows, arrivals, strict=True) if before <= when < script.now])
    expected = compute_tallies(collections, rows)
    histograms, letters = run(script, *collections)
    assert not letters
    assert last(histograms) == expected
    assert {one.pane.timing for one in histograms} == {"on_time", "late"}
    batch = run_batch(rows, SPRING + 4 * DAY, *(_without_age(collection) for collection in collections))
    assert last(batch) == expected
    for collection in collections:
        times = [row["event_time"] for row in rows if row["collection"] == collection.name]
        own = {window for time in times for window in find_windows(collection.windows, time)}
        for found in (histograms, batch):
            keys = {one.key for one in found if one.key.collection == collection.name}
            assert {(key.window_start, key.window_end) for key in keys} == own


def _without_age(collection):
    return replace(collection, windows=replace(collection.windows, max_age=30 * DAY))


def test_collections_with_other_windows_do_not_disturb_each_other():
    rows = make_report_rows(FIXED, 50, 8, hours=3, ids=True) + make_report_rows(SLIDING, 50, 9, hours=3)
    order = np.random.default_rng(2).permutation(len(rows))
    script = Script()
    for hour in range(1, 4):
        script.until(START + hour * HOUR)
        script.receive([rows[i] for i in order if (hour - 1) * HOUR <= rows[i]["event_time"] - START < hour * HOUR])
    histograms, letters = run(script, FIXED, SLIDING)
    assert last(histograms) == compute_tallies([FIXED, SLIDING], rows)
    assert not letters


def test_a_zone_by_which_hours_are_shown_leaves_them_where_they_are():
    shown = replace(FIXED, name="shown", windows=replace(FIXED.windows, time_zone="Europe/Berlin"))
    rows = make_report_rows(FIXED, 20, 1, hours=2) + make_report_rows(shown, 20, 2, hours=2)
    histograms, _ = run(Script().until(START + 2 * HOUR).receive(rows), FIXED, shown)
    assert last(histograms) == compute_tallies([FIXED, shown], rows)
    zones = {(snapshot.key.collection, snapshot.time_zone) for snapshot in Kept.snapshots}
    assert zones == {("fixed", None), ("shown", "Europe/Berlin")}


class Value:
    def __init__(self):
        self.value = None

    def read(self):
        return None if self.value is None else TalliesCoder().decode(self.value)

    def write(self, value):
        self.value = TalliesCoder().encode(value)

    def clear(self):
        self.value = None


class Timer:
    def __init__(self):
        self.times = []

    def set(self, when):
        self.times.append(when)


REVISION = FIXED.revision
TIMINGS = ["early", "on_time", "late"]
KEY = Key("fixed", None, START, START + HOUR)


def tallies(*counts):
    return Tallies({REVISION: (sum(counts), np.array(counts, dtype=np.int64))})


@given(st.lists(st.tuples(st.sampled_from(TIMINGS), st.integers(0, 2), st.integers(0, 2)), max_size=8))
def test_panes_only_grow_and_empty_ones_say_nothing_unless_on_time(deltas):
    state, timer, total, fn = Value(), Timer(), np.zeros(2, dtype=np.int64), AccumulatePanes(lateness_ms=MINUTE)
    for index, (timing, *new) in enumerate(deltas):
        given_total, delta = total.copy(), tallies(*new) if sum(new) else Tallies()
        total = total + new
        out = list(fn.process((KEY, (index, timing, delta)), state, timer))
        if sum(new) or (given_total.sum() and timing == "on_time"):
            [(key, (same_index, same_timing, whole))] = out
            assert (key, same_index, same_timing) == (KEY, index, timing)
            assert (whole.reports, whole.parts[REVISION][1].tolist()) == (total.sum(), total.tolist())
            whole.parts[REVISION][1][:] = 99  # what was handed on is not the state
        else:
            assert out == []
        assert sum(new) == 0 or delta.parts[REVISION][1].tolist() == new
    # The state goes when nothing that is accepted can come any more, and not before.
    assert timer.times == ([at(START + HOUR + MINUTE)] if total.sum() else [])
    fn.forget(state)
    assert state.read() is None


@pytest.mark.parametrize(
    ("size", "every"),
    [(1, 1), (1001, 1001), (86_399_999, 86_399_999), (1003, 1), (1005, 1003), (16_777_210, 8_388_605), (HOUR, 1001)],
)
def test_windows_are_exact_to_the_millisecond(size, every):
    setting = Windows(size=size, every=every if size // math.gcd(size, every) <= 10_000 else every - 1)
    rng = np.random.default_rng(size)
    for when in [START, START - 1, -1, 0, *rng.integers(-START, START, 3).tolist()]:
        slice_start = when // setting.slice * setting.slice
        found = window_fn(setting).assign(WindowFn.AssignContext(at(slice_start)))
        edges = {(one.start.micros, one.end.micros) for one in found}
        starts = range(when // setting.every * setting.every, when - size, -setting.every)
        assert edges == {(1000 * start, 1000 * (start + size)) for start in starts}
        assert len(found) == len(edges)
        assert {(1000 * start, 1000 * end) for start, end in setting.holding(when)} == edges
        assert setting.holding(when) == setting.holding(slice_start)


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
def test_letters_come_back_from_their_coder(letter):
    coder = typecoders.registry.get_coder(DeadLetter)
    assert isinstance(coder, DeadLetterCoder)
    assert coder.decode(coder.encode(letter)) == letter


def test_long_payloads_are_cut_on_the_way():
    coder = DeadLetterCoder()
    letter = DeadLetter("too_large", None, "", "", 1, START, bytes(10_000))
    assert Counter(coder.decode(coder.encode(letter)).payload) == {0: 4096}
