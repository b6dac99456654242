"""How a signal ends a command: one line, the conventional exit code, and nothing left behind.

SIGINT, SIGTERM and SIGHUP are blocked in every thread, and one thread waits for them. So none is lost at an unlucky
moment, none interrupts work at a random instruction, and the handlers that libraries install never run. Child processes
inherit the mask: Ctrl-C on a terminal reaches this process alone, which ends them.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from hushgram.transforms.gate import CHILDREN, WRITES

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLEAN_UP_SECONDS = 10.0
"""After it the process ends, whatever is left."""
WRITE_SECONDS = 2.0
"""How long a result that is being written may take to become whole."""
LINE_SECONDS = 1.0
"""A terminal that takes no output, because it was paused, gets no line."""
TRACKER = b"multiprocessing.resource_tracker"
"""It removes what dead processes shared, and ends by itself when it has."""

_handled: set[signal.Signals] = set()
_outcome = threading.Lock()
"""Held by what ends the process: a signal, or the command itself; whichever comes first."""
_last_line = "stopped"
_stop_gently: Callable[[], None] | None = None
_folder: str | None = None


def handle() -> None:
    """From now on a signal ends the process; called once, before any thread and anything slow is started.

    Signals that the parent had ignored, as nohup does, stay ignored.
    """
    _handled.update(number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN)
    if _handled:
        block()
        waiting = threading.Thread(target=_wait, name="signals", daemon=True)
        waiting.start()
        for number in _handled:  # a library may unblock them in its thread: what arrives there is handed on
            signal.signal(number, lambda number, _: signal.pthread_kill(waiting.ident or 0, number))
    with _outcome:  # a signal waits for it, and finds the folder to remove
        _use_own_temporary_folder()
    _watch_children()


def block() -> None:
    """In this thread, and those and the processes that it starts; nothing where signals are not handled."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _handled)


def exit_code(number: int) -> int:
    """By convention, of a process that a signal has ended."""
    return 128 + number


def say_when_stopped(line: str) -> None:
    """The line that a signal from now on ends the command with."""
    global _last_line
    _last_line = line


def stop_gently(stop: Callable[[], None]) -> None:
    """For a command that ends by itself after `stop`: the next signal calls it, and one after that ends the process."""
    global _stop_gently
    _stop_gently = stop


def let_terminate() -> None:
    """In a child that its pool ends by SIGTERM, which it would never see: it inherits the mask of this process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def finish() -> None:
    """Before the process ends by itself: ends what it started. Does not return if a signal came first."""
    _outcome.acquire()  # never released: a signal that comes later changes nothing
    end_children()


def end_children() -> None:
    """Kills the processes that this one started, and theirs; returns when they are dead."""
    clean_scans = 0
    while clean_scans < 2:  # one may have been about to start
        alive = descendants()
        clean_scans = 0 if alive else clean_scans + 1
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def descendants() -> list[int]:
    """The living processes that descend from this one."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found, todo = list[int](), [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return [pid for pid in found if not _tracks_resources(pid)]


def _processes() -> list[tuple[int, int]]:
    """Each process of this machine that has not ended, and its parent."""
    return _processes_of_linux() if sys.platform == "linux" else _processes_of_ps()


def _processes_of_linux() -> list[tuple[int, int]]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:  # it has ended
            continue
        if state != b"Z":
            found.append((int(name), int(parent)))
    return found


def _processes_of_ps() -> list[tuple[int, int]]:
    end, start = os.pipe()
    ps = os.posix_spawnp(
        "ps", ["ps", "-axo", "pid=,ppid=,stat="], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, start, 1)]
    )
    os.close(start)
    with open(end) as listing:
        rows = [line.split() for line in listing]
    os.waitpid(ps, 0)
    return [(int(pid), int(parent)) for pid, parent, state, *_ in rows if state[0] != "Z" and int(pid) != ps]


def _tracks_resources(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return TRACKER in file.read()
    except OSError:
        return False


def _use_own_temporary_folder() -> None:
    """What Beam, its engines and other libraries leave in a temporary folder goes with ours."""
    import atexit
    import shutil
    import tempfile

    global _folder
    try:
        _folder = tempfile.mkdtemp(prefix="hushgram-")
    except OSError:  # nowhere to write to: those who need it say so
        return
    tempfile.tempdir = os.environ["TMPDIR"] = _folder
    # The first registered runs last: the libraries' own come before it.
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)


def _watch_children() -> None:
    """Lets every child of the standard library pass a gate: at the end none starts after the others were killed."""
    import subprocess

    start = subprocess.Popen.__init__

    def start_inside(self: subprocess.Popen[Any], *arguments: Any, **options: Any) -> None:
        with CHILDREN.passing("a child"):
            block()  # again, where a library has unblocked them
            if options.get("shell"):  # which clears the mask: a terminal's signals go to the group in front only
                options.setdefault("process_group", 0)
            start(self, *arguments, **options)

    subprocess.Popen.__init__ = start_inside  # type: ignore[method-assign]


def _wait() -> None:
    global _stop_gently
    number = signal.sigwait(_handled)
    if _stop_gently is not None:
        stop, _stop_gently = _stop_gently, None
        stop()
        number = signal.sigwait(_handled)
    _end(number)


def _end(number: int) -> NoReturn:
    try:
        if _outcome.acquire(timeout=CLEAN_UP_SECONDS):  # else the process was about to end by itself, and did not
            _stop()
    finally:
        os._exit(exit_code(number))


def _stop() -> None:
    error_output = _silence()
    sys.setswitchinterval(1e-5)  # threads that compute would keep this one waiting at each system call
    clean = threading.Thread(target=_clean_up, daemon=True)
    clean.start()
    clean.join(CLEAN_UP_SECONDS)
    if select.select([], [error_output], [], LINE_SECONDS)[1]:
        start_of_line = "\r\x1b[K" if os.isatty(error_output) else ""
        os.write(error_output, f"{start_of_line}hushgram: {_last_line}\n".encode())


def _silence() -> int:
    """Threads that lose their engine would complain of it. Returns where the last line goes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        error_output = os.dup(2)
    except OSError:  # it was closed when the process started
        error_output = nowhere
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    return error_output


def _clean_up() -> None:
    CHILDREN.close(WRITE_SECONDS)
    end_children()
    for path in WRITES.close(WRITE_SECONDS):
        with suppress(OSError):  # not written yet, or on another file system, which shows files when they are whole
            os.unlink(path)
    _remove_folder()


def _remove_folder() -> None:
    """Under another name first: threads that still want to put something there find it gone.

    By a process of its own, since here each file would wait for threads that compute.
    """
    if _folder:
        with suppress(OSError):
            os.rename(_folder, f"{_folder}.gone")
            os.waitpid(os.posix_spawnp("rm", ["rm", "-rf", f"{_folder}.gone"], os.environ), 0)
