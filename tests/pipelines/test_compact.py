"""`hushgram compact`: what it says, what it leaves alone, and that the commands and the page read on."""

import os
import shutil
import signal
import time
from dataclasses import replace
from itertools import count

import pyarrow.parquet as pq
import pytest

from hushgram.pipelines.cli import command
from hushgram.pipelines.show import Follower
from hushgram.pipelines.view.result_index import ResultIndex
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.records import Snapshot
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.folding import HISTOGRAMS, KINDS, SNAPSHOTS, write_panes
from hushgram.transforms.sinks.files import FORMATS
from hushgram.transforms.sinks.layout import folder_of
from hushgram.transforms.sources.result_files import read_results, result_files
from tests.helpers.foreign_files import ForeignFileSystem
from tests.helpers.pages import unpack
from tests.helpers.panes import make_answer
from tests.helpers.reports import HOUR, START

TIMINGS = ("early", "on_time", "late")


def write_answers(directory, answers, kinds=KINDS):
    for pair in answers:
        for kind, answer in zip((SNAPSHOTS, HISTOGRAMS), pair, strict=True):
            if kind in kinds:
                write_panes(kind, f"{directory}/{kind.name}/{folder_of(answer.key)}", "avro", [answer])


@pytest.fixture
def results(tmp_path):
    """Two windows of two groups, with three panes each, of two days."""
    for start in (START, START + 24 * HOUR):
        write_answers(
            tmp_path,
            [
                make_answer(group, 1000 + 10 * index, index, timing, start=start)
                for index, timing in enumerate(TIMINGS)
                for group in (None, "DE")
            ],
        )
    return tmp_path


def best_of(directory):
    return [(s.key, s.rank, s.mean) for s in read_results(str(directory), "snapshots", Snapshot.from_avro)]


def compact(directory, *options):
    return command.main(["compact", str(directory), *options])


def test_it_says_what_it_does_and_does_it_once(results, capsys):
    before = best_of(results)
    assert compact(results, "--older-than", "0s", "--dry-run") == 0
    folder = "snapshots/collection=c/date=2026-01-01"
    said = capsys.readouterr().out
    assert f"{folder}: 6 files: 6 panes, 2 of them best\n" in said
    assert said.endswith("would fold 24 files\n")
    assert len(result_files(str(results), "snapshots")) == 12
    assert compact(results, "--older-than", "0s") == 0
    said = capsys.readouterr().out
    assert f"{folder}: 6 files -> 1 file: 6 panes, 2 of them best\n" in said
    assert said.endswith("folded 24 files into 4\n")
    assert len(result_files(str(results), "snapshots")) == len(result_files(str(results), "histograms")) == 2
    assert best_of(results) == before
    assert compact(results, "--older-than", "0s") == 0
    assert capsys.readouterr().out == "folded 0 files into 0\n"


def test_results_on_another_file_system_are_folded_and_exported_there(results, monkeypatch):
    monkeypatch.setattr(ForeignFileSystem, "HOME", str(results.parent))
    elsewhere, before = f"elsewhere://{results.name}", best_of(results)
    assert compact(elsewhere, "--older-than", "0s", "--dry-run") == 0
    assert len(result_files(elsewhere, "snapshots")) == 12
    assert compact(elsewhere, "--older-than", "0s") == 0
    assert len(result_files(elsewhere, "snapshots")) == len(result_files(elsewhere, "histograms")) == 2
    assert best_of(results) == best_of(elsewhere) == before
    assert command.main(["export", elsewhere, "--output", f"{elsewhere}/tables"]) == 0
    assert pq.read_table(results / "tables" / "windows.parquet").num_rows == len(before)
    assert not [path for path in results.rglob(".*") if path.is_file()]


def test_kill_9_before_any_change_of_the_folder_loses_no_best_pane(results, tmp_path_factory):
    """A process that kills itself before its n-th change, for every n; the next run completes the work."""
    before = best_of(results)
    for step in count(1):
        copy = tmp_path_factory.mktemp("copy") / "results"
        shutil.copytree(results, copy)
        was_killed = compact_until(copy, step)
        assert best_of(copy) == before
        assert compact(copy, "--older-than", "0s") == 0
        assert best_of(copy) == before
        assert len(result_files(str(copy), "snapshots")) == len(result_files(str(copy), "histograms")) == 2
        if not was_killed:
            break
    assert step > 24, "as many changes as there are files, and more"


def compact_until(directory, step):
    """Compacts in a process of its own; whether it came to its `step`-th change, before which it kills itself."""
    pid = os.fork()
    if pid == 0:
        changes = count(1)

        def or_kill(change):
            def changed(*arguments, **options):
                if next(changes) == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return change(*arguments, **options)

            return changed

        os.replace, os.unlink = or_kill(os.replace), or_kill(os.unlink)
        try:
            os._exit(compact(directory, "--older-than", "0s"))
        finally:
            os._exit(70)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def test_what_was_written_just_now_is_left_alone(results, capsys):
    assert compact(results) == 0
    assert capsys.readouterr().out == "folded 0 files into 0; 24 files younger than 10m left alone\n"
    hour_ago = time.time() - 3600
    for path in result_files(str(results), "snapshots"):
        os.utime(path, (hour_ago, hour_ago))
    assert compact(results, "--format", "parquet") == 0
    assert capsys.readouterr().out.endswith("folded 12 files into 2; 12 files younger than 10m left alone\n")
    assert all(path.endswith(".parquet") for path in result_files(str(results), "snapshots"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["/nowhere"], "hushgram: /nowhere: no such directory\n"),
        (["tests"], "hushgram: tests: no snapshots there, as .avro, .parquet, .jsonl files below a folder for each "),
        (["tests", "--older-than", "soon"], "hushgram: --older-than: got 'soon', allowed: a whole number with a unit"),
    ],
)
def test_a_mistake_ends_with_a_line(arguments, line, capsys):
    assert command.main(["compact", *arguments]) == 2
    assert capsys.readouterr().err.startswith(line)


def test_a_file_that_cannot_be_read_is_named_and_stays(results, capsys):
    damaged = results / "snapshots" / "collection=c" / "date=2026-01-01" / "damaged.avro"
    damaged.write_bytes(b"Obj\x01")
    assert compact(results, "--older-than", "0s") == 1
    assert f"hushgram: left alone: {damaged}: cannot be read" in capsys.readouterr().err
    assert damaged.exists()
    assert len(result_files(str(results), "snapshots")) == 3


def test_a_full_disk_ends_with_a_line(results, capsys, monkeypatch):
    before = best_of(results)

    def fail(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("hushgram.transforms.filesystem.os.fsync", fail)
        assert compact(results, "--older-than", "0s") == 2
    assert capsys.readouterr().err.startswith(f"hushgram: RESULTS {results}: cannot be written: ")
    assert best_of(results) == before
    assert len(result_files(str(results), "snapshots")) == 12


def test_show_follows_each_pane_once_while_files_are_folded(tmp_path):
    follower, lines = Follower(str(tmp_path)), []
    for index in range(40):
        write_answers(tmp_path, [make_answer(None, 1000 + index, index)], (SNAPSHOTS,))
        if index % 3 == 0:
            lines += follower.lines()
        if index % 10 == 9:
            compact(tmp_path, "--older-than", "0s")
    lines += follower.lines()
    assert len(lines) == len(set(lines)) <= 40
    assert "1,039 reports" in lines[-1]


def test_the_page_shows_every_window_while_files_are_folded(results):
    index = ResultIndex(str(results))
    assert index.refresh()
    outline = index.outline()
    [collection] = outline["collections"]
    before = [unpack(index.chunk(outline["run"], window["id"]))[0]["groups"] for window in collection["windows"]]
    assert [len(group["movement"]["panes"]) for groups in before for group in groups] == [3, 3, 3, 3]
    assert compact(results, "--older-than", "0s") == 0
    # The page asks for what it knew of before, and is given it from where it went.
    for window, groups in zip(collection["windows"], before, strict=True):
        now = unpack(index.chunk(outline["run"], window["id"]))[0]["groups"]
        assert [(group["reports"], group["mean"]) for group in now] == [(g["reports"], g["mean"]) for g in groups]
    assert index.refresh()
    assert not index.catalogue.problems
    [collection] = index.outline()["collections"]
    assert len(collection["windows"]) == 2
    after = [unpack(index.chunk(outline["run"], window["id"]))[0]["groups"] for window in collection["windows"]]
    assert [len(group["movement"]["panes"]) for groups in after for group in groups] == [1, 1, 1, 1]


def test_a_file_that_goes_while_the_page_reads_is_no_problem_and_no_window_is_missing(results, monkeypatch):
    index = ResultIndex(str(results))
    read, folded = index._read, []

    def read_and_fold(file):
        if len(folded) < 3:
            folded.append(file.path)
            compact(results, "--older-than", "0s")
        return read(file)

    monkeypatch.setattr(index, "_read", read_and_fold)
    assert index.refresh()
    assert folded
    assert not index.catalogue.problems
    assert len(index.catalogue.collections["c"].windows) == 2


def test_of_two_panes_of_one_rank_the_page_and_show_take_the_same(results):
    """Whichever file came first."""
    folder = results / "snapshots" / "collection=c" / "date=2026-01-01"
    index = ResultIndex(str(results))
    index.refresh()
    snapshot, _ = make_answer(None, 1020, 2, "late")
    data = FORMATS["avro"](SNAPSHOT, [replace(snapshot, mean=0.25)])
    write_atomically(str(folder / "a-first-by-name.avro"), data)
    index.refresh()
    [best, *_] = read_results(str(results), "snapshots", Snapshot.from_avro)
    [*_, shown] = index.catalogue.collections["c"].panes[None][START, START + HOUR]
    assert (best.rank, best.mean) == (shown.numbers.rank, shown.numbers.mean) == (snapshot.rank, 0.25)


def test_the_page_finds_the_tallies_of_a_stream_in_their_folder(results):
    index = ResultIndex(str(results))
    index.refresh()
    outline = index.outline()
    [collection] = outline["collections"]
    window, group = collection["windows"][0]["id"], collection["groups"][1]["id"]
    write_answers(results, [make_answer("FR", 500, 0, "on_time")])
    index.refresh()
    others, _ = unpack(index.others(outline["run"], window, group))
    assert others.get("problem") is None
    assert others["reports"] == 500
