"""Progress while a run goes on: one line that moves on a terminal, plain lines now and then in a log."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType

from hushgram.transforms.counting import reports_read_in_process

TERMINAL_SECONDS, LOG_SECONDS = 0.2, 10.0
CLEAR_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


class Progress:
    """Shows how many reports this process has read, until the block is left."""

    def __init__(self) -> None:
        # Not rich's live display: it hides the cursor, and a signal may end the process at any moment.
        self.console = Console(stderr=True, highlight=False)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Progress:
        self.started, self.before = time.monotonic(), reports_read_in_process()
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.done.set()
        self.thread.join()
        if self.console.is_terminal:
            self.console.control(CLEAR_LINE)

    def line(self) -> str:
        reports, seconds = reports_read_in_process() - self.before, max(time.monotonic() - self.started, 1e-9)
        if not reports:  # nothing yet, or workers elsewhere read them
            return f"running, {seconds:.0f} s"
        return f"{reports:,} reports read, {seconds:.0f} s, {reports / seconds:,.0f} reports/s"

    def _show(self) -> None:
        while not self.done.wait(TERMINAL_SECONDS if self.console.is_terminal else LOG_SECONDS):
            if self.console.is_terminal:
                self.console.control(CLEAR_LINE)
                self.console.print(self.line(), end="", no_wrap=True, overflow="ellipsis")
            else:
                print(self.line(), file=sys.stderr, flush=True)
