"""Results as files below a folder: `snapshots`, `histograms` and `dead_letters`, as Avro, JSON lines or Parquet.

A file appears whole or not at all, and the same result has the same name, so that writing it again does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection

from hushgram.schemas.avro_schemas import DEAD_LETTER, HISTOGRAM, SNAPSHOT, Definition
from hushgram.schemas.records import DeadLetter, Histogram, Snapshot
from hushgram.transforms.arguments import AnyPath, check_path
from hushgram.transforms.dead_letters import ByMinute
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.files import (
    FORMATS,
    WriteRecords,
    WriteWindows,
    check_format,
    file_name,
    format_time,
    safe_name,
)


@dataclass
class WriteSnapshots(beam.PTransform[PCollection[Snapshot], PCollection[str]]):
    """Snapshots to files below `PATH/snapshots`; the paths of the files come out. `read_snapshots` reads them back.

    Of bounded snapshots, each window has one file, which takes the place of results with fewer reports only. Of
    unbounded ones, each pane has one.

    Args:
        path: A folder, on any file system that Beam knows.
        format: avro, jsonl or parquet.

    >>> import apache_beam as beam
    >>> beam.Create([]) | WriteSnapshots("results", format="csv")
    Traceback (most recent call last):
    ValueError: format: got 'csv', allowed: avro, jsonl, parquet
    """

    folder: ClassVar[str] = "snapshots"
    definition: ClassVar[Definition] = SNAPSHOT
    path: AnyPath
    format: str = "avro"

    def __post_init__(self) -> None:
        super().__init__()
        check_format(self.format)
        self.path = check_path("path", self.path)

    def expand(self, records: PCollection[Any]) -> PCollection[str]:
        directory = FileSystems.join(os.fspath(self.path), self.folder)
        if records.is_bounded:
            return records | "Windows" >> WriteWindows(directory, self.definition, self.format)
        write = WritePane(directory, self.definition, self.format)
        return records | "Panes" >> beam.Map(write).with_output_types(str)


class WriteHistograms(WriteSnapshots):
    """Histograms to files below `PATH/histograms`, as `WriteSnapshots` does; `hushgram rollup` merges them later.

    >>> WriteHistograms("results").folder
    'histograms'
    """

    folder = "histograms"
    definition = HISTOGRAM


@dataclass
class WriteDeadLetters(beam.PTransform[PCollection[DeadLetter], PCollection[str]]):
    """Dead letters to files below `PATH/dead_letters`; the paths of the files come out.

    Each reason has a file; of unbounded dead letters, each reason and minute of receipt has one.

    >>> WriteDeadLetters("results", format="jsonl").format
    'jsonl'
    """

    path: AnyPath
    format: str = "avro"

    def __post_init__(self) -> None:
        super().__init__()
        check_format(self.format)
        self.path = check_path("path", self.path)
        self.directory = FileSystems.join(self.path, "dead_letters")

    def expand(self, dead_letters: PCollection[DeadLetter]) -> PCollection[str]:
        if dead_letters.is_bounded:
            return dead_letters | "Write" >> WriteRecords(self.directory, DEAD_LETTER, self.format)
        return (
            dead_letters
            | "By minute" >> ByMinute()
            | "By reason" >> beam.WithKeys(lambda letter: letter.reason).with_output_types(tuple[str, DeadLetter])
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.Map(self.write).with_output_types(str)
        )

    def write(
        self,
        element: tuple[str, Iterable[DeadLetter]],
        minute: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> str:
        reason, dead_letters = element
        ordered = sorted(dead_letters, key=_order)
        name = f"{format_time(minute.start.micros // 1000)}-{safe_name(reason)}-p{max(0, pane.index)}.{self.format}"
        path = FileSystems.join(self.directory, name)
        write_atomically(path, FORMATS[self.format](DEAD_LETTER, ordered))
        return path


def pane_name(record: Snapshot | Histogram) -> str:
    """The file of one pane. It carries the number of reports: after a failure the engine may number its panes anew, and
    a poorer pane must not take the place of a better one."""
    group = "all" if record.key.group is None else f"group-{safe_name(record.key.group)}"
    pane = record.pane
    return f"{file_name(record)}-{group}-n{record.reports}-p{pane.index}-{pane.timing}"


@dataclass(frozen=True)
class WritePane:
    """A pane to a file of its own; called with the pane, it returns the path."""

    directory: str
    definition: Definition
    format: str

    def __call__(self, record: Snapshot | Histogram) -> str:
        name = f"{pane_name(record)}.{self.format}"
        path = FileSystems.join(self.directory, *name.split("/"))
        write_atomically(path, FORMATS[self.format](self.definition, [record]))
        return path


def _order(letter: DeadLetter) -> tuple[Any, ...]:
    """Dead letters about duplicates have no position, and differ in the rest."""
    return letter.source, letter.position or 0, letter.received_at, letter.detail, letter.reports or 0
