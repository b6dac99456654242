"""Collectors that start at once: forks of one process that has imported everything. As a script it is that process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Forks:
    """Starts `hushgram` with some arguments, and kills it."""

    def __init__(self) -> None:
        command = [sys.executable, __file__]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    def start(self, *arguments: object, log: Path) -> int:
        """The number of the process; what it prints is appended to the log."""
        return int(self._ask("start", list(map(str, arguments)), str(log)))

    def kill(self, pid: int) -> None:
        """kill -9; returns when the process is gone."""
        self._ask("kill", pid)

    def _ask(self, *request: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def close(self) -> None:
        """Ends all that are still running."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def main() -> None:
    import hushgram.pipelines.collect.command  # noqa: F401 - once for all

    running: set[int] = set()
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what == "start":
            pid = os.fork()
            if pid == 0:
                _run(*rest)
            running.add(pid)
            print(pid, flush=True)
        else:
            _kill(rest[0])
            running.discard(rest[0])
            print(flush=True)
    for pid in running:
        _kill(pid)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _run(arguments: list[str], log: str) -> None:
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        from hushgram.pipelines.cli.command import main as hushgram

        code = hushgram(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
