"""Batch jobs, run after run into one folder: they add up to the counts of a single run over everything."""

import gzip
import json
import random
import shlex
import shutil
import threading
from collections import Counter
from pathlib import Path

import pytest

from hushgram import load_collections
from hushgram.pipelines import aggregate
from hushgram.pipelines.cli import command
from hushgram.pipelines.results import read_results
from hushgram.pipelines.view.result_index import ResultIndex
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.records import Snapshot
from hushgram.transforms.run_store import committed_runs
from tests.helpers.documents import read_examples
from tests.helpers.reports import (
    HOUR,
    START,
    compute_tallies,
    encode_avro_file,
    make_batch_rows,
    make_batches_with_ids,
    make_report_rows,
)
from tests.helpers.streams import count_letters, read_tallies, unpack_batches

pytestmark = pytest.mark.slow

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [DE, FR]
    windows: {size: 1d, max_age: 3650d}
  age:
    domain: {low: 0, high: 63, integer: true}
    buckets: 64
    epsilon: 2.0
    mechanism: hierarchy
    windows: {size: 2h, every: 1h, max_age: 3650d}
"""


class Folder:
    """A folder of report files, and one of results."""

    def __init__(self, path):
        self.path, self.results = path, path / "results"
        (path / "reports").mkdir()
        (path / "collections.yaml").write_text(YAML)
        self.collections = load_collections(path / "collections.yaml")

    def write(self, name, rows):
        (self.path / "reports" / name).write_bytes(encode_avro_file(rows))
        return name

    def run(self, *names, run=None, output=None, options=()):
        inputs = [argument for name in names for argument in ("--input", str(self.path / "reports" / name))]
        common = ["--collections", str(self.path / "collections.yaml"), "--as-of", "2026-06-01"]
        run_option = ["--run", run] if run else []
        return command.main(
            ["aggregate", *common, *inputs, *run_option, "--output", str(output or self.results), *options]
        )

    def rollup(self, *inputs, output, options=()):
        folders = [argument for folder in inputs for argument in ("--input", str(folder))]
        common = ["--collections", str(self.path / "collections.yaml"), "--window", "7d"]
        return command.main(["rollup", *common, *folders, "--output", str(output), *options])

    def expected(self, rows):
        return compute_tallies(list(self.collections.values()), rows)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


@pytest.fixture
def days(folder):
    """Two days of reports; some of the second day's file belong to the first."""
    commute = folder.collections["commute"]
    first = make_report_rows(commute, 500, 1, hours=24)
    second = [
        {**row, "event_time": row["event_time"] + 23 * HOUR} for row in make_report_rows(commute, 400, 2, hours=24)
    ]
    folder.write("day1.avro", first)
    folder.write("day2.avro", second)
    return first, second


def test_daily_runs_into_one_folder_add_up(folder, days, tmp_path):
    first, second = days
    assert folder.run("day1.avro") == 0
    assert folder.run("day2.avro") == 0
    assert read_tallies(folder.results) == folder.expected(first + second)
    snapshots = read_results(str(folder.results), "snapshots", Snapshot.from_avro)
    [day1] = [s for s in snapshots if (s.key.window_start, s.key.group) == (START, None)]
    assert day1.reports > 500
    assert len(list(folder.results.glob("snapshots/collection=commute/*/*"))) == 2, "superseded files are removed"
    assert folder.run("day1.avro") == 0, "repeating a run changes nothing"
    assert read_tallies(folder.results) == folder.expected(first + second)
    assert folder.rollup(folder.results, output=tmp_path / "weeks") == 0
    weeks = read_results(str(tmp_path / "weeks"), "snapshots", Snapshot.from_avro)
    assert sum(s.reports for s in weeks if s.key.group is None) == 900


def random_log(folder, rng):
    """The reports that count, and the names of files that hold them: single reports and batches, with and without ids,
    and uploads that come again in other files, alone or packed."""
    commute, age = folder.collections.values()
    single = make_report_rows(commute, 300, rng.randrange(2**32), hours=60) + make_report_rows(
        age, 200, rng.randrange(2**32)
    )
    uploads = make_report_rows(commute, 120, rng.randrange(2**32), hours=60, ids=True)
    packed = make_batch_rows(age, make_report_rows(age, 140, rng.randrange(2**32), ids=True))
    files = [[] for _ in range(6)]
    for row in single + uploads:
        rng.choice(files).append(row)
    for rows in files:
        rows += rng.sample(uploads, 20)
    names = [folder.write(f"{number}.avro", rows) for number, rows in enumerate(files)]
    with_ids = make_batches_with_ids(commute, rng.sample(uploads, 60))
    for name, rows in (("packed", packed), ("packed again", packed[3:9]), ("with ids", with_ids)):
        (folder.path / "reports" / f"{name}.avro").write_bytes(encode_avro_file(rows, REPORT_BATCH))
        names.append(f"{name}.avro")
    return [*single, *uploads, *unpack_batches(age, packed)], names


@pytest.mark.parametrize("seed", range(3))
def test_any_split_of_a_log_into_runs_in_any_order_with_reruns_gives_the_tallies_of_one(folder, tmp_path, seed):
    rng = random.Random(seed)
    good, names = random_log(folder, rng)
    assert folder.run(*names, output=tmp_path / "one") == 0
    expected = folder.expected(good)
    assert read_tallies(tmp_path / "one") == expected
    rng.shuffle(names)
    cuts = sorted(rng.sample(range(1, len(names)), rng.randint(1, 3)))
    parts = [names[start:end] for start, end in zip([0, *cuts], [*cuts, len(names)], strict=True)]
    order = list(enumerate(parts))
    order += rng.sample(order, rng.randint(1, len(order)))
    for number, part in order:
        # A part whose uploads all came in other runs accepts nothing, and says so.
        assert folder.run(*part, run=f"part {number}") in (0, 1)
    assert read_tallies(folder.results) == expected
    assert len(committed_runs(str(folder.results))) == len(parts)
    assert count_letters(folder.results) == count_letters(tmp_path / "one"), "as many duplicates, in whichever run"


def test_a_file_that_another_run_counted_is_refused_even_under_another_name(folder, days, capsys):
    assert folder.run("day1.avro", run="first") == 0
    before = read_tallies(folder.results)
    reports = folder.path / "reports"
    assert folder.run("day*.avro", run="all") == 2
    assert "was counted by run 'first'" in capsys.readouterr().err
    (reports / "moved.avro.gz").write_bytes(gzip.compress((reports / "day1.avro").read_bytes()))
    assert folder.run("moved.avro.gz") == 2
    assert "then named" in capsys.readouterr().err
    assert read_tallies(folder.results) == before
    assert folder.run("day*.avro", run="all", options=["--replace", "first"]) == 0
    assert read_tallies(folder.results) == folder.expected(days[0] + days[1])
    assert [run.name for run in committed_runs(str(folder.results))] == ["all"]
    assert folder.run("day2.avro", run="second") == 2


def test_a_rerun_that_would_lose_reports_is_refused_unless_it_is_a_correction(folder, days, capsys):
    """The usual accident: one pattern for every day, and old files that are cleared away."""
    first, second = days
    assert folder.run("day*.avro") == 0
    tallies = read_tallies(folder.results)
    (folder.path / "reports" / "day1.avro").unlink()
    capsys.readouterr()
    assert folder.run("day*.avro") == 1
    line = capsys.readouterr().err
    assert "nothing was changed" in line
    assert "--generation 1" in line
    assert read_tallies(folder.results) == tallies
    assert folder.run("day*.avro", options=["--generation", "1"]) == 0
    assert read_tallies(folder.results) == folder.expected(second)
    folder.write("day1.avro", first[:10])
    assert folder.run("day1.avro", run="fixed") == 0, "runs after a correction need no generation"
    assert read_tallies(folder.results) == folder.expected(second + first[:10])


def test_a_correction_that_empties_a_window_writes_an_empty_snapshot(folder, days):
    _, second = days
    assert folder.run("day*.avro") == 0
    folder.write("day1.avro", [])
    folder.write("day2.avro", [row for row in second if row["event_time"] >= START + 24 * HOUR])
    assert folder.run("day*.avro", options=["--generation", "1"]) == 0
    snapshots = {s.key: s for s in read_results(str(folder.results), "snapshots", Snapshot.from_avro)}
    empty_snapshots = [s for key, s in snapshots.items() if key.window_start == START]
    assert len(empty_snapshots) == 3
    assert {(s.reports, s.status, s.pane.generation) for s in empty_snapshots} == {(0, "no_reports", 1)}


def test_dead_letters_belong_to_their_run(folder, days, capsys):
    first, _ = days
    folder.write("day1.avro", [*first[:490], *({**row, "group": "XX"} for row in first[490:])])
    assert folder.run("day1.avro") == 0
    assert count_letters(folder.results)[0] == Counter(unknown_group=10)
    folder.write("day1.avro", first)
    assert folder.run("day1.avro") == 0
    assert count_letters(folder.results)[0] == Counter()
    index = ResultIndex(str(folder.results))
    index.refresh()
    assert index.outline()["refused"] == []
    assert read_tallies(folder.results) == folder.expected(first)


def test_an_upload_repeated_in_another_run_counts_once_until_its_id_is_forgotten(folder, capsys):
    rows = make_report_rows(folder.collections["commute"], 50, 1, hours=1, ids=True)
    other_rows = make_report_rows(folder.collections["commute"], 5, 2, hours=1, ids=True)
    folder.write("a.avro", rows)
    folder.write("b.avro", rows[:20] + other_rows)
    assert folder.run("a.avro") == 0
    assert folder.run("b.avro") == 0
    assert "20 duplicate" in capsys.readouterr().out
    assert read_tallies(folder.results) == folder.expected(rows + other_rows)
    # Once all are older than max_age, by the clock, their ids are removed: the next run finds none.
    for path in folder.results.glob("runs/*/run.json"):
        content = json.loads(path.read_text())
        content["ids"]["expire_ms"] = 1
        path.write_text(json.dumps(content))
    folder.write("c.avro", make_report_rows(folder.collections["commute"], 5, 3, hours=1))
    assert folder.run("c.avro") == 0
    assert not list(folder.results.glob("runs/*/*/ids/*"))
    folder.write("d.avro", rows[:20])
    assert folder.run("d.avro") == 0


def test_two_runs_at_once_add_up(folder, days, monkeypatch):
    """The second starts and ends while the first is about to commit; they share an upload."""
    commute = folder.collections["commute"]
    shared = make_report_rows(commute, 10, 3, hours=1, ids=True)
    folder.write("a.avro", [*days[0], *shared])
    folder.write("b.avro", [*days[1], *shared])
    started = threading.Event()
    original_build = aggregate.build

    def build_after_other_run(pipeline, job, attempt, **options):
        original_build(pipeline, job, attempt, **options)
        if job.run == "slow" and not started.is_set():
            started.set()
            assert folder.run("b.avro", run="fast") == 0

    monkeypatch.setattr(aggregate, "build", build_after_other_run)
    assert folder.run("a.avro", run="slow") == 0
    assert read_tallies(folder.results) == folder.expected(days[0] + days[1] + shared)


def test_a_run_that_died_before_its_commit_leaves_nothing_that_counts(folder, days):
    assert folder.run("day1.avro", run="day1") == 0
    expected = read_tallies(folder.results)
    [attempt] = [path for path in folder.results.glob("runs/day1/*") if path.is_dir()]
    shutil.copytree(attempt, attempt.with_name("20260101T000000.000000-dead"))
    shutil.copytree(attempt.parent, attempt.parent.with_name("never committed"))
    (attempt.parent.with_name("never committed") / "run.json").unlink()
    assert folder.run("day2.avro", run="day2") == 0
    assert folder.run("day1.avro", run="day1") == 0
    assert [path.name for path in folder.results.glob("runs/day1/*dead")] == []
    assert read_tallies(folder.results) == folder.expected(days[0] + days[1])
    assert read_tallies(folder.results) != expected


@pytest.mark.parametrize(
    ("content", "letters", "code"),
    [
        (b"", 1, 1),
        (b"time,value\n2026-01-01,3\n", 1, 1),
        (encode_avro_file([]), 0, 1),
    ],
    ids=["empty", "csv", "no reports"],
)
def test_a_run_that_accepts_no_report_fails(folder, capsys, content, letters, code):
    (folder.path / "reports" / "x.avro").write_bytes(content)
    assert folder.run("x.avro") == code
    assert "no report was accepted" in capsys.readouterr().err
    assert count_letters(folder.results) == (Counter(), letters)


def test_a_run_whose_reports_are_all_refused_fails(folder, days, capsys):
    folder.write("x.avro", [{**row, "collection": "other"} for row in days[0]])
    assert folder.run("x.avro") == 1
    captured = capsys.readouterr()
    assert "accepted 0 + refused 500 (500 unknown_collection)" in captured.out
    assert "no report was accepted" in captured.err
    assert "dead_letters" in captured.out


def test_a_run_fails_when_too_large_a_share_of_reports_is_refused(folder, days, capsys):
    rows = [{**days[0][0], "group": "XX"}, *days[0][1:100]]
    folder.write("x.avro", rows)
    assert folder.run("x.avro", options=["--max-refused", "1%"]) == 0
    assert folder.run("x.avro", options=["--max-refused", "0.5%"]) == 1
    assert "1.00% of the reports were refused, allowed: 0.50%" in capsys.readouterr().err
    (folder.path / "reports" / "y.avro").write_bytes(b"damaged")
    assert folder.run("[xy].avro", run="both", output=folder.path / "more", options=["--max-refused", "1%"]) == 1
    assert folder.run("x.avro", options=["--max-refused", "most"]) == 2
    assert "--max-refused: got 'most'" in capsys.readouterr().err


def test_a_file_that_two_patterns_find_counts_once(folder, days):
    assert folder.run("day1.avro", "*1.avro") == 0
    assert read_tallies(folder.results) == folder.expected(days[0])


def test_rollups_take_several_folders_and_count_nothing_twice(folder, days, tmp_path, capsys):
    first, second = days
    assert folder.run("day1.avro", output=tmp_path / "a") == 0
    assert folder.run("day2.avro", output=tmp_path / "b") == 0
    assert folder.rollup(tmp_path / "a", tmp_path / "b" / "histograms", output=tmp_path / "weeks") == 0
    weeks = read_results(str(tmp_path / "weeks"), "snapshots", Snapshot.from_avro)
    assert sum(s.reports for s in weeks if s.key.group is None) == len(first) + len(second)
    assert folder.rollup(tmp_path / "a", tmp_path / "a" / "histograms", output=tmp_path / "weeks") == 2
    assert "the same folder" in capsys.readouterr().err
    assert folder.run("day1.avro", output=tmp_path / "c") == 0
    assert folder.rollup(tmp_path / "a", tmp_path / "c", output=tmp_path / "weeks") == 2
    assert "have both counted" in capsys.readouterr().err
    # A roll-up of less leaves the existing files.
    assert folder.rollup(tmp_path / "a", output=tmp_path / "weeks") == 1
    assert "stay as they are" in capsys.readouterr().err
    unchanged = read_results(str(tmp_path / "weeks"), "snapshots", Snapshot.from_avro)
    assert [(s.key, s.reports) for s in unchanged] == [(s.key, s.reports) for s in weeks]


def test_streams_rollups_and_runs_have_folders_of_their_own(folder, days, tmp_path, capsys):
    assert folder.run("day1.avro") == 0
    assert folder.rollup(folder.results, output=folder.results) == 2
    assert "give roll-ups a folder of their own" in capsys.readouterr().err
    assert folder.rollup(folder.results, output=tmp_path / "weeks") == 0
    assert folder.run("day2.avro", output=tmp_path / "weeks") == 2
    assert "batch runs need their own folder" in capsys.readouterr().err
    stream_arguments = ["--watch", str(tmp_path), "--collections", str(tmp_path / "collections.yaml")]
    assert command.main(["stream", *stream_arguments, "--output", str(folder.results)]) == 2
    assert "give a stream a folder of its own" in capsys.readouterr().err


def test_the_scheduler_commands_of_the_batch_guide_run(tmp_path, monkeypatch):
    """Those of docs/batch.md, one after the other."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(Path(__file__).parents[2] / "examples", "examples")
    totals = []
    for block in read_examples("batch.md", "With a scheduler", "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(line)
            assert program == "hushgram"
            assert command.main(arguments) == 0, line
        if Path("results").exists():
            counts = read_results("results", "snapshots", Snapshot.from_avro)
            totals.append(sum(s.reports for s in counts if s.key.group is None))
    assert totals == [40_000, 39_000, 39_000]
    assert [run.name for run in committed_runs("results")] == ["2026-01-01"]
