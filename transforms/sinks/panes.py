"""Answers of a stream as files: one for every pane, whole or not at all, and the same name for the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection

from schemas.definitions import DEAD_LETTER, HISTOGRAM, SNAPSHOT, Definition
from schemas.records import DeadLetter, Histogram, Snapshot
from transforms.letters import ByMinute
from transforms.sinks.files import FORMATS, file_name, moment, safe_name, write_atomically


def pane_name(record: Snapshot | Histogram) -> str:
    """The file of one pane. It carries the number of reports: after a failure the engine may number its panes anew, and
    a poorer pane must not take the place of a better one."""
    group = "all" if record.key.group is None else f"group-{safe_name(record.key.group)}"
    pane = record.pane
    return f"{file_name(record)}-{group}-n{record.reports}-p{pane.index}-{pane.timing}"


class WritePanes(beam.DoFn):
    """Pairs of a snapshot and its histogram to a directory; the pairs come out again, for what else wants them."""

    def __init__(self, directory: str, kind: str) -> None:
        self.directory, self.kind = directory, kind

    def process(self, element: tuple[Snapshot, Histogram]) -> Iterator[tuple[Snapshot, Histogram]]:
        snapshot, kept = element
        self._write("snapshots", SNAPSHOT, snapshot)
        self._write("histograms", HISTOGRAM, kept)
        yield element

    def _write(self, folder: str, definition: Definition, record: Snapshot | Histogram) -> None:
        name = f"{pane_name(record)}.{self.kind}"
        path = FileSystems.join(self.directory, folder, *name.split("/"))
        write_atomically(path, FORMATS[self.kind](definition, [record]))


@dataclass
class WriteLetters(beam.PTransform[Any, Any]):
    """Dead letters to a directory, a file for each minute of receipt and each reason."""

    directory: str
    kind: str

    def expand(self, letters: PCollection[Any]) -> PCollection[Any]:
        return (
            letters
            | "By minute" >> ByMinute()
            | "By reason" >> beam.WithKeys(lambda letter: letter.reason).with_output_types(tuple[str, DeadLetter])
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.Map(self.write)
        )

    def write(
        self,
        element: tuple[str, Iterable[DeadLetter]],
        minute: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> str:
        reason, letters = element
        ordered = sorted(letters, key=_order)
        name = f"{moment(minute.start.micros // 1000)}-{safe_name(reason)}-p{max(0, pane.index)}.{self.kind}"
        path = FileSystems.join(self.directory, "dead_letters", name)
        write_atomically(path, FORMATS[self.kind](DEAD_LETTER, ordered))
        return path


def _order(letter: DeadLetter) -> tuple[Any, ...]:
    """Letters about duplicates have no position, and are told apart by the rest."""
    return letter.source, letter.position or 0, letter.received_at, letter.detail, letter.reports or 0
