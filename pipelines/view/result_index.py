"""An index of a directory of results, which follows it as it grows; an unreadable file becomes a `Problem`."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any

from apache_beam.io.filesystems import FileSystems

from hushgram import Collection
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.formatting import shown
from hushgram.pipelines.partial_windows import Window
from hushgram.pipelines.results import letter_folders, matching, matching_results, read_records
from hushgram.pipelines.view.catalogue import (
    Catalogue,
    Chunk,
    CollectionResults,
    PaneFile,
    Problem,
    RefusedReports,
    described,
    stamp_of,
)
from hushgram.pipelines.view.data import (
    LARGEST_FILE,
    check_snapshot,
    drop_arrays,
    movement,
    pack,
    picture,
    series,
)
from hushgram.pipelines.view.tallies import (
    NoTallyError,
    changes_in,
    closed_panes,
    estimate_others,
    find_definition,
    lie_beside,
)
from hushgram.schemas.records import DeadLetter, Key, Snapshot
from hushgram.transforms.filesystem import FoundFile, Matched, PassedOver, is_local
from hushgram.transforms.run_store import LISTINGS
from hushgram.transforms.sinks.layout import folder_of
from hushgram.transforms.sources.result_files import keep_best

MOST_MADE = 256
"""Answers from tallies that are kept, those asked for last."""
OTHER_FOLDERS = ("dead_letters", "histograms", "runs")


Stamp = tuple[int, float] | str
"""Of a file, its size and time of change; of what is passed over, the reason."""
Listed = FoundFile | PassedOver


@dataclass(frozen=True)
class File:
    """What one file held when it was read, as of its stamp."""

    stamp: Stamp
    panes: tuple[PaneFile, ...] = ()
    refused: tuple[tuple[str, RefusedReports], ...] = ()
    problem: str = ""


class GoneError(Exception):
    """A file that was there when it was listed, and no longer holds what was asked for."""


class ResultIndex:
    """The catalogue of a directory, and chunks of data by their ids.

    One thread calls `refresh`; any number may call the rest: a catalogue is never changed, only replaced.
    """

    def __init__(self, directory: str, definitions: Mapping[str, Collection] | None = None) -> None:
        if not is_local(directory) and set(directory) & set("*?["):
            raise UsageError(f"{directory}: allowed: a directory whose name has none of * ? [")
        self.directory = directory
        self.definitions = definitions or {}
        self.catalogue = Catalogue()
        self.ids: dict[Chunk, int] = {}
        self._chunks: list[Chunk] = []
        self._files: dict[str, File] = {}
        self._serial = 0
        self._run = secrets.token_hex(8)
        self._packed = "", b""
        self._making = threading.Lock()
        self._made: dict[tuple[Any, ...], tuple[str | None, bytes]] = {}

    def refresh(self, patience: float = math.inf) -> bool:
        """Reads what is new or has changed, for about this many seconds; returns whether all has been read.

        What is folded into another file meanwhile is forgotten when that one has been read, and not before: else its
        windows would be missing from the page for a while.
        """
        started = time.monotonic()
        read = 0
        for _ in range(LISTINGS):
            listed = self._listed()
            waiting = [file for path, file in listed.items() if not self._known(path, file)]
            done = dict[str, File]()
            for file in waiting:
                with suppress(FileNotFoundError):
                    done[file.path] = self._read(file)
                if time.monotonic() - started > patience:
                    break
            self._files |= done
            read += len(done)
            if len(done) == len(waiting) or time.monotonic() - started > patience:
                break
        unread = len(waiting) - len(done)
        gone = set() if unread else self._files.keys() - listed.keys()
        for path in gone:
            del self._files[path]
        if gone or read or self.catalogue.version == 0:
            self._publish(unread)
        return not unread

    @property
    def version(self) -> str:
        """Of what there is now; no other run has the same."""
        return f"{self._run}-{self.catalogue.version}"

    def outline(self) -> dict[str, Any]:
        catalogue = self.catalogue
        tallied = {name for name, results in catalogue.collections.items() if lie_beside(results)}
        return {"run": self._run, "version": self.version, **catalogue.outline(self.ids, tallied)}

    def packed_outline(self) -> bytes:
        """The same in few bytes; made once for everybody who looks."""
        version = self.version
        if self._packed[0] != version:
            self._packed = version, pack(self.outline())
        return self._packed[1]

    def chunk(self, run: str, chunk_id: int) -> bytes | None:
        """What the page asks for by an id of the outline; None for an unknown id, or one of another run."""
        if run != self._run or not 0 <= chunk_id < len(self._chunks):
            return None
        collection, part = self._chunks[chunk_id]
        results = self.catalogue.collections.get(collection, CollectionResults(collection))
        return pack(self._window(results, part) if isinstance(part, tuple) else self._group(results, part))

    def others(self, run: str, window_id: int, group_id: int) -> bytes | None:
        """The estimate of all groups of a window but one; None for unknown ids."""
        (results, window), (same, group) = self._part(run, window_id), self._part(run, group_id)
        if results is None or results is not same or not isinstance(window, tuple) or not isinstance(group, str):
            return None
        panes = [pane for panes in results.of_window(window).values() for pane in panes]
        stamp = stamp_of(panes) if panes else ""
        make = partial(estimate_others, results=results, group=group, window=window)
        return self._once((window_id, group_id), stamp, make, results)

    def changes(self, run: str, group_id: int) -> bytes | None:
        """Which windows of a collection differ from those before them; by the id of any group of it."""
        results, group = self._part(run, group_id)
        if results is None or isinstance(group, tuple):
            return None
        closed = closed_panes(results)
        make = partial(changes_in, results=results, ids=self.ids)
        return self._once((results.name,), stamp_of(closed) if closed else "", make, results)

    def _part(self, run: str, chunk_id: int) -> tuple[CollectionResults | None, str | Window | None]:
        """The collection and the part of it that an id stands for."""
        if run != self._run or not 0 <= chunk_id < len(self._chunks):
            return None, None
        name, part = self._chunks[chunk_id]
        return self.catalogue.collections.get(name), part

    def _once(
        self, key: tuple[Any, ...], stamp: str, make: Callable[[Collection], Any], results: CollectionResults
    ) -> bytes:
        """What takes seconds to make is made once, for everybody who looks, and one after the other.

        What cannot be made is a problem in words.
        """
        with self._making:
            known, packed = self._made.pop(key, (None, b""))
            if known != stamp:
                try:
                    packed = pack(make(find_definition(results, self.definitions)))
                except NoTallyError as error:  # not kept: they may still come
                    return pack({"problem": str(error)})
            self._made[key] = stamp, packed
            while len(self._made) > MOST_MADE:
                del self._made[next(iter(self._made))]
        return packed

    # What there is ----------------------------------------------------------------------------------------------------

    def _listed(self) -> dict[str, Listed]:
        """Snapshots in their folder, or in the directory itself; and letters."""
        found = _all(matching_results(FileSystems.join(self.directory, "snapshots")))
        if not found:
            beside = [FileSystems.join(self.directory, folder, "") for folder in OTHER_FOLDERS]
            found = _all(matching_results(self.directory))
            found = [file for file in found if not file.path.startswith(tuple(beside))]
        letters = [file for folder in letter_folders(self.directory) for file in _all(matching(folder, "*"))]
        return {file.path: file for file in (*found, *letters)}

    def _known(self, path: str, file: Listed) -> bool:
        return path in self._files and self._files[path].stamp == _stamp(file)

    def _read(self, file: Listed) -> File:
        stamp = _stamp(file)
        if isinstance(file, PassedOver):
            return File(stamp, problem=shown(file.reason))
        try:
            if file.size > LARGEST_FILE:
                raise ValueError(f"larger than {LARGEST_FILE >> 20} MiB")
            records = read_records(file.path)
            if FileSystems.split(file.path)[0].rstrip("/").endswith("/dead_letters"):
                return File(stamp, refused=tuple(_refused(records).items()))
            self._serial += 1
            numbers = [drop_arrays(check_snapshot(record)) for record in records]
            return File(stamp, panes=tuple(PaneFile(one, file.path, self._serial) for one in numbers))
        except FileNotFoundError:
            raise
        except Exception as error:  # whatever a foreign or damaged file makes its reader raise
            reason = str(error).removeprefix(f"{file.path}: ") or type(error).__name__
            return File(stamp, problem=shown(reason)[:300])

    def _publish(self, unread: int) -> None:
        files = [self._files[path] for path in sorted(self._files)]  # of equals the first counts, as for other readers
        refused: dict[str, RefusedReports] = defaultdict(RefusedReports)
        for file in files:
            for reason, refusal in file.refused:
                refused[reason].merge(refusal)
        problems = [Problem(self._short(path), file.problem) for path, file in self._files.items() if file.problem]
        collections = Catalogue.arrange(pane for file in files for pane in file.panes)
        for results in collections.values():
            for part in (*results.groups, *results.windows):
                self._give_id((results.name, part))  # type: ignore[arg-type]
        version = self.catalogue.version + 1
        self.catalogue = Catalogue(version, collections, refused, tuple(sorted(problems, key=lambda p: p.file)), unread)

    def _give_id(self, chunk: Chunk) -> None:
        """For good: a link of an older outline must not lead elsewhere."""
        if chunk not in self.ids:
            self._chunks.append(chunk)
            self.ids[chunk] = len(self._chunks) - 1

    def _short(self, path: str) -> str:
        return shown(path.removeprefix(self.directory).lstrip("/"))

    # What is asked for ------------------------------------------------------------------------------------------------

    def _group(self, results: CollectionResults, group: str | None) -> dict[str, Any]:
        by_window = results.of_group(group)
        best = [panes[-1].numbers for panes in by_window.values()]
        clocks = results.clocks if by_window else UTC
        windows = [
            {"id": self.ids[results.name, window], **described(results.name, window, clocks)} for window in by_window
        ]
        timings = [shown(numbers.pane.timing) for numbers in best]
        panes = [len(panes) for panes in by_window.values()]
        return {**series(best), "windows": windows, "timings": timings, "panes": panes}

    def _window(self, results: CollectionResults, window: Window) -> dict[str, Any]:
        by_group = results.of_window(window)
        full = dict(self._distributions([panes[-1] for panes in by_group.values()]))
        return {
            "groups": [
                {
                    "id": self.ids[results.name, group],
                    **full[panes[-1]],
                    "movement": movement([pane.numbers for pane in panes]),
                }
                for group, panes in by_group.items()
            ]
        }

    def _distributions(self, panes: Sequence[PaneFile]) -> Iterator[tuple[PaneFile, dict[str, Any]]]:
        """Of some panes the pictures, each file read once."""
        wanted: dict[str, list[PaneFile]] = defaultdict(list)
        for pane in panes:
            wanted[pane.path].append(pane)
        for path, members in wanted.items():
            try:
                found = _pictures(path)
                missing = [pane for pane in members if _identity(pane.numbers) not in found]
                problem = f"{path}: its contents have changed"
            except Exception as error:  # it was readable once: removed, or overwritten by something else
                found, missing, problem = {}, members, str(error)
            if missing:
                found |= self._moved(missing, problem)
            yield from ((pane, picture(found[_identity(pane.numbers)])) for pane in members)

    def _moved(self, panes: Sequence[PaneFile], problem: str) -> dict[Identity, Snapshot]:
        """Panes whose file was folded into another since it was read; in place of one that was left out, a better."""
        folders = {f"/{folder_of(pane.numbers.key)}/" for pane in panes}
        moved = dict[Key, Snapshot]()
        for path in [path for path in sorted(self._listed()) if any(folder in path for folder in folders)]:
            with suppress(Exception):  # anyone's
                keep_best(moved, _pictures(path).values())
        for pane in panes:
            key, rank = _identity(pane.numbers)
            if key not in moved or moved[key].rank < rank:
                raise GoneError(problem)
        return {_identity(pane.numbers): moved[pane.numbers.key] for pane in panes}


Identity = tuple[Key, tuple[int, int, int]]
"""A pane of a window."""


def _identity(snapshot: Snapshot) -> Identity:
    return snapshot.key, snapshot.rank


def _pictures(path: str) -> dict[Identity, Snapshot]:
    return {_identity(snapshot): snapshot for snapshot in map(check_snapshot, read_records(path))}


def _all(found: Matched) -> list[Listed]:
    """Includes what is passed over: it becomes a `Problem`."""
    return [*found.files, *found.passed_over]


def _refused(records: Sequence[Any]) -> dict[str, RefusedReports]:
    refused: dict[str, RefusedReports] = defaultdict(RefusedReports)
    for record in records:
        letter = DeadLetter.from_avro(record)
        refused[str(letter.reason)].add(letter)
    return refused


def _stamp(file: Listed) -> Stamp:
    return file.reason if isinstance(file, PassedOver) else (file.size, float(file.modified_seconds or 0))
