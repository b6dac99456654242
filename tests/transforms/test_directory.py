"""A watched directory: every block of every file once wherever a call is cut, and received times that never go back."""

import errno
import gzip
import io
import itertools
import os
import stat
from types import SimpleNamespace

import pytest
from apache_beam.coders import typecoders
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.utils.timestamp import MIN_TIMESTAMP

from hushgram import Collection, Windows
from hushgram.schemas.container import read_header
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sources import avro_files, splittable
from hushgram.transforms.sources import directory as directory_source
from hushgram.transforms.sources.avro_files import BlockRun, Damage
from hushgram.transforms.sources.directory import WatchDirectory, arrived
from hushgram.transforms.sources.directory_state import (
    LONGEST_RETRY_MS,
    NOTHING,
    SHORTEST_RETRY_MS,
    Directory,
    DirectoryState,
)
from hushgram.transforms.sources.message_batch import UNKNOWN
from hushgram.transforms.sources.splittable import CLOCK_MARGIN
from tests.helpers.reports import START, encode_avro_file, make_report_rows

COLLECTION = Collection(name="c", low=0, high=1, buckets=4, epsilon=1, windows=Windows(max_age=1000))
ROWS = make_report_rows(COLLECTION, 120, seed=1)
DELAY = 7_000
NOW = START + 10**6


@pytest.fixture(autouse=True)
def small_runs_and_fixed_clock(monkeypatch):
    monkeypatch.setattr(avro_files, "RUN_BYTES", 200)
    monkeypatch.setattr(splittable, "now", lambda: NOW)
    set_clock(monkeypatch, NOW)
    advance_time_per_look(monkeypatch, 0)


def set_clock(monkeypatch, now):
    monkeypatch.setattr(directory_source, "now", lambda: now)


def advance_time_per_look(monkeypatch, seconds):
    ticks = itertools.count()
    monkeypatch.setattr(directory_source, "time", SimpleNamespace(monotonic=lambda: seconds * next(ticks)))


def put_file(directory, name, data, changed):
    path = os.path.join(os.fsencode(directory), os.fsencode(name))
    with open(path, "wb") as file:
        file.write(data)
    os.utime(path, ns=(0, changed * 10**6))


class StoppingView(RestrictionTrackerView):
    """The engine asks for a checkpoint after this many claims."""

    def __init__(self, tracker, claims):
        super().__init__(tracker)
        self.left, self.tracker, self.rest = claims, tracker, None

    def try_claim(self, position):
        if self.left == 0 and self.rest is None:
            _, self.rest = self.tracker.try_split(0)
        self.left -= 1
        return super().try_claim(position)


class WatchDriver:
    """The calls that an engine makes, each from the checkpoint of the one before."""

    def __init__(self, directory, restriction=NOTHING):
        self.directory, self.restriction, self.watermark = str(directory), restriction, MIN_TIMESTAMP
        self.reads, self.rests = [], []

    def call(self, claims=-1):
        coder = typecoders.registry.get_coder(object)
        start = coder.decode(coder.encode(self.restriction))
        tracker = ThreadsafeRestrictionTracker(Directory().create_tracker(start))
        view, estimator = StoppingView(tracker, claims), ManualWatermarkEstimator(self.watermark)
        reads = []
        for element in WatchDirectory(DELAY).process(self.directory, view, estimator):
            assert element.timestamp.micros == 1000 * element.value.received
            assert element.timestamp >= self.watermark
            reads.append(element.value)
        tracker.check_done()
        if view.rest is None:
            self.restriction, rest = tracker.deferred_status()
            self.rests.append(round(float(rest)))
        else:
            assert tracker.deferred_status() is None
            self.restriction = view.rest
        self.watermark = max(self.watermark, estimator.current_watermark())
        self.reads += reads
        return reads

    def blocks(self):
        return [(os.path.basename(read.source), block.offset) for read in self.reads for block in read.blocks]


def read_blocks(directory, *names):
    """The blocks of each file, read without a watch."""
    blocks = []
    for name in names:
        with directory_source.open_file(os.path.join(str(directory), name)) as stream:
            for run in avro_files.read_file(name, stream, 0, lambda _: True):
                blocks += [(name, block.offset) for block in run.blocks]
    return blocks


@pytest.fixture
def three_files(tmp_path):
    """Three files whose names are in another order than their times."""
    put_file(tmp_path, "c.avro", encode_avro_file(ROWS[:40], sync=200), START)
    put_file(tmp_path, "b.avro.gz", gzip.compress(encode_avro_file(ROWS[40:80], codec="null", sync=300)), START + 5)
    put_file(tmp_path, "a.avro", encode_avro_file(ROWS[80:], sync=200), START + 5_000)
    return tmp_path


ORDER = ("c.avro", "b.avro.gz", "a.avro")


def test_watched_files_come_by_time_and_name_each_once(three_files):
    put_file(three_files, "a2.avro", encode_avro_file(ROWS[:3]), START + 5)
    watch = WatchDriver(three_files)
    watch.call()
    names = ("c.avro", "a2.avro", "b.avro.gz", "a.avro")
    assert watch.blocks() == read_blocks(three_files, *names)
    assert len(watch.blocks()) > 10
    assert [time for time, _ in arrived(str(three_files)).values()] == [START, START + 5, START + 5, START + 5_000]
    assert watch.call() == []
    put_file(three_files, "0.avro", encode_avro_file(ROWS[:3]), START)
    assert [os.path.basename(read.source) for read in watch.call()] == ["0.avro"]


@pytest.mark.parametrize("claims", range(1, 12))
def test_wherever_the_engine_stops_a_call_nothing_is_lost_or_repeated(three_files, claims):
    watch = WatchDriver(three_files)
    for _ in range(25):
        watch.call(claims)
    assert watch.blocks() == read_blocks(three_files, *ORDER)
    assert len(watch.restriction[0]) == 3


@pytest.mark.parametrize("seconds", [0.3, 0.7, 1.9, 2, 60])
def test_wherever_time_is_up_nothing_is_lost_and_calls_make_progress(three_files, monkeypatch, seconds):
    """Also where each look at the clock finds that more time has passed than a call has."""
    advance_time_per_look(monkeypatch, seconds)
    watch, calls = WatchDriver(three_files), 0
    while len(watch.restriction[0]) < 3:
        before = watch.restriction
        watch.call()
        assert watch.restriction != before
        calls += 1
    assert calls > 2
    assert set(watch.rests[:-1]) == {0}
    assert watch.blocks() == read_blocks(three_files, *ORDER)


def test_a_file_that_was_begun_is_ended_before_an_older_one_that_came_meanwhile(three_files):
    watch = WatchDriver(three_files)
    watch.call(claims=3)
    put_file(three_files, "0.avro", encode_avro_file(ROWS[:3]), START - 1)
    watch.call(claims=4)
    watch.call()
    assert watch.blocks() == read_blocks(three_files, "c.avro", "0.avro", *ORDER[1:])


def test_a_directory_call_that_is_discarded_is_repeated(three_files):
    watch = WatchDriver(three_files)
    watch.call(claims=4)
    checkpoint, reads = watch.restriction, list(watch.reads)
    watch.call(claims=5)
    watch.restriction, watch.reads = checkpoint, reads  # the engine is back at its checkpoint
    watch.call()
    assert watch.blocks() == read_blocks(three_files, *ORDER)


def test_received_is_the_time_of_change_but_never_goes_back_nor_ahead_of_the_clock(three_files, monkeypatch):
    put_file(three_files, "future.avro", encode_avro_file(ROWS[:3]), NOW + 99_000)
    watch = WatchDriver(three_files)
    received = {os.path.basename(read.source): read.received for read in watch.call()}
    assert received == {"c.avro": START, "b.avro.gz": START + 5, "a.avro": START + 5_000, "future.avro": NOW}
    set_clock(monkeypatch, NOW + 60_000)
    put_file(three_files, "late.avro", encode_avro_file(ROWS[:3]), START)
    assert {read.received for read in watch.call()} == {NOW}
    set_clock(monkeypatch, NOW + 70_000)
    put_file(three_files, "later.avro", encode_avro_file(ROWS[:3]), START)
    assert {read.received for read in watch.call()} == {NOW + 60_000 - CLOCK_MARGIN}


def test_the_watermark_follows_receipt_and_in_an_empty_directory_the_clock(tmp_path, monkeypatch):
    watch = WatchDriver(tmp_path)
    assert watch.call() == []
    assert watch.watermark.micros == 1000 * (NOW - CLOCK_MARGIN - DELAY)
    assert watch.rests == [splittable.REST_SECONDS]
    assert watch.restriction == ((), "", 0, NOW - CLOCK_MARGIN)
    set_clock(monkeypatch, NOW - 60_000)  # a clock that was set back
    watch.call()
    assert watch.restriction == ((), "", 0, NOW - CLOCK_MARGIN)
    new_watch = WatchDriver(tmp_path)
    put_file(tmp_path, "a.avro", encode_avro_file(ROWS, sync=200), START)
    advance_time_per_look(monkeypatch, 1.0)
    new_watch.call()
    assert new_watch.restriction[1].endswith("a.avro")
    assert new_watch.watermark.micros == 1000 * (START - DELAY)  # more of it is to come


def test_hidden_names_are_passed_over_until_they_are_renamed(tmp_path):
    for name in (".a.avro", "_b.avro", "._c"):
        put_file(tmp_path, name, encode_avro_file(ROWS[:3]), START)
    (tmp_path / "folder").mkdir()
    put_file(tmp_path / "folder", "d.avro", encode_avro_file(ROWS[:3]), START)
    watch = WatchDriver(tmp_path)
    assert watch.call() == []
    (tmp_path / ".a.avro").rename(tmp_path / "a.avro")
    assert [os.path.basename(read.source) for read in watch.call()] == ["a.avro"]


def test_a_watched_directory_that_does_not_exist_yet_is_empty(tmp_path):
    watch = WatchDriver(tmp_path / "later")
    assert watch.call() == []
    (tmp_path / "later").mkdir()
    put_file(tmp_path / "later", "a.avro", encode_avro_file(ROWS[:3]), START)
    assert len(watch.call()) == 1


@pytest.mark.parametrize("claims", range(2, 9))
def test_damaged_files_are_letters_once_and_cost_themselves(tmp_path, claims):
    data = bytearray(encode_avro_file(ROWS[:40], sync=200))
    data[-40:] = bytes(40)
    put_file(tmp_path, "a.avro", b"no avro at all", START)
    put_file(tmp_path, "b.avro", bytes(data), START + 1)
    put_file(tmp_path, "c.avro", b"", START + 2)
    put_file(tmp_path, "d.avro", encode_avro_file(ROWS[40:60]), START + 3)
    watch = WatchDriver(tmp_path)
    for _ in range(40):
        watch.call(claims)
    damages = [read for read in watch.reads if isinstance(read, Damage)]
    assert [os.path.basename(damage.source)[0] for damage in damages] == ["a", "b", "c"]
    assert [damage.received for damage in damages] == [START, START + 1, START + 2]
    letters = [letter for damage in damages for letter in Parser(CollectionIndex.of([COLLECTION])).parse(damage)]
    assert {(letter.reason, letter.reports) for letter in letters} == {("undecodable", None)}
    good_runs = [read for read in watch.reads if isinstance(read, BlockRun) and read.source.endswith("d.avro")]
    assert sum(block.count for run in good_runs for block in run.blocks) == 20


@pytest.mark.parametrize("claims", [0, 1, 2, -1])
def test_a_file_gone_before_its_end_is_one_letter(three_files, claims):
    watch = WatchDriver(three_files)
    watch.call(claims=3)
    name, start = watch.restriction[1:3]
    assert os.path.basename(name) == "c.avro"
    assert start > 0
    (three_files / "c.avro").unlink()
    for _ in range(3):
        watch.call(claims)
    watch.call()
    [damage] = [read for read in watch.reads if isinstance(read, Damage)]
    assert (damage.source, damage.position, damage.received) == (name, start, START)
    assert "gone" in damage.detail
    watch.reads.remove(damage)
    assert [block for block in watch.blocks() if block[0] != "c.avro"] == read_blocks(three_files, *ORDER[1:])


def test_names_that_are_gone_are_not_remembered(three_files):
    watch = WatchDriver(three_files)
    watch.call()
    assert [os.path.basename(name) for name in watch.restriction[0]] == list(ORDER)
    (three_files / "b.avro.gz").unlink()
    watch.call()
    assert [os.path.basename(name) for name in watch.restriction[0]] == ["c.avro", "a.avro"]


def test_a_file_name_that_is_not_text_is_read_and_reported_as_text(tmp_path):
    put_file(tmp_path, b"\xff.avro", encode_avro_file(ROWS[:3]), START)
    put_file(tmp_path, b"new\nline.avro", b"no avro", START)
    watch = WatchDriver(tmp_path)
    watch.call(claims=1)
    watch.call()
    assert watch.call() == []
    runs = [read for read in watch.reads if isinstance(read, BlockRun)]
    assert [read.source.encode().endswith(b"\\udcff.avro") for read in runs] == [True]
    assert len(watch.reads) == 2


def test_reports_are_judged_by_the_time_of_their_file(tmp_path):
    young, old = ({**ROWS[0], "event_time": START - age} for age in (1000, 1001))
    put_file(tmp_path, "a.avro", encode_avro_file([young, old, old]), START)
    watch = WatchDriver(tmp_path)
    watch.call()
    outcomes = [item for read in watch.reads for item in Parser(CollectionIndex.of([COLLECTION]), NOW).parse(read)]
    [letter] = [item for item in outcomes if isinstance(item, DeadLetter)]
    assert (letter.reason, letter.reports, letter.received_at) == ("too_old", 2, START)
    assert sum(item.reports for item in outcomes) == 3


def test_only_a_checkpoint_splits_and_a_drained_job_reads_no_more():
    tracker = Directory().create_tracker(NOTHING)
    assert tracker.try_split(0.5) is None
    with pytest.raises(ValueError, match="without an end"):
        tracker.check_done()
    assert tracker.try_claim((("a",), "b", 3, 4))
    assert tracker.try_split(0)[1] == (("a",), "b", 3, 4)
    assert not tracker.try_claim(NOTHING)
    assert tracker.current_restriction() == (("a",), "b", 3, 4)
    assert Directory().truncate("d", NOTHING) is None
    assert list(Directory().split("d", NOTHING)) == [NOTHING]


def test_the_watermark_neither_goes_back_nor_begins_before_receipt():
    estimator = ManualWatermarkEstimator(MIN_TIMESTAMP)
    splittable.advance(estimator, UNKNOWN, 0)
    assert estimator.current_watermark() == MIN_TIMESTAMP
    for received, expected in ((START, START - DELAY), (START - 5, START - DELAY), (START + 1, START + 1 - DELAY)):
        splittable.advance(estimator, received, DELAY)
        assert estimator.current_watermark().micros == 1000 * expected


def list_names(reads):
    return [os.path.basename(read.source) for read in reads]


@pytest.mark.parametrize("claims", [1, 2, 3, -1])
def test_every_name_is_read_and_only_regular_files_are(tmp_path, claims, caplog):
    directory = tmp_path / "in[1]*\\"
    directory.mkdir()
    names = ["a\\b.avro", "a[1].avro", "a b.avro", "new\nline.avro", "*.avro", "\\.avro"]
    for age, name in enumerate(names):
        put_file(directory, name, encode_avro_file(ROWS[:3]), START + age)
    os.mkfifo(directory / "fifo.avro")
    os.mknod(directory / "socket.avro", stat.S_IFSOCK | 0o600)
    (directory / "zero.avro").symlink_to("/dev/zero")
    (directory / "folder.avro").mkdir()
    (directory / "link.avro").symlink_to("a b.avro")
    watch = WatchDriver(directory)
    for _ in range(20):
        watch.call(claims)
    assert sorted(list_names(watch.reads)) == sorted([*names, "link.avro"])
    lines = [record.getMessage() for record in caplog.records]
    for name, kind in (("fifo", "a FIFO"), ("socket", "a socket"), ("zero", "a character device")):
        line = f"'{directory}/{name}.avro': passed over: {kind}, allowed: regular files".replace("\\", "\\\\")
        assert line in lines
    assert sum("FIFO" in line for line in lines) == (20 if claims else 0)  # each call is a worker of its own here


def test_a_file_that_disappears_between_listing_and_opening_is_one_letter_and_the_others_are_read(
    three_files, monkeypatch
):
    watch = WatchDriver(three_files)
    process = WatchDirectory.process

    def process_and_delete(self, *arguments):
        for element in process(self, *arguments):
            (three_files / "b.avro.gz").unlink(missing_ok=True)
            yield element

    monkeypatch.setattr(WatchDirectory, "process", process_and_delete)
    watch.call()
    assert set(list_names(watch.reads)) == {"c.avro", "a.avro"}
    [failing] = watch.restriction[4]
    assert failing == (str(three_files / "b.avro.gz"), 0, NOW, NOW + 2_000)
    [damage] = watch.call()
    assert (list_names([damage]), damage.position, damage.reason) == (["b.avro.gz"], 0, "unreadable")
    assert "gone" in damage.detail
    assert watch.call() == []
    assert len(watch.restriction) == 4


def make_unreadable(directory, name, kind):
    """A name that nobody can read, root included."""
    (directory / name).symlink_to({"loop": name, "nowhere": "nowhere", "broken": "/proc/self/mem"}[kind])


@pytest.mark.parametrize("claims", [1, 2, 3, -1])
@pytest.mark.parametrize("kind", ["loop", "nowhere", "broken"])
def test_a_file_that_cannot_be_read_is_tried_ever_less_often_and_given_up(three_files, monkeypatch, kind, claims):
    make_unreadable(three_files, "bad.avro", kind)
    watch, attempts = WatchDriver(three_files), []

    def count_attempt(path, open_original=directory_source.open_file):
        attempts.extend([current] if path.endswith("bad.avro") else [])
        return open_original(path)

    monkeypatch.setattr(directory_source, "open_file", count_attempt)
    for current in range(NOW, NOW + directory_source.PATIENCE_MS + 60_000, 500):
        set_clock(monkeypatch, current)
        watch.call(claims)
    damages = [read for read in watch.reads if isinstance(read, Damage)]
    assert [(list_names([damage]), damage.position, damage.reason) for damage in damages] == [
        (["bad.avro"], 0, "unreadable")
    ]
    assert watch.restriction[0][-1] == str(three_files / "bad.avro")
    assert len(watch.restriction) == 4
    watch.reads.remove(damages[0])
    assert watch.blocks() == read_blocks(three_files, *ORDER)
    assert damages[0].received <= NOW + directory_source.PATIENCE_MS + 60_000
    # As many attempts as doubling takes, and no more; a call that an engine cuts short may be one.
    assert 10 < len(attempts) < 30
    waits = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert max(waits) <= LONGEST_RETRY_MS + 3_000


class FlakyFile(io.BytesIO):
    """A file on a disk that fails at the nth read."""

    def __init__(self, data, reads):
        super().__init__(data)
        self.reads_left = reads

    def read(self, size=-1):
        self.reads_left -= 1
        if self.reads_left == 0:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


def fail_at_reads(monkeypatch, name, *reads):
    """Of one file the first attempts fail, each at its nth read."""
    remaining = list(reads)

    def open_flaky(path, open_original=directory_source.open_file):
        with open_original(path) as file:
            return FlakyFile(file.read(), remaining.pop(0) if remaining and os.path.basename(path) == name else -1)

    monkeypatch.setattr(directory_source, "open_file", open_flaky)


@pytest.mark.parametrize("run_bytes", [1, 200, 10**6])
@pytest.mark.parametrize("claims", [3, 7, -1])
def test_wherever_a_disk_fails_every_block_is_read_once(three_files, monkeypatch, claims, run_bytes):
    monkeypatch.setattr(avro_files, "RUN_BYTES", run_bytes)
    with directory_source.open_file(str(three_files / "c.avro")) as file:
        counting_file = FlakyFile(file.read(), -1)
    for _ in avro_files.read_file("c.avro", counting_file, 0, lambda _: True):
        pass
    for reads in range(1, -counting_file.reads_left, 5):
        with monkeypatch.context() as patch:
            fail_at_reads(patch, "c.avro", reads, 1 + reads // 2, reads)
            watch = WatchDriver(three_files)
            for current in range(NOW, NOW + 40_000, 1000):
                set_clock(patch, current)
                checkpoint = watch.restriction, list(watch.reads)
                try:
                    watch.call(claims)
                except OSError:  # it had promised a block: the engine goes back to its checkpoint
                    watch.restriction, watch.reads = checkpoint
        assert sorted(watch.blocks()) == sorted(read_blocks(three_files, *ORDER))
        assert [block for block in watch.blocks() if block[0] == "c.avro"] == read_blocks(three_files, "c.avro")


def test_a_call_that_claimed_a_block_it_cannot_read_fails(three_files, monkeypatch):
    """The engine stops the call behind the claim of the first block, which cannot be read: it must count as unread."""
    with directory_source.open_file(str(three_files / "c.avro")) as file:
        header = FlakyFile(file.read(), -1)
    read_header(header)
    fail_at_reads(monkeypatch, "c.avro", -header.reads_left)
    with pytest.raises(OSError, match="Input/output"):
        WatchDriver(three_files).call(claims=1)


def test_a_directory_that_cannot_be_listed_forgets_nothing_and_holds_the_watermark(three_files, monkeypatch, caplog):
    watch = WatchDriver(three_files)
    watch.call()
    checkpoint, mark = watch.restriction, watch.watermark
    set_clock(monkeypatch, NOW + 60_000)
    (three_files.parent / "aside").mkdir()
    three_files.rename(three_files.parent / "aside" / "files")
    three_files.write_bytes(b"where the directory was is something that cannot be listed")
    assert watch.call() == []
    assert (watch.restriction, watch.watermark) == (checkpoint, mark)
    assert watch.rests[-1] == splittable.REST_SECONDS
    assert "cannot be listed, will be tried again: Not a directory" in caplog.text
    three_files.unlink()
    (three_files.parent / "aside" / "files").rename(three_files)
    assert watch.call() == []
    assert watch.restriction[0] == checkpoint[0]
    assert watch.watermark > mark


def test_a_link_that_leads_nowhere_at_first_is_read_when_it_leads_somewhere(three_files, monkeypatch):
    (three_files / "link.avro").symlink_to(three_files.parent / "elsewhere")
    watch = WatchDriver(three_files)
    watch.call()
    assert list_names(watch.reads) == list_names(WatchDriver(three_files).call())
    (three_files.parent / "elsewhere").write_bytes(encode_avro_file(ROWS[:3]))
    assert watch.call() == []  # its next attempt is not due
    set_clock(monkeypatch, NOW + SHORTEST_RETRY_MS)
    assert list_names(watch.call()) == ["link.avro"]
    assert len(watch.restriction) == 4
    (three_files.parent / "elsewhere").unlink()


def test_a_failing_file_is_given_up_at_once_without_patience():
    state = DirectoryState(failing=(("b", 1, 2, 3),))
    assert state.failed("a", 0, NOW, 0) is None
    assert state.failed("a", 0, NOW, 500).failing == (("b", 1, 2, 3), ("a", 0, NOW, NOW + 500))
    assert state.ended("b") == DirectoryState(done=("b",))
