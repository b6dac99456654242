"""A directory of results, read once and then as it grows; what cannot be read is a problem that is told, not an end."""

from __future__ import annotations

import math
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from pipelines.console import UsageError
from pipelines.cut_windows import Window
from pipelines.page.catalogue import Catalogue, Chunk, Pane, Problem, Refused, Shelf, described
from pipelines.page.data import checked, movement, pack, picture, series, without_arrays
from pipelines.results import letter_folders, matching, read_records
from pipelines.words import shown
from schemas.records import DeadLetter
from transforms.matching import is_local

LARGEST_FILE = 1 << 28
"""256 MiB: a foreign file may be of any size, and results of one window are far smaller."""
OTHER_FOLDERS = ("dead_letters", "histograms", "runs")


@dataclass(frozen=True)
class File:
    """What one file held when it was read, as of its size and time of change."""

    stamp: tuple[int, float]
    panes: tuple[Pane, ...] = ()
    refused: tuple[tuple[str, Refused], ...] = ()
    problem: str = ""


class GoneError(Exception):
    """A file that was there when it was listed, and no longer holds what was asked for."""


class Library:
    """The catalogue of a directory, and chunks of data by their ids.

    One thread calls `refresh`; any number may call the rest: a catalogue is never changed, only replaced.
    """

    def __init__(self, directory: str) -> None:
        if not is_local(directory) and set(directory) & set("*?["):
            raise UsageError(f"{directory}: allowed: a directory whose name has none of * ? [")
        self.directory = directory
        self.catalogue = Catalogue()
        self.ids: dict[Chunk, int] = {}
        self._chunks: list[Chunk] = []
        self._files: dict[str, File] = {}
        self._serial = 0
        self._run = secrets.token_hex(8)
        self._packed = "", b""

    def refresh(self, patience: float = math.inf) -> bool:
        """Reads what is new or has changed, for about so many seconds; whether all has been read."""
        listed = self._listed()
        started = time.monotonic()
        gone = self._files.keys() - listed.keys()
        waiting = [file for path, file in listed.items() if not self._known(path, file)]
        for path in gone:
            del self._files[path]
        read = 0
        for file in waiting:
            self._files[file.path] = self._read(file)
            read += 1
            if time.monotonic() - started > patience:
                break
        if gone or read or self.catalogue.version == 0:
            self._publish(unread=len(waiting) - read)
        return read == len(waiting)

    @property
    def version(self) -> str:
        """Of what there is now; no other run has the same."""
        return f"{self._run}-{self.catalogue.version}"

    def outline(self) -> dict[str, Any]:
        return {"run": self._run, "version": self.version, **self.catalogue.outline(self.ids)}

    def packed_outline(self) -> bytes:
        """The same in few bytes; made once for everybody who looks."""
        version = self.version
        if self._packed[0] != version:
            self._packed = version, pack(self.outline())
        return self._packed[1]

    def chunk(self, run: str, chunk_id: int) -> bytes | None:
        """What the page asks for by an id of the outline; None for an id that was never given, or by another run."""
        if run != self._run or not 0 <= chunk_id < len(self._chunks):
            return None
        collection, part = self._chunks[chunk_id]
        shelf = self.catalogue.shelves.get(collection, Shelf(collection))
        return pack(self._window(shelf, part) if isinstance(part, tuple) else self._group(shelf, part))

    # What there is ----------------------------------------------------------------------------------------------------

    def _listed(self) -> dict[str, FileMetadata]:
        """Snapshots in their folder, or in the directory itself; and letters."""
        found = _matching(FileSystems.join(self.directory, "snapshots"), "*/*")
        if not found:
            beside = [FileSystems.join(self.directory, folder, "") for folder in OTHER_FOLDERS]
            found = _matching(self.directory, "*/*")
            found = [file for file in found if not file.path.startswith(tuple(beside))]
        letters = [file for folder in letter_folders(self.directory) for file in _matching(folder, "*")]
        return {file.path: file for file in (*found, *letters)}

    def _known(self, path: str, file: FileMetadata) -> bool:
        return path in self._files and self._files[path].stamp == _stamp(file)

    def _read(self, file: FileMetadata) -> File:
        stamp = _stamp(file)
        try:
            if file.size_in_bytes > LARGEST_FILE:
                raise ValueError(f"larger than {LARGEST_FILE >> 20} MiB")
            records = read_records(file.path)
            if FileSystems.split(file.path)[0].rstrip("/").endswith("/dead_letters"):
                return File(stamp, refused=tuple(_refused(records).items()))
            self._serial += 1
            numbers = [without_arrays(checked(record)) for record in records]
            return File(stamp, panes=tuple(Pane(one, file.path, self._serial) for one in numbers))
        except Exception as error:  # whatever a foreign or damaged file makes its reader raise
            told = str(error).removeprefix(f"{file.path}: ") or type(error).__name__
            return File(stamp, problem=shown(told)[:300])

    def _publish(self, unread: int) -> None:
        files = self._files.values()
        refused: dict[str, Refused] = defaultdict(Refused)
        for file in files:
            for reason, mine in file.refused:
                refused[reason].merge(mine)
        problems = [Problem(self._short(path), file.problem) for path, file in self._files.items() if file.problem]
        shelves = Catalogue.arrange(pane for file in files for pane in file.panes)
        for shelf in shelves.values():
            for part in (*shelf.groups, *shelf.windows):
                self._give_id((shelf.name, part))  # type: ignore[arg-type]
        version = self.catalogue.version + 1
        self.catalogue = Catalogue(version, shelves, refused, tuple(sorted(problems, key=lambda p: p.file)), unread)

    def _give_id(self, chunk: Chunk) -> None:
        """For good: a link of an older outline must not lead elsewhere."""
        if chunk not in self.ids:
            self._chunks.append(chunk)
            self.ids[chunk] = len(self._chunks) - 1

    def _short(self, path: str) -> str:
        return shown(path.removeprefix(self.directory).lstrip("/"))

    # What is asked for ------------------------------------------------------------------------------------------------

    def _group(self, shelf: Shelf, group: str | None) -> dict[str, Any]:
        by_window = shelf.of_group(group)
        best = [panes[-1].numbers for panes in by_window.values()]
        clocks = shelf.clocks if by_window else UTC
        windows = [
            {"id": self.ids[shelf.name, window], **described(shelf.name, window, clocks)} for window in by_window
        ]
        timings = [shown(numbers.pane.timing) for numbers in best]
        panes = [len(panes) for panes in by_window.values()]
        return {**series(best), "windows": windows, "timings": timings, "panes": panes}

    def _window(self, shelf: Shelf, window: Window) -> dict[str, Any]:
        by_group = shelf.of_window(window)
        full = dict(_distributions([panes[-1] for panes in by_group.values()]))
        return {
            "groups": [
                {
                    "id": self.ids[shelf.name, group],
                    **full[panes[-1]],
                    "movement": movement([pane.numbers for pane in panes]),
                }
                for group, panes in by_group.items()
            ]
        }


def _matching(directory: str, pattern: str) -> list[FileMetadata]:
    """Also what is no regular file: that it cannot be read is a problem that is told."""
    found = matching(directory, pattern)
    return [*found.files, *(FileMetadata(part.path, 0, 0) for part in found.passed_over)]


def _distributions(panes: Sequence[Pane]) -> Iterator[tuple[Pane, dict[str, Any]]]:
    """Of some panes the pictures, each file read once."""
    wanted: dict[str, dict[Any, Pane]] = defaultdict(dict)
    for pane in panes:
        wanted[pane.path][pane.numbers.key, pane.numbers.rank] = pane
    for path, mine in wanted.items():
        try:
            snapshots = [checked(record) for record in read_records(path)]
        except Exception as error:  # it was readable once: removed, or overwritten by something else
            raise GoneError(str(error)) from None
        found = {(snapshot.key, snapshot.rank): snapshot for snapshot in snapshots}
        if not mine.keys() <= found.keys():
            raise GoneError(f"{path}: its contents have changed")
        yield from ((pane, picture(found[key])) for key, pane in mine.items())


def _refused(records: Sequence[Any]) -> dict[str, Refused]:
    refused: dict[str, Refused] = defaultdict(Refused)
    for record in records:
        letter = DeadLetter.from_avro(record)
        refused[str(letter.reason)].add(letter)
    return refused


def _stamp(file: FileMetadata) -> tuple[int, float]:
    return file.size_in_bytes, float(file.last_updated_in_seconds or 0)
