"""Progress while a run goes on: one line that moves on a terminal, plain lines now and then in a log."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from transforms.progress import SEEN

TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0


class Progress:
    """Tells how many reports have been read in this process, until the block is left."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Progress:
        self.started, self.before = time.monotonic(), SEEN.reports
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.done.set()
        self.thread.join()
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def line(self) -> str:
        reports, seconds = SEEN.reports - self.before, max(time.monotonic() - self.started, 1e-9)
        if not reports:  # nothing yet, or workers elsewhere read them
            return f"running, {seconds:.0f} s"
        return f"{reports:,} reports read, {seconds:.0f} s, {reports / seconds:,.0f} reports/s"

    def _tell(self) -> None:
        while not self.done.wait(TERMINAL_SECONDS if self.terminal else LOG_SECONDS):
            start, end = ("\r\x1b[K", "") if self.terminal else ("", "\n")
            print(start + self.line(), end=end, file=sys.stderr, flush=True)
