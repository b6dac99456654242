"""Files of results folded into fewer: those that take their place are written first, and only then they are removed.

Any number of writers may fold the same folder at once, and each of them may die at any point. No file of panes ever has
the name of another; and whoever removes one has read it, and has written before what is kept of it. So of all files
with a window's best pane the one that was written last is never removed, and no reader misses it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystems import FileSystems

from hushgram.schemas.avro_schemas import HISTOGRAM, SNAPSHOT, Definition
from hushgram.schemas.field_types import fields_of
from hushgram.schemas.records import Histogram, Snapshot
from hushgram.transforms.filesystem import delete_files, match_files, write_atomically
from hushgram.transforms.sinks.files import FORMATS, format_time
from hushgram.transforms.sources.result_files import ENDINGS, ResultsError, in_order, read_result_file

LOG = logging.getLogger(__name__)
PANES, BEST = "panes", "best"
"""How names begin: of files with the panes of a stream, and of those with the best ones alone."""
MERGED_AT = 8
"""When a folder has this many small files of about one size, they become one: each pane is written again a few times
only, however many there are."""
SMALL = 4 << 20
LARGEST = 64 << 20
"""Bytes of a file, about; the page reads no files larger than four times that."""
_LEFT_ALONE: set[str] = set()
"""Files that this process could not read, or not remove: it does not try again at every write."""

Answer = Snapshot | Histogram


@dataclass(frozen=True)
class Kind:
    """A kind of results: the name of its folder, and its schema."""

    name: str
    definition: Definition
    from_avro: Callable[[Mapping[str, Any]], Any]

    def read(self, path: str) -> list[Any]:
        """The results of a file that may be written again, since this version knows all of their fields."""
        known = {field.name for field in fields_of(self.definition)}

        def whole(record: Mapping[str, Any]) -> Any:
            if unknown := sorted(record.keys() - known):
                raise ResultsError(f"{path}: has {unknown[0]}, which this version does not know, and would lose")
            return self.from_avro(record)

        return read_result_file(path, self.name, whole)

    def write(
        self, folder: str, begins: str, format_name: str, answers: Sequence[Answer], durable: bool = True
    ) -> list[str]:
        """Writes answers to a file of a new name, or to several if they are many; returns the paths.

        What takes the place of other files must be durable before they are removed.
        """
        paths = []
        for data in self._encoded(format_name, answers):
            now = format_time(time.time_ns() // 1_000_000_000 * 1000)
            paths.append(FileSystems.join(folder, f"{begins}-{now}-{secrets.token_hex(8)}.{format_name}"))
            write_atomically(paths[-1], data, durable)
        return paths

    def _encoded(self, format_name: str, answers: Sequence[Answer]) -> Iterator[bytes]:
        data = FORMATS[format_name](self.definition, answers)
        if len(data) <= LARGEST or len(answers) == 1:
            yield data
            return
        middle = len(answers) // 2
        for half in (answers[:middle], answers[middle:]):
            yield from self._encoded(format_name, half)


SNAPSHOTS = Kind("snapshots", SNAPSHOT, Snapshot.from_avro)
HISTOGRAMS = Kind("histograms", HISTOGRAM, Histogram.from_avro)
KINDS = (SNAPSHOTS, HISTOGRAMS)


def write_panes(kind: Kind, folder: str, format_name: str, panes: Iterable[Answer]) -> list[str]:
    """Writes panes to a folder, and folds its small files into one when many are about as large: all panes are kept."""
    together = distinct(panes)
    if not together:  # at the end of a stream engines may say once more that there is nothing
        return []
    paths = kind.write(folder, PANES, format_name, together, durable=False)
    by_size: dict[int, list[str]] = {}
    for file in match_files(f"{PANES}-*", folder).files:
        if file.path.endswith(ENDINGS) and file.size < SMALL and file.path not in _LEFT_ALONE:
            by_size.setdefault(size_class(file.size), []).append(file.path)
    for _, alike in sorted(by_size.items()):
        if len(alike) >= MERGED_AT:
            _merge(kind, folder, format_name, alike)
    return paths


def size_class(size: int) -> int:
    """Sizes that differ by less than a factor of eight, mostly.

    >>> [size_class(size) for size in (0, 7, 8, 63, 64, 4 << 20)]
    [0, 1, 1, 2, 2, 7]
    """
    return size.bit_length() // 3


def _merge(kind: Kind, folder: str, format_name: str, paths: Sequence[str]) -> None:
    read: dict[str, list[Answer]] = {}
    for path in paths:
        try:
            read[path] = kind.read(path)
        except FileNotFoundError:  # another has folded it
            continue
        except ResultsError as error:  # anyone's: it stays as it is
            LOG.warning("left alone: %s", error)
            _LEFT_ALONE.add(path)
    if len(read) > 1:
        kind.write(folder, PANES, format_name, distinct(pane for panes in read.values() for pane in panes))
        try:
            delete_files(read)
        except OSError as error:  # nothing is lost: each pane is there twice, and counts once
            LOG.warning("cannot be removed, and stays: %s", error)
            _LEFT_ALONE.update(read)


def distinct(panes: Iterable[Answer]) -> list[Answer]:
    """Each pane once, in the order of results: an engine that repeats a step may bring one twice."""
    found = {(pane.key, pane.rank): pane for pane in panes}
    return sorted(found.values(), key=lambda pane: (*in_order(pane.key), pane.rank))
