"""What keeps batches: files, or a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hushgram.pipelines.collect.packing import Batch
from hushgram.schemas.records import DeadLetter


class AwayError(Exception):
    """A sink that cannot keep anything now. The text is for the operator, and holds nothing of what was sent."""


class Sink(Protocol):
    """Called by one thread at a time."""

    name: str

    def keep(self, batches: Sequence[Batch]) -> None:
        """Returns when they outlive this process, on the disk or with all replicas that must have them.

        `AwayError` if that is not so.
        """

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        """The same for dead letters."""

    def probe(self) -> None:
        """Whether something could be kept now; `AwayError` if not."""

    def close(self) -> None: ...
