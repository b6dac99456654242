"""`hushgram replay` with small steps, killed at a moment that is chosen. Runs are forks of one process, so that many of
them take little. As a script it is that process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.forks import ForkServer, serve

STEP = 4
"""Messages of one transaction."""
LONGEST_WAIT = 120.0
CALLS = (
    "init_transactions",
    "begin_transaction",
    "produce",
    "flush",
    "send_offsets_to_transaction",
    "commit_transaction",
)
"""Of the client that sends, in their order."""


class Moment(NamedTuple):
    """Before, within or after a call: of this name the first, or the one of this number."""

    where: str
    call: str
    number: int = 1
    seconds: float = 0.0
    """With `within`: how long after it has begun."""


class Outcome(NamedTuple):
    """How a run ended: its exit code, or below zero the signal that killed it; and the lines that it printed."""

    code: int
    lines: list[str]


class Replays(ForkServer):
    """Runs of `hushgram replay`, one after the other or side by side."""

    def __init__(self, folder: Path) -> None:
        super().__init__(__name__)
        self.folder, self.count = folder, 0

    def start(self, arguments: Sequence[str], moment: Moment | None = None, action: str = "kill") -> Run:
        """A run that at this moment is killed or, with the action `wait`, waits for `go_on`."""
        self.count += 1
        path = self.folder / f"replay-{self.count}"
        path.mkdir(parents=True)
        return Run(self, path, self.fork(path / "log", list(arguments), moment, action, str(path)))

    def run(self, arguments: Sequence[str], moment: Moment | None = None) -> Outcome:
        return self.start(arguments, moment).end()


class Run:
    """A run; files in its folder are how it is spoken with."""

    def __init__(self, replays: Replays, path: Path, pid: int) -> None:
        self.replays, self.path, self.pid = replays, path, pid

    @property
    def waits(self) -> bool:
        return (self.path / "waits").exists()

    def go_on(self) -> None:
        (self.path / "go on").touch()

    def end(self) -> Outcome:
        return Outcome(self.replays.wait(self.pid), (self.path / "log").read_text().splitlines())


class Watched:
    """A producer whose calls are counted."""

    def __init__(self, producer: Any, moment: Moment | None, action: str, path: Path) -> None:
        self._producer, self._moment, self._action, self._path = producer, moment, action, path
        self._counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._producer, name)

        def call(*arguments: Any, **more: Any) -> Any:
            self._counts[name] += 1
            if self._moment is None or (name, self._counts[name]) != (self._moment.call, self._moment.number):
                return method(*arguments, **more)
            if self._moment.where == "within":
                threading.Thread(target=self._act, args=(self._moment.seconds,), daemon=True).start()
            if self._moment.where == "before":
                self._act()
            result = method(*arguments, **more)
            if self._moment.where == "after":
                self._act()
            return result

        return call

    def _act(self, seconds: float = 0.0) -> None:
        time.sleep(seconds)
        if self._action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        (self._path / "waits").touch()
        end = time.monotonic() + LONGEST_WAIT
        while not (self._path / "go on").exists() and time.monotonic() < end:
            time.sleep(0.01)


def replay(arguments: list[str], moment: list[Any] | None, action: str, path: str) -> int:
    """What a fork does."""
    from hushgram.pipelines.cli.command import main as hushgram
    from hushgram.pipelines.replay import topic

    producer = topic.producer
    when = None if moment is None else Moment(*moment)
    replacement: Any = lambda *own, **more: Watched(producer(*own, **more), when, action, Path(path))  # noqa: E731
    topic.producer, topic.STEP = replacement, STEP  # type: ignore[misc]
    return hushgram(["replay", *arguments])


def main() -> None:
    import hushgram.pipelines.replay.command  # noqa: F401 - once for all

    serve(replay)


if __name__ == "__main__":
    main()
