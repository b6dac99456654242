"""Files of reports: on the disk before they are seen, whole or not at all, and the only ones that readers find."""

import errno
import os
import time

import numpy as np
import pytest

from hushgram.pipelines.collect.file_sink import BLOCK_BYTES, FileSink
from hushgram.pipelines.collect.sink import AwayError
from hushgram.schemas.container import read_block, read_header
from hushgram.schemas.records import DeadLetter
from hushgram.schemas.writer import pack_batch
from tests.helpers.collectors import COLLECTIONS, count_reports, read_batches


def make_batches(count, size=10):
    revision = COLLECTIONS["age"].revision
    cells, ids = np.arange(size), np.zeros((size, 16), dtype=np.uint8)
    return [pack_batch("age", revision, cells, 2, 3_600_000 * number, None, ids) for number in range(count)]


@pytest.fixture
def calls(monkeypatch):
    """What the sink asks of the system, in order."""
    seen = []
    sync, replace = os.fsync, os.replace

    def note_sync(descriptor):
        seen.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")).split("-")[0]))
        sync(descriptor)

    def note_replace(source, target):
        seen.append(("rename", os.path.basename(target).split("-")[0]))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    return seen


def test_a_file_is_synced_then_named_then_its_name_is_synced(tmp_path, calls):
    sink = FileSink(str(tmp_path / "kept"))
    assert calls == [("sync", "dead_letters"), ("sync", "kept"), ("sync", tmp_path.name.split("-")[0])]
    calls.clear()
    sink.keep(make_batches(3))
    assert calls == [("sync", ".reports"), ("rename", "reports"), ("sync", "kept")]
    assert count_reports(read_batches(tmp_path / "kept")).total() == 30


def test_every_folder_that_had_to_be_made_is_on_the_disk_with_its_name(tmp_path, calls):
    FileSink(str(tmp_path / "a" / "b" / "c"))
    names = ["dead_letters", "c", "b", "a", tmp_path.name.split("-")[0]]
    assert calls == [("sync", name) for name in names]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_what_cannot_be_synced_or_named_is_not_kept_and_leaves_nothing(tmp_path, monkeypatch, failing):
    sink = FileSink(str(tmp_path))

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, failing, fail)
    for use in (lambda: sink.keep(make_batches(2)), sink.probe):
        with pytest.raises(AwayError, match="Input/output error"):
            use()
    assert [path.name for path in tmp_path.iterdir()] == ["dead_letters"]


def test_a_name_that_could_not_be_synced_is_taken_back(tmp_path, monkeypatch):
    sink, sync, synced = FileSink(str(tmp_path)), os.fsync, []

    def fail_second(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_second)
    with pytest.raises(AwayError, match="No space left on device"):
        sink.keep(make_batches(1))
    assert list(tmp_path.glob("*.avro")) == []


def test_large_files_have_blocks_that_readers_can_hold(tmp_path):
    FileSink(str(tmp_path)).keep(make_batches(200, size=1000))
    [path] = tmp_path.glob("*.avro")
    sizes = []
    with path.open("rb") as file:
        header = read_header(file)
        while (block := read_block(file, header.sync)) is not None:
            sizes.append(len(block.data))
    assert len(sizes) > 2
    assert max(sizes) < 2 * BLOCK_BYTES
    assert count_reports(read_batches(tmp_path)).total() == 200_000


def test_letters_lie_where_readers_of_reports_do_not_look(tmp_path):
    FileSink(str(tmp_path)).write_dead_letters([DeadLetter("too_old", 3, "of 'age'", "collector", None, 3_600_000)])
    assert list(tmp_path.glob("*.avro")) == []
    assert len(list((tmp_path / "dead_letters").glob("letters-*.avro"))) == 1


def test_leftovers_of_killed_collectors_are_removed_and_no_others(tmp_path):
    old, young, strange = (tmp_path / name for name in (".reports-1.avro.aa", ".reports-2.avro.bb", ".other"))
    for path in (old, young, strange):
        path.touch()
    for path in (old, strange):
        os.utime(path, (time.time() - 7200,) * 2)
    FileSink(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {young.name, strange.name, "dead_letters"}
