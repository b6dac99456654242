"""Lines for the operator while the collector runs: few, and with nothing about people."""

from __future__ import annotations

from contextlib import suppress

from hushgram.pipelines.cli.console import OutputError, complain


def log_line(line: str) -> None:
    """A line for the log. Where nobody reads it, the collector goes on without."""
    with suppress(OutputError):
        complain(line)
