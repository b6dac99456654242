"""The harness of `make chaos`, without engines: a seed's faults, the books, and verdicts that notice one report."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.chaos import __main__ as command
from benchmarks.chaos import contained, table, verdict, watch
from benchmarks.chaos.faults import INJURIES, put_back
from benchmarks.chaos.fleet import YAML, ChaosFleet
from benchmarks.chaos.ledger import MINUTE_MS, UNKNOWN_NUMBER, Ledger, Reports
from benchmarks.chaos.proxy import Proxy
from benchmarks.chaos.results import Results
from benchmarks.chaos.schedule import KINDS, Injury, fault
from benchmarks.chaos.sender import Sender
from benchmarks.chaos.table import Outcome
from devtools.processes import HOST, eventually, free_port
from devtools.tools import ROOT
from hushgram import load_collections
from hushgram.schemas.records import DeadLetter, Histogram, Key, Pane
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sinks.files import as_avro
from hushgram.transforms.sources.message_batch import MessageBatch
from tests.helpers.reports import compute_tallies
from tests.helpers.tables import make_snapshot

NOW = 1_767_225_600_000
KEY = ("commute", None, NOW, "0011223344556677")


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    path = tmp_path_factory.mktemp("chaos") / "collections.yaml"
    path.write_text(YAML)
    return load_collections(path)


# The schedule --------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_faults_again_and_another_seed_gives_others():
    first = [fault(11, number) for number in range(1, 100)]
    assert first == [fault(11, number) for number in range(1, 100)]
    assert first != [fault(12, number) for number in range(1, 100)]
    assert [scheduled.number for scheduled in first] == list(range(1, 100))


def test_every_kind_of_fault_comes_in_every_round_and_can_be_inflicted():
    for round_number in range(3):
        numbers = range(round_number * len(KINDS) + 1, (round_number + 1) * len(KINDS) + 1)
        assert {fault(5, number).injuries[0].kind for number in numbers} == set(KINDS)
    assert INJURIES.keys() == {kind.name for kind in KINDS}
    assert len({kind.phrase for kind in KINDS}) == len(KINDS)


def test_two_faults_at_once_overlap_or_follow_closely_and_never_hurt_the_same_part():
    pairs = [scheduled.injuries for number in range(1, 400) if len((scheduled := fault(1, number)).injuries) == 2]
    assert 50 < len(pairs) < 150  # 100 on average; outside with a chance below 1e-7, and the seed is fixed
    assert all(one.kind.part != other.kind.part for one, other in pairs)
    assert all(0 <= other.begins <= 8 and other.begins <= other.ends for _, other in pairs)


def test_faults_that_the_machine_does_not_permit_are_left_out_and_the_others_keep_their_numbers():
    with_disks, without_disks = command.faults(3, None, True), command.faults(3, None, False)
    all_faults = {scheduled.number: scheduled for scheduled in (next(with_disks) for _ in range(60))}
    permitted = [next(without_disks) for _ in range(20)]
    assert not any(injury.kind.needs_disks for scheduled in permitted for injury in scheduled.injuries)
    assert all(all_faults[scheduled.number] == scheduled for scheduled in permitted)
    assert [scheduled.number for scheduled in command.faults(3, [9, 2], True)] == [2, 9]


def test_the_command_lists_the_faults_of_a_seed(capsys):
    assert command.main(["--seed", "3", "--list", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == [str(fault(3, number)) for number in range(1, 6)]


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "soon"])
def test_a_duration_that_is_not_a_positive_number_is_refused_with_one_line(text, capsys):
    with pytest.raises(SystemExit):
        command.main(["--minutes", text])
    assert f"got {text!r}, allowed: a number of minutes above 0" in capsys.readouterr().err


# The books -----------------------------------------------------------------------------------------------------------


def test_the_expected_tallies_are_those_of_a_loop_over_the_reports(collections):
    fleet, ledger, rows = ChaosFleet(collections, 4), Ledger(collections), []
    for number in range(600):
        upload = fleet.upload(NOW + 700 * number)
        if (reports := upload.reports) is not None:
            ledger.accept(reports)
            row = {"collection": reports.collection, "revision": bytes.fromhex(reports.revision)}
            row |= {"group": reports.group, "event_time": reports.event_time}
            rows += [{**row, "cell": cell} for cell in reports.cells]
    books = ledger.books()
    expected = compute_tallies(list(collections.values()), rows)
    assert {key: counts.tolist() for key, counts in books.tallies.items()} == expected
    assert books.reports == len(rows)


def test_a_copy_of_the_books_does_not_change_when_more_is_sent(collections):
    ledger = Ledger(collections)
    reports = Reports("age", collections["age"].revision, None, NOW, (0, 1))
    ledger.accept(reports)
    books = ledger.books()
    before = {key: counts.copy() for key, counts in books.tallies.items()}
    ledger.accept(reports)
    ledger.refuse("too_old", 1)
    assert not verdict.find_overcounted(books.tallies, before)
    assert not verdict.find_undercounted(books.tallies, before)
    assert (books.letters, books.reports) == (Counter(), 2)


def test_letters_are_due_when_the_minute_of_receipt_is_over(collections):
    ledger = Ledger(collections)
    ledger.refusal_received("too_old", 2, NOW)
    ledger.refusal_received("duplicate", 3, NOW + MINUTE_MS)
    assert ledger.letters_due(NOW + MINUTE_MS - 1) == Counter()
    assert ledger.letters_due(NOW + MINUTE_MS) == Counter(too_old=2)
    assert ledger.letters_due(NOW + 2 * MINUTE_MS) == Counter(too_old=2, duplicate=3)


def test_uploads_follow_from_the_seed(collections):
    fleet, same, other = (ChaosFleet(collections, seed) for seed in (1, 1, 2))
    uploads = [fleet.upload(NOW) for _ in range(300)]
    assert uploads == [same.upload(NOW) for _ in range(300)]
    assert uploads != [other.upload(NOW) for _ in range(300)]


def test_the_parser_refuses_exactly_the_uploads_that_must_be_refused(collections):
    """Through the parser of a stream, all at once. Seeded: every reason is among these 1000."""
    fleet, parser = ChaosFleet(collections, 8), Parser(CollectionIndex.of(collections.values()))
    uploads = [fleet.upload(NOW) for _ in range(1000)]
    received = np.full(len(uploads), NOW)
    poll = MessageBatch("reports[0]", np.arange(len(uploads)), received, tuple(upload.message for upload in uploads))
    parsed = list(parser.parse(poll))
    letters = Counter()
    for letter in parsed:
        if isinstance(letter, DeadLetter):
            letters[UNKNOWN_NUMBER if letter.reports is None else letter.reason] += letter.reports or 1
    expected = Counter()
    for upload in uploads:
        if upload.refusal:
            expected[upload.refusal[0]] += upload.refusal[1]
    assert letters == expected
    reasons = {"unknown_collection", "unknown_revision", "cell_out_of_range", "unknown_group"}
    assert letters.keys() == {*reasons, "too_old", "from_the_future", "undecodable", UNKNOWN_NUMBER}
    cells = np.concatenate([output.cells for output in parsed if not isinstance(output, DeadLetter)])
    assert sorted(cells.tolist()) == sorted(
        cell for upload in uploads if upload.reports for cell in upload.reports.cells
    )
    assert all(upload.reports for upload in uploads if upload.repeat_after_seconds is not None)


class ImpatientEvent(threading.Event):
    """An event whose `wait` always returns at once, as if the thread had just passed it when it is cleared."""

    def __init__(self):
        super().__init__()
        self.waits = 0

    def wait(self, timeout=None):
        self.waits += 1
        return True


def test_a_paused_sender_sends_nothing_even_if_it_was_about_to(collections):
    ledger = Ledger(collections)
    sender = Sender(ChaosFleet(collections, 1), ledger, f"{HOST}:{free_port()}", "reports", 4, 1000)
    sender._unpaused = ImpatientEvent()
    with sender:
        eventually("something to be sent", lambda: ledger.books().reports)
        sender.pause()
        waits, books = sender._unpaused.waits, ledger.books()
        eventually("some more turns", lambda: sender._unpaused.waits > waits + 3)
        assert ledger.books().reports == books.reports
        sender.resume()
        eventually("more to be sent", lambda: ledger.books().reports > books.reports)


# Verdicts ------------------------------------------------------------------------------------------------------------


def tallies(*counts, key=KEY):
    return {key: np.array(counts, dtype=np.int64)}


def test_one_report_more_or_less_is_noticed_whichever_cell_it_is_in():
    sent_tallies = tallies(3, 0, 5)
    assert (
        verdict.find_overcounted(sent_tallies, sent_tallies)
        == verdict.find_undercounted(sent_tallies, sent_tallies)
        == []
    )
    for cell in range(3):
        more, less = tallies(3, 0, 5), tallies(3, 0, 5)
        more[KEY][cell] += 1
        less[KEY][cell] -= 1
        assert len(verdict.find_overcounted(more, sent_tallies)) == 1
        assert len(verdict.find_undercounted(less, sent_tallies)) == 1
    # As many as were sent, and yet one too many and one missing.
    moved = tallies(2, 1, 5)
    assert "too many of cell 1" in verdict.find_overcounted(moved, sent_tallies)[0]
    assert "too few of cell 0" in verdict.find_undercounted(moved, sent_tallies)[0]


def test_a_missing_window_and_an_invented_window_are_noticed():
    [missing] = verdict.find_undercounted({}, tallies(1, 2))
    assert "sent 3 and counted 0" in missing
    [invented] = verdict.find_overcounted(tallies(1, 2), {})
    assert "counted 3 and sent 0" in invented


def test_a_missing_letter_and_a_surplus_letter_are_noticed():
    sent_letters = Counter(duplicate=5, too_old=1)
    assert verdict.find_wrong_letters(sent_letters, sent_letters, sent_letters) == []
    assert verdict.find_wrong_letters(Counter(duplicate=3), Counter(duplicate=2), sent_letters) == []
    [problem] = verdict.find_wrong_letters(Counter(duplicate=4, too_old=1), sent_letters, sent_letters)
    assert problem == "dead letters duplicate: 4 reports, expected 5"
    [problem] = verdict.find_wrong_letters(Counter(duplicate=6), Counter(duplicate=2), sent_letters)
    assert problem == "dead letters duplicate: 6 reports, expected 2 to 5"
    [problem] = verdict.find_wrong_letters(Counter(duplicate=5, too_old=1, undecodable=1), sent_letters, sent_letters)
    assert problem == "dead letters undecodable: 1 reports, expected 0"


def test_a_row_that_differs_from_the_best_file_is_noticed():
    best = [make_snapshot(), make_snapshot(group="DE", reports=10)]
    assert verdict.find_wrong_rows(best, best) == []
    assert verdict.find_wrong_rows([replace(best[0], pane=Pane(0, 9, "late")), best[1]], best) == []
    assert verdict.find_wrong_rows([replace(best[0], mean=best[0].mean * (1 + 1e-12)), best[1]], best) == []
    for changes in ({"reports": 999}, {"mean": best[0].mean + 1e-6}, {"status": "too_few"}, {"pane": Pane(1)}):
        [problem] = verdict.find_wrong_rows([replace(best[0], **changes), best[1]], best)
        assert f"{next(iter(changes)).replace('pane', 'generation')} " in problem
    reversed_row = replace(best[0], probabilities=best[0].probabilities[::-1])
    assert len(verdict.find_wrong_rows([reversed_row, best[1]], best)) == 1
    assert verdict.find_wrong_rows(best[:1], best)[0].endswith("no row")
    assert verdict.find_wrong_rows(best, best[:1])[0].endswith("a row, and no file")
    assert "a row too many" in verdict.find_wrong_rows([*best, best[0]], best)[0]


# Results --------------------------------------------------------------------------------------------------------------


def histogram(*counts, index=0):
    key = Key(KEY[0], None, NOW, NOW + MINUTE_MS)
    return Histogram(key, Pane(0, index), {KEY[3]: (sum(counts), np.array(counts, dtype=np.int64))})


def write(output, name, pane):
    from hushgram.schemas.avro_schemas import HISTOGRAM

    write_atomically(str(output / "histograms" / "commute" / name), as_avro(HISTOGRAM, [pane]))


def test_results_are_read_as_they_come_and_again_when_they_are_replaced(tmp_path):
    results = Results(tmp_path, lambda: tallies(4, 4))
    results.refresh()
    assert results.tallies() == {}
    write(tmp_path, "a.avro", histogram(1, 2))
    results.refresh()
    assert results.tallies()[KEY].tolist() == [1, 2]
    write(tmp_path, "b.avro", histogram(2, 2, index=1))
    write(tmp_path, "a.avro", histogram(3, 2))
    results.refresh()
    assert results.tallies()[KEY].tolist() == [3, 2]
    assert results.problems == []


def test_a_pane_that_ever_held_too_much_and_an_unreadable_file_are_recorded_as_problems(tmp_path):
    results = Results(tmp_path, lambda: tallies(2, 2))
    write(tmp_path, "a.avro", histogram(3, 0))
    write(tmp_path, "b.avro", histogram(2, 2))
    results.refresh()
    assert results.tallies()[KEY].tolist() == [2, 2]
    [problem] = results.problems
    assert "counted 3 and sent 4; too many of cell 0" in problem
    (tmp_path / "histograms" / "commute" / "c.avro").write_bytes(b"Obj\x01half")
    results.refresh()
    assert "c.avro: cannot be read" in results.problems[1]


def test_hidden_files_count_when_they_are_older_than_the_fault(tmp_path):
    results = Results(tmp_path, dict)
    hidden = tmp_path / "snapshots" / ".left.avro.0123"
    hidden.parent.mkdir()
    hidden.write_bytes(b"")
    modified = hidden.stat().st_mtime
    assert results.hidden_since_before(modified) == []
    assert results.hidden_since_before(modified + 60) == [str(hidden)]


def test_a_renamed_directory_gets_its_name_back_with_the_files_written_meanwhile(tmp_path):
    renamed, output = tmp_path / "renamed", tmp_path / "results"
    for folder, name in ((renamed, "old"), (renamed, "both"), (output, "both"), (output, "new")):
        (folder / "snapshots").mkdir(parents=True, exist_ok=True)
        (folder / "snapshots" / f"{name}.avro").write_text(folder.name)
    (output / "snapshots" / ".half.avro.12").write_text("")
    put_back(renamed, output)
    contents = {path.name: path.read_text() for path in output.rglob("*") if path.is_file()}
    assert contents == {"old.avro": "renamed", "both.avro": "results", "new.avro": "results"}
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


# A fault -------------------------------------------------------------------------------------------------------------


class IdleSite:
    """A site on which nothing can be inflicted, and a sender that has nothing to send."""

    output = ROOT / "nowhere"

    def revive(self):
        return []


def watch_site(monkeypatch, inflict):
    monkeypatch.setattr(watch, "inflict", inflict)
    return watch.Watch(IdleSite(), None, None)


def test_injuries_come_and_go_in_the_order_of_their_times(monkeypatch):
    events = []

    def inflict(site, injury):
        events.append(f"{injury.kind.name} begins")
        return lambda: events.append(f"{injury.kind.name} ends")

    times = (0, 0.2), (0.1, 0.3), (0, 0)
    injuries = tuple(Injury(kind, *span, 0.5) for kind, span in zip(KINDS[:3], times, strict=True))
    watch_site(monkeypatch, inflict)._hurt_and_heal(replace(fault(1, 1), injuries=injuries))
    a, b, c = (kind.name for kind in KINDS[:3])
    assert events == [f"{a} begins", f"{c} begins", f"{c} ends", f"{b} begins", f"{a} ends", f"{b} ends"]


def test_an_injury_is_healed_even_when_the_next_injury_fails(monkeypatch):
    healed = []

    def inflict(site, injury):
        if injury.kind == KINDS[1]:
            raise RuntimeError("no such process")
        return lambda: healed.append(injury.kind)

    injuries = tuple(Injury(kind, 0, 60, 0.5) for kind in KINDS[:2])
    outcome = watch_site(monkeypatch, inflict).strike(replace(fault(1, 1), injuries=injuries))
    assert outcome.problems == ("RuntimeError: no such process",)
    assert healed == [KINDS[0]]


# The table -----------------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_kind_of_fault_and_counts_losses(tmp_path):
    one, two = (Injury(kind, 0.0, 5.0, 0.5) for kind in KINDS[:2])
    first = replace(fault(1, 1), injuries=(one,))
    outcomes = [
        Outcome(first, 4.0),
        Outcome(replace(first, number=2), 8.0),
        Outcome(replace(first, number=3, injuries=(one, two)), 99.0, ("lost",)),
    ]
    text = table.markdown(outcomes, "make chaos SEED=1 MINUTES=9", "3 faults")
    assert text.splitlines()[0] == "`make chaos SEED=1 MINUTES=9`: 3 faults"
    assert f"| {KINDS[0].phrase} | 3 | 6 s | 8 s | 1 |" in text
    assert f"| {KINDS[1].phrase} | 1 | – | – | 1 |" in text
    assert "| two of these at once | 1 | – | – | 1 |" in text
    assert "| all | 3 | 6 s | 8 s | 1 |" in text

    document = tmp_path / "reliability.md"
    document.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.put_into(document, text)
    table.put_into(document, text)
    assert document.read_text() == f"before\n{table.BEGIN}\n{text}{table.END}\nafter\n"
    document.write_text("no marks")
    with pytest.raises(ValueError, match="it needs the lines"):
        table.put_into(document, text)


def test_the_document_has_room_for_the_table():
    text = (ROOT / "docs" / "reliability.md").read_text()
    assert text.count(table.BEGIN) == text.count(table.END) == 1


# Means ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def echo():
    """A server that returns the bytes it receives."""
    with socket.create_server((HOST, 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        def answer(connection):
            with connection:
                try:
                    while data := connection.recv(1000):
                        connection.sendall(data)
                except OSError:
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def ask(connection, text):
    connection.sendall(text)
    return connection.recv(1000)


def connect_and_ask(proxy, text):
    with socket.create_connection((HOST, proxy.port), timeout=30) as connection:
        return ask(connection, text)


def test_a_proxy_passes_on_stalls_resets_and_refuses(echo):
    with Proxy(echo) as proxy, socket.create_connection((HOST, proxy.port), timeout=30) as connection:
        assert ask(connection, b"one") == b"one"
        proxy.stall()
        connection.sendall(b"two")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1000)
        proxy.heal()
        connection.settimeout(30)
        assert connection.recv(1000) == b"two"

        proxy.reset()
        for attempt in (lambda: ask(connection, b"three"), lambda: connect_and_ask(proxy, b"four")):
            with pytest.raises(ConnectionResetError):
                attempt()
        proxy.heal()
        with socket.create_connection((HOST, proxy.port), timeout=30) as other:
            assert ask(other, b"five") == b"five"
            proxy.refuse()
            assert other.recv(1000) == b""
        with pytest.raises(ConnectionRefusedError):
            connect_and_ask(proxy, b"six")
        proxy.heal()
        assert connect_and_ask(proxy, b"seven") == b"seven"


INSIDE = """
import errno, os, sys, time
from pathlib import Path
from benchmarks.chaos.disks import Disk

disk = Disk(Path(sys.argv[1]), 4, True)
disk.fill()
try:
    (disk.path / "one").write_bytes(bytes(8192))
except OSError as error:
    assert error.errno == errno.ENOSPC
else:
    sys.exit("not full")
disk.free()
(disk.path / "two").write_bytes(bytes(8192))
disk.write_protect(True)
try:
    (disk.path / "three").write_bytes(b"")
except OSError as error:
    assert error.errno == errno.EROFS
else:
    sys.exit("not protected")
disk.write_protect(False)
(disk.path / "four").write_bytes(b"")
print("done", flush=True)
if sys.argv[2] == "stay":
    child = os.spawnlp(os.P_NOWAIT, "setsid", "setsid", "sleep", sys.argv[3])
    try:
        print("waits", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
sys.exit(7)
"""


@pytest.fixture
def start_inside(tmp_path):
    """Starts a program in namespaces of its own; a program that is still there at the end is killed."""
    if not contained.permitted():
        pytest.skip("this machine permits no namespaces")
    (tmp_path / "inside.py").write_text(INSIDE)
    processes = []

    def start(*arguments):
        code = f"import sys; from benchmarks.chaos.contained import run; sys.exit(run('inside', {list(arguments)!r}))"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
        command = [sys.executable, "-c", code]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield start
    for process in processes:
        with process:
            process.kill()


def test_the_disks_of_a_run_can_be_filled_and_protected_and_are_invisible_to_others(start_inside, tmp_path):
    process = start_inside(str(tmp_path / "disk"), "end")
    assert process.communicate()[0] == "done\n"
    assert process.returncode == 7
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_processes_of_a_run_end_with_it_however_it_ends(start_inside, tmp_path, number):
    """Even a process in a session of its own, and even if the run is killed before it can do anything about it."""
    seconds = str(random.Random(str(tmp_path)).randrange(10**6, 10**7))  # its argument identifies the process
    process = start_inside(str(tmp_path / "disk"), "stay", seconds)
    assert [process.stdout.readline(), process.stdout.readline()] == ["done\n", "waits\n"]
    eventually("its process", lambda: find_sleepers(seconds))
    process.send_signal(number)
    rest = process.communicate()[0]
    assert (rest, process.returncode) == (("", -9) if number == signal.SIGKILL else ("interrupted\n", 7))
    eventually("the end of its processes", lambda: not find_sleepers(seconds))


def test_a_hangup_that_is_ignored_stays_ignored(start_inside, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
    try:
        process = start_inside(str(tmp_path / "disk"), "stay", "1")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert [process.stdout.readline(), process.stdout.readline()] == ["done\n", "waits\n"]
    [ignored] = re.findall(r"^SigIgn:\s*(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    assert int(ignored, 16) & (1 << (signal.SIGHUP - 1))


def find_sleepers(seconds):
    listing = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if line.split()[-2:] == ["sleep", seconds]]
