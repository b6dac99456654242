"""How many reports this process has gone through: for a person who waits, not for any count that matters."""

from __future__ import annotations

import threading


class Seen:
    """A number that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reports = 0

    def add(self, reports: int) -> None:
        with self._lock:
            self.reports += reports


SEEN = Seen()
