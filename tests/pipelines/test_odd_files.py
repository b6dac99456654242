"""Files with names of every kind, and entries that are not files, in every command that reads files."""

import errno
import os
import shutil
import signal
import stat

import pytest

from hushgram import load_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.view.result_index import ResultIndex
from hushgram.transforms.filesystem import match_files, open_file
from tests.helpers.reports import compute_tallies, encode_avro_file, make_report_rows
from tests.helpers.streams import read_letters, read_tallies

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180}
    buckets: 16
    epsilon: 1.0
"""
NAMES = [
    "back\\slash.avro",
    "\\.avro",
    "[a].avro",
    "a b.avro",
    "new\nline.avro",
    "*.avro",
    "?.avro",
    "ü.avro",
    "#.avro",
]


@pytest.fixture(autouse=True)
def time_limit():
    """Ends a test that waits for a FIFO, which would wait for ever."""

    def fail(*_):
        raise TimeoutError("waited for two minutes")

    handler = signal.signal(signal.SIGALRM, fail)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)


def make_irregular_files(folder):
    """Creates entries that are not regular files, and returns by name the reason why each is passed over."""
    os.mkfifo(folder / "fifo.avro")
    os.mknod(folder / "socket.avro", stat.S_IFSOCK | 0o600)
    (folder / "zero.avro").symlink_to("/dev/zero")
    (folder / "loop.avro").symlink_to("loop.avro")
    (folder / "nowhere.avro").symlink_to("nowhere")
    (folder / "folder.avro").mkdir()
    regular = "allowed: regular files"
    return {
        "fifo.avro": f"a FIFO, {regular}",
        "loop.avro": "Too many levels of symbolic links",
        "nowhere.avro": "No such file or directory",
        "socket.avro": f"a socket, {regular}",
        "zero.avro": f"a character device, {regular}",
    }


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory):
    """Reports in files of odd names in a folder of an odd name, and a run over all that is in it."""
    base = tmp_path_factory.mktemp("odd")
    (base / "collections.yaml").write_text(YAML)
    collections = load_collections(base / "collections.yaml")
    reports = base / "re[ports] \\"
    reports.mkdir()
    rows = make_report_rows(collections["commute"], 200, 1)
    for index, name in enumerate(NAMES):
        (reports / name).write_bytes(encode_avro_file(rows[index :: len(NAMES)]))
    with open(os.fsencode(reports) + b"/\xff.avro", "wb") as file:
        file.write(b"no avro")
    (reports / "empty.avro").touch()
    reasons = make_irregular_files(reports)
    code = command.main(["aggregate", *build_arguments(base), "--output", str(base / "results")])
    return base, code, compute_tallies(list(collections.values()), rows), reasons


def build_arguments(base):
    return ["--collections", str(base / "collections.yaml"), "--input", f"{base}/re[[]ports] \\/*.avro"]


def test_aggregate_reads_every_regular_file_and_nothing_else(odd_run):
    base, code, tallies, _ = odd_run
    assert code == 0
    assert read_tallies(base / "results") == tallies
    letters = {os.path.basename(letter.source): letter.reason for letter in read_letters(base / "results")}
    assert letters == {"\\udcff.avro": "undecodable", "empty.avro": "undecodable"}


def test_check_counts_reports_and_names_entries_that_it_passes_over(odd_run, capsys):
    base, *_, reasons = odd_run
    assert command.main(["check", *build_arguments(base)]) == 1
    captured = capsys.readouterr()
    [accepted] = [line for line in captured.out.splitlines() if line.startswith("accept")]
    assert accepted.split()[1] == "200"
    folder = f"{base}/re[ports] \\"
    assert captured.err.splitlines() == [
        f"hushgram: {folder}/{name}: passed over: {reason}" for name, reason in sorted(reasons.items())
    ]


@pytest.mark.parametrize("name", ["fifo.avro", "socket.avro", "loop.avro", "zero.avro"])
@pytest.mark.parametrize("subcommand", ["aggregate", "check"])
def test_a_pattern_without_a_readable_file_is_refused_with_a_reason(odd_run, capsys, subcommand, name):
    base, *_, reasons = odd_run
    path = f"{base}/re[ports] \\/{name}"
    output = ["--output", f"{base}/none"] if subcommand == "aggregate" else []
    assert command.main([subcommand, "--collections", f"{base}/collections.yaml", "--input", path, *output]) == 2
    assert capsys.readouterr().err == f"hushgram: --input {path}: nothing to read; {path}: {reasons[name]}\n"


def test_a_file_whose_disk_fails_ends_a_run_with_one_line(odd_run, tmp_path, capsys):
    base, *_ = odd_run
    shutil.copy(base / "re[ports] \\" / "a b.avro", tmp_path)
    (tmp_path / "broken.avro").symlink_to("/proc/self/mem")  # regular, not empty, and nobody can read its first byte
    (tmp_path / "compressed.avro.gz").symlink_to("/proc/self/mem")
    for pattern in ("*.avro", "*.gz"):
        arguments = ["--collections", f"{base}/collections.yaml", "--input", f"{tmp_path}/{pattern}"]
        assert command.main(["aggregate", *arguments, "--output", f"{tmp_path}/results"]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "Input/output error" in line
        assert f"{tmp_path}/" in line


@pytest.fixture
def results(odd_run, tmp_path):
    """Results in a folder of an odd name, with other files of odd names, and with entries that are not files."""
    base, *_ = odd_run
    results = tmp_path / "re[sults] *\\"
    shutil.copytree(base / "results", results)
    for kind in ("snapshots", "histograms"):
        [folder] = (results / kind).iterdir()
        make_irregular_files(folder)
        for index, file in enumerate(sorted(path for path in folder.iterdir() if path.name.startswith("2026"))):
            file.rename(folder / NAMES[index])
    return results


def test_show_and_rollup_pass_over_entries_that_are_not_files(odd_run, results, tmp_path, capsys):
    base, _, tallies, reasons = odd_run
    assert command.main(["show", str(results)]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("2026-01-01 ") == 3
    assert [line.rpartition("/")[2] for line in captured.err.splitlines()] == [
        f"{name}: passed over: {reason}" for name, reason in sorted(reasons.items())
    ]
    merged = tmp_path / "merged"
    arguments = ["--collections", f"{base}/collections.yaml", "--input", str(results), "--output", str(merged)]
    assert command.main(["rollup", *arguments]) == 0
    assert read_tallies(merged) == tallies
    assert capsys.readouterr().err.count("passed over") == len(reasons)


def test_view_reports_entries_that_are_not_files_as_problems(odd_run, results):
    *_, reasons = odd_run
    index = ResultIndex(str(results))
    assert index.refresh()
    assert len(index.catalogue.collections["commute"].windows) == 3
    problems = {os.path.basename(problem.file): problem.what for problem in index.catalogue.problems}
    assert problems == reasons


def forbid_listing(monkeypatch, folder):
    """As to a user who may not; root may."""

    def scandir(path, real=os.scandir):
        if str(path) == str(folder):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)


def test_a_folder_that_cannot_be_listed_is_named(odd_run, tmp_path, monkeypatch, capsys):
    base, *_ = odd_run
    results = shutil.copytree(base / "results", tmp_path / "results")
    hidden = results / "snapshots" / "collection=other"
    hidden.mkdir()
    forbid_listing(monkeypatch, hidden)
    for arguments, code in ((["show"], 0), (["compact"], 1)):
        capsys.readouterr()
        assert command.main([*arguments, str(results)]) == code
        assert capsys.readouterr().err == f"hushgram: {hidden}: passed over: Permission denied\n"
    index = ResultIndex(str(results))
    assert index.refresh()
    assert [vars(problem) for problem in index.catalogue.problems] == [
        {"file": "snapshots/collection=other", "what": "Permission denied"}
    ]


def test_a_file_that_goes_while_it_is_listed_is_not_passed_over(tmp_path, monkeypatch):
    for name in ("a.avro", "b.avro"):
        (tmp_path / name).touch()

    def stat_later(path, *, real=os.stat, **options):
        (tmp_path / "a.avro").unlink(missing_ok=True)
        return real(path, **options)

    monkeypatch.setattr("hushgram.transforms.filesystem.os.stat", stat_later)
    found = match_files("*.avro", str(tmp_path))
    assert ([file.path for file in found.files], found.passed_over) == ([f"{tmp_path}/b.avro"], ())


def test_file_patterns_match_as_in_beam(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.avro", "in/b.avro", "in/deep/c.avro", "in/.hidden.avro", "in/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()

    def find_paths(pattern):
        return [file.path for file in match_files(pattern).files]

    assert find_paths("*.avro") == ["a.avro"]
    assert find_paths("in/*.avro") == ["in/.hidden.avro", "in/b.avro"]
    assert find_paths("./in/?.avro") == ["./in/b.avro"]
    assert find_paths("in/[!a-c].*") == ["in/d.json"]
    assert find_paths("in/[]b].avro") == ["in/b.avro"]
    assert find_paths("**.avro") == ["a.avro", "in/.hidden.avro", "in/b.avro", "in/deep/c.avro"]
    assert find_paths(f"{tmp_path}/*/deep/") == [f"{tmp_path}/in/deep/c.avro"]
    assert find_paths("in/b.avro") == ["in/b.avro"]
    (tmp_path / "in" / "[b].avro").touch()
    assert find_paths("in/[b].avro") == ["in/b.avro"]
    (tmp_path / "in" / "b.avro").unlink()
    assert find_paths("in/[b].avro") == find_paths("in/[[]b].avro") == ["in/[b].avro"]
    assert find_paths("in/[b.avro") == find_paths("nowhere/*") == find_paths("in/x.avro") == []


def test_a_fifo_put_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="a FIFO, allowed: regular files"):
        open_file(str(tmp_path / "fifo"))
