"""A run commits when all that it has counted is written; then the windows that it touched are summed over all runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import AsList, PCollection

from hushgram.schemas.avro_schemas import DEAD_LETTER, HISTOGRAM
from hushgram.schemas.records import DeadLetter, Histogram, Key, Pane
from hushgram.transforms.estimation import histogram
from hushgram.transforms.run_store import (
    DEAD_LETTERS,
    HISTOGRAMS,
    commit,
    committed_runs,
    listed_again_if_gone,
    outcome,
    remove_leftovers,
    sum_window,
)
from hushgram.transforms.runs import Attempt, CountedIds, Manifest, RunError
from hushgram.transforms.sinks.files import WriteRecords, window_name
from hushgram.transforms.windowing import PaneOfWindow

CountedInRun = tuple[PCollection[PaneOfWindow], PCollection[DeadLetter], PCollection[tuple[int, int]]]
"""Panes of windows, dead letters, and shards of upload ids with the time until which they are kept."""


@dataclass
class CommitRun(beam.PTransform[CountedInRun, PCollection[PaneOfWindow]]):
    """What a run has counted, in; once it is committed, the windows that it touched, summed over all runs, out.

    Ids are kept for `max_age_ms` after the run. `fail_if_refused` fails the job of a run that cannot be committed;
    without it the reason is in the attempt's folder, for whoever waits for the job.
    """

    attempt: Attempt
    format: str
    max_age_ms: int
    fail_if_refused: bool = False

    def expand(self, counted: CountedInRun) -> PCollection[PaneOfWindow]:
        panes, dead_letters, ids = counted
        histograms = panes | "Histograms" >> beam.Map(_histogram).with_output_types(Histogram)
        histogram_folder, letter_folder = (
            FileSystems.join(self.attempt.folder, name) for name in (HISTOGRAMS, DEAD_LETTERS)
        )
        written = (
            histograms | "Write histograms" >> WriteRecords(histogram_folder, HISTOGRAM, "avro"),
            dead_letters | "Write dead letters" >> WriteRecords(letter_folder, DEAD_LETTER, self.format),
        )
        windows = histograms | "Windows" >> beam.Map(_reports_of_window).with_output_types(tuple[Key, int])
        return (
            dead_letters.pipeline
            | "Once" >> beam.Create([None])
            | "Commit"
            >> beam.FlatMap(
                self.commit,
                AsList(windows),
                AsList(ids),
                *(AsList(paths) for paths in written),  # asked for so that all files are there
            ).with_output_types(tuple[Key, ...])
            | "Spread" >> beam.Reshuffle()
            | "Sum over runs" >> beam.ParDo(SumRuns(self.attempt.directory)).with_output_types(PaneOfWindow)
        )

    def commit(
        self, _: None, windows: Iterable[tuple[Key, int]], ids: Iterable[tuple[int, int]], *written: list[str]
    ) -> Iterator[tuple[Key, ...]]:
        """The keys of each window that was touched; nothing if the run was refused."""
        shards = dict(ids)
        kept_until = max([*shards.values(), time.time_ns() // 1_000_000 + self.max_age_ms])
        counted_ids = CountedIds(tuple(sorted(shards)), kept_until) if shards else CountedIds()
        done = commit(self.attempt, dict(windows), counted_ids)
        if done is None:
            refusal = outcome(self.attempt)
            if self.fail_if_refused and refusal is not None:
                raise RunError(refusal.detail)
            return
        remove_leftovers(self.attempt)
        by_window: dict[str, list[Key]] = {}
        for key in done.windows:
            by_window.setdefault(window_name(key), []).append(key)
        yield from map(tuple, by_window.values())


class SumRuns(beam.DoFn):
    """The keys of one window in; the tallies of each, summed over all runs that are committed, out."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.runs: list[Manifest] | None = None

    def start_bundle(self) -> None:
        self.runs = None

    def process(self, element: tuple[Key, ...]) -> Iterator[PaneOfWindow]:
        def read() -> Any:
            # Listed once for a bundle, and again when a file has gone: its run was repeated meanwhile.
            runs, self.runs = self.runs, None
            runs = committed_runs(self.directory) if runs is None else runs
            total = sum_window(runs, self.directory, element)
            self.runs = runs
            return total

        for key, tallies in listed_again_if_gone(read).items():
            Metrics.counter("windows", "summed").inc()
            yield key, (0, "on_time", tallies)


def _histogram(pane: PaneOfWindow) -> Histogram:
    """Of this run alone, so of no generation: that belongs to the sum."""
    key, (_, _, tallies) = pane
    return histogram(key, Pane(), tallies)


def _reports_of_window(part: Histogram) -> tuple[Key, int]:
    return part.key, part.reports
