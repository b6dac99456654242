"""Programs we start: each in a process group of its own, with its output in a file, and ended as a group."""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from devtools.tools import need

Value = TypeVar("Value")

HOST = "127.0.0.1"
GRACE = 10.0
"""Seconds from being asked to end to being killed."""
PORTS = range(10_000, 32_768)
"""Below those that the kernel assigns to outgoing connections."""


PATIENCE_SECONDS = 300.0
"""How long to wait by default. Most waits end far sooner, unless the machine is busy with something else."""


class ProcessError(RuntimeError):
    """A process that ended, or did not come up in time; the message has the end of its log."""


class Process:
    """A running program. It leads its own process group, so that its children can be ended with it."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        need("ps")
        self.name, self.log = log.stem, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                list(map(str, command)),
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _running.append(self)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self.returncode is None

    @property
    def returncode(self) -> int | None:
        return self._popen.poll()

    def check(self) -> None:
        """Raises if the program has ended."""
        if not self.alive:
            raise ProcessError(f"{self.name} ended with {self.returncode}; {self.tail()}")

    def wait(self, ready: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        """Returns once `ready` is true, and raises as soon as the program has ended."""

        def is_ready() -> object:
            self.check()
            return ready()

        try:
            eventually(f"{self.name} to be ready", is_ready, seconds)
        except TimeoutError as error:
            raise ProcessError(f"{error}; {self.tail()}") from None

    def join(self, seconds: float) -> int:
        """The exit code of the program, once it has ended."""
        return self._popen.wait(seconds)

    def tail(self) -> str:
        text = self.log.read_text(errors="replace").strip()
        return f"the end of {self.log}:\n{text[-3000:]}"

    def members(self) -> list[int]:
        """The living processes of the group. One that has ended and was not yet waited for does not count."""
        self._popen.poll()
        listing = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in listing.splitlines()]
        return [int(pid) for pid, group, state, *_ in rows if int(group) == self.pid and state[0] != "Z"]

    def signal(self, number: signal.Signals) -> None:
        if self.members():
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """kill -9 of the whole group."""
        self.signal(signal.SIGKILL)
        self._popen.wait()
        if self in _running:
            _running.remove(self)


_running: list[Process] = []
_assigned_ports: set[int] = set()


def stop(processes: Sequence[Process], grace: float = GRACE) -> None:
    """Asks all of them to end, the last started first, and kills those that remain after the grace period."""
    for process in reversed(processes):
        process.signal(signal.SIGTERM)
    end = time.monotonic() + grace
    while any(process.members() for process in processes) and time.monotonic() < end:
        time.sleep(0.1)
    for process in processes:
        process.kill()


# Also when the caller is ended by an exception between a start and its stop.
atexit.register(lambda: stop(list(_running)))


class Service(ABC):
    """Processes that are started and stopped together: `with Service(...) as service:`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.processes: list[Process] = []

    @abstractmethod
    def _start(self) -> None: ...

    def start(self) -> Self:
        """Returns when all processes are ready. If one fails, those that were started are stopped."""
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        stop(self.processes)
        self.processes.clear()

    def check(self) -> None:
        """Raises if any of the processes has ended."""
        for process in self.processes:
            process.check()

    def run(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Process:
        # Temporary files stay in the service's own folder; Java needs an option of its own for that.
        temporary = self.directory / "tmp"
        temporary.mkdir(exist_ok=True)
        java = f"-Djava.io.tmpdir={temporary} -XX:-UsePerfData"
        variables = {"TMPDIR": str(temporary), "JAVA_TOOL_OPTIONS": java, **(environment or {})}
        process = Process(command, self.directory / f"{name}.log", variables)
        self.processes.append(process)
        return process

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_port() -> int:
    """A port that nobody listens on, and that this function has not returned before.

    The kernel's own choice will not do: before the port is used, the kernel may assign it again, here or to any
    outgoing connection.
    """
    for port in random.sample(PORTS, len(PORTS)):
        if port not in _assigned_ports:
            with suppress(OSError), socket.socket() as probe:
                probe.bind((HOST, port))
                _assigned_ports.add(port)
                return port
    raise ProcessError(f"no port is free from {PORTS.start} to {PORTS.stop}")


def listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=1):
        return True


def eventually(description: str, condition: Callable[[], Value | None], seconds: float = PATIENCE_SECONDS) -> Value:
    """The first true value of `condition`; an OSError of its own means not yet."""
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            if value := condition():
                return value
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {description}")
        time.sleep(0.1)
