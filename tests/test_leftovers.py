"""No process outlives its test, whatever ends the test, or the run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.processes import eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
CONFTEST = """
from tests.helpers import leftovers

leftovers.GRACE_SECONDS = 0.2

def pytest_configure(config):
    config.pluginmanager.register(leftovers.NoLeftovers(config), "no leftovers")
"""
START = """
import os, subprocess, sys, time
import pytest

DAEMON = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"

def start():
    # Its parent ends at once, and it leads a session of its own.
    subprocess.run(["sh", "-c", f"{sys.executable} -c '{DAEMON}' >> pids &"], check=True)
    while not os.path.exists("pids") or not os.path.getsize("pids"):
        time.sleep(0.01)
"""


@pytest.fixture
def start_pytest(tmp_path):
    """Starts pytest over a file of tests, in a folder of its own."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    processes = []

    def start(tests, *options):
        (tmp_path / "test_it.py").write_text(START + tests)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTHONPATH"] = str(ROOT)
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **output))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def read_daemon_pid(folder):
    [pid] = (folder / "pids").read_text().split()
    return int(pid)


def has_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_test_that_leaves_a_process_fails_and_the_process_is_ended(start_pytest, tmp_path):
    output, _ = start_pytest("def test_leaves(): start()\ndef test_next(): pass\n").communicate(timeout=300)
    assert "2 passed, 1 error" in output
    assert "ERROR test_it.py::test_leaves - Failed: left running: " in output
    assert has_ended(read_daemon_pid(tmp_path))


def test_a_process_of_a_session_fixture_stays_until_the_session_ends(start_pytest, tmp_path):
    tests = """
@pytest.fixture(scope="session")
def server(): start()
def test_uses(server): pass
def test_uses_it_too(server): os.kill(int(open("pids").read()), 0)
"""
    output, _ = start_pytest(tests).communicate(timeout=300)
    assert "2 passed" in output, output
    assert has_ended(read_daemon_pid(tmp_path))


def test_a_server_of_the_session_that_a_test_restarts_stays(start_pytest, tmp_path):
    tests = """
@pytest.fixture(scope="session")
def server(): start()
def test_restarts(server):
    os.kill(int(open("pids").read()), 9)
    os.remove("pids")
    start()
def test_uses_it(server): os.kill(int(open("pids").read()), 0)
"""
    output, _ = start_pytest(tests).communicate(timeout=300)
    assert "2 passed" in output, output
    assert "error" not in output
    assert has_ended(read_daemon_pid(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("--numprocesses=1",)], ids=["alone", "xdist"])
def test_a_run_that_is_stopped_leaves_no_process(start_pytest, tmp_path, number, options):
    process = start_pytest("def test_waits():\n    start()\n    time.sleep(600)\n", *options)
    pid = eventually("the daemon", lambda: (tmp_path / "pids").read_text() and read_daemon_pid(tmp_path))
    process.send_signal(number)
    process.communicate(timeout=300)
    eventually("its end", lambda: has_ended(pid))


def test_a_worker_that_crashes_leaves_no_process(start_pytest, tmp_path):
    tests = "def test_crashes():\n    start()\n    os._exit(1)\n"
    output, _ = start_pytest(tests, "--numprocesses=1", "--max-worker-restart=0").communicate(timeout=300)
    assert "crashed" in output
    eventually("its end", lambda: has_ended(read_daemon_pid(tmp_path)))
