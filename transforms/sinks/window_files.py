"""Results of whole windows, as batch writes them: all groups of a window in one file, in place of poorer ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystems import FileSystems

from hushgram.schemas.avro_schemas import Definition
from hushgram.schemas.records import Histogram, Snapshot
from hushgram.transforms.filesystem import delete_files, match_files, write_atomically
from hushgram.transforms.sinks.files import FORMATS, WriteRecords, by_group, window_name
from hushgram.transforms.sinks.layout import collection_folders, folder_of

RANK = re.compile(r"-g([0-9]+)-n([0-9]+)\.[a-z]+$")


def write_window(
    directory: str, definition: Definition, kind: str, records: Sequence[Snapshot | Histogram]
) -> str | None:
    """Writes the results of one window, all groups in one file, in place of poorer ones; None if a better one is there.

    The name carries the number of reports, so that of two writers at once, or of one that dies half-way, the better
    result is the one that readers take.
    """
    ordered = sorted(records, key=by_group)
    key = ordered[0].key
    rank = ordered[0].pane.generation, max(record.reports for record in ordered)
    folder, times = folder_of(key), window_name(key).rpartition("/")[2]
    present = {
        file.path: its_rank
        for place in (folder, collection_folders(key.collection)[0])
        for file in match_files(f"{place}/{times}-g*", directory).files
        if (its_rank := rank_of(file.path)) is not None
    }
    if max(present.values(), default=rank) > rank:
        return None
    path = FileSystems.join(directory, *folder.split("/"), f"{times}-g{rank[0]}-n{rank[1]}.{kind}")
    write_atomically(path, FORMATS[kind](definition, ordered))
    delete_files(present.keys() - {path})
    return path


def rank_of(path: str) -> tuple[int, int] | None:
    """Generation and reports, from the name of a window's file; None of a file of another kind.

    >>> rank_of("20260101T000000-20260101T010000-g1-n7.avro"), rank_of("best-20260102T030000-5f.avro")
    ((1, 7), None)
    """
    found = RANK.search(path)
    return (int(found[1]), int(found[2])) if found else None


@dataclass
class WriteWindows(WriteRecords):
    """Results of windows to a directory, each in place of poorer ones only; the paths written come out."""

    def write(self, name: str, records: Iterable[Any]) -> list[str]:
        path = write_window(self.directory, self.definition, self.format, list(records))
        return [] if path is None else [path]
