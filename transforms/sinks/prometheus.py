"""The newest snapshots as gauges, in a file for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms import window
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from hushgram.schemas.records import REASONS, DeadLetter, Quantile, Snapshot
from hushgram.transforms.arguments import AnyPath, check_path
from hushgram.transforms.dead_letters import ByMinute
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.latest import Board, BoardCoder, Entry, MergeBoards

GAUGES: dict[str, tuple[str, Callable[[Entry], float | None]]] = {
    "hushgram_reports": ("Reports in the newest window.", lambda entry: entry.reports),
    "hushgram_status_ok": ("Whether these are as many as the collection asks for.", lambda entry: entry.status == "ok"),
    "hushgram_window_start_timestamp_seconds": ("When the newest window began.", lambda e: e.window_start / 1000),
    "hushgram_window_end_timestamp_seconds": ("When the newest window ends.", lambda entry: entry.window_end / 1000),
    "hushgram_mean": ("Estimated mean of the values in the newest window.", lambda entry: entry.mean),
    "hushgram_mean_low": ("Lower end of the mean's 95 % interval.", lambda entry: entry.mean_low),
    "hushgram_mean_high": ("Upper end of the mean's 95 % interval.", lambda entry: entry.mean_high),
    "hushgram_central_epsilon": (
        "Upper bound of epsilon, with a delta of 1e-8, towards readers of nothing but the newest window's tally.",
        lambda entry: entry.central_epsilon,
    ),
    "hushgram_lying_bound": (
        "How far the distribution function could be off if 1 % of the devices lied and looked honest.",
        lambda entry: entry.lying_bound,
    ),
}
"""What is not known of a window has no sample."""
QUANTILES: dict[str, tuple[str, Callable[[Quantile], float]]] = {
    "hushgram_quantile": ("Value below which a share of the values lies.", lambda quantile: quantile.value),
    "hushgram_quantile_low": ("Lower end of the quantile's 95 % interval.", lambda quantile: quantile.low),
    "hushgram_quantile_high": ("Upper end of the quantile's 95 % interval.", lambda quantile: quantile.high),
}
VALUES = {
    "hushgram_value_bucket": "Estimated number of reports in the newest window with a value up to le.",
    "hushgram_value_count": "Reports in the newest window, of a distribution.",
    "hushgram_value_sum": "Estimated sum of their values.",
}
"""A histogram as `histogram_quantile` takes it: of one window, so of gauges, which need no rate()."""
REFUSED = "hushgram_refused_reports", "Reports that were not counted, by reason."
UNREADABLE = "hushgram_unreadable_places", "Places that could not be read, with an unknown number of reports."


def exposition(board: Board, streaming: bool) -> str:
    """The text of the file.

    What a stream has refused only grows, which is a counter; the next batch replaces what a batch has refused,
    which is a gauge. They have names of their own, since one collector may read files of both.
    """
    from prometheus_client import generate_latest  # an extra brings it

    return generate_latest(_Families(board, streaming)).decode()


@dataclass(frozen=True)
class _Families:
    """A board as prometheus_client wants it: something to collect families of metrics from."""

    board: Board
    streaming: bool

    def collect(self) -> Iterator[Any]:
        entries = sorted(self.board.entries.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        for name, (text, number) in GAUGES.items():
            known = ((labels_of(key), value) for key, entry in entries if (value := number(entry)) is not None)
            yield metric_family(name, text, "gauge", known)
        for name, (text, end) in QUANTILES.items():
            samples = (
                ({**labels_of(key), "share": f"{quantile.share:.12g}"}, end(quantile))
                for key, entry in entries
                for quantile in entry.quantiles
            )
            yield metric_family(name, text, "gauge", samples)
        yield from value_families(entries)
        kind = "counter" if self.streaming else "gauge"
        # Every reason from the start, so that the first refusal is seen to be one more than none.
        refused = (({"reason": reason}, self.board.refused.get(reason, 0)) for reason in REASONS)
        yield metric_family(*REFUSED, kind, refused)
        yield metric_family(*UNREADABLE, kind, [({}, self.board.unreadable)])


def value_families(entries: Sequence[tuple[tuple[str, str | None], Entry]]) -> Iterator[Any]:
    """The distributions as histograms; the first bucket of each ends where the domain begins, and is empty."""
    from prometheus_client.utils import floatToGoString

    samples: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in VALUES}
    for key, entry in entries:
        if not entry.shares_up_to:
            continue
        labels, reports = labels_of(key), entry.reports
        for edge, share in (*entry.shares_up_to, (math.inf, 1.0)):
            samples["hushgram_value_bucket"].append(({**labels, "le": floatToGoString(edge)}, reports * share))
        samples["hushgram_value_count"].append((labels, reports))
        samples["hushgram_value_sum"].append((labels, reports * entry.mean))
    for name, text in VALUES.items():
        yield metric_family(name, text, "gauge", samples[name])


def labels_of(key: tuple[str, str | None]) -> dict[str, str]:
    """To Prometheus an empty label is none: so all groups together have none."""
    collection, group = key
    return {"collection": collection, **({"group": group} if group else {})}


def metric_family(name: str, text: str, kind: str, samples: Iterable[tuple[dict[str, str], float]]) -> Any:
    """Samples of one name, each with its labels, as prometheus_client wants them."""
    from prometheus_client import Metric

    family = Metric(name, text, kind)
    for labels, value in samples:
        family.add_sample(f"{name}_total" if kind == "counter" else name, labels, value)
    return family


class OfBundle(beam.DoFn):
    """The snapshots of a bundle as one board: the file is written once for all of them."""

    def start_bundle(self) -> None:
        self.boards: list[Board] = []

    def process(self, element: Snapshot) -> Iterator[Board]:
        self.boards.append(Board.of_snapshot(element))
        Metrics.counter("sinks", "snapshots").inc()
        return iter(())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self.boards:
            yield WindowedValue(Board.merge(self.boards), MIN_TIMESTAMP, (window.GlobalWindow(),))


class KeepBoard(beam.DoFn):
    """All that is new in a stream goes onto one board, which is kept as state and written at every change."""

    BOARD = ReadModifyWriteStateSpec("board", BoardCoder())

    def __init__(self, path: str) -> None:
        self.path = path

    def process(self, element: tuple[str, Board], state: Any = beam.DoFn.StateParam(BOARD)) -> None:
        board = Board.merge([state.read() or Board(), element[1]])
        state.write(board)
        write(board, self.path, streaming=True)


def write(board: Board, path: str, streaming: bool) -> None:
    write_atomically(path, exposition(board, streaming).encode())


@dataclass
class ExposeToPrometheus(beam.PTransform[tuple[PCollection[Snapshot], PCollection[DeadLetter]], PCollection[None]]):
    """Snapshots and dead letters to a file that shows the newest of each collection and group, and what was refused.

    The node exporter of Prometheus collects files named *.prom.

    >>> expose = ExposeToPrometheus("/var/lib/node_exporter/textfile/hushgram.prom")
    >>> (snapshots, dead_letters) | expose  # doctest: +SKIP
    """

    path: AnyPath

    def __post_init__(self) -> None:
        super().__init__()
        self.path = check_path("path", self.path)

    def expand(self, results: tuple[PCollection[Snapshot], PCollection[DeadLetter]]) -> PCollection[None]:
        (snapshots, dead_letters), path = results, os.fspath(self.path)
        new = snapshots | "Of a bundle" >> beam.ParDo(OfBundle()).with_output_types(Board)
        if snapshots.is_bounded:
            refused = dead_letters | "Refused" >> beam.Map(Board.of_letter).with_output_types(Board)
            both = (new, refused) | "Both" >> beam.Flatten()
            board = both | "One board" >> beam.CombineGlobally(MergeBoards())
            return board | "Write" >> beam.Map(write, path, streaming=False).with_output_types(None)
        refused = (
            dead_letters
            | "By minute" >> ByMinute()
            | "Refused" >> beam.Map(_keyed_letter).with_output_types(tuple[str, Board])
            | "Of a minute" >> beam.CombinePerKey(MergeBoards()).with_output_types(tuple[str, Board])
            | "Global" >> beam.WindowInto(window.GlobalWindows())
        )
        keyed = new | "One key" >> beam.Map(_keyed).with_output_types(tuple[str, Board])
        both = (keyed, refused) | "Both" >> beam.Flatten()
        return both | "Keep and write" >> beam.ParDo(KeepBoard(path)).with_input_types(
            tuple[str, Board]
        ).with_output_types(None)


def _keyed(board: Board) -> tuple[str, Board]:
    return "", board


def _keyed_letter(letter: DeadLetter) -> tuple[str, Board]:
    return _keyed(Board.of_letter(letter))
