"""What the operator is told while the collector runs: little, and nothing of anyone."""

from __future__ import annotations

from contextlib import suppress

from hushgram.pipelines.cli.console import OutputError, complain


def tell(line: str) -> None:
    """A line for the log. Where nobody reads it, the collector goes on without."""
    with suppress(OutputError):
        complain(line)
