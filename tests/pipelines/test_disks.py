"""Disks that are full, and places that cannot be written: one line, nothing half-written, nothing hidden left."""

import os
import re

import pytest
from apache_beam.io.filesystem import BeamIOError

from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.cli.outputs import RESULTS, check_directory, check_file, disk_error
from hushgram.transforms.filesystem import atomically
from tests.helpers.small_disk import SIZE, run_on_small_disk

pytestmark = pytest.mark.slow

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 512
    epsilon: 1.0
    windows: {size: 1h}
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Collections, reports and results of them."""
    base = tmp_path_factory.mktemp("disks")
    (base / "collections.yaml").write_text(YAML)
    collections = ["--collections", str(base / "collections.yaml")]
    simulation = ["simulate", *collections, "--reports", "500", "--hours", "6", "--output", str(base / "reports")]
    assert command.main(simulation) == 0
    aggregation = [
        "aggregate",
        *collections,
        "--input",
        str(base / "reports" / "*.avro"),
        "--output",
        str(base / "results"),
    ]
    assert command.main(aggregation) == 0
    return base


def list_commands(base, output):
    """Every command that writes, with its arguments."""
    collections = ["--collections", str(base / "collections.yaml")]
    return {
        "aggregate": ["aggregate", *collections, "--input", f"{base}/reports/*.avro", "--output", f"{output}/results"],
        "simulate": ["simulate", *collections, "--reports", "20000", "--output", f"{output}/reports"],
        "packed": ["simulate", *collections, "--packed", "--reports", "90000", "--output", f"{output}/reports"],
        "rollup": ["rollup", *collections, "--input", f"{base}/results", "--output", f"{output}/merged"],
        "export": ["export", f"{base}/results", "--output", f"{output}/tables", "--format", "csv"],
        "view": ["view", f"{base}/results", "--output", f"{output}/page.html"],
        "plan": ["plan", *collections, "--reports", "100", "--runs", "2", "--plot", f"{output}/plan.png"],
    }


PROGRESS = re.compile(r"running, |[0-9,]+ reports read, ")
"""Progress lines in a log, which a busy machine may print."""


@pytest.mark.slow
def test_on_a_full_disk_a_command_ends_with_one_line_and_leaves_nothing_half_written(base, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    arguments_by_command = list_commands(base, disk)
    fits = ["simulate", *arguments_by_command["simulate"][1:3], "--reports", "9", "--output", f"{disk}/reports"]
    *failed, last = run_on_small_disk(tmp_path, disk, [*arguments_by_command.values(), fits])
    assert last.code == 0, last
    for name, result in zip(arguments_by_command, failed, strict=True):
        lines = [line for line in result.errors.splitlines() if not PROGRESS.match(line)]
        assert result.code == 2, (name, result)
        assert len(lines) == 1, (name, result.errors)
        assert lines[0].startswith("hushgram: "), lines
        assert f"{disk}/" in lines[0], lines
        assert lines[0].count("No space left on device") == 1, lines
        assert not [path for path in result.remaining if os.path.basename(path).startswith(".")], (
            name,
            result.remaining,
        )
        assert sum(result.remaining.values()) <= SIZE
        if name in ("simulate", "packed", "view", "plan"):
            assert not result.remaining, (name, result.remaining)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("file", "Not a directory"), ("circle", "Too many levels of symbolic links"), ("full", "No space left on device")],
)
def test_an_output_that_cannot_be_written_is_reported_before_any_work(
    base, tmp_path, capsys, monkeypatch, kind, reason
):
    """A file where a directory should be, and a link in a circle, stop everybody; so does a full disk."""
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("no directory")
    elif kind == "circle":
        place.symlink_to("place")
    else:
        place.mkdir()
        monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: open("/dev/full", "wb"))  # noqa: SIM115
    arguments_by_command = list_commands(base, place)
    arguments_by_command["stream"] = [
        "stream",
        *arguments_by_command["aggregate"][1:3],
        "--watch",
        str(base),
        "--output",
        f"{place}/results",
    ]
    if kind != "full":
        del arguments_by_command["plan"]  # which wants a folder that is there
    for name, arguments in arguments_by_command.items():
        assert command.main(arguments) == 2, name
        captured = capsys.readouterr()
        option = "--plot" if name == "plan" else "--output"
        assert captured.err.startswith(f"hushgram: {option} {place}/"), (name, captured)
        assert captured.err.endswith(f": cannot be written: {place}: {reason}\n"), (name, captured)
        assert captured.err.count("\n") == 1
        assert captured.out == ""
    assert os.listdir(tmp_path) == ["place"]


def list_places(base, place):
    """Every command that reads results, or writes files, with its arguments; all work on this place."""
    collections = ["--collections", str(base / "collections.yaml")]
    writing = {f"{name}, to": part for name, part in list_commands(base, place).items() if name not in ("view", "plan")}
    return writing | {
        "show": ["show", place],
        "changes": ["changes", place],
        "compare": ["compare", place, "--groups", "DE"],
        "compact": ["compact", place],
        "export": ["export", place, "--output", str(base / "never")],
        "view": ["view", place, "--output", str(base / "never.html")],
        "rollup": ["rollup", *collections, "--input", place, "--output", str(base / "never")],
        "aggregate": ["aggregate", *collections, "--input", f"{place}/*.avro", "--output", str(base / "never")],
        "stream": ["stream", *collections, "--watch", place, "--output", str(base / "never")],
        "stream, to": ["stream", *collections, "--watch", str(base), "--output", place],
        "stream on Flink": ["stream", *collections, "--watch", str(base), "--output", place, "--runner=FlinkRunner"],
        "aggregate on Flink": [*list_commands(base, place)["aggregate"], "--runner=FlinkRunner"],
    }


def test_an_address_without_a_file_system_is_one_line_of_every_command(base, capsys, monkeypatch):
    """A slip in gs://, or a library that is missing."""
    here = {path for path in base.rglob("*") if path.is_file()}
    monkeypatch.chdir(base)
    for name, arguments in list_places(base, "gcs://bucket/results").items():
        assert command.main(arguments) == 2, name
        captured = capsys.readouterr()
        [line] = captured.err.splitlines()
        assert "gcs://bucket/results" in line, name
        assert "Unable to get filesystem" in line or line.endswith("allowed: a folder of this machine"), (name, line)
        assert captured.out == "", name
    assert {path for path in base.rglob("*") if path.is_file()} == here


def test_a_store_that_refuses_is_one_line_of_every_command_that_reads_results(base, capsys, monkeypatch):
    def refuse(*_):
        raise BeamIOError("Match operation failed", {"gs://bucket": PermissionError("403: no such credentials")})

    monkeypatch.setattr("hushgram.transforms.filesystem._remote_files", refuse)
    for name, arguments in list_places(base, "gs://bucket/results").items():
        if name.startswith(("stream", "simulate", "packed", "export, to")):  # they list nothing there
            continue
        assert command.main(arguments) == 2, name
        [line] = capsys.readouterr().err.splitlines()
        assert "gs://bucket/results" in line, name
        assert "cannot be read: Match operation failed" in line, (name, line)


def test_a_folder_of_the_results_that_cannot_be_written_is_reported_before_any_work(base, tmp_path, capsys):
    for folder in ("snapshots", "histograms", "runs"):
        results = tmp_path / folder
        results.mkdir()
        (results / folder).symlink_to(folder)
        arguments = list_commands(base, tmp_path)["aggregate"]
        assert command.main([*arguments[:-1], str(results)]) == 2
        assert f"--output {results}: cannot be written: {results / folder}: Too many levels" in capsys.readouterr().err
        assert os.listdir(results) == [folder]


def test_checking_an_output_that_can_be_written_changes_nothing(tmp_path):
    check_directory("--output", str(tmp_path / "not" / "there" / "yet"), RESULTS)
    check_directory("--output", "gs://bucket/results", RESULTS)
    check_file("--plot", str(tmp_path / "plan.png"))
    check_file("--output", "gs://bucket/page.html")
    assert os.listdir(tmp_path) == []
    with pytest.raises(UsageError, match=f"--plot {tmp_path}: cannot be written: Is a directory"):
        check_file("--plot", str(tmp_path))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_atomic_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "deep" / "file"

    def write_half(text):
        with atomically(str(path)) as file:
            file.write(text)
            raise error

    with pytest.raises(error):
        write_half(b"never")
    assert os.listdir(path.parent) == []
    with atomically(str(path)) as file:
        file.write(b"whole")
    with pytest.raises(error):
        write_half(b"half")
    assert (os.listdir(path.parent), path.read_bytes()) == (["file"], b"whole")


def test_errors_of_atomic_files_name_the_file_itself(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "something").touch()
    with pytest.raises(OSError, match=r"Is a directory: '.*/taken'"), atomically(str(tmp_path / "taken")) as file:
        file.write(b"x")
    long = str(tmp_path / ("ü" * 127))  # as long as a name may be
    with atomically(long) as file:
        file.write(b"x")
    assert sorted(os.listdir(tmp_path)) == sorted(["taken", "ü" * 127])


def test_disk_error_finds_the_cause_behind_an_error():
    assert disk_error(ValueError("a fault of ours")) is None
    assert disk_error(OSError("without a number")) is None
    assert (
        disk_error(PermissionError(13, "Permission denied", "/reports/a.avro")) == "/reports/a.avro: Permission denied"
    )
    quoted = RuntimeError("PermissionError: [Errno 13] Permission denied: \"/it's.avro\" [while running 'Read']")
    assert disk_error(quoted) == "/it's.avro: Permission denied"
    own_error = ValueError("a fault of ours, while an OSError was looked at")
    own_error.__context__ = OSError(2, "No such file or directory")
    assert disk_error(own_error) is None
    assert disk_error(RuntimeError("x\nOSError: [Errno 5] Input/output error\n")) == "Input/output error"
