"""What libraries log, on the terminal: what is unexpected, until the command says how it ended."""

from __future__ import annotations

import logging
import re
import threading

EXPECTED = {
    # Beam, as it is imported without the extra `gcp`: `hushgram try` does so late, when warnings are printed.
    "root": ("apitools not found, ",),
    # Options of a job server that Beam's Python package does not know; the command has checked each of them.
    "apache_beam.options.pipeline_options": ("Unparseable argument: ", "Discarding unparseable args: "),
    # Steps that Beam's Python package leaves empty, and a failed bundle, whose error follows.
    "PrismRunner": (
        "empty transform, ",
        "Prism received bundle error from worker response",
        "stage.Execute aborting due to bundle error",
    ),
}
"""The beginnings of messages that tell a person nothing, by logger."""
LEVELS = {"PrismJobServer": logging.ERROR, "apache_beam.utils.subprocess_server": logging.ERROR}
"""Prism logs every step, and Beam every program that it ends."""
OWN = "hushgram.transforms."
"""Errors that are defined there are lines that a person can act on."""
OWN_ERROR = re.compile(rf"^{re.escape(OWN)}[\w.]+: (.+?)(?: \[while running .*)?$", re.MULTILINE)


class Terminal(logging.StreamHandler):  # type: ignore[type-arg]
    """Prints unexpected records on standard error, and none after `end`."""

    ended = False

    def filter(self, record: logging.LogRecord) -> bool:
        return is_unexpected(record)

    def emit(self, record: logging.LogRecord) -> None:
        if not self.ended:  # under the lock of the handler, so that a record which is on its way is not printed later
            super().emit(record)

    def end(self) -> None:
        self.acquire()
        self.ended = True
        self.release()


_terminal = Terminal()


def start() -> None:
    """Prints errors only: Beam warns, as it is imported, of parts that were never asked for."""
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s", handlers=[_terminal])
    for name, level in LEVELS.items():
        logging.getLogger(name).setLevel(level)


def warn() -> None:
    """Prints warnings, too."""
    logging.getLogger().setLevel(logging.WARNING)


def end() -> None:
    """Prints nothing more: threads that lose their engine would complain of it behind the command's last line."""
    if _terminal in logging.getLogger().handlers:  # else the command is part of another program, whose log it is
        _terminal.end()
        threading.excepthook = lambda _: None


def is_unexpected(record: logging.LogRecord) -> bool:
    """False for what is in `EXPECTED`, and for the traceback of an error of ours, which ends the command with its line.

    >>> name = "apache_beam.options.pipeline_options"
    >>> is_unexpected(logging.makeLogRecord({"name": name, "msg": "Unparseable argument: --checkpointing_interval"}))
    False
    >>> is_unexpected(logging.makeLogRecord({"name": name, "msg": "Discarding invalid overrides: {}"}))
    True
    """
    message = record.getMessage()
    if message.startswith(EXPECTED.get(record.name, ())):
        return False
    error = record.exc_info[1] if record.exc_info else None
    return own_error(message) is None and (error is None or own_error(error) is None)


def own_error(error: BaseException | str) -> str | None:
    """The error of ours that a failed job rests on, if there is one, in what its engine raises or logs.

    >>> own_error("Traceback\\n  File x\\nhushgram.transforms.sinks.SomeError: away [while running 'Sink']\\n\\nbye")
    'away'
    """
    text = f"{type(error).__module__}.{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
    found: list[str] = OWN_ERROR.findall(text)
    return found[-1] if found else None
