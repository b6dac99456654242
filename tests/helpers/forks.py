"""Programs that start at once: forks of one process that has imported everything, each with a log of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


class ForkServer:
    """The process that is forked: a module that calls `serve` when it is run."""

    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", module]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    def fork(self, log: Path, *arguments: object) -> int:
        """The number of a process that runs with these arguments; what it prints is appended to the log."""
        return int(self._ask("fork", str(log), *arguments))

    def kill(self, pid: int) -> None:
        """kill -9; returns when the process is gone."""
        self._ask("kill", pid)

    def wait(self, pid: int) -> int:
        """The exit code of a process that ends by itself, or below zero the signal that killed it."""
        return int(self._ask("wait", pid))

    def _ask(self, *request: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def close(self) -> None:
        """Kills all that are still running."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def serve(run: Callable[..., int]) -> None:
    """What the server's process does: `run` has the arguments of a fork, and returns its exit code."""
    running: set[int] = set()
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what == "fork":
            pid = os.fork()
            if pid == 0:
                _run(run, *rest)
            running.add(pid)
            print(pid, flush=True)
        else:
            [pid] = rest
            running.discard(pid)
            print(_end(pid, kill=what == "kill"), flush=True)
    for pid in running:
        _end(pid, kill=True)


def _end(pid: int, kill: bool) -> int:
    if kill:
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _run(run: Callable[..., int], log: str, *arguments: object) -> None:
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = run(*arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
