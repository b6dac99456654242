"""Old panes folded away: of each collection and day, one file with the best pane of each window and group.

`folding` says why nothing is lost, whatever else reads, writes or folds the folder, and wherever this is stopped. Files
of versions that had a folder for each collection alone are folded into the folders of this one. Those of batch are left
alone: they replace each other, by names that are used again, and are one for each window already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from apache_beam.io.filesystems import FileSystems

from hushgram.schemas.records import Key
from hushgram.transforms.filesystem import FoundFile, Matched, delete_files
from hushgram.transforms.folding import BEST, Answer, Kind
from hushgram.transforms.sinks.layout import folder_of
from hushgram.transforms.sinks.window_files import rank_of
from hushgram.transforms.sources.result_files import (
    ResultsError,
    keep_best,
    log_passed_over,
    matching_results,
    sorted_results,
)

FOLDER = re.compile(r"collection=[^/]+/date=[^/]+")
EARLIER = re.compile(r"([^/=]+)/([0-9]{4})([0-9]{2})([0-9]{2})T[^/]*")
"""A file of versions that had a folder for each collection alone."""


@dataclass
class Folder:
    """The files of one collection and day."""

    kind: Kind
    directory: str
    name: str
    files: list[FoundFile] = field(default_factory=list)
    young: int = 0
    """Files that are left alone."""

    def compact(self, format_name: str | None = None, dry_run: bool = False) -> Compacted:
        """Writes the best panes, and removes the files that they were taken from, unless there is nothing to fold."""
        chosen: dict[Key, Any] = {}  # answers of one kind
        read: dict[str, int] = {}
        problems: list[str] = []
        for file in self.files:
            try:
                answers = self._read(file.path)
            except FileNotFoundError:  # folded by another
                continue
            except ResultsError as error:
                problems.append(str(error))
                continue
            keep_best(chosen, answers)
            read[file.path] = len(answers)
        panes = sum(read.values())
        if all(_is_best(path) for path in read) and panes == len(chosen):
            return Compacted(self.name, problems=tuple(problems))
        written = 0
        if not dry_run:
            written = self._write(sorted_results(chosen), format_name or self._format(read)) if chosen else 0
            delete_files(read)
        return Compacted(self.name, len(read), panes, len(chosen), written, tuple(problems))

    def _read(self, path: str) -> list[Answer]:
        answers = self.kind.read(path)
        for answer in answers:
            if folder_of(answer.key) != self.name:
                raise ResultsError(f"{path}: results of {folder_of(answer.key)}, allowed: of {self.name}")
        return answers

    def _write(self, best: Sequence[Answer], format_name: str) -> int:
        folder = FileSystems.join(self.directory, *self.name.split("/"))
        return len(self.kind.write(folder, BEST, format_name, best))

    def _format(self, read: Container[str]) -> str:
        """That of the newest file."""
        newest = max((file for file in self.files if file.path in read), key=lambda file: file.modified_seconds or 0)
        return newest.path.rpartition(".")[2]


@dataclass(frozen=True)
class Compacted:
    """What was done to a folder, or would be: files and panes before, panes that are kept, files written.

    If there was nothing to fold, `files` is 0. `problems` names files that were left alone, since they could not be
    read or hold something else.
    """

    name: str
    files: int = 0
    panes: int = 0
    kept: int = 0
    written: int = 0
    problems: tuple[str, ...] = ()


def _is_best(path: str) -> bool:
    """Whether a file has best panes alone, by its name."""
    return FileSystems.split(path)[1].startswith(f"{BEST}-")


def folders(
    kind: Kind,
    results: str,
    changed_before: float,
    report_passed_over: Callable[[Matched], None] = log_passed_over,
) -> list[Folder]:
    """The folders of a kind of results, by name, each with its files of panes; younger ones are left alone."""
    directory = FileSystems.join(results, kind.name)
    by_name: dict[str, Folder] = {}
    found = matching_results(directory)
    report_passed_over(found)
    for file in found.files:
        name = _folder_name(file.path.removeprefix(FileSystems.join(directory, "")))
        if name is None:
            continue
        folder = by_name.setdefault(name, Folder(kind, directory, name))
        if rank_of(file.path) is not None:  # of batch
            continue
        if file.modified_seconds is not None and file.modified_seconds <= changed_before:
            folder.files.append(file)
        else:
            folder.young += 1
    return [by_name[name] for name in sorted(by_name)]


def _folder_name(path: str) -> str | None:
    """The folder that a file's results belong in, from its path below `snapshots` or `histograms`.

    >>> _folder_name("commute/20260101T230000-20260102T000000-g0-all-n7-p0-on_time.avro")
    'collection=commute/date=2026-01-01'
    """
    folder = path.rpartition("/")[0]
    if FOLDER.fullmatch(folder):
        return folder
    earlier = EARLIER.fullmatch(path)
    return f"collection={earlier[1]}/date={earlier[2]}-{earlier[3]}-{earlier[4]}" if earlier else None
