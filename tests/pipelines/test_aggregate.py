"""The batch job from files to files: counts exact, estimates those of the library, the same however it is run."""

import gzip
import json
from pathlib import Path

import fastavro
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from hushgram import load_collections
from hushgram.pipelines import aggregate, runners
from hushgram.pipelines.cli import command
from hushgram.pipelines.results import read_results
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.records import DeadLetter, Histogram, Snapshot
from hushgram.transforms import deduplication
from hushgram.transforms.spilling import read_pieces
from tests.helpers.reports import HOUR, START, compute_tallies, encode_avro_file, make_batch_rows, make_report_rows
from tests.helpers.streams import read_tallies, unpack_batches

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [DE, FR]
    minimum_reports: 100
    previous: [{epsilon: 2.0}]
  age:
    domain: {low: 0, high: 63, integer: true}
    buckets: 64
    epsilon: 2.0
    mechanism: hierarchy
    windows: {size: 2h, every: 1h}
  hashed:
    domain: {low: 0, high: 1}
    buckets: 64
    bins: 16
    epsilon: 1.0
    mechanism: seeded_hashing
  mean:
    domain: {low: -5, high: 5}
    epsilon: 1.0
    mechanism: piecewise
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Reports of every kind, good and bad, in files of every kind; and those among them that count."""
    base = tmp_path_factory.mktemp("job")
    (base / "collections.yaml").write_text(YAML)
    collections = load_collections(base / "collections.yaml")
    commute, age = collections["commute"], collections["age"]
    reports = base / "reports"
    reports.mkdir()
    plain = (
        make_report_rows(commute, 900, 1)
        + make_report_rows(age, 700, 2)
        + make_report_rows(collections["hashed"], 60, 3)
    )
    plain += make_report_rows(collections["mean"], 300, 4) + make_report_rows(
        commute, 300, 5, revision=list(commute.revisions)[1]
    )
    (reports / "a.avro").write_bytes(encode_avro_file(plain[::2], sync=3000))
    (reports / "b.avro.gz").write_bytes(gzip.compress(encode_avro_file(plain[1::2], codec="null")))
    packed = make_batch_rows(age, make_report_rows(age, 210, 6), size=7)
    (reports / "c.avro").write_bytes(encode_avro_file(packed, REPORT_BATCH, "snappy"))
    identified = make_report_rows(commute, 200, 7, ids=True)
    (reports / "d.avro").write_bytes(encode_avro_file(identified + identified[:50], sync=1000))
    (reports / "e.avro").write_bytes(encode_avro_file(identified[50:90], sync=1000))
    good = plain + unpack_batches(age, packed) + identified
    invalid = [
        {**plain[0], "collection": "nobody"},
        {**plain[0], "revision": bytes(8)},
        {**plain[0], "cell": 10**9},
        {**plain[0], "cell": -1},
        {**plain[0], "group": "XX"},
        {**plain[0], "event_time": START + 400 * 24 * HOUR},
    ]
    (reports / "f.avro").write_bytes(encode_avro_file(invalid))
    (reports / "g.avro").write_bytes(b"no avro")
    refused = {"unknown_collection": 1, "unknown_revision": 1, "cell_out_of_range": 2, "unknown_group": 1}
    refused |= {"from_the_future": 1, "duplicate": 90}
    return base, collections, good, refused


def run_aggregate(job, output, *options):
    base = job[0]
    files = ["--collections", str(base / "collections.yaml"), "--input", str(base / "reports" / "*.avro*")]
    return command.main(["aggregate", *files, "--output", str(output), "--as-of", "2026-06-01", *options])


@pytest.fixture(scope="module")
def output(job, tmp_path_factory):
    directory = tmp_path_factory.mktemp("results")
    assert run_aggregate(job, directory) == 0
    return directory


def test_every_tally_of_a_batch_run_is_exact(job, output):
    _, collections, good, _ = job
    assert read_tallies(output) == compute_tallies(list(collections.values()), good)


def test_snapshots_are_the_librarys_estimates(job, output):
    _, collections, _, _ = job
    histograms = {item.key: item for item in read_results(str(output), "histograms", Histogram.from_avro)}
    snapshots = read_results(str(output), "snapshots", Snapshot.from_avro)
    assert len(snapshots) == len(histograms) > 15
    for s in snapshots:
        counts = {revision: item for revision, (_, item) in histograms[s.key].tallies.items()}
        e = collections[s.key.collection].estimate(counts)
        assert (s.reports, s.status) == (e.reports, e.status)
        assert s.mean == pytest.approx(e.mean, abs=1e-9)
        assert [s.mean_low, s.mean_high] == pytest.approx(list(e.interval("mean")), abs=1e-6)
        if e.probabilities is None:
            assert s.probabilities is s.quantiles is s.variance is None
        else:
            np.testing.assert_allclose(s.probabilities, e.probabilities, atol=1e-9)
            assert [q.value for q in s.quantiles] == pytest.approx([e.quantile(q.share) for q in s.quantiles], abs=1e-9)
            assert len(s.quantiles) == 19
    assert {s.status for s in snapshots} == {"ok", "too_few"}


def test_refused_reports_have_letters_with_reasons_and_places(job, output):
    letters = []
    for path in output.glob("runs/*/*/dead_letters/*.avro"):
        with path.open("rb") as file:
            letters += [DeadLetter.from_avro(record) for record in fastavro.reader(file)]
    counts = {}
    for letter in letters:
        if letter.reports:
            counts[letter.reason] = counts.get(letter.reason, 0) + letter.reports
    assert counts == job[3]
    [unreadable] = [letter for letter in letters if letter.reports is None]
    assert unreadable.reason == "undecodable"
    assert unreadable.source.endswith("g.avro")


def test_the_summary_of_a_batch_run_adds_up(job, tmp_path, capsys):
    assert run_aggregate(job, tmp_path) == 0
    output = capsys.readouterr().out
    accepted, refused = len(job[2]), sum(job[3].values())
    assert f"read {accepted + refused:,} reports = accepted {accepted:,} + refused {refused:,}" in output
    assert "90 duplicate" in output
    assert "1 places that could not be read" in output


@pytest.mark.slow
def test_a_rerun_writes_the_same_files(job, output, tmp_path):
    def list_files(directory):
        """Names of files; that of an attempt is new each time, and only one stays."""
        [attempt] = [path.name for path in directory.glob("runs/*/*") if path.is_dir()]
        names = [str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()]
        return sorted(name.replace(attempt, "ATTEMPT") for name in names)

    assert run_aggregate(job, tmp_path) == 0
    first = list_files(tmp_path)
    assert first == list_files(output)
    assert not [name for name in first if Path(name).name.startswith(".")]
    assert run_aggregate(job, tmp_path) == 0
    assert list_files(tmp_path) == first
    assert read_tallies(tmp_path) == read_tallies(output)


@pytest.mark.parametrize(
    "options",
    [
        ["--fanout=3"],
        pytest.param(["--direct_num_workers=2", "--direct_running_mode=multi_processing"], marks=pytest.mark.slow),
        ["--direct_num_workers=2"],
    ],
    ids=["fanout", "processes", "threads"],
)
def test_counts_do_not_depend_on_fanout_processes_or_threads(job, output, tmp_path, options):
    assert run_aggregate(job, tmp_path, *options) == 0
    assert read_tallies(tmp_path) == read_tallies(output)


@pytest.mark.parametrize("mode", ["multi_threading", "multi_processing"])
def test_several_workers_are_threads_unless_processes_are_asked_for(mode):
    asked = [f"--direct_running_mode={mode}"] if mode == "multi_processing" else []
    options = runners.pipeline_with(PipelineOptions(["--runner=FnApiRunner", "--direct_num_workers=2", *asked])).options
    assert options.view_as(DirectOptions).direct_running_mode == mode


@pytest.mark.parametrize("runs_here", [True, False])
def test_uploads_with_ids_wait_in_files_only_if_all_workers_are_on_this_machine(
    job, output, tmp_path, monkeypatch, runs_here
):
    read = []
    monkeypatch.setattr(aggregate, "runs_here", lambda options: runs_here)
    monkeypatch.setattr(deduplication, "read_pieces", lambda *place: read.append(place) or read_pieces(*place))
    assert run_aggregate(job, tmp_path) == 0
    assert read_tallies(tmp_path) == read_tallies(output)
    assert bool(read) == runs_here
    assert not list(tmp_path.rglob("spilled"))


def test_files_that_a_killed_run_has_left_are_removed_when_it_is_repeated(job, tmp_path):
    left = tmp_path / "runs" / "named" / "20200101T000000.000000-0" / "spilled" / "piece"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left")
    assert run_aggregate(job, tmp_path, "--run=named") == 0
    assert not left.exists()


def test_windows_estimated_in_several_blocks_have_the_same_results(job, output, tmp_path, monkeypatch):
    monkeypatch.setattr("hushgram.transforms.estimation.MAX_PANES_AT_ONCE", 2)
    assert run_aggregate(job, tmp_path) == 0
    assert read_tallies(tmp_path) == read_tallies(output)
    means = [{s.key: s.mean for s in read_results(str(d), "snapshots", Snapshot.from_avro)} for d in (tmp_path, output)]
    assert means[0] == pytest.approx(means[1], abs=1e-9)


@pytest.mark.slow
def test_parquet_and_json_lines_hold_the_same_results(job, output, tmp_path):
    assert run_aggregate(job, tmp_path / "p", "--format=parquet") == 0
    assert read_tallies(tmp_path / "p") == read_tallies(output)
    path_of_one = next((tmp_path / "p" / "snapshots" / "collection=commute").rglob("*.parquet"))
    assert pq.read_table(path_of_one).schema.field("window_start").type.tz == "UTC"
    assert run_aggregate(job, tmp_path / "j", "--format=jsonl") == 0
    assert read_tallies(tmp_path / "j") == read_tallies(output)
    lines = [
        json.loads(line)
        for path in (tmp_path / "j" / "snapshots").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    means = {(s["collection"], s["group"], s["window_start"]): s["mean"] for s in lines}
    for s in read_results(str(output), "snapshots", Snapshot.from_avro):
        assert means[s.key.collection, s.key.group, s.key.window_start] == pytest.approx(s.mean, abs=1e-9)


def test_a_rollup_equals_the_tallies_of_longer_windows(job, output, tmp_path, capsys):
    base, collections, good, _ = job
    arguments = ["--collections", str(base / "collections.yaml"), "--input", str(output / "histograms")]
    assert (
        command.main(["rollup", *arguments, "--window", "6h", "--output", str(tmp_path), "--quantiles", "0.5,0.99"])
        == 0
    )
    expected = {}
    for row in good:
        start = row["event_time"] // (6 * HOUR) * 6 * HOUR
        for group in {row["group"], None}:
            key = (row["collection"], group, start, row["revision"].hex())
            expected.setdefault(key, []).append(row["cell"])
    assert read_tallies(tmp_path) == {
        key: collections[key[0]].revisions[key[3]].tally(cells).tolist() for key, cells in expected.items()
    }
    snapshots = read_results(str(tmp_path), "snapshots", Snapshot.from_avro)
    assert {len(s.quantiles or ()) for s in snapshots} == {0, 2}
    assert "merged" in capsys.readouterr().out
    rollup = ["rollup", *arguments, "--output", str(tmp_path / "em")]
    assert command.main([*rollup, "--estimator", "em"]) == 2
    assert "estimator: got 'em'" in capsys.readouterr().err
    assert command.main([*rollup, "--window", "90m"]) == 2
    assert "2026-01-01 00:00 – 02:00 UTC do not fit evenly into 90m" in capsys.readouterr().err


def test_show_and_check_print_results_and_refusals(job, output, capsys):
    base = job[0]
    assert command.main(["show", str(output), "--groups"]) == 0
    output_text = capsys.readouterr().out
    assert "commute (minutes, 0 to 180, ems)" in output_text
    assert "DE" in output_text
    assert "█" in output_text
    assert "too few reports to trust" in output_text
    files = ["--collections", str(base / "collections.yaml"), "--input", str(base / "reports" / "*.avro*")]
    assert command.main(["check", *files, "--as-of", "2026-06-01"]) == 1
    output_text = capsys.readouterr().out
    assert ["refuse", "1", "unknown_collection"] in [line.split() for line in output_text.splitlines()]
    assert "collection 'nobody'" in output_text
    assert "290 reports carry an id" in output_text
    assert command.main(["check", *files[:2], "--input", str(base / "reports" / "a.avro")]) == 0
