"""Sizing: the arithmetic obeys its laws, bytes are those of the real encoders, and simulated runs agree."""

import itertools
import json
import math
import re
from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.sizing import __main__ as command
from benchmarks.sizing import check, source
from benchmarks.sizing.costs import Costs, estimates
from benchmarks.sizing.load import DAY, HELD, Load, count_files, growing_panes, panes_within
from benchmarks.sizing.model import build_row, limits
from benchmarks.sizing.sizes import (
    PRODUCED_TOGETHER,
    cells_of,
    id_bytes,
    id_memory,
    message_bytes,
    messages_of,
    record_bytes,
    sizes,
    tally_bytes,
    tally_of,
)
from benchmarks.sizing.spread import spread
from benchmarks.sizing.tables import (
    LINES,
    bytes_table,
    costs_table,
    estimates_table,
    format_table,
    limits_table,
    rows_table,
    spread_table,
)
from hushgram import Collection, Windows
from hushgram.schemas.messages import decode_message, encode_message
from hushgram.schemas.records import Events
from hushgram.transforms import folding
from hushgram.transforms.seen_ids import SeenIds
from hushgram.transforms.sinks.iceberg import AT_ONCE_STREAM
from hushgram.transforms.tallies import CombineTallies, Tallies, TalliesCoder
from hushgram.transforms.uploads import SHARDS

pytestmark = pytest.mark.slow

DOC = Path(__file__).parents[2] / "docs" / "sizing.md"
SMALL = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, groups=("DE", "FR", "US"))
COSTS = Costs(
    call=1e-3,
    held=0.5,
    message=3e-6,
    piece=2e-4,
    merge=7e-6,
    pane=3e-3,
    estimate_alone=0.2,
    estimate_together=0.1,
    pane_files=(("avro", 15_000, 3000),),
)
OTHER_COSTS = replace(
    COSTS,
    **{one.name: 3 * getattr(COSTS, one.name) for one in fields(Costs) if one.name != "pane_files"},
    pane_files=(("avro", 1, 1),),
)


def build_row_of(load, costs=COSTS):
    return build_row(load, sizes(load), costs)


def with_groups(number):
    return replace(SMALL, groups=tuple(f"g{number_of_group:04d}" for number_of_group in range(number)))


def with_windows(**changes):
    return replace(SMALL, windows=replace(SMALL.windows, **changes))


loads = st.builds(
    Load,
    st.builds(with_groups, st.integers(0, 20)),
    devices=st.integers(10**3, 10**10),
    batch=st.sampled_from([1, 10, 1000]),
    ids=st.booleans(),
    late=st.just(0.0) | st.floats(1e-9, 0.5),  # below it no share is meant, and products lose their digits
    peak=st.floats(1, 24),
    partitions=st.integers(1, 64),
    slots=st.integers(1, 32),
)


# Laws ----------------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(loads)
def test_twice_the_devices_double_every_linear_cost(load):
    one, two = build_row_of(load), build_row_of(replace(load, devices=2 * load.devices))
    linear = ["reports_a_day", "messages_a_day", "messages_a_second", "bytes_a_second", "kept_a_day", "ids_memory"]
    for name in linear:
        assert getattr(two, name) == pytest.approx(2 * getattr(one, name)), name
    calls = load.calls * COSTS.call
    assert two.source_cores - calls == pytest.approx(2 * (one.source_cores - calls))


@settings(max_examples=50, deadline=None)
@given(loads, st.integers(2, 100))
def test_packing_divides_messages_and_ids_and_leaves_reports(load, k):
    single, packed = replace(load, batch=1), replace(load, batch=k)
    assert packed.messages_a_day * k == pytest.approx(single.messages_a_day)
    assert packed.messages * k == pytest.approx(single.messages)
    assert packed.ids_alive * k == pytest.approx(single.ids_alive)
    assert packed.reports_a_day == single.reports_a_day
    assert packed.window_reports(of_group=False) == pytest.approx(single.window_reports(of_group=False))


@settings(max_examples=50, deadline=None)
@given(loads, st.integers(2, 1000))
def test_the_state_of_a_key_grows_with_devices_up_to_a_bound_that_does_not(load, times):
    few, many = sizes(load), sizes(replace(load, devices=times * load.devices))
    assert few.state_of_all <= many.state_of_all <= many.state_at_most == few.state_at_most
    assert few.state_of_group <= few.state_of_all


def test_the_state_of_a_key_is_the_same_while_its_counts_have_as_many_bytes():
    states = {tally_bytes(SMALL, reports) for reports in (10**6, 2 * 10**6, 3 * 10**6)}
    assert len(states) == 1


@settings(max_examples=50, deadline=None)
@given(loads, st.integers(1, 20))
def test_more_groups_are_more_of_everything_behind_the_source(load, more):
    few, many = build_row_of(load), build_row_of(replace(load, collection=with_groups(load.groups + more)))
    for name in ("keys_alive", "panes_a_day", "panes_without_growth", "estimates_a_second"):
        assert getattr(few, name) <= getattr(many, name) * (1 + 1e-9), name
    # Not so the bytes of tallies: of fewer reports in a group, a count may take a byte less.
    assert many.tallies_state <= many.keys_alive * sizes(load).state_at_most
    assert few.source_cores == many.source_cores


@settings(max_examples=50, deadline=None)
@given(loads)
def test_without_ids_there_is_no_cost_of_ids(load):
    without = build_row_of(replace(load, ids=False))
    assert (without.ids_cores, without.ids_state, without.shard_state, without.ids_memory) == (0, 0, 0, 0)
    assert message_bytes(replace(load, ids=True)) - message_bytes(replace(load, ids=False)) == 16
    assert not any("ids" in limit.what for limit in limits(replace(load, ids=False), sizes(load), COSTS, 1e9))


@settings(max_examples=100, deadline=None)
@given(loads)
def test_a_partial_takes_an_upload_and_a_bundle_has_one_for_each_key_and_slice(load):
    for late, of_group in itertools.product([False, True], repeat=2):
        share = load.late if late else 1 - load.late
        partials = load.partials(late, of_group)
        assert partials <= share * load.messages * (1 + 1e-9)
        if not load.ids:
            slices = load.late_slices if late else 1
            assert partials <= load.calls * slices * (load.groups if of_group else 1) * (1 + 1e-9)
    assert load.calls <= load.slots / HELD


@settings(max_examples=100, deadline=None)
@given(loads, st.floats(1, 40 * 86_400), st.floats(1, 40 * 86_400))
def test_no_span_has_more_messages_than_the_busiest_hour_and_no_day_more_than_a_day(load, one, other):
    assert load.most_messages(one) <= load.messages * one * (1 + 1e-9)
    assert load.most_messages(86_400 * 3) == pytest.approx(3 * load.messages_a_day)
    assert load.most_messages(min(one, other)) <= load.most_messages(max(one, other)) * (1 + 1e-9)


def test_early_and_max_age_change_the_figures_that_the_page_names():
    plain = Load(SMALL, 10**8, ids=True, late=0.01)
    rare = replace(plain, collection=with_windows(early=10 * SMALL.windows.early))
    young = replace(plain, collection=with_windows(max_age=SMALL.windows.max_age // 10))
    without_early = replace(plain, collection=with_windows(early=None), late=0)
    often, seldom = (build_row_of(load).panes_without_growth for load in (plain, rare))
    assert often / seldom == pytest.approx(10, rel=0.1)
    assert build_row_of(rare).waiting_state > build_row_of(plain).waiting_state
    for name in ("ids_state", "keys_alive", "panes_without_growth"):
        assert getattr(build_row_of(young), name) < getattr(build_row_of(plain), name) / 2, name
    assert build_row_of(without_early).panes_a_day == pytest.approx(24 * 4)
    assert replace(plain, late=0).late_panes(of_group=False) == 0


def test_growth_saves_most_late_panes_and_a_day_is_in_tens_of_files():
    """On 10⁶ devices, as on the page: once 22,826 panes in two files each."""
    row = build_row_of(Load(replace(SMALL, buckets=1024), 10**6, ids=True, late=0.01))
    assert row.panes_without_growth > 20_000
    assert row.late_share_without_growth > 0.7
    assert row.panes_a_day < 6500
    assert row.late_share_of_panes < 0.05
    assert 2 <= row.files_a_day < 100


@settings(max_examples=50, deadline=None)
@given(st.floats(1, 1e6), st.floats(0, 1e4), st.floats(0, 1), st.floats(0, 2000))
def test_growth_makes_no_more_panes_than_the_clock_allows_and_one_at_the_end(on_time, late, growth, often):
    panes = growing_panes(on_time, late, growth, often)
    assert 0 <= panes <= often + 1
    assert growing_panes(on_time, late, 0.0, often) == often


@pytest.mark.parametrize(("flushes", "size"), [(1, 10), (7, 10), (8, 10), (1440, 1000), (1440, 100_000), (40, 1 << 23)])
def test_files_are_counted_as_they_are_folded(flushes, size):
    left = count_files(flushes, size)
    assert left <= flushes
    classes = folding.size_class(folding.SMALL) + 1
    assert left <= folding.MERGED_AT * (flushes * size / folding.SMALL + classes)
    assert left >= flushes * size / (folding.MERGED_AT * max(size, folding.SMALL))


def test_commits_to_iceberg_are_at_most_one_a_pause_or_one_for_as_many_panes_as_it_takes():
    def commits(load, **windows):
        return replace(load, collection=with_windows(**windows)).commits_a_day

    load = Load(SMALL, 10**8, late=0.01)
    assert load.commits_a_day == commits(load, early=600_000, late_growth=0.0) == 24 * 60
    assert commits(load, early=30_000) == 2 * 24 * 60
    assert commits(load, early=1000) == 6 * 24 * 60, "never more often than every ten seconds"
    few = Load(SMALL, 10)
    assert few.commits_a_day == few.panes_a_day() < 100
    groups = tuple(f"group {number}" for number in range(1000))
    many = Load(replace(SMALL, groups=groups), 10**8)
    assert many.commits_a_day == many.panes_a_day() / AT_ONCE_STREAM > 24 * 60


def test_overlapping_windows_are_kept_and_merged_as_often_as_they_overlap():
    plain = Load(SMALL, 10**8)
    sliding = replace(plain, collection=with_windows(every=SMALL.windows.size // 4))
    assert sliding.windows_of_slice == 4
    assert sliding.windows_a_day == 4 * plain.windows_a_day
    assert 4 * plain.windows_alive >= sliding.windows_alive > 3 * plain.windows_alive
    # 1 h of its own, 2 min of delay, a day, an hour and a minute of lateness
    assert plain.windows_alive == math.ceil(1 + 2 / 60 + 24 + 1 + 1 / 60)


@pytest.mark.parametrize(("seconds", "pause", "gap"), [(62, 15, 2.5), (600, 60, 40), (86_400, 60, 1), (100, 0, 7)])
def test_the_number_of_panes_is_that_of_a_simulated_clock(seconds, pause, gap):
    """Each fires a pause after something new. Within four standard errors: once in 16,000."""
    rng, counts = np.random.default_rng(1), []
    for _ in range(2000 if seconds < 1000 else 50):
        now, fired = 0.0, 0
        while (now := now + rng.exponential(gap) + pause) <= seconds:
            fired += 1
        counts.append(fired)
    error = max(np.std(counts) / math.sqrt(len(counts)), 0.01)
    assert abs(np.mean(counts) - panes_within(seconds, pause, gap)) < 4 * error


def test_a_very_large_number_of_panes_is_approximated():
    assert panes_within(10**9, 1, 0.5) == pytest.approx(10**9 / 1.5)
    assert panes_within(99_999, 1, 0.5) == pytest.approx(99_999 / 1.5, rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4))
def test_the_busiest_slot_is_that_of_an_exact_enumeration(keys, slots):
    busiest = idle = Fraction(0)
    ways = slots**keys
    for way in itertools.product(range(slots), repeat=keys):
        counts = Counter(way)
        busiest += Fraction(max(counts.values()), ways)
        idle += Fraction(len(counts) < slots, ways)
    expected = spread(keys, slots)
    assert expected.busiest == pytest.approx(float(busiest), abs=1e-9)
    assert expected.idle == pytest.approx(float(idle), abs=1e-9)


def test_more_partitions_for_a_slot_even_out():
    excess = [spread(times * 4, 4).excess for times in (1, 2, 4, 8, 64)]
    assert excess == sorted(excess, reverse=True)
    assert excess[-1] < 1.15
    assert spread(256, 64).excess > 2


def test_a_limit_is_reached_at_the_number_of_devices_that_it_names():
    load = Load(SMALL, 10**8, ids=True)
    for limit in limits(load, sizes(load), COSTS, 4e9):
        if limit.with_devices and limit.unit != "ids/s":  # blocks of ids grow with the load, and cost less an id
            full = replace(load, devices=round(load.devices / limit.used))
            full_limit = next(
                candidate for candidate in limits(full, sizes(full), COSTS, 4e9) if candidate.what == limit.what
            )
            assert full_limit.used == pytest.approx(1, rel=1e-3), limit.what


# Bytes of the real encoders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [False, True], ids=["no ids", "ids"])
@pytest.mark.parametrize("batch", [1, 7])
def test_the_size_of_a_message_is_that_of_the_codec(batch, ids):
    load = Load(SMALL, 10**6, batch=batch, ids=ids)
    messages = messages_of(load, 500, np.random.default_rng(3))
    reencoded = [encode_message(*decode_message(message), version=message[2:10]) for message in messages]
    assert reencoded == messages
    assert message_bytes(load) == pytest.approx(np.mean([len(message) for message in messages]), rel=0.01)


def test_the_state_of_a_window_is_its_accumulator_encoded():
    """Counted from single cells, and added up from parts as a pipeline does."""
    reports, combine = 12_000, CombineTallies()
    cells = cells_of(SMALL, reports, np.random.default_rng(5))
    events = Events(0, 1, 200)
    parts = [Tallies({SMALL.revision: (part.size, SMALL.tally(part))}, events) for part in np.split(cells, 60)]
    accumulator = combine.create_accumulator()
    for part in parts:
        accumulator = combine.add_input(accumulator, part)
    whole = combine.merge_accumulators([accumulator, combine.create_accumulator()])
    assert len(TalliesCoder().encode(whole)) == tally_bytes(SMALL, reports)
    load = Load(SMALL, reports * 24, peak=1.0)
    assert sizes(load).state_of_all == tally_bytes(SMALL, reports)


@pytest.mark.parametrize(
    "mechanism", ["square_wave", "hierarchy", "haar", "local_hashing", "seeded_hashing", "piecewise"]
)
def test_every_mechanism_has_a_size(mechanism):
    collection = Collection(name="c", low=0, high=1, buckets=16, epsilon=1, mechanism=mechanism)
    load_sizes = sizes(Load(collection, 10**7, ids=True, late=0.1))
    assert 0 < load_sizes.state_of_all <= load_sizes.state_at_most
    assert load_sizes.state_of_group == 0
    tallies = tally_of(collection, 10_000, np.random.default_rng(1))
    assert tallies.parts[collection.revision][1].size == collection.mechanism.tally_length


def test_an_id_takes_its_bytes_and_a_share_of_an_expiry():
    few, many = Load(SMALL, 10**4, ids=True), Load(SMALL, 10**11, ids=True)
    assert id_bytes(few) == pytest.approx(24, rel=0.01)
    assert id_bytes(many) == pytest.approx(16, rel=0.01)
    seen, ids = SeenIds(1000), np.random.default_rng(1).integers(0, 2**63, (1000, 2), dtype=np.uint64)
    _, chunks = seen.add(ids, np.zeros(1000, dtype=np.int64))
    assert sum(map(len, chunks)) == 16 * 1000 + 8


def test_the_memory_of_an_id_is_what_the_interpreter_allocates():
    import tracemalloc

    ids = np.random.default_rng(1).integers(0, 2**63, (100_000, 2), dtype=np.uint64)
    tracemalloc.start()
    seen = SeenIds(1000)
    seen.add(ids, np.zeros(100_000, dtype=np.int64))
    bytes_per_id = tracemalloc.get_traced_memory()[0] / 100_000
    tracemalloc.stop()
    assert id_memory() == pytest.approx(bytes_per_id, rel=0.2)
    assert id_memory() <= 24
    assert len(seen) == 100_000


@pytest.mark.parametrize("length", [1, 39, 63, 64, 2039])
def test_the_size_of_a_record_is_that_of_the_kafka_client(length):
    """librdkafka reports the size of the batches that it sent to the broker inside it."""
    kafka = pytest.importorskip("confluent_kafka")
    statistics = []
    client = kafka.Producer(
        {
            "test.mock.num.brokers": 1,
            "log_level": 4,
            "linger.ms": 1000,
            "batch.num.messages": PRODUCED_TOGETHER,
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: statistics.append(json.loads(text)),
        }
    )
    client.list_topics("t", timeout=10)
    for _ in range(PRODUCED_TOGETHER):
        client.produce("t", bytes(length), partition=0, timestamp=1_767_225_600_000)
    assert client.flush(20) == 0
    for _ in range(100):
        client.poll(0.1)
        batch_sizes = [batch["topics"]["t"]["batchsize"] for batch in statistics if "t" in batch["topics"]]
        sent_batches = [batch for batch in batch_sizes if batch["cnt"]]
        if sent_batches:
            break
    assert sent_batches[-1]["max"] == round(PRODUCED_TOGETHER * record_bytes(length))


# Simulated runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [False, True], ids=["no ids", "ids"])
@pytest.mark.parametrize(("devices", "batch"), [(10**7, 1), (10**10, 100)])
def test_calls_of_sources_shuffle_and_keep_the_predicted_amounts(devices, batch, ids, monkeypatch):
    """Thousands of elements each: within a tenth, which is many standard errors and the model's own roundness."""
    monkeypatch.setattr(check, "SECONDS", 20)
    lines = check.calls(Load(SMALL, devices, batch=batch, ids=ids, late=0.01))
    assert len(lines) == (9 if ids else 5)
    for line in lines:
        if line.exact:
            assert line.seen == line.predicted, line.what
        assert line.ratio == pytest.approx(1, abs=0.1), line.what


@pytest.mark.parametrize("every", [1, 2], ids=["fixed", "sliding"])
def test_report_files_make_the_predicted_windows_and_files(every):
    windows = Windows(size=3_600_000, every=3_600_000 // every)
    load = Load(replace(SMALL, windows=windows), 200_000, ids=True)
    lines = check.files(load, COSTS)
    assert [line.what for line in lines if line.exact and line.seen != line.predicted] == []
    assert sum(line.exact for line in lines) == 4


@pytest.mark.slow
def test_a_simulated_clock_makes_the_predicted_panes():
    lines = check.lines_of(Load(SMALL, 10**6), COSTS)
    _, (columns, rows) = parse_printed(check.table(lines))
    assert columns[1:3] == ["predicted", "seen"]
    assert [line[0] for line in rows] == [line.what for line in lines]
    early, on_time, late = lines[5:8]
    assert on_time.seen == on_time.predicted
    # Seeded; early ones fire at the same seconds, a late one more or less is chance in each of eight windows of a key.
    assert abs(early.seen - early.predicted) <= 4
    assert abs(late.seen - late.predicted) <= 8


# What a person sees --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--devices", "many"], "--devices: got 'many'"),
        (["--devices", "0"], "--devices: got '0', allowed: a number from 1"),
        (["--devices", "1.5"], "--devices: got '1.5', allowed: a whole number"),
        (["--batch", "nan"], "--batch: got 'nan'"),
        (["--batch", "4e6"], "--batch: got 4000000, allowed: a message of at most"),
        (["--peak", "0.5"], "--peak"),
        (["--late", "1"], "--late"),
        (["--partitions", "-1"], "--partitions"),
        (["--slots", "1e9"], "--slots"),
        (["--worker-memory", "0"], "--worker-memory"),
        (["--groups", "10001"], "--groups"),
        (["--windows", "1 parsec"], "--windows"),
        (["--windows", "1h/2h"], "windows.every"),
        (["--early", "sometimes"], "--early"),
        (["--max-age", "old"], "--max-age"),
        (["--collection", "x"], "--collection: only with --collections"),
        (["--collections", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["--devices"], "expected one argument"),
    ],
)
def test_a_wrong_option_ends_with_one_line(arguments, message, capsys):
    assert command.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_options_become_loads(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("collections: {age: {domain: {low: 0, high: 127, integer: true}, buckets: 128, epsilon: 2}}")
    arguments = [
        "--collections",
        str(path),
        "--devices",
        "2e7",
        "--devices",
        "3",
        "--batch",
        "10",
        "--ids",
        "--groups",
        "5",
    ]
    arguments += ["--windows", "2h/30m", "--early", "none", "--max-age", "6h", "--peak", "3", "--partitions", "7"]
    first, second = command.question_of(arguments).loads
    assert (first.devices, second.devices, first.batch, first.ids, first.peak) == (20_000_000, 3, 10, True, 3)
    assert (first.groups, first.partitions, first.pause) == (5, 7, 0)
    hour = 3_600_000
    assert first.windows == Windows(2 * hour, hour // 2, 120_000, 6 * hour, None)
    path.write_text(path.read_text().replace("}}", "}, b: {domain: {low: 0, high: 1}, epsilon: 1}}"))
    with pytest.raises(command.UsageError, match="--collection: got None, allowed: age, b"):
        command.question_of(["--collections", str(path)])


@pytest.mark.slow
def test_the_command_measures_and_prints_every_table(tmp_path, capsys):
    path = tmp_path / "c.yaml"
    path.write_text("collections: {c: {domain: {low: 0, high: 1}, buckets: 64, epsilon: 1, groups: [a, b]}}")
    arguments = ["--collections", str(path), "--devices", "1e6", "--batch", "1", "--ids"]
    assert command.main(arguments) == 0
    out = capsys.readouterr().out
    assert len(parse_tables(out)) == 6
    for label, _ in LINES:
        assert f"| {label}" in out


def test_a_failing_reader_process_is_reported(monkeypatch):
    monkeypatch.setattr(source, "BACKLOG_MESSAGES", 10)
    monkeypatch.setattr(source, "ONE_THREAD", {"PYTHONHOME": "/nowhere"})
    with pytest.raises(RuntimeError, match="the reader failed"):
        source.measure([Load(SMALL, 10**6)])


# The page ------------------------------------------------------------------------------------------------------------


def parse_tables(text):
    """By title: columns and lines."""
    tables = {}
    for title, body in re.findall(r"^(\S.*):\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
        tables[title] = cells[0], cells[2:]
    return tables


def parse_printed(table):
    [(title, content)] = parse_tables(format_table(table) + "\n").items()
    return title, content


def read_page_loads():
    """The loads of the first command that the page names."""
    line, *_ = re.findall(r"^\.venv/bin/python -m benchmarks\.sizing (.*)$", DOC.read_text(), re.MULTILINE)
    return command.question_of(line.split()).loads


def test_the_page_has_every_figure_that_does_not_depend_on_a_clock():
    page_loads, page = read_page_loads(), parse_tables(DOC.read_text())
    load_sizes = [sizes(load) for load in page_loads]
    one, other = (
        parse_printed(
            rows_table(
                page_loads,
                [build_row(load, size, costs) for load, size in zip(page_loads, load_sizes, strict=True)],
            )
        )
        for costs in (COSTS, OTHER_COSTS)
    )
    columns, lines = page[one[0]]
    assert columns == one[1][0]
    assert [line[0] for line in lines] == [label for label, _ in LINES]
    exact = [line for line, same in zip(one[1][1], other[1][1], strict=True) if line == same]
    assert {"messages a day", "bytes of a message", "bytes of a window's tally, all groups", "state of ids"} <= {
        line[0] for line in exact
    }
    for line in exact:
        assert line in lines
    title, content = parse_printed(bytes_table(page_loads, load_sizes))
    assert page[title] == content


def test_the_page_has_the_tables_that_the_command_prints():
    page_loads, page = read_page_loads(), parse_tables(DOC.read_text())
    title, (columns, lines) = parse_printed(
        costs_table(page_loads, [replace(COSTS, pane_files=(("avro", 1, 1),))] * len(page_loads))
    )
    assert page[title][0] == columns
    assert [line[0] for line in page[title][1]][: len(lines)] == [line[0] for line in lines]
    single = max(page_loads, key=lambda load: (load.devices, -load.batch))
    title, (columns, lines) = parse_printed(limits_table(single, limits(single, sizes(single), COSTS, 4e9)))
    assert page[title][0] == columns
    assert [(line[0], line[-1]) for line in page[title][1]] == [(line[0], line[-1]) for line in lines]
    title, content = parse_printed(
        spread_table([[spread(times * slots, slots) for times in (1, 2, 4, 8)] for slots in (2, 4, 16)])
    )
    assert page[title] == content
    estimators = ("ems", "log_spline", "log_spline, an early pane")
    kinds = [(buckets, name) for buckets in command.ESTIMATED_BUCKETS for name in estimators]
    title, (columns, lines) = parse_printed(
        estimates_table(60, command.ESTIMATED_REPORTS, [(*kind, 0.3) for kind in kinds])
    )
    assert page[title][0] == columns
    assert [line[:2] for line in page[title][1]] == [line[:2] for line in lines]


def test_estimates_are_timed_for_every_estimator_of_a_wave_and_for_no_other():
    adaptive = replace(SMALL, smoothing="adaptive")
    names = ["ems", "log_spline", "log_spline, an early pane"]
    for collection, expected in ((SMALL, names), (adaptive, names), (replace(SMALL, estimator="log_spline"), names)):
        assert [name for name, seconds in estimates(collection, 32, 20_000) if seconds > 0] == expected
    tree = Collection(name="tree", low=0, high=1, buckets=64, epsilon=1.0, mechanism="hierarchy")
    assert [name for name, _ in estimates(tree, 16, 1000)] == ["hh_admm"]


def test_panes_of_warm_starts_are_shuffled_once_more():
    load = Load(SMALL, devices=10**6)
    spline = replace(load, collection=replace(SMALL, estimator="log_spline"))
    plain, warm = (build_row(one, sizes(one), COSTS) for one in (load, spline))
    assert warm.shuffled_elements - plain.shuffled_elements == pytest.approx(plain.panes_a_day / DAY)
    size = sizes(load)
    whole = (size.state_of_all + 3 * size.state_of_group) / 4
    assert warm.shuffled_bytes - plain.shuffled_bytes == pytest.approx(plain.panes_a_day / DAY * whole)


def test_the_page_names_the_numbers_that_are_in_the_code():
    text = DOC.read_text()
    load = read_page_loads()[0]
    assert f"{SHARDS} shards" in text
    assert f"{HELD:g} s" in text
    assert f"{load.partitions} partitions" in text
    assert f"{load.slots} slots" in text
