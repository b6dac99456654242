"""A PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from devtools.processes import GRACE, HOST, Service, eventually, free_port
from devtools.tools import HOW_TO_GET, ToolMissingError, need, run

USER, PASSWORD, DATABASE = "hushgram", "not a secret: the server listens on loopback only", "results"
SYSTEM_USER = "postgres"
"""The user that runs the server where we are root, since the server refuses to run as root."""
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": 40,
    "shared_buffers": "16MB",
    # Only a machine that fails could lose what was not synced; a server that is killed does not.
    "fsync": "off",
}


def program(name: str) -> Path:
    """One of the server's programs, from the newest version that Debian's packages have put aside, or from PATH."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda candidate: float(candidate.parents[1].name)
    )
    path = versions[-1] if versions else shutil.which(name)
    if not path:
        raise ToolMissingError(f"no {name} on PATH. {HOW_TO_GET['initdb']}")
    return Path(path)


class Postgres(Service):
    """One server on loopback, with a database `results`; data and log stay in `directory`."""

    def __init__(self, directory: Path, *, port: int = 0) -> None:
        super().__init__(directory)
        self.port = port or free_port()

    @property
    def url(self) -> str:
        """Of the database, for a client that has the `environment`."""
        return self.url_of(USER, DATABASE)

    @property
    def environment(self) -> dict[str, str]:
        return {"PGPASSWORD": PASSWORD}

    def url_of(self, user: str, database: str) -> str:
        return f"postgresql://{user}@{HOST}:{self.port}/{database}"

    def kill(self) -> None:
        """kill -9, of the server and of those that serve its clients. start() brings it back on the same port."""
        backends = self.backends()
        while self.processes:
            self.processes.pop().kill()
        for pid in backends:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in backends:
            _wait_for_end(pid)

    def backends(self) -> list[int]:
        """The server's children, each in a process group of its own."""
        return [pid for process in self.processes for pid in _children(process.pid)]

    def freeze(self) -> None:
        """SIGSTOP, of the server and of those that serve its clients; thaw() lets them go on."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self.processes:
            for pid in (process.pid, *_children(process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def stop(self) -> None:
        """Without waiting for clients to disconnect."""
        for process in self.processes:
            process.signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.join(GRACE)
        super().stop()

    @contextmanager
    def connect(self, database: str = DATABASE) -> Iterator[psycopg.Connection[Any]]:
        """A connection in which every statement is a transaction."""
        conninfo = self.url_of(USER, database)
        with psycopg.connect(conninfo, password=PASSWORD, autocommit=True, connect_timeout=5) as connection:
            yield connection

    def _start(self) -> None:
        data = self.directory / "data"
        if not data.exists():
            self._initialise(data)
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        process = self.run("postgres", _as_user([program("postgres"), "-D", data, "-p", str(self.port), *settings]))
        process.wait(self._is_ready)

    def _initialise(self, data: Path) -> None:
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        partial = self.directory / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        if os.geteuid() == 0:
            shutil.chown(partial, SYSTEM_USER, SYSTEM_USER)
        options: list[str | Path] = [
            "--username",
            USER,
            "--pwfile",
            secret,
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
        ]
        run(_as_user([program("initdb"), "--no-sync", *options, "-D", partial]))
        partial.rename(data)

    def _is_ready(self) -> bool:
        try:
            with self.connect("postgres") as connection:
                row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
                if not row:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
            return True
        except psycopg.OperationalError:
            return False


def _as_user(command: list[str | Path]) -> list[str | Path]:
    """As root: the command under another user, who may still enter folders that are root's alone, as those of tests."""
    if os.geteuid() != 0:
        return command
    need("setpriv")
    capabilities = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    return ["setpriv", f"--reuid={SYSTEM_USER}", f"--regid={SYSTEM_USER}", "--clear-groups", *capabilities, *command]


def _children(parent: int) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [map(int, line.split()) for line in listing.splitlines()]
    return [pid for pid, ppid in pairs if ppid == parent]


def _wait_for_end(pid: int) -> None:
    """Waits for the end of a process that is not our child."""

    def has_ended() -> bool:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        return not state or state.startswith("Z")

    eventually(f"the end of process {pid}", has_ended)
