"""The newest snapshots as gauges, in a file for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms import window
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from schemas.records import REASONS, DeadLetter, Histogram, Quantile, Snapshot
from transforms.letters import ByMinute
from transforms.sinks.board import Board, BoardCoder, Entry, MergeBoards
from transforms.sinks.files import write_atomically

GAUGES: dict[str, tuple[str, Callable[[Entry], float]]] = {
    "hushgram_reports": ("Reports in the newest window.", lambda entry: entry.reports),
    "hushgram_status_ok": ("Whether these are as many as the collection asks for.", lambda entry: entry.status == "ok"),
    "hushgram_window_start_timestamp_seconds": ("When the newest window began.", lambda e: e.window_start / 1000),
    "hushgram_window_end_timestamp_seconds": ("When the newest window ends.", lambda entry: entry.window_end / 1000),
    "hushgram_mean": ("Estimated mean of the values in the newest window.", lambda entry: entry.mean),
    "hushgram_mean_low": ("Lower end of the mean's 95 % interval.", lambda entry: entry.mean_low),
    "hushgram_mean_high": ("Upper end of the mean's 95 % interval.", lambda entry: entry.mean_high),
}
QUANTILES: dict[str, tuple[str, Callable[[Quantile], float]]] = {
    "hushgram_quantile": ("Value below which a share of the values lies.", lambda quantile: quantile.value),
    "hushgram_quantile_low": ("Lower end of the quantile's 95 % interval.", lambda quantile: quantile.low),
    "hushgram_quantile_high": ("Upper end of the quantile's 95 % interval.", lambda quantile: quantile.high),
}
REFUSED = "hushgram_refused_reports", "Reports that were not counted, by reason."
UNREADABLE = "hushgram_unreadable_places", "Places that could not be read, with an unknown number of reports."


def exposition(board: Board, streaming: bool) -> str:
    """The text of the file.

    What a stream has refused only grows, which is a counter; what a batch has refused is told anew by the next one,
    which is a gauge. They have names of their own, since one collector may read files of both.
    """
    lines: list[str] = []
    entries = sorted(board.entries.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    for name, (text, number) in GAUGES.items():
        lines += _family(name, text, "gauge", ((_labels(key), number(entry)) for key, entry in entries))
    for name, (text, value) in QUANTILES.items():
        samples = (
            ({**_labels(key), "share": f"{quantile.share:g}"}, value(quantile))
            for key, entry in entries
            for quantile in entry.quantiles
        )
        lines += _family(name, text, "gauge", samples)
    kind, ending = ("counter", "_total") if streaming else ("gauge", "")
    # Every reason from the start, so that the first refusal is seen to be one more than none.
    refused = (({"reason": reason}, board.refused.get(reason, 0)) for reason in REASONS)
    lines += _family(REFUSED[0] + ending, REFUSED[1], kind, refused)
    lines += _family(UNREADABLE[0] + ending, UNREADABLE[1], kind, [({}, board.unreadable)])
    return "".join(f"{line}\n" for line in lines)


def _labels(key: tuple[str, str | None]) -> dict[str, str]:
    """To Prometheus an empty label is none: so all groups together have none."""
    collection, group = key
    return {"collection": collection, "group": group or ""}


def _family(name: str, text: str, kind: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    told = [f"{name}{_braced(labels)} {_number(value)}" for labels, value in samples]
    if told:
        yield from (f"# HELP {name} {text}", f"# TYPE {name} {kind}", *told)


def _braced(labels: Mapping[str, str]) -> str:
    """
    >>> _braced({"group": 'a "b" \\\\'})
    '{group="a \\\\"b\\\\" \\\\\\\\"}'
    """
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items() if value)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else str(int(value)) if float(value).is_integer() else repr(float(value))


class OfBundle(beam.DoFn):
    """The snapshots of a bundle as one board: the file is written once for all of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def start_bundle(self) -> None:
        self.boards: list[Board] = []

    def process(self, element: tuple[Snapshot, Histogram]) -> Iterator[Board]:
        self.boards.append(Board.of_snapshot(element[0]))
        Metrics.counter("sinks", self.name).inc()
        return iter(())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self.boards:
            yield WindowedValue(Board.merge(self.boards), MIN_TIMESTAMP, (window.GlobalWindow(),))


class KeepBoard(beam.DoFn):
    """All that is new in a stream goes onto one board, which is kept as state and written at every change."""

    BOARD = ReadModifyWriteStateSpec("board", BoardCoder())

    def __init__(self, path: str) -> None:
        self.path = path

    def process(self, element: tuple[str, Board], kept: Any = beam.DoFn.StateParam(BOARD)) -> None:
        board = Board.merge([kept.read() or Board(), element[1]])
        kept.write(board)
        write(board, self.path, streaming=True)


def write(board: Board, path: str, streaming: bool) -> None:
    write_atomically(path, exposition(board, streaming).encode())


@dataclass
class ExposeToPrometheus(beam.PTransform[Any, Any]):
    """Answers and letters in; the file shows the newest of each collection and group, and what was refused."""

    name: str
    path: str
    streaming: bool

    def expand(self, results: tuple[PCollection[Any], PCollection[Any]]) -> None:
        answers, letters = results
        new = answers | "Of a bundle" >> beam.ParDo(OfBundle(self.name)).with_output_types(Board)
        if not self.streaming:
            refused = letters | "Refused" >> beam.Map(Board.of_letter).with_output_types(Board)
            both = (new, refused) | "Both" >> beam.Flatten()
            board = both | "One board" >> beam.CombineGlobally(MergeBoards())
            board | "Write" >> beam.Map(write, self.path, streaming=False)
            return
        refused = (
            letters
            | "By minute" >> ByMinute()
            | "Refused" >> beam.Map(_keyed_letter).with_output_types(tuple[str, Board])
            | "Of a minute" >> beam.CombinePerKey(MergeBoards()).with_output_types(tuple[str, Board])
            | "Global" >> beam.WindowInto(window.GlobalWindows())
        )
        keyed = new | "One key" >> beam.Map(_keyed).with_output_types(tuple[str, Board])
        (keyed, refused) | "Both" >> beam.Flatten() | "Keep and write" >> beam.ParDo(KeepBoard(self.path))


def _keyed(board: Board) -> tuple[str, Board]:
    return "", board


def _keyed_letter(letter: DeadLetter) -> tuple[str, Board]:
    return _keyed(Board.of_letter(letter))
