"""Uploads counted within a bundle, and sent on as a few partial tallies: the part that batch and stream share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from hushgram import Windows
from schemas.records import DeadLetter
from transforms.deduplicate import pieces
from transforms.parse import Parser, Read
from transforms.plan import Plan
from transforms.progress import SEEN
from transforms.sources.poll import LETTER_MINUTE
from transforms.tally import Held, tally
from transforms.uploads import Uploads

LETTERS, IDENTIFIED = "letters", "identified"
MOST_COUNTS = 1 << 22
"""Partial tallies of so many counts are sent on before their bundle ends: 32 MB."""
MOST_CELLS = 1 << 18
"""Reports with an id are sent on when there are so many, or when their bundle ends."""


def branches(plan: Plan) -> dict[str, Windows]:
    """Collections with equal windows share a branch of the pipeline; each other setting is one of its own.

    A branch is named by its setting, whatever else there is: state is found again, after an upgrade, by such names.
    """
    return {str(collection.windows): collection.windows for collection in plan.collections}


def key_of(collection: str, group: str | None) -> str:
    return json.dumps([collection, group])


class Emitting(beam.DoFn):
    """Counts uploads, and sends their tallies to the branch of their windows when the bundle ends, or memory asks."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.branch_of = {collection.name: str(collection.windows) for collection in plan.collections}

    def start_bundle(self) -> None:
        self.held = Held()

    def finish_bundle(self) -> Iterator[Any]:
        for branch, element, when in self._take():
            yield TaggedOutput(branch, WindowedValue(element, when, (GlobalWindow(),)))

    def count(self, uploads: Uploads) -> Iterator[Any]:
        Metrics.counter("reports", "accepted").inc(uploads.reports)
        for partial in tally(self.plan, uploads):
            self.held.add(partial)
        if self.held.counts > MOST_COUNTS:
            for branch, element, when in self._take():
                yield TaggedOutput(branch, TimestampedValue(element, when))

    def refuse(self, letter: DeadLetter) -> Any:
        Metrics.counter("reports", f"refused:{letter.reason}").inc(letter.reports or 0)
        if letter.reports is None:
            Metrics.counter("reports", "refused:of unknown number").inc()
        return TaggedOutput(LETTERS, TimestampedValue(letter, Timestamp(micros=1000 * letter.received_at)))

    def _take(self) -> Iterator[tuple[str, Any, Timestamp]]:
        for collection, group, start, tallies in self.held.take():
            element = key_of(collection, group), tallies
            yield self.branch_of[collection], element, Timestamp(micros=1000 * start)


class ParseAndTally(Emitting):
    """Reports without an id are tallied where they are read; those with one travel on, as columns, to their shard.

    Those of a bundle travel together: what a shard is asked has a price each time, whatever the number of ids. But only
    those of one minute of receipt do, so that a duplicate's letter is of that minute however polls were cut.
    """

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser.plan)
        self.parser = parser

    def start_bundle(self) -> None:
        super().start_bundle()
        self.identified: dict[int, list[tuple[Uploads, int]]] = {}
        self.cells = 0

    def process(self, element: Read) -> Iterator[Any]:
        received = self.parser.received(element)
        for outcome in self.parser.parse(element):
            SEEN.add(outcome.reports or 0)
            Metrics.counter("reports", "read").inc(outcome.reports or 0)
            if isinstance(outcome, DeadLetter):
                yield self.refuse(outcome)
                continue
            if outcome.has_id.any():
                mine = outcome.take(outcome.has_id)
                self.identified.setdefault(received // LETTER_MINUTE, []).append((mine, received))
                self.cells += mine.reports
                outcome = outcome.take(~outcome.has_id)
            yield from self.count(outcome)
        if self.cells > MOST_CELLS:
            for piece, when in self._take_identified():
                yield TaggedOutput(IDENTIFIED, TimestampedValue(piece, when))

    def finish_bundle(self) -> Iterator[Any]:
        yield from super().finish_bundle()
        for piece, when in self._take_identified():
            yield TaggedOutput(IDENTIFIED, WindowedValue(piece, when, (GlobalWindow(),)))

    def _take_identified(self) -> Iterator[tuple[tuple[int, bytes], Timestamp]]:
        identified, self.identified, self.cells = self.identified, {}, 0
        for held in identified.values():
            received = [when for _, when in held]
            for piece in pieces(Uploads.together([uploads for uploads, _ in held]), max(received)):
                yield piece, Timestamp(micros=1000 * min(received))
