"""Processes that outlive the test that started them: found, ended, and reported as that test's failure.

The test process adopts its orphaned descendants (Linux: PR_SET_CHILD_SUBREAPER), so that none of them gets out of
sight, and ends whatever is left when it ends itself.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 20.0
"""A process that has been asked to end may take a moment, on a busy machine several."""
INTERPRETERS_OWN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Python starts these once for a process, and they end with it."""


@dataclass(frozen=True)
class RunningProcess:
    """A living process, as the kernel describes it."""

    pid: int
    parent: int
    session: int
    started: str
    command: str


def descendants() -> dict[int, RunningProcess]:
    """The living processes below this one."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # no child, so nothing below: most tests start nothing, and there are thousands
        return {}
    processes = {process.pid: process for process in _processes()}
    below: dict[int, RunningProcess] = {}
    parents = {os.getpid()}
    while parents:
        children = {pid: process for pid, process in processes.items() if process.parent in parents}
        below |= children
        parents = set(children)
    return below


def _processes() -> Iterable[RunningProcess]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            state, parent, _, session, *more = (folder / "stat").read_text().rpartition(")")[2].split()
            if state not in "ZX":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                yield RunningProcess(int(folder.name), int(parent), int(session), more[15], command)


def _strip_numbers(command: str) -> str:
    return re.sub("[0-9]+", "", command)


def end(processes: Iterable[RunningProcess]) -> None:
    """kill -9, and wait for those that are children of this process."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(process.pid, 0)


class NoLeftovers:
    """A plugin of pytest: a test fails if a process is left that no fixture of a wider scope has started."""

    def __init__(self, config: pytest.Config) -> None:
        self.is_worker = hasattr(config, "workerinput")
        self.of_fixtures: dict[int, RunningProcess] = {}
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # `kill` ends a run as Ctrl-C does, so that all that it started is ended; the default would leave it behind.
        signal.signal(signal.SIGTERM, signal.default_int_handler)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            return (yield)
        before = descendants()
        try:
            return (yield)
        finally:
            self.of_fixtures |= {pid: process for pid, process in descendants().items() if pid not in before}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item, nextitem):
        result = yield
        limit = time.monotonic() + GRACE_SECONDS
        while (leftovers := self._find_leftovers()) and time.monotonic() < limit:
            time.sleep(0.05)
        if leftovers:
            end(leftovers)
            pytest.fail(f"left running: {', '.join(process.command[:200] for process in leftovers)}", pytrace=False)
        return result

    def _find_leftovers(self) -> list[RunningProcess]:
        """Descendants that no fixture of a wider scope has started, directly or through another process."""
        below = descendants()
        # By its start, since its parent and its command may change.
        starts = {pid: process.started for pid, process in self.of_fixtures.items()}
        expected = {pid for pid, process in below.items() if starts.get(pid) == process.started}
        expected |= {pid for pid, process in below.items() if any(name in process.command for name in INTERPRETERS_OWN)}
        # A server that a test has stopped and started again is still the fixture's; it may have another number.
        restarted = {_strip_numbers(process.command) for process in self.of_fixtures.values()}
        expected |= {pid for pid, process in below.items() if _strip_numbers(process.command) in restarted}
        while (
            more := {pid for pid, process in below.items() if expected & {process.parent, process.session}} - expected
        ):
            expected |= more
        return [process for pid, process in below.items() if pid not in expected]

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config):
        """Also after Ctrl-C, and after a worker of pytest-xdist that crashed, whose orphans came to this process."""
        if not self.is_worker:
            end(descendants().values())
