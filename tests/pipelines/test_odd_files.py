"""Files with names of every kind, and what is no file at all, in every command that reads files."""

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
def ends_by_itself():
    """What waits for a FIFO would wait for ever."""

    def waited(*_):
        raise TimeoutError("waited for two minutes")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def no_files(folder):
    """What is no regular file: of these names, the reasons why nothing is read from them."""
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
def counted(tmp_path_factory):
    """Reports in files of odd names in a folder of an odd name, and a run over all that is in it."""
    base = tmp_path_factory.mktemp("odd")
    (base / "collections.yaml").write_text(YAML)
    collections = load_collections(base / "collections.yaml")
    reports = base / "re[ports] \\"
    reports.mkdir()
    rows = make_report_rows(collections["commute"], 200, 1)
    for place, name in enumerate(NAMES):
        (reports / name).write_bytes(encode_avro_file(rows[place :: len(NAMES)]))
    with open(os.fsencode(reports) + b"/\xff.avro", "wb") as file:
        file.write(b"no avro")
    (reports / "empty.avro").touch()
    reasons = no_files(reports)
    code = command.main(["aggregate", *arguments(base), "--output", str(base / "results")])
    return base, code, compute_tallies(list(collections.values()), rows), reasons


def arguments(base):
    return ["--collections", str(base / "collections.yaml"), "--input", f"{base}/re[[]ports] \\/*.avro"]


def test_aggregate_reads_every_regular_file_and_nothing_else(counted):
    base, code, tallies, _ = counted
    assert code == 0
    assert read_tallies(base / "results") == tallies
    letters = {os.path.basename(letter.source): letter.reason for letter in read_letters(base / "results")}
    assert letters == {"\\udcff.avro": "undecodable", "empty.avro": "undecodable"}


def test_check_tells_what_it_reads_and_what_it_passes_over(counted, capsys):
    base, *_, reasons = counted
    assert command.main(["check", *arguments(base)]) == 1
    said = capsys.readouterr()
    [accepted] = [line for line in said.out.splitlines() if line.startswith("accept")]
    assert accepted.split()[1] == "200"
    folder = f"{base}/re[ports] \\"
    assert said.err.splitlines() == [
        f"hushgram: {folder}/{name}: passed over: {reason}" for name, reason in sorted(reasons.items())
    ]


@pytest.mark.parametrize("name", ["fifo.avro", "socket.avro", "loop.avro", "zero.avro"])
@pytest.mark.parametrize("before", ["aggregate", "check"])
def test_a_pattern_that_finds_nothing_to_read_is_told(counted, capsys, before, name):
    base, *_, reasons = counted
    path = f"{base}/re[ports] \\/{name}"
    output = ["--output", f"{base}/none"] if before == "aggregate" else []
    assert command.main([before, "--collections", f"{base}/collections.yaml", "--input", path, *output]) == 2
    assert capsys.readouterr().err == f"hushgram: --input {path}: nothing to read; {path}: {reasons[name]}\n"


def test_a_file_whose_disk_fails_ends_a_run_with_one_line(counted, tmp_path, capsys):
    base, *_ = counted
    shutil.copy(base / "re[ports] \\" / "a b.avro", tmp_path)
    (tmp_path / "broken.avro").symlink_to("/proc/self/mem")  # regular, not empty, and nobody can read its first byte
    (tmp_path / "compressed.avro.gz").symlink_to("/proc/self/mem")
    for pattern in ("*.avro", "*.gz"):
        given = ["--collections", f"{base}/collections.yaml", "--input", f"{tmp_path}/{pattern}"]
        assert command.main(["aggregate", *given, "--output", f"{tmp_path}/results"]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "Input/output error" in line
        assert f"{tmp_path}/" in line


@pytest.fixture
def results(counted, tmp_path):
    """Results in a folder of an odd name, with other files among them of odd names, and with what is no file."""
    base, *_ = counted
    results = tmp_path / "re[sults] *\\"
    shutil.copytree(base / "results", results)
    for kind in ("snapshots", "histograms"):
        [folder] = (results / kind).iterdir()
        no_files(folder)
        for place, file in enumerate(sorted(path for path in folder.iterdir() if path.name.startswith("2026"))):
            file.rename(folder / NAMES[place])
    return results


def test_show_and_rollup_pass_over_what_is_no_file(counted, results, tmp_path, capsys):
    base, _, tallies, reasons = counted
    assert command.main(["show", str(results)]) == 0
    said = capsys.readouterr()
    assert said.out.count("2026-01-01 ") == 3
    assert [line.rpartition("/")[2] for line in said.err.splitlines()] == [
        f"{name}: passed over: {reason}" for name, reason in sorted(reasons.items())
    ]
    merged = tmp_path / "merged"
    given = ["--collections", f"{base}/collections.yaml", "--input", str(results), "--output", str(merged)]
    assert command.main(["rollup", *given]) == 0
    assert read_tallies(merged) == tallies
    assert capsys.readouterr().err.count("passed over") == len(reasons)


def test_view_tells_what_is_no_file_as_a_problem(counted, results):
    *_, reasons = counted
    index = ResultIndex(str(results))
    assert index.refresh()
    assert len(index.catalogue.collections["commute"].windows) == 3
    problems = {os.path.basename(problem.file): problem.what for problem in index.catalogue.problems}
    assert problems.keys() == reasons.keys()
    assert "a FIFO, allowed: regular files" in problems["fifo.avro"]


def test_patterns_mean_what_they_mean_to_beam(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.avro", "in/b.avro", "in/deep/c.avro", "in/.hidden.avro", "in/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()

    def found(pattern):
        return [file.path for file in match_files(pattern).files]

    assert found("*.avro") == ["a.avro"]
    assert found("in/*.avro") == ["in/.hidden.avro", "in/b.avro"]
    assert found("./in/?.avro") == ["./in/b.avro"]
    assert found("in/[!a-c].*") == ["in/d.json"]
    assert found("in/[]b].avro") == ["in/b.avro"]
    assert found("**.avro") == ["a.avro", "in/.hidden.avro", "in/b.avro", "in/deep/c.avro"]
    assert found(f"{tmp_path}/*/deep/") == [f"{tmp_path}/in/deep/c.avro"]
    assert found("in/b.avro") == ["in/b.avro"]
    (tmp_path / "in" / "[b].avro").touch()
    assert found("in/[b].avro") == ["in/b.avro"]
    (tmp_path / "in" / "b.avro").unlink()
    assert found("in/[b].avro") == found("in/[[]b].avro") == ["in/[b].avro"]
    assert found("in/[b.avro") == found("nowhere/*") == found("in/x.avro") == []


def test_a_fifo_put_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="a FIFO, allowed: regular files"):
        open_file(str(tmp_path / "fifo"))
