"""From runs of blocks to snapshots: parse, tally, deduplicate, combine per window, estimate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection, TaggedOutput
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from hushgram import Windows
from schemas.records import DeadLetter, Key, Pane
from transforms.combine import CombineTallies
from transforms.deduplicate import first_of_each_id, pack, shards, unpack
from transforms.estimate import histogram, snapshots
from transforms.parse import Parser
from transforms.plan import Plan
from transforms.progress import SEEN
from transforms.sources.avro_files import Damage, Run
from transforms.tallies import Tallies
from transforms.tally import tally
from transforms.uploads import Uploads

LETTERS, IDENTIFIED = "letters", "identified"
ESTIMATE_AT_ONCE = 256


def branches(plan: Plan) -> dict[str, Windows]:
    """Collections with equal windows share a branch of the pipeline; each other setting is one of its own."""
    settings = dict.fromkeys(collection.windows for collection in plan.collections)
    return {f"windows {index}": setting for index, setting in enumerate(settings)}


def key_of(collection: str, group: str | None) -> str:
    return json.dumps([collection, group])


class _Emitting(beam.DoFn):
    """Shared by what tallies uploads: partials to the branch of their windows, counted as they go."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.branch_of = {setting: name for name, setting in branches(plan).items()}

    def _partials(self, uploads: Uploads) -> Iterator[Any]:
        Metrics.counter("reports", "accepted").inc(uploads.reports)
        for partial in tally(self.plan, uploads):
            collection = self.plan.collections[self.plan.places[partial.collection]]
            value = Tallies({partial.revision: (partial.reports, partial.counts)})
            when = Timestamp(micros=1000 * partial.slice_start)
            branch = self.branch_of[collection.windows]
            for group in dict.fromkeys((partial.group, None)):
                element = key_of(partial.collection, group), value
                yield TaggedOutput(branch, window.TimestampedValue(element, when))

    def _letter(self, letter: DeadLetter) -> Any:
        Metrics.counter("reports", f"refused:{letter.reason}").inc(letter.reports or 0)
        if letter.reports is None:
            Metrics.counter("reports", "refused:of unknown number").inc()
        return TaggedOutput(LETTERS, letter)


class ParseAndTally(_Emitting):
    """Reports without an id are tallied where they are read; those with one travel on, as columns, to their shard."""

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser.plan)
        self.parser = parser

    def process(self, element: Run | Damage) -> Iterator[Any]:
        for outcome in self.parser.parse(element):
            SEEN.add(outcome.reports or 0)
            if isinstance(outcome, DeadLetter):
                yield self._letter(outcome)
                continue
            if outcome.has_id.any():
                for shard, part in shards(outcome.take(outcome.has_id)):
                    yield TaggedOutput(IDENTIFIED, (shard, pack(part)))
                outcome = outcome.take(~outcome.has_id)
            yield from self._partials(outcome)


class Deduplicate(_Emitting):
    """All uploads of one shard of ids: each id counts once."""

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser.plan)
        self.parser = parser

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        unique, repeated = first_of_each_id([unpack(part) for part in element[1]])
        if repeated.reports or len(repeated):
            detail = f"{len(repeated)} uploads with an id that had come before"
            yield self._letter(
                DeadLetter("duplicate", repeated.reports, detail, "deduplication", None, self.parser.received)
            )
        yield from self._partials(unique)


class EstimateWindows(beam.DoFn):
    """Windows of one bundle are estimated together, those of one collection as one problem."""

    def __init__(self, plan: Plan, generation: int) -> None:
        self.collections = {collection.name: collection for collection in plan.collections}
        self.generation = generation

    def start_bundle(self) -> None:
        self.waiting: list[tuple[Key, Pane, Tallies, Any]] = []

    def process(self, element: tuple[str, Tallies], its_window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        collection, group = json.loads(element[0])
        start, end = (int(edge.micros // 1000) for edge in (its_window.start, its_window.end))
        self.waiting.append((Key(collection, group, start, end), Pane(self.generation), element[1], its_window))
        if len(self.waiting) >= ESTIMATE_AT_ONCE:
            yield from self._estimate()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        yield from self._estimate()

    def _estimate(self) -> Iterator[WindowedValue]:
        waiting, self.waiting = self.waiting, []
        by_collection: dict[str, list[tuple[Key, Pane, Tallies, Any]]] = {}
        for entry in waiting:
            by_collection.setdefault(entry[0].collection, []).append(entry)
        for name, entries in by_collection.items():
            answers = snapshots(self.collections[name], [entry[:3] for entry in entries])
            for (key, pane, tallies, its_window), snapshot in zip(entries, answers, strict=True):
                Metrics.counter("windows", "estimated").inc()
                answer = snapshot, histogram(key, pane, tallies)
                yield WindowedValue(answer, its_window.max_timestamp(), (its_window,))


@dataclass
class Aggregated:
    answers: PCollection[Any]
    """Pairs of a Snapshot and its Histogram."""
    letters: PCollection[Any]


@dataclass
class AggregateReports(beam.PTransform[Any, Any]):
    """Runs of blocks in; snapshots with their histograms, and dead letters, out."""

    parser: Parser
    generation: int = 0
    fanout: int = 0

    def expand(self, runs: PCollection[Any]) -> Aggregated:
        settings = branches(self.parser.plan)
        parsed = runs | "Parse and tally" >> beam.ParDo(ParseAndTally(self.parser)).with_outputs(
            LETTERS, IDENTIFIED, *settings
        )
        unique = (
            parsed[IDENTIFIED]
            | "By shard of ids" >> beam.GroupByKey()
            | "Each id once" >> beam.ParDo(Deduplicate(self.parser)).with_outputs(LETTERS, *settings)
        )
        combine = beam.CombinePerKey(CombineTallies())
        if self.fanout:
            combine = combine.with_hot_key_fanout(self.fanout)
        answers = [
            (parsed[name], unique[name])
            | f"Partials, {name}" >> beam.Flatten()
            | f"Window, {name}" >> beam.WindowInto(_window_fn(setting))
            | f"Combine, {name}" >> combine
            | f"Estimate, {name}" >> beam.ParDo(EstimateWindows(self.parser.plan, self.generation))
            | f"Global, {name}" >> beam.WindowInto(window.GlobalWindows())
            for name, setting in settings.items()
        ]
        return Aggregated(
            answers | "All answers" >> beam.Flatten(),
            (parsed[LETTERS], unique[LETTERS]) | "All letters" >> beam.Flatten(),
        )


def _window_fn(setting: Windows) -> window.WindowFn:
    if setting.every == setting.size:
        return window.FixedWindows(setting.size / 1000)
    return window.SlidingWindows(setting.size / 1000, setting.every / 1000)
