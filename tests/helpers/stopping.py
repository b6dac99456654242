"""Programs that a signal ends, started as a terminal does: each leads a process group, and has a temporary folder."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from devtools.processes import eventually

ROOT = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
COMMAND = (sys.executable, "-m", "hushgram")


class Program:
    """A running program, its processes and its temporary files."""

    def __init__(self, arguments: Sequence[object], folder: Path, ignored: Sequence[signal.Signals] = ()) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)

        def reset_signals() -> None:  # whatever is ignored where the tests run
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        self.process = subprocess.Popen(
            list(map(str, arguments)),
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=reset_signals,
        )

    def until_ready(self) -> None:
        """Until its own handlers answer to signals: while it starts, those of the interpreter do."""
        bit = 1 << (signal.SIGTERM - 1)
        eventually("signals to be handled", lambda: self.process.poll() is not None or self._blocked() & bit)

    def _blocked(self) -> int:
        [line] = [s for s in Path(f"/proc/{self.process.pid}/status").read_text().splitlines() if "SigBlk" in s]
        return int(line.split()[1], 16)

    def send(self, number: signal.Signals, to_group: bool) -> None:
        if self.process.poll() is None:
            (os.killpg if to_group else os.kill)(self.process.pid, number)

    def send_often(self, number: signal.Signals, rng: random.Random) -> None:
        """Once or, impatiently, a few times; to the group, as a terminal does, or to the process alone."""
        for _ in range(rng.choice((1, 1, 3))):
            self.send(number, to_group=rng.random() < 0.5)

    def end(self, timeout_seconds: float = 300) -> tuple[int, str, str]:
        """Exit code, output and error output, once it has ended; killed if it does not."""
        try:
            output, errors = self.process.communicate(timeout=timeout_seconds)
        finally:
            if self.members():
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.returncode, output, errors

    def members(self) -> list[str]:
        """The living processes of its group."""
        listing = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
        rows = [line.split(maxsplit=2) for line in listing.splitlines()]
        return [args for group, state, args in rows if int(group) == self.process.pid and state[0] != "Z"]

    def check_nothing_is_left(self) -> None:
        eventually("the end of all its processes", lambda: not self.members(), 30)
        assert list(self.temporary.iterdir()) == []
