"""The file for Prometheus: the newest of each collection and group, as Prometheus' own parser reads it."""

import io
import math
import os
import signal
from collections import Counter
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from hushgram import Collection
from hushgram.schemas.records import REASONS, DeadLetter, Key, Pane, Snapshot
from hushgram.transforms import filesystem
from hushgram.transforms.aggregate import typed
from hushgram.transforms.estimation import snapshots as estimate_windows
from hushgram.transforms.sinks.latest import Board, BoardCoder
from hushgram.transforms.sinks.prometheus import ExposeToPrometheus, exposition, write
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import HOSTILE, MEAN, WAVE, make_snapshot

LABELS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.sampled_from(HOSTILE)


def make_letter(reason="too_old", reports=1, received=START):
    return DeadLetter(reason, reports, "", "t[0]", 1, received)


def read_samples(text):
    """Samples by name and labels, and of each family the type."""
    families = list(text_string_to_metric_families(text))
    samples = {}
    for family in families:
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples
            samples[key] = sample.value
    return samples, {family.name: family.type for family in families}


def make_labels(key, **more):
    return frozenset({"collection": key.collection, **({"group": key.group} if key.group else {}), **more}.items())


def expected_histogram(s):
    """By the snapshot's own distribution function, at the edges of 32 parts, or of all buckets if there are fewer."""
    if s.probabilities is None:
        return {}
    count = s.probabilities.size
    edges = s.edges[np.linspace(0, count, min(32, count) + 1).round().astype(int)]
    shares = [*(float(s.cdf(edge)) for edge in edges[:-1]), 1.0, 1.0]
    return {
        **{
            ("hushgram_value_bucket", make_labels(s.key, le=floatToGoString(edge))): pytest.approx(s.reports * share)
            for edge, share in zip([*edges.tolist(), math.inf], shares, strict=True)
        },
        ("hushgram_value_count", make_labels(s.key)): s.reports,
        ("hushgram_value_sum", make_labels(s.key)): s.reports * s.mean,
    }


def expected_samples(newest, refused, unreadable, ending=""):
    """The expected samples, computed from the snapshots."""
    samples = {}
    for s in newest:
        numbers = {
            "reports": s.reports,
            "status_ok": s.status == "ok",
            "window_start_timestamp_seconds": s.key.window_start / 1000,
            "window_end_timestamp_seconds": s.key.window_end / 1000,
            "mean": s.mean,
            "mean_low": s.mean_low,
            "mean_high": s.mean_high,
            "central_epsilon": s.central_epsilon,
            "lying_bound": s.lying_bound,
        }
        samples |= {
            (f"hushgram_{name}", make_labels(s.key)): value for name, value in numbers.items() if value is not None
        }
        for q in s.quantiles or ():
            quantile_labels = make_labels(s.key, share=f"{q.share:g}")
            samples |= {
                ("hushgram_quantile", quantile_labels): q.value,
                ("hushgram_quantile_low", quantile_labels): q.low,
                ("hushgram_quantile_high", quantile_labels): q.high,
            }
        samples |= expected_histogram(s)
    for reason in REASONS:
        samples[f"hushgram_refused_reports{ending}", frozenset({"reason": reason}.items())] = refused.get(reason, 0)
    samples[f"hushgram_unreadable_places{ending}", frozenset()] = unreadable
    return samples


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(LABELS, st.none() | LABELS), unique=True, max_size=6), st.sampled_from([WAVE, MEAN]))
def test_prometheus_reads_the_numbers_whatever_text_a_label_holds(keys, collection):
    panes = make_snapshot(collection, reports=1234)
    panes = [replace(panes, key=Key(*key, START, START + HOUR)) for key in keys]
    samples, _ = read_samples(exposition(Board.merge(map(Board.of_snapshot, panes)), streaming=False))
    assert samples == expected_samples(panes, {}, 0)


def test_numbers_that_are_not_finite_are_written_as_prometheus_writes_them():
    snapshot = replace(make_snapshot(MEAN), mean=math.inf, mean_low=-math.inf, mean_high=math.nan)
    lines = exposition(Board.of_snapshot(snapshot), streaming=False).splitlines()
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("hushgram_mean")] == ["+Inf", "-Inf", "NaN"]


@pytest.mark.parametrize(
    "collection",
    [
        Collection(name="c", low=-5, high=180, buckets=1024, epsilon=1),
        Collection(name="c", low=1, high=1e6, scale="log", buckets=100, epsilon=1),
        Collection(name="c", low=0, high=63, integer=True, buckets=64, epsilon=1),
        Collection(name="c", low=0, high=1, buckets=64, epsilon=1, mechanism="haar"),
    ],
    ids=["linear", "log", "whole numbers", "negative parts"],
)
def test_a_histogram_rises_over_the_same_few_edges_in_every_window(collection):
    ends = []
    for reports in (0, 7, 5000):
        rng = np.random.default_rng(reports)
        cells = collection.simulate(collection.domain.from_unit(rng.beta(2, 5, reports)), seed=1)
        tallies = Tallies({collection.revision: (reports, collection.tally(cells))} if reports else {})
        [snapshot] = estimate_windows(collection, [(Key("c", None, START, START + HOUR), Pane(), tallies)])
        families = text_string_to_metric_families(exposition(Board.of_snapshot(snapshot), streaming=True))
        [family] = [family for family in families if family.name == "hushgram_value_bucket"]
        counts = [sample.value for sample in family.samples]
        assert counts == sorted(counts)
        assert (counts[0], counts[-2], counts[-1]) == (0, reports, reports)
        ends.append([sample.labels["le"] for sample in family.samples])
    assert ends[0] == ends[1] == ends[2]
    assert len(ends[0]) == 34
    assert list(map(float, ends[0])) == sorted(map(float, ends[0]))
    assert [float(ends[0][place]) for place in (0, -2, -1)] == [*collection.domain.from_unit([0, 1]), math.inf]


def test_refusals_of_a_stream_are_a_counter_and_those_of_a_batch_a_gauge():
    board = Board.merge([Board.of_letter(make_letter(reports=3)), Board.of_letter(make_letter("undecodable", None))])
    samples, types = read_samples(exposition(board, streaming=True))
    assert samples == expected_samples([], {"too_old": 3}, 1, ending="_total")
    assert types["hushgram_refused_reports"] == "counter"
    samples, types = read_samples(exposition(board, streaming=False))
    assert samples == expected_samples([], {"too_old": 3}, 1)
    assert types["hushgram_refused_reports"] == "gauge"


# Laws of boards ------------------------------------------------------------------------------------------------------

snapshots = st.builds(
    make_snapshot,
    st.sampled_from([WAVE, MEAN]),
    st.sampled_from([None, "DE"]),
    st.integers(0, 3),
    st.sampled_from([START, START + HOUR]),
    st.integers(0, 1),
    st.integers(0, 2),
)
letters = st.builds(make_letter, st.sampled_from(REASONS), st.none() | st.integers(0, 9))
boards = st.lists(st.one_of(snapshots.map(Board.of_snapshot), letters.map(Board.of_letter)), max_size=12)


@settings(max_examples=100, deadline=None)
@given(boards, st.randoms(use_true_random=False), st.integers(0, 12))
def test_every_way_of_merging_boards_agrees(parts, random, cut):
    shuffled = random.sample(parts, len(parts))
    halves = Board.merge([Board.merge(shuffled[:cut]), Board(), Board.merge(shuffled[cut:])])
    assert BoardCoder().encode(halves) == BoardCoder().encode(Board.merge(parts))
    assert BoardCoder().decode(BoardCoder().encode(halves)) == halves


@settings(max_examples=100, deadline=None)
@given(st.lists(snapshots, max_size=12))
def test_a_board_shows_the_best_pane_of_the_newest_window(panes):
    entries = Board.merge(map(Board.of_snapshot, panes)).entries
    assert set(entries) == {(s.key.collection, s.key.group) for s in panes}
    for (collection, group), entry in entries.items():
        same_group = [s for s in panes if (s.key.collection, s.key.group) == (collection, group)]
        newest = [s for s in same_group if s.key.window_end == max(s.key.window_end for s in same_group)]
        assert entry.window_end == newest[0].key.window_end
        assert (entry.generation, entry.reports, entry.pane_index) == max(s.rank for s in newest)


# Pipelines -----------------------------------------------------------------------------------------------------------


def read_only_file(directory):
    [file] = directory.iterdir()  # nothing half-written is left beside it
    return file.read_text()


@pytest.mark.parametrize("has_results", [True, False])
def test_a_batch_writes_the_prometheus_file_once_even_without_results(tmp_path, has_results):
    panes = [make_snapshot(group=group, start=START + hour * HOUR) for group in [None, *HOSTILE] for hour in range(2)]
    panes, refused = (
        (panes, [make_letter(reports=2), make_letter(reports=3), make_letter("duplicate", 5)])
        if has_results
        else ([], [])
    )
    with Pipeline() as pipeline:
        snapshots = pipeline | "Snapshots" >> beam.Create(panes)
        all_letters = pipeline | "Letters" >> beam.Create(refused)
        (snapshots, all_letters) | ExposeToPrometheus(str(tmp_path / "h.prom"))
    newest = [pane for pane in panes if pane.key.window_start == START + HOUR]
    counts = {"too_old": 5, "duplicate": 5} if has_results else {}
    assert read_samples(read_only_file(tmp_path))[0] == expected_samples(newest, counts, 0)
    counters = pipeline.result.metrics().query()["counters"]
    assert sum(c.committed for c in counters if c.key.metric.name == "snapshots") == len(panes)


@pytest.mark.parametrize("moment", ["half written", "before its name", "after it"])
def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_prometheus_file(tmp_path, moment):
    """And nothing beside it that the node exporter would collect."""
    before, after = (Board.of_snapshot(make_snapshot(reports=reports)) for reports in (1000, 2000))
    path = tmp_path / "h.prom"
    write(before, str(path), streaming=True)
    write_until_killed(after, path, moment)
    expected = after if moment == "after it" else before
    assert [file.read_text() for file in tmp_path.glob("*.prom")] == [exposition(expected, streaming=True)]
    write(after, str(path), streaming=True)
    assert path.read_text() == exposition(after, streaming=True)


class HalfFile(io.FileIO):
    """One whose writer is killed in the middle."""

    def write(self, data):
        super().write(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


def write_until_killed(board, path, moment):
    """In a process of its own, which ends by kill -9."""
    pid = os.fork()
    if pid == 0:
        rename = os.replace

        def rename_and_die(*names):
            if moment == "after it":
                rename(*names)
            os.kill(os.getpid(), signal.SIGKILL)

        os.replace = rename_and_die
        if moment == "half written":
            filesystem.open = HalfFile
        try:
            write(board, str(path), streaming=True)
        finally:
            os._exit(70)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def run_stream(tmp_path, monkeypatch, *steps):
    """Lists of snapshots, and letters, as they come; the files that were written, in their order."""
    files = []
    monkeypatch.setattr(
        "hushgram.transforms.sinks.prometheus.write_atomically", lambda path, data: files.append(data.decode())
    )
    stream = Stream().advance_watermark_to(to_timestamp(START))
    for step in steps:
        is_watermark = isinstance(step, int)
        stream = stream.advance_watermark_to(to_timestamp(START + step)) if is_watermark else stream.add_elements(step)
    options = PipelineOptions(["--streaming"])
    with Pipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        elements = pipeline | stream.advance_watermark_to_infinity()
        snapshots = elements | "Snapshots" >> beam.Filter(lambda element: isinstance(element, Snapshot))
        dead_letters = typed(elements | "Letters" >> beam.Filter(lambda e: isinstance(e, DeadLetter)), DeadLetter)
        (snapshots, dead_letters) | ExposeToPrometheus(str(tmp_path / "h.prom"))
    return [read_samples(text)[0] for text in files]


def to_timestamp(milliseconds):
    return Timestamp(micros=1000 * milliseconds)


def test_a_stream_writes_the_prometheus_file_at_every_change(tmp_path, monkeypatch):
    first, poorer, better = (make_snapshot(reports=n, index=i) for n, i in [(10, 0), (7, 1), (12, 1)])
    other, later = make_snapshot(MEAN, reports=5), make_snapshot(reports=1, start=START + HOUR)
    refusals = [make_letter(reports=2, received=START + 1000), make_letter(reports=3, received=START + 59_000)]
    refusals += [make_letter("undecodable", None, START + 61_000), make_letter(reports=1, received=START + 61_000)]
    stamped_refusals = [TimestampedValue(refusal, to_timestamp(refusal.received_at)) for refusal in refusals]
    files = run_stream(
        tmp_path, monkeypatch, [first], [poorer, other], stamped_refusals[:2], stamped_refusals[2:],
        60_000, [better], 120_000, [later], [better],
    )  # fmt: skip
    assert files == [
        expected_samples(newest, Counter(too_old=refused), unreadable, "_total")
        for newest, refused, unreadable in [
            ([first], 0, 0),
            ([first, other], 0, 0),
            ([first, other], 5, 0),
            ([better, other], 5, 0),
            ([better, other], 6, 1),
            ([later, other], 6, 1),
            ([later, other], 6, 1),
        ]
    ]


def test_the_panes_of_one_bundle_are_one_write_of_the_prometheus_file(tmp_path, monkeypatch):
    bundle = [make_snapshot(group=group) for group in [None, *HOSTILE]]
    [samples] = run_stream(tmp_path, monkeypatch, bundle)
    assert samples == expected_samples(bundle, {}, 0, "_total")
