"""Results as files below a folder: `snapshots`, `histograms` and `dead_letters`, as Avro, JSON lines or Parquet.

A file appears whole or not at all, and writing a result again does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection
from apache_beam.transforms import trigger, window
from apache_beam.typehints import Tuple

from hushgram.schemas.avro_schemas import DEAD_LETTER
from hushgram.schemas.records import DeadLetter, Snapshot
from hushgram.transforms.arguments import AnyPath, check_path, check_whole
from hushgram.transforms.dead_letters import ByMinute
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.folding import HISTOGRAMS, SNAPSHOTS, Answer, Kind, write_panes
from hushgram.transforms.sinks.files import FORMATS, WriteRecords, check_format, format_time, safe_name
from hushgram.transforms.sinks.layout import folder_of
from hushgram.transforms.sinks.window_files import WriteWindows

MOST_PANES = 1000
"""Panes of a collection and day that wait for their file, at most."""


@dataclass
class WriteSnapshots(beam.PTransform[PCollection[Snapshot], PCollection[str]]):
    """Snapshots to files below `PATH/snapshots`, in a folder for each collection and day; `read_snapshots` reads them.

    The paths of the files come out. Of bounded snapshots, each window has one file, which takes the place of results
    with fewer reports only. Of unbounded ones, panes are collected for a while, and those of a collection and day make
    a file; eight small files of a folder become one, so that a path which came out may soon be gone.

    Args:
        path: A folder, on any file system that Beam knows.
        format: avro, jsonl or parquet.
        pause_seconds: How long panes are collected for a file, at most; 0 writes each at once. It has no effect on
            bounded input.

    >>> import apache_beam as beam
    >>> beam.Create([]) | WriteSnapshots("results", format="csv")
    Traceback (most recent call last):
    ValueError: format: got 'csv', allowed: avro, jsonl, parquet
    """

    kind: ClassVar[Kind] = SNAPSHOTS
    path: AnyPath
    format: str = "avro"
    pause_seconds: int = 60

    def __post_init__(self) -> None:
        super().__init__()
        check_format(self.format)
        self.path = check_path("path", self.path)
        self.pause_seconds = check_whole("pause_seconds", self.pause_seconds)

    def expand(self, records: PCollection[Any]) -> PCollection[str]:
        directory = FileSystems.join(os.fspath(self.path), self.kind.name)
        if records.is_bounded:
            return records | "Windows" >> WriteWindows(directory, self.kind.definition, self.format)
        return records | "Panes" >> WritePanes(directory, self.kind, self.format, self.pause_seconds)


class WriteHistograms(WriteSnapshots):
    """Histograms to files below `PATH/histograms`, as `WriteSnapshots` does; `hushgram rollup` merges them later.

    >>> WriteHistograms("results").kind.name
    'histograms'
    """

    kind = HISTOGRAMS


@dataclass
class WritePanes(beam.PTransform[PCollection[Any], PCollection[str]]):
    """The panes of a stream to few files: those of a collection and day that come within a while are written together.

    They wait in the engine's state. A failure may repeat some of them in a file of another name, and does no harm.
    """

    directory: str
    kind: Kind
    format: str
    pause_seconds: int

    def expand(self, panes: PCollection[Any]) -> PCollection[str]:
        full = trigger.AfterCount(MOST_PANES if self.pause_seconds else 1)
        ready = trigger.AfterAny(trigger.AfterProcessingTime(self.pause_seconds), full) if self.pause_seconds else full
        return (
            panes
            | "By day" >> beam.Map(_with_folder).with_output_types(Tuple[str, panes.element_type])
            | "For a while"
            >> beam.WindowInto(
                window.GlobalWindows(),
                trigger=trigger.AfterWatermark(early=ready),  # the watermark's end is the stream's: none is left behind
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.FlatMapTuple(self.write).with_output_types(str)
        )

    def write(self, folder: str, panes: Iterable[Answer]) -> list[str]:
        return write_panes(self.kind, FileSystems.join(self.directory, *folder.split("/")), self.format, panes)


def _with_folder(pane: Answer) -> tuple[str, Answer]:
    return folder_of(pane.key), pane


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


def _order(letter: DeadLetter) -> tuple[Any, ...]:
    """Dead letters about duplicates have no position, and differ in the rest."""
    return letter.source, letter.position or 0, letter.received_at, letter.detail, letter.reports or 0
