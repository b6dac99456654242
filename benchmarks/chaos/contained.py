"""A run in namespaces of its own: nobody else sees its mounts, and its processes end with it, however it ends.

    setpriv (ends when its parent does) → unshare → this module as process 1 → the run, and all that it starts

Process 1 collects orphans, as every system's first process does. When it ends the kernel ends all others.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
AS_OTHERS = ["--user", "--map-current-user", "--keep-caps"]
"""For those who are not root."""


def _command() -> list[str]:
    return ["setpriv", "--pdeathsig", "KILL", "--", *NAMESPACES, *([] if os.geteuid() == 0 else AS_OTHERS)]


def permitted() -> bool:
    """Whether this machine lets us have such namespaces, and mounts in them."""
    if not all(map(shutil.which, ("setpriv", "unshare", "mount"))):
        return False
    attempt = [*_command(), "mount", "-t", "tmpfs", "-o", "size=1m", "chaos", "/mnt"]
    return subprocess.run(attempt, capture_output=True).returncode == 0


def run(module: str, arguments: Sequence[str]) -> int:
    """Runs a module inside; a signal to end reaches it once, as Ctrl-C does."""
    command = [*_command(), sys.executable, "-m", __name__, module, *arguments]
    child = subprocess.Popen(command, start_new_session=True)

    def pass_on(number: int, frame: object) -> None:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGINT)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, pass_on)
    return child.wait()


def main() -> int:
    """Process 1: ends as the run does."""
    signal.signal(signal.SIGINT, lambda number, frame: None)  # the run has it, too
    child = subprocess.Popen([sys.executable, "-m", *sys.argv[1:]])
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status) % 256


if __name__ == "__main__":
    sys.exit(main())
