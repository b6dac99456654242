"""The Java client's ledger and queue: whatever becomes of storage, clock and process, never more than the budget.

A process answers for all tests; each request opens the folder anew, as a device does after a restart.
"""

import json
import shutil
import signal
import subprocess
import threading
from email.utils import formatdate

import pytest

from devtools.java_client import java_command
from devtools.processes import eventually
from hushgram import Budget, Device, Windows
from hushgram.pipelines.conform.program import Program
from hushgram.schemas.messages import decode_message, decode_reports
from tests.helpers.clients import MONDAY, WEEK, commute
from tests.helpers.reports import DAY, HOUR
from tests.helpers.scripted_server import run_scripted_server
from tests.helpers.small_disk import on_small_disk
from tests.helpers.tools import run_or_skip

SECONDS = 120.0


class Driven:
    """A device with a folder and a clock, in a process that others may share."""

    def __init__(self, program, folder):
        self.program, self.folder, self.now = program, folder, MONDAY

    def __call__(self, what, collection=None, **rest):
        given = {} if collection is None else {"manifest": collection.manifest()}
        return self.program.ask({"do": what, "folder": str(self.folder), "now": self.now, **given, **rest})

    def granted(self, collection, value=37.5):
        answer = self("report", collection, value=repr(value))
        assert "done" in answer or answer["failed"].startswith("OverBudgetException: not now"), answer
        return "done" in answer


@pytest.fixture(scope="module")
def program():
    with Program(run_or_skip(java_command, "Drive"), SECONDS) as started:
        yield started


@pytest.fixture
def device(program, tmp_path):
    return Driven(program, tmp_path / "store")


# Manifests ------------------------------------------------------------------------------------------------------------


def test_a_manifest_is_read_from_a_file(device, tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(commute().manifest()))
    assert device("load", path=str(path), most="1.0") == {"done": "commute"}
    assert "larger" in device("load", path=str(path), most="0.99")["failed"]
    twice = json.dumps(commute().manifest()).replace('"format"', '"format": "hushgram-manifest/0", "format"', 1)
    wrong = ("{", "[]", '"text"', "null", "{}", '{"format": []}', "[" * 100_000, "\x00", twice, '{"a": NaN}')
    for content in (*map(str.encode, wrong), b'{"\xff": 1}', b" " * ((1 << 23) + 1)):
        path.write_bytes(content)
        assert "RefusedException" in device("load", path=str(path), most="1.0")["failed"]


# The ledger -----------------------------------------------------------------------------------------------------------


def test_a_device_spends_its_budget_in_each_period_and_no_more(device):
    collection, granted = commute(device=Device(2.0, WEEK)), []
    for day in range(21):
        device.now = MONDAY + day * DAY
        if device.granted(collection):
            granted.append(day)
    assert granted == [0, 1, 7, 8, 14, 15]


def test_a_clock_that_is_set_back_gives_nothing_back(device):
    collection = commute(device=Device(1.0, WEEK))
    granted = []
    for week in (1, 0, 1, 2, 1, 0, 2, 3):
        device.now = MONDAY + week * WEEK
        granted.append(device.granted(collection))
    assert granted == [True, False, False, True, False, False, False, True]
    device.now = -1
    assert "1970" in device("report", collection, value="1")["failed"]


def test_a_total_holds_over_all_collections_and_what_one_account_refuses_is_taken_from_none(device):
    large, small = (
        commute(name=name, epsilon=epsilon, device=Device(2.0, WEEK, total=Budget(1.5, WEEK)))
        for name, epsilon in (("ä😀", 1.0), ("b", 0.5))
    )
    assert [device.granted(one) for one in (large, large, small, small)] == [True, False, True, False]


def test_a_batch_costs_as_much_as_its_reports_and_what_is_refused_costs_nothing(device):
    collection = commute(device=Device(3.0, WEEK), groups=["DE"])
    for value, group in (("NaN", None), ("Infinity", None), ("1", "FR")):
        assert "Refused" in device("report", collection, value=value, group=group)["failed"]
    assert "Refused" in device("batch", collection, values=[])["failed"]
    assert "OverBudget" in device("batch", collection, values=["1"] * 4)["failed"]
    message = bytes.fromhex(device("batch", collection, values=["1", "2", "1e300"], group="DE")["done"])
    _, record = decode_message(message)
    assert (len(record["cells"]), record["group"], record["event_time"]) == (3, "DE", MONDAY)
    assert not device.granted(collection)


def test_a_slot_is_drawn_once_and_kept(device):
    collection, hours = commute(device=Device(1.0, DAY, 24)), []
    for hour in range(72):
        device.now = MONDAY + hour * HOUR
        if device.granted(collection):
            hours.append(hour)
    assert len(hours) == 3
    assert {later - hours[0] for later in hours} == {0, 24, 48}


def test_a_budget_without_a_store_is_refused(device):
    assert "no store" in device("without a store", commute(device=Device(1.0, WEEK)))["failed"]
    assert "done" in device("without a store", commute())


# Many at once ---------------------------------------------------------------------------------------------------------


def test_threads_and_processes_at_once_spend_one_budget(device):
    """Three processes of four threads, each of which asks for 6 reports of 17."""
    collection = commute(device=Device(17.0, WEEK))
    with Program(device.program.command, SECONDS) as second, Program(device.program.command, SECONDS) as third:
        granted = []

        def ask(program):
            granted.append(Driven(program, device.folder)("submit in threads", collection, times=6)["done"])

        threads = [threading.Thread(target=ask, args=(program,)) for program in (device.program, second, third)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(granted) == 17
    assert device("waiting") == {"done": 17}


def test_a_process_that_is_killed_again_and_again_spends_no_more_than_the_budget(device):
    """Each dies somewhere between two of the writes of a report; the queue holds no more than the ledger granted."""
    collection, budget = commute(device=Device(40.0, WEEK)), 40
    request = {"do": "submit many", "folder": str(device.folder), "now": MONDAY, "times": 100}
    line = json.dumps({**request, "manifest": collection.manifest()}).encode() + b"\n"
    for number in range(1, 5):
        process = subprocess.Popen(device.program.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            process.stdin.write(line)
            process.stdin.flush()
            eventually("reports in the queue", lambda least=number * 4: len(messages_in(device.folder)) >= least)
        finally:
            process.kill()
            process.communicate()
    waiting = device("waiting")["done"]
    more = device("submit many", collection, times=100)["done"]
    assert device("waiting") == {"done": waiting + more}
    assert budget - 4 <= waiting + more <= budget  # each that died may have died between spending and storing


def messages_in(folder):
    return [path for path in folder.glob("queue/*") if path.suffix != ".new"]


# Storage that fails ---------------------------------------------------------------------------------------------------


def damage(content):
    yield b""
    yield content[:-1]
    yield content + b"\n"
    yield content.replace(b"1000000000", b"0000000000")
    yield bytes([content[0] ^ 1]) + content[1:]


def test_a_ledger_that_is_not_what_was_written_means_no_report(device):
    collection, ledger = commute(device=Device(2.0, WEEK)), device.folder / "ledger"
    assert device.granted(collection)
    whole = ledger.read_bytes()
    for content in damage(whole):
        assert content != whole
        ledger.write_bytes(content)
        assert "not what was written" in device("report", collection, value="1")["failed"]
    ledger.unlink()
    assert "ledger is gone" in device("report", collection, value="1")["failed"]
    ledger.mkdir()
    assert "IOException" in device("report", collection, value="1")["failed"]
    ledger.rmdir()
    ledger.write_bytes(whole)
    assert [device.granted(collection) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("name", ["ledger.new", "lock"])
def test_storage_that_cannot_be_written_means_no_report(name, device):
    """A folder stands where a file has to be written."""
    collection = commute(device=Device(1.0, WEEK))
    device.folder.mkdir()
    (device.folder / name / "within").mkdir(parents=True)
    assert "Exception" in device("report", collection, value="1")["failed"]
    shutil.rmtree(device.folder / name)
    assert device.granted(collection)


def test_a_folder_that_cannot_be_made_means_no_report(device):
    device.folder.write_text("a file")
    assert "FileAlreadyExists" in device("report", commute(device=Device(1.0, WEEK)), value="1")["failed"]


def test_a_message_that_cannot_be_stored_has_been_paid_for(device):
    collection = commute(device=Device(1.0, WEEK))
    device.folder.mkdir()
    (device.folder / "queue").symlink_to(device.folder / "missing")  # it seems empty, and cannot be written
    assert "FileAlreadyExists" in device("submit", collection, value="1")["failed"]
    (device.folder / "queue").unlink()
    assert not device.granted(collection)


def test_a_full_disk_means_no_report_and_room_again_means_what_is_left_of_the_budget(device, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    with Program(on_small_disk(device.program.command, disk), SECONDS) as program:
        small = Driven(program, disk / "store")
        collection, others = (
            commute(name=name, device=Device(2.0, WEEK)) for name in ("commute", "another of a longer name")
        )
        assert small.granted(collection)
        assert "No space" in small("fill", path=str(disk / "filler"))["done"]
        for one in (collection, others):
            assert "No space" in small("report", one, value="1")["failed"]
            assert "No space" in small("submit", one, value="1")["failed"]
        assert small("waiting") == {"done": 0}
        assert small("free", path=str(disk / "filler")) == {"done": True}
        assert [small.granted(collection) for _ in range(2)] == [True, False]


# Queue and upload -----------------------------------------------------------------------------------------------------


@pytest.fixture
def collector():
    with run_scripted_server() as server:
        yield server


def test_reports_wait_in_the_queue_over_a_restart_and_are_sent_once(device, collector):
    device.now += 5000
    for value in ("1", "2", "3"):
        assert device("submit", commute(groups=["Zürich"]), value=value, group="Zürich") == {"done": True}
    assert device("waiting") == {"done": 3}
    assert [device("send", url=collector.url)["done"] for _ in range(2)] == [3, 0]
    sent = {(request.path, request.headers["Content-Type"]) for request in collector.received}
    assert sent == {("/v1/reports", "application/vnd.hushgram.report")}
    [(_, columns)], refused = decode_reports(collector.bodies)
    assert not refused
    assert columns.event_time.tolist() == [MONDAY] * 3
    assert len({body[-16:] for body in collector.bodies}) == 3


def test_kill_9_between_writing_and_the_servers_answer_sends_the_same_bytes_again(device, collector):
    collection = commute(device=Device(1.0, WEEK))
    assert device("submit", collection, value="1") == {"done": True}
    collector.open.clear()
    request = {"do": "send", "folder": str(device.folder), "now": MONDAY, "url": collector.url}
    process = subprocess.Popen(device.program.command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        eventually("the message", lambda: collector.received)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    collector.open.set()
    assert device("send", url=collector.url) == {"done": 1}
    first, second = collector.received
    assert first == second
    assert not device.granted(collection)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_to_wait_is_asked_again_then_and_with_the_same_bytes(status, device, collector):
    device("submit", commute(), value="1")
    collector.answers = [(status, {"Retry-After": "120"})]
    sent = []
    for wait in (0, 119_999, 1):
        device.now += wait
        sent.append(device("send", url=collector.url)["done"])
    assert sent == [0, 0, 1]
    assert collector.received[0] == collector.received[1]
    assert len(collector.received) == 2


def test_a_server_that_cannot_be_reached_is_asked_less_and_less(device, collector):
    device("submit", commute(windows=Windows(max_age=365 * DAY)), value="1")
    for tries in range(15):
        assert device("send", url="http://127.0.0.1:1/v1/reports") == {"done": 0}
        until, counted = json.loads((device.folder / "pause").read_bytes()[:-4])
        assert 500 << min(tries, 12) <= until - device.now <= 1500 << min(tries, 12)
        assert counted == tries + 1
        device.now = until
    assert device("send", url=collector.url) == {"done": 1}


@pytest.mark.parametrize(
    ("status", "kept"), [(400, 0), (413, 0), (415, 0), (422, 0), (401, 1), (404, 1), (500, 1), (301, 1), (307, 1)]
)
def test_what_will_never_be_taken_is_dropped_and_nothing_else(status, kept, device, collector):
    device("submit", commute(), value="1")
    collector.answers = [(status, {"Location": collector.url, "WWW-Authenticate": "Basic"})]
    assert device("send", url=collector.url) == {"done": 0}
    assert device("waiting") == {"done": kept}
    assert len(collector.received) == 1


def test_reports_that_are_too_old_or_damaged_are_dropped_unsent(device, collector):
    for _ in range(2):
        device("submit", commute(), value="1")
    oldest = min(messages_in(device.folder))
    oldest.write_bytes(oldest.read_bytes()[:-1])
    assert device("send", url=collector.url) == {"done": 1}
    device("submit", commute(), value="1")
    device.now += DAY + 1
    assert device("send", url=collector.url) == {"done": 0}
    assert device("waiting") == {"done": 0}
    assert len(collector.received) == 1


def test_a_pause_does_not_outlast_a_clock_that_was_set_back(device, collector):
    device.now += 10 * DAY
    device("submit", commute(), value="1")
    collector.answers = [(503, {"Retry-After": "60"})]
    assert device("send", url=collector.url) == {"done": 0}
    device.now -= 2 * DAY
    assert device("send", url=collector.url) == {"done": 1}


def test_a_full_queue_refuses_before_anything_is_spent(device):
    collection = commute(device=Device(2000.0, WEEK))
    assert device("submit", collection, value="1") == {"done": True}
    [message] = messages_in(device.folder)
    for number in range(1, 1000):
        (message.parent / f"{number:019d}-{number:032x}").write_bytes(b"")
    spent = (device.folder / "ledger").read_bytes()
    assert "full queue" in device("submit", collection, value="1")["failed"]
    assert (device.folder / "ledger").read_bytes() == spent


def test_retry_after_is_a_number_of_seconds_or_a_date(device):
    told = {"7": 7000, " 7 ": 7000, "": None, "soon": None, "-5": None, "9" * 40: 999_999_999_000}
    told |= {formatdate(MONDAY / 1000 + 3600, usegmt=True): 3_600_000, formatdate(0, usegmt=True): 0}
    assert {header: device("wait", header=header)["done"] for header in told} == told
    assert device("wait") == {"done": None}
