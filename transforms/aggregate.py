"""From what a source has read to snapshots: parse, tally, deduplicate, combine per window, estimate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms import window
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

import transforms.result_coders  # noqa: F401 - tells Beam how results travel
from hushgram import Windows
from schemas.records import DeadLetter, Histogram, Key, Pane, Snapshot
from transforms.combine import CombineTallies
from transforms.commit import CommitRun
from transforms.count_in_run import COUNTED_IDS, Deduplicate
from transforms.count_once import CountOnce
from transforms.emit import IDENTIFIED, LETTERS, Emitting, ParseAndTally, branches
from transforms.estimate import histogram, snapshots
from transforms.panes import ByWindow, PaneOfWindow, ToLocalDays, WholeTruth, allowed_lateness, into_panes
from transforms.parse import Parser
from transforms.plan import Plan
from transforms.runs import Attempt
from transforms.tallies import Tallies

ESTIMATE_AT_ONCE = 256


class EstimateWindows(beam.DoFn):
    """Windows of one bundle are estimated together, those of one collection as one problem."""

    def __init__(self, plan: Plan, generation: int) -> None:
        self.collections = {collection.name: collection for collection in plan.collections}
        self.generation = generation

    def start_bundle(self) -> None:
        self.waiting: list[tuple[Key, Pane, Tallies]] = []

    def process(self, element: PaneOfWindow) -> Iterator[Any]:
        key, (index, timing, tallies) = element
        self.waiting.append((Key(*json.loads(key)), Pane(self.generation, index, timing), tallies))
        if len(self.waiting) >= ESTIMATE_AT_ONCE:
            yield from self._estimate()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for answer in self._estimate():
            yield WindowedValue(answer, MIN_TIMESTAMP, (window.GlobalWindow(),))

    def _estimate(self) -> Iterator[tuple[Snapshot, Histogram]]:
        waiting, self.waiting = self.waiting, []
        by_collection: dict[str, list[tuple[Key, Pane, Tallies]]] = {}
        for entry in waiting:
            by_collection.setdefault(entry[0].collection, []).append(entry)
        for name, entries in by_collection.items():
            started = time.monotonic()
            answers = snapshots(self.collections[name], entries)
            milliseconds = 1000 * (time.monotonic() - started)
            Metrics.distribution("windows", "estimate milliseconds").update(round(milliseconds))
            for (key, pane, tallies), snapshot in zip(entries, answers, strict=True):
                Metrics.counter("windows", "estimated").inc()
                Metrics.counter("windows", f"panes:{pane.timing}").inc()
                yield snapshot, histogram(key, pane, tallies)


class Counted(NamedTuple):
    """What was counted: the panes of each setting of windows, dead letters, and in a batch run the ids."""

    panes: dict[str, PCollection[Any]]
    letters: PCollection[Any]
    ids: PCollection[Any] | None


def count_reports(
    reads: PCollection[Any],
    parser: Parser,
    fanout: int = 0,
    streaming: bool = False,
    attempt: Attempt | None = None,
) -> Counted:
    """What a source has read, counted by window; `attempt` is that of a batch run, one of many into a folder."""
    plan = parser.plan
    settings = branches(plan)
    parsed = reads | "Parse and tally" >> beam.ParDo(ParseAndTally(parser)).with_outputs(LETTERS, IDENTIFIED, *settings)
    identified = typed(parsed[IDENTIFIED], tuple[int, bytes])
    if not streaming:
        identified |= "By shard of ids" >> beam.GroupByKey()
    once: Emitting = CountOnce(plan) if streaming else Deduplicate(plan, attempt)
    kept = [] if attempt is None else [COUNTED_IDS]
    unique = identified | "Each id once" >> beam.ParDo(once).with_outputs(LETTERS, *kept, *settings)
    panes = {
        name: (typed(parsed[name], tuple[str, Tallies]), typed(unique[name], tuple[str, Tallies]))
        | f"Partials, {name}" >> beam.Flatten()
        | f"Combine, {name}" >> CombineWindows(setting, fanout, streaming)
        for name, setting in settings.items()
    }
    letters = (typed(parsed[LETTERS], DeadLetter), typed(unique[LETTERS], DeadLetter)) | "All letters" >> beam.Flatten()
    ids = None if attempt is None else typed(unique[COUNTED_IDS], tuple[int, int])
    return Counted(panes, letters, ids)


@dataclass
class Aggregated:
    answers: PCollection[Any]
    """Pairs of a Snapshot and its Histogram."""
    letters: PCollection[Any]


@dataclass
class AggregateReports(beam.PTransform[Any, Any]):
    """What a source has read in; snapshots with their histograms, and dead letters, out.

    In a stream ids are kept as state and windows have panes; in batch everything is there at once, and one pane is all.
    """

    parser: Parser
    generation: int = 0
    fanout: int = 0
    streaming: bool = False

    def expand(self, reads: PCollection[Any]) -> Aggregated:
        counted = count_reports(reads, self.parser, self.fanout, self.streaming)
        answers = [
            panes | f"Estimate, {name}" >> estimate_windows(self.parser.plan, self.generation)
            for name, panes in counted.panes.items()
        ]
        return Aggregated(answers | "All answers" >> beam.Flatten(), counted.letters)


@dataclass
class AggregateRun(beam.PTransform[Any, Any]):
    """The same for one of many batch runs into a folder: what it counts is committed there, and the snapshots are those
    of the sum of all runs."""

    parser: Parser
    attempt: Attempt
    format: str
    fanout: int = 0
    fail_if_refused: bool = False

    def expand(self, reads: PCollection[Any]) -> Aggregated:
        plan = self.parser.plan
        counted = count_reports(reads, self.parser, self.fanout, attempt=self.attempt)
        panes = counted.panes.values() | "All panes" >> beam.Flatten()
        answers = (
            (panes, counted.letters, counted.ids)
            | "Commit" >> CommitRun(self.attempt, self.format, int(plan.max_ages.max(initial=0)), self.fail_if_refused)
            | "Estimate" >> estimate_windows(plan, self.attempt.generation)
        )
        return Aggregated(answers, counted.letters)


def estimate_windows(plan: Plan, generation: int) -> Any:
    return beam.ParDo(EstimateWindows(plan, generation)).with_output_types(tuple[Snapshot, Histogram])


@dataclass
class CombineWindows(beam.PTransform[Any, Any]):
    """Partial tallies added up per key and window; in a stream, in every pane all of the window so far."""

    setting: Windows
    fanout: int
    streaming: bool

    def expand(self, partials: PCollection[Any]) -> PCollection[Any]:
        combine = beam.CombinePerKey(CombineTallies())
        if not self.streaming:
            # By key alone: where everything is there at once, no engine may call anything late.
            return (
                partials
                | "By window" >> beam.ParDo(ToWindows(self.setting)).with_output_types(tuple[str, Tallies])
                | "Add up" >> self._spread(combine).with_output_types(tuple[str, Tallies])
                | "Pane" >> beam.MapTuple(lambda key, all_: (key, (0, "on_time", all_))).with_output_types(PaneOfWindow)
            )
        windowed = partials | "Window" >> into_panes(self.setting)
        if self.setting.days is not None:
            windowed |= "Local days" >> beam.ParDo(ToLocalDays(self.setting)).with_output_types(tuple[str, Tallies])
        return (
            windowed
            | "Add up" >> combine.with_output_types(tuple[str, Tallies])
            | "By window" >> beam.ParDo(ByWindow()).with_output_types(PaneOfWindow)
            | "Global" >> beam.WindowInto(window.GlobalWindows())
            | "Whole" >> beam.ParDo(WholeTruth(allowed_lateness(self.setting))).with_output_types(PaneOfWindow)
        )

    def _spread(self, combine: Any) -> Any:
        return combine.with_hot_key_fanout(self.fanout) if self.fanout else combine


class ToWindows(beam.DoFn):
    """A partial tally of a slice of time to each window that the slice lies in; the window is part of the key."""

    def __init__(self, setting: Windows) -> None:
        self.setting = setting

    def process(self, element: tuple[str, Tallies], start: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        collection, group = json.loads(element[0])
        for begin, end in self.setting.holding(start.micros // 1000):
            yield json.dumps([collection, group, begin, end]), element[1]


def typed(elements: PCollection[Any], element_type: Any) -> PCollection[Any]:
    """Tells Beam what one of several outputs holds, so that it travels in its own coder instead of pickled."""
    elements.element_type = convert_to_beam_type(element_type)
    return elements
