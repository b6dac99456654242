"""A signal ends a command at any moment with one line and the conventional exit code, and leaves nothing behind."""

import http.client
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from devtools.processes import eventually
from hushgram.pipelines.cli import command, signals
from tests.helpers.stopping import COMMAND, SIGNALS, Program

pytestmark = pytest.mark.slow

YAML = """
collections:
  commute: {domain: {low: 0, high: 180}, buckets: 256, epsilon: 4, windows: {size: 1h}}
"""
BUSY = """
import subprocess, sys, tempfile, threading
from pathlib import Path
from hushgram.pipelines.cli import signals

def start_children():
    while True:
        subprocess.Popen(["sleep", "60"])
        threading.Event().wait(0.02)

def write_results():
    for number in range(10**9):
        write_atomically(f"{sys.argv[1]}/{number % 7}", bytes(1 << 20))

def leave_temporary_files():
    while True:
        Path(tempfile.mkdtemp(), "file").write_bytes(bytes(1000))
        threading.Event().wait(0.001)

def complain():
    while True:
        print("a thread has lost its engine", flush=True)

def compute():
    while True:
        sum(range(10**4))

signals.handle()
from hushgram.transforms.filesystem import write_atomically
for work in (start_children, write_results, leave_temporary_files, complain):
    threading.Thread(target=work, daemon=True).start()
compute()
"""
WAITING = """
import time
from hushgram.pipelines.cli import signals
signals.handle()
print("ready", flush=True)
time.sleep(600)
"""


def test_a_signal_ends_a_busy_program_at_once_without_partial_files(tmp_path):
    """Whatever its threads do: start processes, write results, fill the temporary folder, print, compute."""
    rng = random.Random(13)
    for number in SIGNALS:
        (tmp_path / "out").mkdir(exist_ok=True)
        program = Program([sys.executable, "-c", BUSY, tmp_path / "out"], tmp_path)
        program.until_ready()
        if number != signal.SIGHUP:  # which comes during the imports
            eventually("the first result", lambda: list((tmp_path / "out").glob("[0-9]")))
        time.sleep(rng.random() / 4)
        program.send_often(number, rng)
        assert program.end()[::2] == (128 + number, "hushgram: stopped\n")
        program.check_nothing_is_left()
        for path in (tmp_path / "out").iterdir():
            assert path.name.isdecimal(), f"{path} was left under its temporary name"
            assert path.stat().st_size == 1 << 20
            path.unlink()


def test_a_signal_that_the_parent_ignores_stays_ignored(tmp_path):
    """As under nohup."""
    program = Program([sys.executable, "-c", WAITING], tmp_path, ignored=[signal.SIGHUP])
    assert program.process.stdout.readline() == "ready\n"
    program.send(signal.SIGHUP, to_group=True)
    program.send(signal.SIGTERM, to_group=True)
    assert program.end()[::2] == (143, "hushgram: stopped\n")


def test_a_signal_ends_a_program_whose_output_is_closed(tmp_path):
    program = Program([sys.executable, "-c", WAITING], tmp_path)
    assert program.process.stdout.readline() == "ready\n"
    program.process.stdout.close()
    program.process.stderr.close()
    program.send(signal.SIGINT, to_group=False)
    assert program.process.wait(60) == 130
    program.check_nothing_is_left()


def test_child_processes_are_found_through_proc_and_ps():
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as child:

        def find_both():
            """Those of this test: other tests have children in this process, too."""
            pids = {pid for pid in signals.descendants() if _find_group(pid) == child.pid}
            return pids if len(pids) == 2 else None

        try:
            pids = eventually("both processes", find_both)
            assert child.pid in pids
            for processes in (signals._processes_of_linux(), signals._processes_of_ps()):
                assert {os.getpid(), *pids} <= {pid for pid, _ in processes}
                assert (child.pid, os.getpid()) in processes
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def _find_group(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Collections, reports and results for commands to work on."""
    folder = tmp_path_factory.mktemp("signals")
    (folder / "collections.yaml").write_text(YAML)
    (folder / "values.csv").write_text("minutes\n" + "".join(f"{number / 7}\n" for number in range(700_000)))
    collections_option = ["--collections", str(folder / "collections.yaml")]
    assert (
        command.main(["simulate", *collections_option, "--reports", "200000", "--output", str(folder / "reports")]) == 0
    )
    aggregation = ["--input", str(folder / "reports" / "*.avro"), "--output", str(folder / "results")]
    assert command.main(["aggregate", *collections_option, *aggregation]) == 0
    return folder


def list_commands(files, output):
    collections_option = ["--collections", files / "collections.yaml"]
    many = ["--input", files / "reports" / "*.avro"] * 40
    return {
        "aggregate": [*collections_option, *many, "--output", output],
        "rollup": [*collections_option, "--input", files / "results", "--output", output, "--window", "1d"],
        "plan": [*collections_option, "--reports", "100000", "--runs", "900"],
        "simulate": [*collections_option, "--reports", "9000000", "--output", output],
        "try": [f"{files}/values.csv:minutes", "--output", output],
        "show": [files / "results", "--follow"],
        "changes": [files / "results", "--follow"],
        "view": [files / "results", "--serve", "--port", "0"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aggregate", "rollup", "plan", "simulate", "try", "show", "changes", "view"])
def test_a_signal_ends_every_command_with_one_line(name, files, tmp_path):
    """While it is loaded, and at a random moment after that; a short command may have ended by itself."""
    rng = random.Random(name)
    for longest in (0.1, 5.0):
        number = rng.choice(SIGNALS)
        program = Program([*COMMAND, name, *list_commands(files, tmp_path / "out")[name]], tmp_path)
        program.until_ready()
        time.sleep(rng.random() * longest)
        program.send_often(number, rng)
        code, _, errors = program.end()
        if code != 0 or longest < 1 or name in ("plan", "show", "changes", "view"):
            assert (code, errors) == (128 + number, "hushgram: stopped\n")
        program.check_nothing_is_left()
        assert not list((tmp_path / "out").rglob(".*"))


@pytest.mark.slow
def test_the_first_signal_ends_a_server_that_is_under_requests(files, tmp_path):
    """Clients ask on, all the time, from several threads."""
    rng = random.Random(12)
    for _ in range(3):
        program = Program([*COMMAND, "view", files / "results", "--serve", "--port", "0"], tmp_path)
        port = int(program.process.stdout.readline().split("/")[2].partition(":")[2])
        stop = threading.Event()
        clients = [threading.Thread(target=request_repeatedly, args=(port, stop)) for _ in range(4)]
        for client in clients:
            client.start()
        time.sleep(rng.random() / 2)
        program.send(signal.SIGINT, to_group=rng.random() < 0.5)
        try:
            assert program.end()[::2] == (130, "hushgram: stopped\n")
        finally:
            stop.set()
            for client in clients:
                client.join()
        program.check_nothing_is_left()


def request_repeatedly(port, stop):
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/data/outline/none")
            connection.getresponse().read()
        connection.close()


@pytest.mark.parametrize(
    "arguments", [["--help"], ["stream", "--help"], ["show", "RESULTS"]], ids=["help", "help of a command", "show"]
)
def test_a_closed_pipe_ends_a_command_in_silence(files, arguments, tmp_path):
    program = Program(
        [*COMMAND, *(str(files / "results") if argument == "RESULTS" else argument for argument in arguments)], tmp_path
    )
    program.process.stdout.close()
    assert program.process.wait(60) == 141
    assert program.process.stderr.read() == ""
    program.process.stderr.close()
    program.check_nothing_is_left()


def test_output_that_cannot_be_written_is_reported_in_a_line(files):
    with open("/dev/full", "w") as full:
        completed = subprocess.run([*COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert completed.returncode == 1
    assert completed.stderr == "hushgram: cannot print: No space left on device\n"
