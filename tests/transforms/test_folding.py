"""Files of results folded into fewer: few files, no pane lost, and every best pane seen at every moment."""

import errno
import json
import math
import os
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram.schemas.avro_schemas import HISTOGRAM, SNAPSHOT
from hushgram.schemas.records import Histogram, Key, Pane
from hushgram.transforms import folding
from hushgram.transforms.compaction import folders
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.folding import HISTOGRAMS, KINDS, MERGED_AT, SNAPSHOTS, write_panes
from hushgram.transforms.sinks.files import FORMATS, as_json_lines
from hushgram.transforms.sinks.layout import folder_of
from hushgram.transforms.sinks.window_files import write_window
from hushgram.transforms.sources import result_files as reading
from hushgram.transforms.sources.result_files import (
    best,
    each_best,
    read_histograms,
    read_results,
    read_snapshots,
    result_files,
)
from tests.helpers.pages import pane_name
from tests.helpers.panes import COLLECTION, make_answer
from tests.helpers.reports import DAY, HOUR, START

REVISION = COLLECTION.revision


def make_histogram(reports, index=0, group=None, hour=0, timing="early", collection="c"):
    key = Key(collection, group, START + hour * HOUR, START + (hour + 1) * HOUR)
    return Histogram(key, Pane(0, index, timing), {REVISION: (reports, np.array([reports, 0, 0, 0]))})


def write(directory, panes, format_name="avro"):
    """As a stream does, each folder at once."""
    by_folder = {}
    for pane in panes:
        by_folder.setdefault(folder_of(pane.key), []).append(pane)
    for folder, together in by_folder.items():
        write_panes(HISTOGRAMS, f"{directory}/histograms/{folder}", format_name, together)


def compact(directory, changed_before=math.inf, **options):
    found = [folder for kind in KINDS for folder in folders(kind, str(directory), changed_before)]
    return [folder.compact(**options) for folder in found]


def identities(histograms):
    return sorted((h.key.group or "", h.key.window_start, h.rank) for h in histograms)


def all_panes(directory):
    return [pane for path in result_files(str(directory), "histograms") for pane in HISTOGRAMS.read(path)]


def names(directory):
    return sorted(os.path.basename(path) for path in result_files(str(directory), "histograms"))


# A day of a stream ---------------------------------------------------------------------------------------------------


def test_a_day_of_a_stream_is_in_tens_of_files_and_two_when_it_is_compacted(tmp_path):
    """Hourly windows of three groups and of all, a pane of each every minute, and a late one at its expiry, minute by
    minute as `WritePanes` has them. With a file for each these were 5,856, of snapshots as many, and more late ones."""
    panes = []
    for minute in range(24 * 60):
        hour, of_hour = divmod(minute, 60)
        together = [
            make_histogram(1 + of_hour, of_hour, group, hour, "on_time" if of_hour == 59 else "early")
            for group in (None, "DE", "FR", "US")
        ]
        write(tmp_path, together)
        panes += together
    for hour in range(24):
        late = [make_histogram(99, 60, group, hour, "late") for group in (None, "DE", "FR", "US")]
        write(tmp_path, late)
        panes += late
    assert len(panes) == 4 * 24 * 61
    assert identities(all_panes(tmp_path)) == identities(panes)
    assert len(names(tmp_path)) <= 4 * MERGED_AT
    [done] = compact(tmp_path)
    assert (done.panes, done.kept, done.written) == (len(panes), 4 * 24, 1)
    assert len(names(tmp_path)) == 1
    assert identities(all_panes(tmp_path)) == identities(best(panes))


def test_large_files_are_not_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(folding, "SMALL", 2000)
    for index in range(200):
        write(tmp_path, [make_histogram(index + 1, index)])
    sizes = [os.path.getsize(path) for path in result_files(str(tmp_path), "histograms")]
    assert 0 < sum(size < 2000 for size in sizes) < 2 * MERGED_AT
    assert sum(size >= 2000 for size in sizes) >= 2
    assert len(all_panes(tmp_path)) == 200


def test_results_that_are_too_many_for_one_file_are_split(tmp_path, monkeypatch):
    panes = [make_histogram(1 + index, index, group=str(index)) for index in range(60)]
    monkeypatch.setattr(folding, "LARGEST", 3 * len(FORMATS["avro"](HISTOGRAM, panes)) // 4)
    write(tmp_path, panes)
    assert len(names(tmp_path)) > 1
    assert identities(all_panes(tmp_path)) == identities(panes)
    [done] = compact(tmp_path)
    assert done.written == len(names(tmp_path)) > 1
    before = names(tmp_path)
    assert [one.files for one in compact(tmp_path)] == [0]
    assert names(tmp_path) == before


def test_a_file_that_cannot_be_read_stays_where_it_is(tmp_path, caplog):
    folder = tmp_path / "histograms" / "collection=c" / "date=2026-01-01"
    folder.mkdir(parents=True)
    (folder / "panes-damaged.avro").write_bytes(b"Obj\x01" + bytes(1500))
    for index in range(MERGED_AT):
        write(tmp_path, [make_histogram(index + 1, index)])
    assert len(names(tmp_path)) <= MERGED_AT
    assert "left alone: " in caplog.text
    (folder / "panes-damaged.avro").rename(folder / "damaged.avro")
    stray = tmp_path / "histograms" / "collection=c" / "date=2026-01-02"
    stray.mkdir()
    shutil.copy(folder / names(tmp_path)[-1], stray / "stray.avro")
    done = compact(tmp_path)
    assert [len(one.problems) for one in done] == [1, 1]
    assert "stray.avro: results of collection=c/date=2026-01-01, allowed: of collection=c/date=2026-01-02" in str(
        done[1].problems
    )
    assert (folder / "damaged.avro").exists()
    assert (stray / "stray.avro").exists()


def test_what_a_newer_version_wrote_is_left_to_it(tmp_path):
    folder = tmp_path / "histograms" / "collection=c" / "date=2026-01-01"
    newer = [json.loads(as_json_lines(HISTOGRAM, [make_histogram(1 + index, index)])) for index in range(2)]
    folder.mkdir(parents=True)
    for index, record in enumerate(newer):
        (folder / f"panes-{index}.jsonl").write_text(json.dumps({**record, "confidence": 0.9}))
    for index in range(2, MERGED_AT + 2):
        write(tmp_path, [make_histogram(1 + index, index)])
    assert (folder / "panes-0.jsonl").exists()
    [done] = compact(tmp_path)
    assert [problem.rpartition("/")[2] for problem in done.problems] == [
        f"panes-{index}.jsonl: has confidence, which this version does not know, and would lose" for index in range(2)
    ]
    assert [json.loads((folder / f"panes-{index}.jsonl").read_text())["confidence"] for index in range(2)] == [0.9, 0.9]


def test_a_damaged_file_is_read_once(tmp_path, monkeypatch):
    folder, opened = tmp_path / "histograms" / "collection=c" / "date=2026-01-01", Counter()
    folder.mkdir(parents=True)
    size = len(FORMATS["avro"](HISTOGRAM, [make_histogram(1)]))
    for index in range(MERGED_AT):
        (folder / f"panes-damaged-{index}.avro").write_bytes(bytes(size))

    def open_file(path, real=reading.open_file):
        opened[os.path.basename(path)] += 1
        return real(path)

    monkeypatch.setattr(reading, "open_file", open_file)
    for index in range(5):
        write(tmp_path, [make_histogram(index + 1, index)])
    damaged = [times for name, times in opened.items() if name.startswith("panes-damaged")]
    assert damaged == [1] * MERGED_AT


def test_a_stream_that_may_not_remove_files_writes_on(tmp_path, monkeypatch, caplog):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("hushgram.transforms.filesystem.os.unlink", refuse)
    for index in range(4 * MERGED_AT):
        write(tmp_path, [make_histogram(index + 1, index)])
    assert "cannot be removed, and stays: " in caplog.text
    assert {pane.rank for pane in all_panes(tmp_path)} == {
        make_histogram(index + 1, index).rank for index in range(4 * MERGED_AT)
    }
    assert len(names(tmp_path)) <= 5 * MERGED_AT


# What is kept --------------------------------------------------------------------------------------------------------


panes_of_a_day = st.lists(
    st.builds(
        make_histogram,
        reports=st.integers(1, 5),
        index=st.integers(0, 3),
        group=st.sampled_from([None, "DE"]),
        hour=st.sampled_from([0, 1, 24]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=15, deadline=None)
@given(panes_of_a_day, st.integers(1, 4), st.sampled_from(["avro", "jsonl", "parquet"]))
def test_readers_find_the_same_before_and_after(tmp_path_factory, panes, at_once, format_name):
    directory = tmp_path_factory.mktemp("results")
    for start in range(0, len(panes), at_once):
        write(directory, panes[start : start + at_once], format_name)
    expected = identities(best(panes))
    assert identities(read_histograms(directory)) == expected
    assert compact(directory, dry_run=True)
    assert set(identities(all_panes(directory))) == set(identities(panes))
    compact(directory)
    assert identities(all_panes(directory)) == expected
    assert [one.files for one in compact(directory)] == [0] * len({folder_of(pane.key) for pane in panes})


@pytest.mark.parametrize("format_name", ["avro", "jsonl", "parquet"])
def test_a_compacted_result_is_what_it_was_in_every_format(tmp_path, format_name):
    answers = [make_answer(group, 6 + index, index) for index, group in enumerate([None, "DE", "a/b", "..", None])]
    for snapshot, histogram in answers:
        for kind, answer in ((SNAPSHOTS, snapshot), (HISTOGRAMS, histogram)):
            write_panes(kind, f"{tmp_path}/{kind.name}/{folder_of(answer.key)}", "avro", [answer])
    before = [[answer.to_avro() for answer in read(tmp_path)] for read in (read_snapshots, read_histograms)]
    assert [one.written for one in compact(tmp_path, format_name=format_name)] == [1, 1]
    assert [[answer.to_avro() for answer in read(tmp_path)] for read in (read_snapshots, read_histograms)] == before
    assert all(path.suffix == f".{format_name}" for path in tmp_path.rglob("*.*") if path.is_file())


def write_as_before(directory, panes):
    """As earlier versions did: a folder for each collection, and a file for each pane."""
    for pane in panes:
        path = directory / "histograms" / f"{pane_name(pane)}.avro"
        write_atomically(str(path), FORMATS["avro"](HISTOGRAM, [pane]))


def test_files_of_earlier_versions_are_folded_into_the_folders_of_this_one(tmp_path):
    panes = [
        make_histogram(1 + index, index, group, hour)
        for index in range(3)
        for group in (None, "DE")
        for hour in (0, 30)
    ]
    write_as_before(tmp_path, panes)
    newer = [make_histogram(9, 9, None, 30)]
    write(tmp_path, newer)
    (tmp_path / "histograms" / "c" / "notes.avro").write_bytes(b"not ours")
    assert [one.files for one in compact(tmp_path)] == [6, 7]
    (tmp_path / "histograms" / "c" / "notes.avro").unlink()
    assert list((tmp_path / "histograms" / "c").iterdir()) == []
    assert identities(all_panes(tmp_path)) == identities(best([*panes, *newer]))
    assert len(names(tmp_path)) == 2


def test_young_files_are_left_alone(tmp_path):
    write(tmp_path, [make_histogram(1)])
    write(tmp_path, [make_histogram(2, 1)])
    old, young = result_files(str(tmp_path), "histograms")
    os.utime(old, (1000, 1000))
    [folder] = folders(HISTOGRAMS, str(tmp_path), 2000)
    assert ([file.path for file in folder.files], folder.young) == ([old], 1)
    assert folder.compact().files == 1
    assert os.path.exists(young)


# Whatever is killed when, and whoever folds beside -------------------------------------------------------------------


class Killed(BaseException):
    """As kill -9 ends a process: nothing is cleaned up."""


class Disk:
    """Does something before each step that changes the disk."""

    def __init__(self, monkeypatch, before_step):
        self.steps, self.before_step = 0, before_step
        for name in ("makedirs", "fsync", "replace", "unlink"):
            monkeypatch.setattr(f"hushgram.transforms.filesystem.os.{name}", self._watch(getattr(os, name)))

    def _watch(self, step):
        def watched(*arguments, **options):
            number, self.steps = self.steps, self.steps + 1
            self.before_step(number)
            return step(*arguments, **options)

        return watched


def make_folder(directory):
    """Panes of two windows and groups in several files, of this version and of earlier ones; the best of each."""
    panes = [
        make_histogram(1 + index, index, group, hour) for index in range(3) for group in (None, "DE") for hour in (0, 1)
    ]
    for pane in panes[:6]:
        write(directory, [pane])
    write_as_before(directory, panes[6:])
    return identities(best(panes))


def fold_as_stream(directory, monkeypatch):
    """A pane more, which makes all small files of the folder one."""
    monkeypatch.setattr(folding, "MERGED_AT", 2)
    write(directory, [make_histogram(1)])


def best_seen(directory):
    return identities(read_results(str(directory), "histograms", Histogram.from_avro))


@pytest.mark.parametrize("folds", ["compact", "stream"])
def test_killed_at_any_step_every_best_pane_is_there_and_the_next_run_ends_it(tmp_path, monkeypatch, folds):
    """At every step, too, a reader sees them."""
    killed_at = 0
    while True:
        directory = tmp_path / str(killed_at)
        expected = make_folder(directory)

        def before_step(number, directory=directory, expected=expected, killed_at=killed_at):
            assert best_seen(directory) == expected
            if number >= killed_at:
                raise Killed

        with monkeypatch.context() as patched, pytest.MonkeyPatch.context() as merged:
            Disk(patched, before_step)
            try:
                compact(directory) if folds == "compact" else fold_as_stream(directory, merged)
            except Killed:
                pass
            else:
                break
        assert best_seen(directory) == expected
        compact(directory)
        assert best_seen(directory) == expected
        assert len(names(directory)) == 1
        killed_at += 1
    assert killed_at > 10


@pytest.mark.parametrize("first", ["compact", "stream"])
@pytest.mark.parametrize("second", ["compact", "stream"])
def test_two_that_fold_at_once_lose_nothing_however_they_take_turns(tmp_path, monkeypatch, first, second):
    """The second does all of its work before some step of the first."""

    def fold(how, directory, merged):
        compact(directory) if how == "compact" else fold_as_stream(directory, merged)

    turn = 0
    while True:
        directory, took_turn = tmp_path / str(turn), []
        expected = make_folder(directory)
        with monkeypatch.context() as patched, pytest.MonkeyPatch.context() as merged:

            def before_step(number, directory=directory, merged=merged, took_turn=took_turn, turn=turn):
                if number == turn and not took_turn:
                    took_turn.append(number)
                    fold(second, directory, merged)

            Disk(patched, before_step)
            fold(first, directory, merged)
        assert best_seen(directory) == expected
        if not took_turn:
            break
        turn += 1
    assert turn > 10


def test_a_file_that_goes_between_listing_and_opening_is_found_where_it_went(tmp_path, monkeypatch):
    expected, opened = make_folder(tmp_path), []

    def open_file(path, real=reading.open_file):
        opened.append(path)
        if len(opened) in (3, 9):
            with monkeypatch.context() as patched:
                patched.setattr(reading, "open_file", real)
                write(tmp_path, [make_histogram(1)])
                compact(tmp_path)
        return real(path)

    monkeypatch.setattr(reading, "open_file", open_file)
    assert best_seen(tmp_path) == expected
    assert len(opened) > 9


def test_a_folder_that_is_folded_while_it_is_listed_is_listed_again(tmp_path, monkeypatch):
    """The listing was past the place of the new file when it came, and not yet at those of the files that went."""
    panes, folded = [make_histogram(1 + index, index) for index in range(3)], []
    for pane in panes:
        write(tmp_path, [pane])

    def match_files(pattern, directory, real=reading.match_files):
        found = real(pattern, directory)
        if pattern == reading.PATTERNS[-1] and not folded:
            folded.append(pattern)
            compact(tmp_path)
            return replace(found, files=tuple(file for file in found.files if os.path.exists(file.path)))
        return found

    monkeypatch.setattr(reading, "match_files", match_files)
    assert best_seen(tmp_path) == identities(panes[-1:])


def test_files_that_always_go_before_they_are_read_end_with_a_line(tmp_path, monkeypatch):
    make_folder(tmp_path)

    def open_file(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(reading, "open_file", open_file)
    line = f"{tmp_path}: results change faster than they are read; try again"
    with pytest.raises(reading.ResultsError, match=line):
        read_histograms(tmp_path)
    with pytest.raises(reading.ResultsError, match=line):
        list(each_best(str(tmp_path), "histograms", Histogram.from_avro))


@pytest.mark.parametrize("reads", range(24))
def test_each_best_has_every_best_pane_once_whenever_all_is_folded(tmp_path, monkeypatch, reads):
    expected, opened = make_folder(tmp_path), []

    def open_file(path, real=reading.open_file):
        opened.append(path)
        if len(opened) == reads:
            with monkeypatch.context() as patched:
                patched.setattr(reading, "open_file", real)
                write(tmp_path, [make_histogram(1)])
                compact(tmp_path)
        return real(path)

    monkeypatch.setattr(reading, "open_file", open_file)
    seen = [result for _, result in each_best(str(tmp_path), "histograms", Histogram.from_avro)]
    assert identities(seen) == expected
    assert max(Counter(opened).values()) <= 3


def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch):
    make_folder(tmp_path)
    before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hushgram.transforms.filesystem.os.fsync", fail)
    with pytest.raises(OSError, match="No space left on device"):
        compact(tmp_path)
    assert sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()) == before


def test_a_correction_of_as_many_reports_wins_over_what_was_compacted(tmp_path):
    """As a batch run that is repeated writes it: in a file of its own, which readers and later folds see first."""
    snapshot, _ = make_answer(reports=7, timing="on_time")
    folder = f"{tmp_path}/snapshots/{folder_of(snapshot.key)}"
    SNAPSHOTS.write(folder, folding.BEST, "avro", [snapshot])
    corrected = replace(snapshot, mean=snapshot.mean + 1)
    write_atomically(f"{folder}/20260101T000000-20260101T010000-g0-n7.avro", FORMATS["avro"](SNAPSHOT, [corrected]))
    assert [one.mean for one in read_snapshots(tmp_path)] == [corrected.mean]
    compact(tmp_path)
    assert [one.mean for one in read_snapshots(tmp_path)] == [corrected.mean]


def test_results_of_batch_are_left_alone_so_that_they_go_on_to_replace_each_other(tmp_path):
    """Their names are used again: who removed one might remove what has taken its place."""
    directory, of_batch = f"{tmp_path}/histograms", [make_histogram(5), make_histogram(3, group="DE")]
    path = write_window(directory, HISTOGRAM, "avro", of_batch)
    write(tmp_path, [make_histogram(1, hour=1)])
    write(tmp_path, [make_histogram(2, 1, hour=1)])
    assert [(one.files, one.kept) for one in compact(tmp_path)] == [(2, 1)]
    assert os.path.exists(path)
    assert write_window(directory, HISTOGRAM, "avro", [make_histogram(4)]) is None
    corrected = [replace(make_histogram(4), pane=Pane(1, 0, "early"))]
    write_window(directory, HISTOGRAM, "avro", corrected)
    compact(tmp_path)
    assert identities(read_histograms(tmp_path)) == identities([*corrected, make_histogram(2, 1, hour=1)])


@pytest.mark.parametrize("name", ["..", "a/b", "collection=x", "é" * 90, "%2F", "."])
def test_no_name_of_a_collection_leaves_its_folder(tmp_path, name):
    pane = make_histogram(3, collection=name)
    assert folder_of(pane.key).count("/") == 1
    assert folder_of(replace(pane.key, window_start=START + DAY)) != folder_of(pane.key)
    write(tmp_path, [pane])
    [path] = result_files(str(tmp_path), "histograms")
    assert os.path.realpath(path).startswith(f"{tmp_path}/histograms/collection=")
    assert [one.key.collection for one in read_histograms(tmp_path)] == [name]
    assert [(one.files, one.problems) for one in compact(tmp_path)] == [(1, ())]
