"""A run commits when all that it has counted is written; then the windows that it touched are summed over all runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import AsList, PCollection

from schemas.definitions import DEAD_LETTER, HISTOGRAM
from schemas.records import Histogram, Key, Pane
from transforms.estimate import histogram
from transforms.panes import PaneOfWindow
from transforms.run_store import (
    DEAD_LETTERS,
    HISTOGRAMS,
    commit,
    committed_runs,
    listed_again_if_gone,
    outcome,
    remove_leftovers,
    sum_window,
)
from transforms.runs import Attempt, CountedIds, Manifest, RunError
from transforms.sinks.files import WriteRecords, window_name


@dataclass
class CommitRun(beam.PTransform[Any, Any]):
    """What a run has counted, in; once it is committed, the windows that it touched, summed over all runs, out.

    `max_age` in milliseconds: how long ids are kept after the run. `fail_if_refused` fails the job of a run that cannot
    be committed; without it the reason is in the attempt's folder, for whoever waits for the job.
    """

    attempt: Attempt
    format: str
    max_age: int
    fail_if_refused: bool = False

    def expand(self, counted: Any) -> PCollection[Any]:
        panes, letters, ids = counted
        histograms = panes | "Histograms" >> beam.Map(_histogram).with_output_types(Histogram)
        folder = self.attempt.folder
        written = (
            histograms | "Write histograms" >> WriteRecords(FileSystems.join(folder, HISTOGRAMS), HISTOGRAM, "avro"),
            letters | "Write letters" >> WriteRecords(FileSystems.join(folder, DEAD_LETTERS), DEAD_LETTER, self.format),
        )
        windows = histograms | "Windows" >> beam.Map(lambda part: (_text(part.key), part.reports))
        return (
            letters.pipeline
            | "Once" >> beam.Create([None])
            | "Commit"
            >> beam.FlatMap(
                self.commit,
                AsList(windows),
                AsList(ids),
                *(AsList(paths) for paths in written),  # asked for so that all files are there
            ).with_output_types(str)
            | "Spread" >> beam.Reshuffle()
            | "Sum over runs" >> beam.ParDo(SumRuns(self.attempt.directory)).with_output_types(PaneOfWindow)
        )

    def commit(
        self, _: None, windows: Iterable[tuple[str, int]], ids: Iterable[tuple[int, int]], *written: list[str]
    ) -> Iterator[str]:
        """The keys of each window that was touched, as JSON; nothing if the run was refused."""
        shards = dict(ids)
        kept_until = max([*shards.values(), time.time_ns() // 1_000_000 + self.max_age])
        kept = CountedIds(tuple(sorted(shards)), kept_until) if shards else CountedIds()
        done = commit(self.attempt, {Key(*json.loads(key)): reports for key, reports in windows}, kept)
        if done is None:
            refusal = outcome(self.attempt)
            if self.fail_if_refused and refusal is not None:
                raise RunError(refusal.detail)
            return
        remove_leftovers(self.attempt)
        by_window: dict[str, list[str]] = {}
        for key in done.windows:
            by_window.setdefault(window_name(key), []).append(_text(key))
        yield from (json.dumps(keys) for keys in by_window.values())


class SumRuns(beam.DoFn):
    """The keys of one window in; the tallies of each, summed over all runs that are committed, out."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.runs: list[Manifest] | None = None

    def start_bundle(self) -> None:
        self.runs = None

    def process(self, element: str) -> Iterator[PaneOfWindow]:
        keys = [Key(*json.loads(key)) for key in json.loads(element)]

        def read() -> Any:
            # Listed once for a bundle, and again when a file has gone: its run was repeated meanwhile.
            runs, self.runs = self.runs, None
            runs = committed_runs(self.directory) if runs is None else runs
            total = sum_window(runs, self.directory, keys)
            self.runs = runs
            return total

        for key, tallies in listed_again_if_gone(read).items():
            Metrics.counter("windows", "summed").inc()
            yield _text(key), (0, "on_time", tallies)


def _histogram(pane: PaneOfWindow) -> Histogram:
    """Of this run alone, so of no generation: that belongs to the sum."""
    key, (_, _, tallies) = pane
    return histogram(Key(*json.loads(key)), Pane(), tallies)


def _text(key: Key) -> str:
    return json.dumps(list(vars(key).values()))
