"""How far a watched directory was read, as a checkpoint keeps it: files done, the one begun, and those that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hushgram.transforms.sources.message_batch import UNKNOWN
from hushgram.transforms.sources.splittable import NeverDone, NeverSplit

SHORTEST_RETRY_MS, LONGEST_RETRY_MS = 2_000, 60_000

Failing = tuple[str, int, int, int]
"""A file that could not be read: its name, the byte from which the rest of it counts, the time of the first failure,
and that of the next attempt."""
Restriction = tuple[tuple[str, ...], str, int, int] | tuple[tuple[str, ...], str, int, int, tuple[Failing, ...]]
"""The names of files done; the file begun, if any, and the byte from which the rest of it counts; the received time;
and the files that fail, where there are any."""
NOTHING: Restriction = ((), "", 0, UNKNOWN)


@dataclass(frozen=True)
class DirectoryState:
    """A restriction, with names for its parts."""

    done: tuple[str, ...] = ()
    begun: str = ""
    start: int = 0
    received: int = UNKNOWN
    failing: tuple[Failing, ...] = ()

    @property
    def restriction(self) -> Restriction:
        plain = self.done, self.begun, self.start, self.received
        return (*plain, self.failing) if self.failing else plain

    def gone(self, files: Mapping[str, Any]) -> list[tuple[str, int]]:
        """Files begun or failing that are no longer there, and from which byte each was still to be read."""
        known = [*([(self.begun, self.start)] if self.begun else []), *((name, at) for name, at, _, _ in self.failing)]
        return [(name, at) for name, at in known if name not in files]

    def waiting(self, files: Mapping[str, Any], asked: int) -> dict[str, int]:
        """Files to read now, and from which byte on: the one begun first, the others in the order of the listing."""
        passed = {*self.done, *(name for name, _, _, retry in self.failing if retry > asked)}
        starts = {name: at for name, at, _, _ in self.failing} | {self.begun: self.start}
        names = sorted((name for name in files if name not in passed), key=lambda name: name != self.begun)
        return {name: starts.get(name, 0) for name in names}

    def at_rest(self) -> DirectoryState:
        """With no file begun."""
        return replace(self, begun="", start=0)

    def without(self, name: str) -> DirectoryState:
        """With a file no longer failing, nor begun."""
        left = tuple(entry for entry in self.failing if entry[0] != name)
        return replace(self.at_rest() if self.begun == name else self, failing=left)

    def ended(self, name: str) -> DirectoryState:
        """With a file done, read or given up."""
        rest = self.without(name).at_rest()
        return replace(rest, done=(*rest.done, name))

    def failed(self, name: str, start: int, at: int, patience_ms: int) -> DirectoryState | None:
        """With a file to be tried again, after as long as it has failed so far; None when patience has ended."""
        since = next((first for failing, _, first, _ in self.failing if failing == name), at)
        if at - since >= patience_ms:
            return None
        wait = min(max(SHORTEST_RETRY_MS, at - since), LONGEST_RETRY_MS, since + patience_ms - at)
        rest = self.without(name).at_rest()
        return replace(rest, failing=(*rest.failing, (name, start, since, at + wait)))


class DirectoryTracker(NeverDone):
    """A claim is the restriction that is left when it is granted."""

    def __init__(self, restriction: Restriction) -> None:
        self.rest = restriction

    def position(self) -> Restriction:
        return self.rest

    def try_claim(self, position: Restriction) -> bool:
        if not self.stopped:
            self.rest = position
        return not self.stopped


class Directory(NeverSplit):
    def initial_restriction(self, element: str) -> Restriction:
        return NOTHING

    def create_tracker(self, restriction: Restriction) -> DirectoryTracker:
        return DirectoryTracker(restriction)
