"""Patience with a server that is away: another attempt, and another, until it is back or the time is over.

A server is known by the option that names it, such as `--sink kafka:snapshots`.

One line is logged when the waiting begins and one when it ends, however many writers of a process wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from hushgram.windows import format_duration

Result = TypeVar("Result")

LOG = logging.getLogger(__name__)

DEFAULT_SECONDS = 600.0
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0


class OutOfPatienceError(Exception):
    """The last of the errors that were waited for."""

    def __init__(self, patience_seconds: float, error: Exception) -> None:
        super().__init__(f"not there after {duration(patience_seconds)} (--sink-patience): {one_line(error)}")


class Outages:
    """Which servers are away, for all threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[str, float] = {}

    def begin(self, server: str, patience_seconds: float, reason: str) -> None:
        with self._lock:
            if server in self._since:
                return
            self._since[server] = time.monotonic()
        LOG.warning("%s: waiting, for at most %s: %s", server, duration(patience_seconds), reason)

    def end(self, server: str) -> None:
        with self._lock:
            since = self._since.pop(server, None)
        if since is not None:
            LOG.warning("%s: back after %.0f seconds", server, time.monotonic() - since)


OUTAGES = Outages()


def patiently(
    server: str,
    attempt: Callable[[], Result],
    is_transient: Callable[[Exception], bool],
    patience_seconds: float,
) -> Result:
    """What the attempt returns, once it does. Errors that waiting does not mend are raised at once.

    The second attempt follows so soon that no line is needed if it succeeds: a lost connection is opened again.
    """
    deadline: float | None = None
    pause = FIRST_PAUSE
    while True:
        try:
            result = attempt()
        except Exception as error:
            if not is_transient(error):
                raise
            now = time.monotonic()
            if deadline is None:
                deadline = now + patience_seconds
            else:
                OUTAGES.begin(server, patience_seconds, one_line(error))
            if now >= deadline:
                raise OutOfPatienceError(patience_seconds, error) from None
            time.sleep(min(pause, deadline - now))
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            OUTAGES.end(server)
            return result


def within(seconds: float, attempt: Callable[[], Result]) -> Result:
    """What the attempt returns, or a TimeoutError: for clients that wait without end for a server that is frozen.

    What has not ended in time goes on by itself, unheard, so it must do no harm when it ends after all.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(attempt())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # the attempt's own
            raise
        raise TimeoutError(f"no answer within {seconds:.0f} seconds") from None


def one_line(error: Exception) -> str:
    """The first: what a driver adds below quotes statements and gives advice.

    >>> one_line(ValueError("no such table\\nLINE 1: INSERT"))
    'no such table'
    """
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def duration(seconds: float) -> str:
    """
    >>> duration(600), duration(0.5)
    ('10m', '500ms')
    """
    return format_duration(round(1000 * seconds))
