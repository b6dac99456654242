"""The reference client agrees with the library, the pipeline reads its messages, and it keeps to its budget."""

import json
import math
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from email.utils import formatdate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram import Budget, Collection, Device, Windows
from hushgram.manifest.event_times import device_slice
from hushgram.manifest.locating import log_edges
from hushgram.mechanisms import MECHANISMS
from hushgram.schemas.messages import decode_reports
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.judging import accept
from tests.helpers.clients import MONDAY, REFERENCE, WEEK, commute, reference
from tests.helpers.reports import DAY, HOUR
from tests.helpers.scripted_server import run_scripted_server
from tests.helpers.small_disk import on_small_disk
from tests.helpers.tampering import tampered

finite = st.floats(allow_nan=False, allow_infinity=False)


def load(**changes):
    return reference.load(commute(**changes).manifest())


class Clock:
    def __init__(self, now=MONDAY):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def open_store(tmp_path):
    """Stores of one file, as a device opens it after every restart."""
    opened = []

    def again(clock=None, name="store.db"):
        opened.append(reference.Store(tmp_path / name, clock or Clock()))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


# It agrees with the library -------------------------------------------------------------------------------------------


@st.composite
def collections(draw):
    mechanism = draw(st.sampled_from(sorted(MECHANISMS)))
    kind = MECHANISMS[mechanism]
    integer = kind.takes_integers and draw(st.booleans())
    low = draw(st.integers(-1000, 1000)) if integer else draw(st.floats(-1e6, 1e6))
    high = low + 63 if integer else low + draw(st.floats(1e-3, 1e9))
    epsilon = draw(st.floats(0.01, 12.0))
    return Collection(name="c", low=low, high=high, integer=integer, epsilon=epsilon, buckets=64, mechanism=mechanism)


@given(collections(), finite | st.floats(0, 1), st.randoms(use_true_random=False))
def test_positions_and_cells_are_those_of_the_library(collection, value, random):
    manifest = reference.load(json.loads(json.dumps(collection.manifest())))
    if 0 <= value <= 1:  # a share of the domain
        value = collection.low + value * (collection.high - collection.low)
    position = int(collection.mechanism.locate(collection.domain.to_unit(np.array([value])))[0])
    assert manifest.position(value) == position
    draws = []

    def below(limit):
        draws.append((limit, random.choice([0, limit - 1, random.randrange(limit)])))
        return draws[-1][1]

    cell = collection.mechanism.perturb(position, below)
    scripted = reference.Scripted(draws)
    assert manifest.cell(position, scripted) == cell
    assert not scripted.rest


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e9), st.integers(2, 200), st.floats(0, 1))
def test_on_a_log_scale_it_agrees_but_for_the_last_digits_of_an_edge(low, factor, buckets, share):
    collection = Collection(name="c", low=low, high=low * factor, scale="log", epsilon=1.0, buckets=buckets)
    manifest, value = reference.load(collection.manifest()), low * factor**share
    theirs = int(collection.mechanism.locate(collection.domain.to_unit(np.array([value])))[0])
    ours = manifest.position(value)
    if ours != theirs:
        edge = log_edges(collection.domain, buckets)[min(ours, theirs)]
        assert abs(ours - theirs) == 1
        assert abs(value - edge) <= 1e-12 * edge * math.log(factor) * buckets


@given(st.floats(1e-3, 1e3), st.floats(1.01, 1e9), st.floats(0, 1))
def test_knots_leave_the_logarithm_by_less_than_the_documents_say(low, factor, share):
    collection = Collection(
        name="c", low=low, high=low * factor, scale="log", epsilon=1.0, buckets=64, mechanism="general_wave"
    )
    manifest, value, steps = (
        reference.load(collection.manifest()),
        low * factor**share,
        collection.mechanism.grid.domain,
    )
    theirs = int(collection.mechanism.locate(collection.domain.to_unit(np.array([value])))[0])
    assert abs(manifest.position(value) - theirs) <= steps * math.log(factor) / (8 * 1024**2) + 2


@given(st.floats(1e-6, 20.0))
def test_the_weights_of_the_library_pass_the_check_of_epsilon_and_one_more_does_not(epsilon):
    manifest = commute(epsilon=epsilon, buckets=4, bandwidth=0.0).manifest()
    assert reference.load(manifest).epsilon == epsilon
    channel = manifest["law"]["channels"][0]
    channel["P"], channel["total"] = str(int(channel["P"]) + 1), str(int(channel["total"]) + 1)
    with pytest.raises(reference.RefusedError, match="larger than e"):
        reference.load(manifest)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_its_messages_are_read_and_accepted_by_the_pipeline(mechanism):
    collection = commute(mechanism=mechanism, groups=["Zürich", "Bern"])
    device = reference.Device(reference.load(collection.manifest()))
    messages = [device.report(37.5, "Zürich"), device.report(-1e300), device.batch([1, 2, 3.5], "Bern")]
    decoded, refused = decode_reports(messages)
    assert not refused
    now, reports = time.time_ns() // 1_000_000, 0
    for _, columns in decoded:
        uploads, refusals = accept(CollectionIndex.of([collection]), columns, now, aged=True)
        assert not refusals
        assert (uploads.event_time % HOUR == 0).all()
        assert uploads.has_id.all()
        reports += int(uploads.sizes.sum())
    assert reports == 5


def test_every_message_has_an_id_of_its_own():
    device = reference.Device(load())
    assert len({device.report(1.0)[-16:] for _ in range(100)}) == 100


def test_it_needs_nothing_but_the_standard_library():
    command = [sys.executable, "-I", "-S", str(REFERENCE), "--conform"]
    request = json.dumps({"manifest": commute().manifest(), "value": "37.5", "repeat": 2})
    answer = subprocess.run(command, input=request, capture_output=True, text=True, check=True).stdout
    assert len(json.loads(answer)["cells"]) == 2


# Manifests ------------------------------------------------------------------------------------------------------------


def test_a_manifest_is_read_from_a_file(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(commute().manifest()))
    assert reference.load(path, most_epsilon=1.0).collection == "commute"
    with pytest.raises(reference.RefusedError, match="larger ε"):
        reference.load(path, most_epsilon=0.99)
    whole = json.dumps(commute().manifest())
    for content in (
        *("{", "[]", '"text"', "null", "{}", '{"format": []}', whole[:-1] + ', "more": NaN}', "\ufeff" + whole),
        *(whole.encode("utf-16"), whole.encode() + b"\xff"),
    ):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(reference.RefusedError):
            reference.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(reference.RefusedError, match="not JSON"):
        reference.load(path)
    path.write_bytes(b" " * (reference.LARGEST_MANIFEST + 1))
    with pytest.raises(reference.RefusedError, match="8 MiB"):
        reference.load(path)


@given(tampered())
def test_whatever_becomes_of_a_manifest_it_is_refused_or_keeps_its_epsilon(source):
    """Entries anywhere become something else; what still loads has a law whose weights keep ε."""
    try:
        manifest = reference.load(json.loads(json.dumps(source)))
    except reference.RefusedError:
        return
    for _, channel in manifest.channels:
        assert math.log(channel["P"] / channel["Q"]) <= manifest.epsilon + 1e-12
        assert channel["total"] == channel["width"] * channel["P"] + channel["others"] * channel["Q"]
    for value in (-1e9, 0.0, 1.0, 90.0, 1e9):
        assert 0 <= manifest.cell(manifest.position(value)) < manifest.cells


# Event times ----------------------------------------------------------------------------------------------------------

ZONES = [None, "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia"]


@given(
    st.sampled_from(ZONES),
    st.sampled_from([HOUR, DAY, 2 * DAY, WEEK]),
    st.sampled_from([0, 90_000, HOUR, DAY, 30 * DAY]),
    st.integers(946_684_800_000, 4_102_444_800_000),
)
def test_a_cut_time_lies_in_the_same_windows_and_not_much_earlier(zone, size, max_age, moment):
    zone = None if size < DAY else zone
    windows = Windows(size=size, every=size, max_age=max_age, time_zone=zone, week_start="sunday")
    manifest = reference.load(commute(windows=windows).manifest())
    cut = manifest.cut(moment)
    assert windows.holding(cut) == windows.holding(moment)
    assert 0 <= moment - cut < max(1, max_age // 24) or moment == cut
    assert manifest.cut(cut) == cut


def test_hours_stay_whole_where_the_windows_allow():
    assert device_slice(Windows()) == (HOUR, 0)
    assert device_slice(Windows(size=DAY, every=DAY, max_age=30 * DAY, time_zone="Asia/Kolkata")) == (DAY, 18.5 * HOUR)


# The ledger -----------------------------------------------------------------------------------------------------------


def test_a_device_spends_its_budget_in_each_period_and_no_more(open_store):
    manifest, clock = load(device=Device(2.0, WEEK)), Clock()
    for week in range(3):
        for day in range(7):
            clock.now = MONDAY + week * WEEK + day * DAY
            device = reference.Device(manifest, open_store(clock))  # a restart every day
            if day < 2:
                device.report(37.5)
            else:
                with pytest.raises(reference.OverBudgetError, match="spent"):
                    device.report(37.5)


@given(st.lists(st.integers(0, 5 * WEEK), max_size=60), st.sampled_from([1, 2, 5]), st.integers(0, 4))
def test_no_period_ever_costs_more_than_the_budget_whatever_the_clock_says(times, slots, slot):
    manifest, clock = load(epsilon=0.7, device=Device(1.5, WEEK, slots, Budget(2.9, 2 * WEEK))), Clock()
    store, granted = reference.Store(":memory:", clock), []
    for clock.now in times:
        try:
            store.spend(manifest, below=lambda limit: slot % limit)
            granted.append(clock.now)
        except reference.OverBudgetError:
            pass
    store.close()
    assert all(count <= 2 for count in Counter(moment // WEEK for moment in granted).values())
    assert all(count <= 4 for count in Counter(moment // (2 * WEEK) for moment in granted).values())
    assert all(moment % WEEK * slots // WEEK == slot % slots for moment in granted if slots > 1)


def test_a_clock_that_is_set_back_gives_nothing_back(open_store):
    clock = Clock(MONDAY + WEEK)
    store, manifest = open_store(clock), load(device=Device(1.0, WEEK))
    store.spend(manifest)
    clock.now = MONDAY
    with pytest.raises(reference.OverBudgetError, match="set back"):
        store.spend(manifest)
    clock.now = MONDAY + 2 * WEEK
    store.spend(manifest)


def test_a_period_that_changes_its_length_gives_nothing_back(open_store):
    """A shorter period begins when the longer one, which was entered, has ended."""
    clock = Clock(MONDAY)
    store = open_store(clock)
    store.spend(load(device=Device(1.0, WEEK)))
    daily = load(device=Device(1.0, DAY))
    for day in range(1, 7):
        clock.now = MONDAY + day * DAY
        with pytest.raises(reference.OverBudgetError):
            store.spend(daily)
    clock.now = MONDAY + WEEK
    store.spend(daily)


def test_a_total_holds_over_all_collections(open_store):
    store = open_store()
    first, second = (load(name=name, device=Device(2.0, WEEK, total=Budget(3.0, WEEK))) for name in "ab")
    store.spend(first, 2)
    store.spend(second)
    for manifest in (first, second):
        with pytest.raises(reference.OverBudgetError):
            store.spend(manifest)


def test_what_one_account_refuses_is_taken_from_none(open_store):
    store = open_store()
    large, small = (
        load(name="a", epsilon=epsilon, device=Device(2.0, WEEK, total=Budget(1.5, WEEK))) for epsilon in (1.0, 0.5)
    )
    store.spend(large)
    with pytest.raises(reference.OverBudgetError):
        store.spend(large)
    store.spend(small)


def test_a_batch_costs_as_much_as_its_reports(open_store):
    device = reference.Device(load(device=Device(3.0, WEEK)), open_store())
    with pytest.raises(reference.OverBudgetError):
        device.batch([1, 2, 3, 4])
    with pytest.raises(reference.RefusedError, match="no values"):
        device.batch([])
    device.batch([1, 2, 3])


def test_what_is_refused_costs_nothing(open_store):
    device = reference.Device(load(device=Device(1.0, WEEK), groups=["DE"]), open_store())
    for value, group in ((math.nan, None), (math.inf, None), ("ten", None), (10**400, None), (1.0, "FR")):
        with pytest.raises(reference.RefusedError):
            device.report(value, group)
    device.report(1.0, "DE")


def test_a_slot_is_drawn_once_and_kept(open_store):
    manifest = load(device=Device(1.0, DAY, 24))
    hours = []
    for day in range(3):
        for hour in range(24):
            store = open_store(Clock(MONDAY + day * DAY + hour * HOUR))
            try:
                store.spend(manifest)
                hours.append(hour)
            except reference.OverBudgetError:
                pass
    assert len(hours) == 3
    assert len(set(hours)) == 1


def test_slots_are_drawn_evenly(tmp_path):
    """240 devices, 4 slots: a slot of fewer than 25 or more than 105 comes about once in ten million times."""
    found = Counter()
    manifest = load(device=Device(1.0, DAY, 4))
    for _ in range(240):
        store = reference.Store(":memory:", Clock())
        found[store._slot(manifest, reference.secrets.randbelow)] += 1
        store.close()
    assert set(found) == set(range(4))
    assert 25 <= min(found.values()) <= max(found.values()) <= 105


SPENDER = """
import sys
sys.path.insert(0, sys.argv[1])
import hushgram_client as client
store = client.Store(sys.argv[2], clock=lambda: int(sys.argv[4]))
manifest, granted = client.load(sys.argv[3]), 0
for _ in range(20):
    try:
        store.spend(manifest)
        granted += 1
    except client.OverBudgetError:
        pass
print(granted)
"""


def test_two_processes_at_once_spend_one_budget(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(commute(device=Device(17.0, WEEK)).manifest()))
    command = [sys.executable, "-c", SPENDER, str(REFERENCE.parent), str(tmp_path / "store.db"), str(path), str(MONDAY)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sum(int(process.communicate(timeout=120)[0]) for process in processes) == 17


SUBMITTER = """
import sys
sys.path.insert(0, sys.argv[1])
import hushgram_client as client
device = client.Device(client.load(sys.argv[3]), client.Store(sys.argv[2], clock=lambda: int(sys.argv[4])))
try:
    while True:
        device.submit(37.5)
        print("granted", flush=True)
except client.OverBudgetError:
    pass
"""


def test_processes_that_are_killed_spend_one_budget(tmp_path, open_store):
    """Each dies somewhere in a report, and may have spent it without having stored it."""
    path, kills = tmp_path / "manifest.json", 3
    path.write_text(json.dumps(commute(device=Device(40.0, WEEK)).manifest()))
    command = [sys.executable, "-c", SUBMITTER, str(REFERENCE.parent), str(tmp_path / "store.db"), path, str(MONDAY)]
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            process.kill()
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert 40 - kills <= open_store().waiting() <= 40


def draws_nothing(monkeypatch):
    def fail(*_):
        raise AssertionError("drawn without a budget")

    monkeypatch.setattr(reference.Manifest, "cell", fail)


def test_a_full_disk_means_no_report(open_store, monkeypatch):
    """Devices of other collections take what room there is; all that asks for more has to go without."""
    store = open_store()
    [pages] = store.database.execute("PRAGMA page_count").fetchone()
    store.database.execute(f"PRAGMA max_page_count = {pages}")
    devices = [reference.Device(load(name=f"{k:0>120}", device=Device(1.0, WEEK)), store) for k in range(100)]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        [device.report(1.0) for device in devices]
    draws_nothing(monkeypatch)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        devices[-1].report(1.0)


FULL_DISK = """
import json, os, sqlite3, sys
sys.path.insert(0, sys.argv[1])
import hushgram_client as client
disk, path, now = sys.argv[2:]
device = client.Device(client.load(path), client.Store(disk + "/store.db", clock=lambda: int(now)))
def attempt():
    try:
        device.submit(37.5)
        return "granted"
    except (client.OverBudgetError, sqlite3.OperationalError) as error:
        return str(error)
told = [attempt()]
try:
    with open(disk + "/filler", "wb", buffering=0) as filler:
        while filler.write(bytes(512)): pass
except OSError as error:
    told.append(error.strerror)
told += [attempt(), attempt()]
os.remove(disk + "/filler")
told += [attempt(), attempt(), attempt()]
print(json.dumps([told, device.store.waiting()]))
"""


def test_room_again_on_a_disk_that_was_full_means_what_is_left_of_the_budget(tmp_path):
    (tmp_path / "disk").mkdir()
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(commute(device=Device(3.0, WEEK)).manifest()))
    program = [sys.executable, "-c", FULL_DISK, REFERENCE.parent, tmp_path / "disk", path, str(MONDAY)]
    completed = subprocess.run(on_small_disk(program, tmp_path / "disk", 256), capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    (first, filled, *full, second, third, fourth), waiting = json.loads(completed.stdout)
    assert (first, second, third, waiting) == ("granted", "granted", "granted", 3)
    assert "No space" in filled
    assert full == ["database or disk is full"] * 2
    assert "spent" in fourth


def test_storage_that_cannot_be_written_means_no_report(tmp_path, monkeypatch):
    draws_nothing(monkeypatch)
    with pytest.raises(sqlite3.OperationalError):
        reference.Store(tmp_path / "missing" / "store.db")
    store = reference.Store(tmp_path / "store.db", Clock())
    store.database.execute("PRAGMA query_only = ON")
    with pytest.raises(sqlite3.OperationalError):
        reference.Device(load(device=Device(1.0, WEEK)), store).report(1.0)
    store.close()


def test_storage_that_is_damaged_means_no_report(tmp_path):
    (tmp_path / "store.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4000)
    with pytest.raises(sqlite3.DatabaseError):
        reference.Store(tmp_path / "store.db")


def test_a_ledger_that_is_not_what_was_written_means_no_report(open_store, monkeypatch):
    store, manifest = open_store(), load(device=Device(2.0, DAY, 24))
    store.clock.now += HOUR * store._slot(manifest, reference.secrets.randbelow)
    device = reference.Device(manifest, store)
    device.report(1.0)
    with monkeypatch.context() as patched:
        draws_nothing(patched)
        for table, numbers in (("account", "[0, 1, 0]"), ("account", "[]"), ("slot", "[24, 0]"), ("slot", "")):
            [[kept]] = store.database.execute(f"SELECT numbers FROM {table}")
            if numbers != kept:
                store.database.execute(f"UPDATE {table} SET numbers = ?", (numbers,))
                with pytest.raises(sqlite3.DatabaseError, match="not what was written"):
                    device.report(1.0)
                store.database.execute(f"UPDATE {table} SET numbers = ?", (kept,))
    device.report(1.0)
    with pytest.raises(reference.OverBudgetError):
        device.report(1.0)


def test_a_commit_that_fails_means_no_report_and_leaves_the_store_usable(open_store, monkeypatch):
    store = open_store()

    class Failing:
        """Fails once, as it is to write for good."""

        def __init__(self, database):
            self.database, self.failed = database, False

        def execute(self, statement, *arguments):
            if statement == "COMMIT" and not self.failed:
                self.failed = True
                raise sqlite3.OperationalError("disk I/O error")
            return self.database.execute(statement, *arguments)

        def __getattr__(self, name):
            return getattr(self.database, name)

    real, store.database = store.database, Failing(store.database)
    device = reference.Device(load(device=Device(1.0, WEEK)), store)
    with monkeypatch.context() as patched:
        draws_nothing(patched)
        with pytest.raises(sqlite3.OperationalError, match="disk I/O"):
            device.report(1.0)
    store.database = real
    device.report(1.0)


def test_a_budget_without_a_store_is_refused():
    with pytest.raises(reference.RefusedError, match="no store"):
        reference.Device(load(device=Device(1.0, WEEK)))


# Queue and upload -----------------------------------------------------------------------------------------------------


@pytest.fixture
def collector():
    with run_scripted_server() as server:
        yield server


def test_reports_wait_in_the_queue_over_a_restart_and_are_sent_once(open_store, collector):
    clock = Clock(MONDAY + 5000)
    device = reference.Device(load(), open_store(clock))
    for value in (1.0, 2.0, 3.0):
        device.submit(value)
    store = open_store(clock)
    assert store.waiting() == 3
    assert store.send(collector.url) == 3
    assert store.send(collector.url) == 0
    assert {(sent.path, sent.headers["Content-Type"]) for sent in collector.received} == {
        ("/v1/reports", "application/vnd.hushgram.report")
    }
    [(_, columns)], refused = decode_reports(collector.bodies)
    assert len(columns) == 3
    assert not refused
    assert set(columns.event_time.tolist()) == {MONDAY}


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_to_wait_is_asked_again_then_and_with_the_same_bytes(status, open_store, collector):
    clock = Clock()
    store = open_store(clock)
    reference.Device(load(), store).submit(1.0)
    collector.answers = [(status, {"Retry-After": "120"})]
    assert store.send(collector.url) == 0
    clock.now += 119_999
    assert open_store(clock).send(collector.url) == 0  # a restart forgets nothing
    assert len(collector.received) == 1
    clock.now += 1
    assert store.send(collector.url) == 1
    assert collector.received[0] == collector.received[1]


@pytest.mark.parametrize("header", ["0", "Thu, 01 Jan 1970 00:00:00 GMT", "soon"])
def test_a_pause_of_no_length_is_none(header, open_store, collector):
    clock = Clock()
    store = open_store(clock)
    reference.Device(load(), store).submit(1.0)
    collector.answers = [(503, {"Retry-After": header})] * 3
    assert store.send(collector.url) == 0
    [until] = store.database.execute("SELECT until FROM pause").fetchone()
    assert until - clock.now >= 500
    assert len(collector.received) == 1


def test_a_place_beyond_all_integers_is_the_last_position():
    manifest = Collection(name="c", low=0, high=180, epsilon=1.0).manifest()
    manifest["locate"] |= {"start": "-1e308", "length": "1e-300"}
    assert reference.load(manifest).position(90.0) == int(manifest["law"]["positions"]) - 1


def test_a_server_that_cannot_be_reached_is_asked_less_and_less(open_store, collector):
    clock = Clock()
    store = open_store(clock)
    reference.Device(load(windows=Windows(max_age=365 * DAY)), store).submit(1.0)
    waits = []
    for _ in range(15):
        store.send("http://127.0.0.1:1/v1/reports", timeout=5)
        [until] = store.database.execute("SELECT until FROM pause").fetchone()
        waits.append(until - clock.now)
        clock.now = until
    assert all(500 * 2 ** min(k, 12) <= wait <= 1500 * 2 ** min(k, 12) for k, wait in enumerate(waits))
    assert store.send(collector.url) == 1


@pytest.mark.parametrize(
    ("status", "kept"), [(400, 0), (413, 0), (415, 0), (422, 0), (404, 1), (500, 1), (301, 1), (307, 1)]
)
def test_what_will_never_be_taken_is_dropped_and_nothing_else(status, kept, open_store, collector):
    store = open_store()
    reference.Device(load(), store).submit(1.0)
    collector.answers = [(status, {"Location": collector.url})]
    assert store.send(collector.url) == 0
    assert store.waiting() == kept
    assert len(collector.received) == 1


def test_reports_that_are_too_old_are_dropped_unsent(open_store, collector):
    clock = Clock()
    store = open_store(clock)
    reference.Device(load(), store).submit(1.0)
    clock.now += DAY + 1
    assert store.send(collector.url) == 0
    assert store.waiting() == 0
    assert not collector.received


def test_a_pause_does_not_outlast_a_clock_that_was_set_back(open_store, collector):
    clock = Clock(MONDAY + 10 * DAY)
    store = open_store(clock)
    reference.Device(load(), store).submit(1.0)
    collector.answers = [(503, {"Retry-After": "60"})]
    store.send(collector.url)
    clock.now = MONDAY + 10 * DAY - 2 * DAY
    assert store.send(collector.url) == 1


def test_a_full_queue_refuses_before_anything_is_spent(open_store, monkeypatch):
    monkeypatch.setattr(reference.Store, "QUEUE_LIMIT", 1)
    store = open_store()
    device = reference.Device(load(device=Device(2.0, WEEK)), store)
    device.submit(1.0)
    with pytest.raises(reference.RefusedError, match="full queue"):
        device.submit(1.0)
    device.report(1.0)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [("7", 7000, 7000), (" 7 ", 7000, 7000), (None, None, None), ("soon", None, None), ("-5", None, None)],
)
def test_retry_after_is_a_number_of_seconds(header, least, most):
    wait = reference.parse_retry_after(header)
    assert wait is None if least is None else least <= wait <= most


def test_retry_after_may_be_a_date():
    wait = reference.parse_retry_after(formatdate(time.time() + 3600, usegmt=True))
    assert 0 < wait <= 3_600_000
    assert reference.parse_retry_after(formatdate(0, usegmt=True)) == 0
