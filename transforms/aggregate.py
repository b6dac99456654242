"""From reports to snapshots: parse and tally, deduplicate, combine by window, estimate."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

import hushgram.transforms.coders  # noqa: F401 - registers the coders of keys and results
from hushgram.schemas.records import DeadLetter, Histogram, Series, Snapshot
from hushgram.transforms.arguments import Collections, check_collections, check_milliseconds, check_reports, check_whole
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.commit import CommitRun
from hushgram.transforms.counting import (
    DEAD_LETTERS,
    DEAD_MESSAGES,
    IDENTIFIED,
    ParseAndTally,
    TallyUploads,
    branches,
    in_branch,
)
from hushgram.transforms.deduplication import COUNTED_IDS, DeduplicateBatch, DeduplicateStream
from hushgram.transforms.estimation import EstimateWindows
from hushgram.transforms.parsing import Parser
from hushgram.transforms.runs import Attempt
from hushgram.transforms.schema_registry import SchemaRegistry
from hushgram.transforms.sources.message_batch import BatchMessages, Read
from hushgram.transforms.spilling import Place, SpillPieces
from hushgram.transforms.tallies import Tallies
from hushgram.transforms.windowing import CombineWindows, PaneOfWindow

Reports = Read | bytes | dict[str, Any]
"""What `AggregateReports` takes: what our own sources read; messages; or records as dicts."""


class AggregatedReports(NamedTuple):
    """The results of `AggregateReports`. Each snapshot has the histogram that it was estimated from.

    >>> AggregatedReports._fields
    ('snapshots', 'histograms', 'dead_letters')
    """

    snapshots: PCollection[Snapshot]
    histograms: PCollection[Histogram]
    dead_letters: PCollection[DeadLetter]


class CountedReports(NamedTuple):
    """The panes of each setting of windows, the dead letters, in a batch run the upload ids that were counted, and the
    messages that were refused, where the parser keeps them."""

    panes: dict[str, PCollection[PaneOfWindow]]
    dead_letters: PCollection[DeadLetter]
    ids: PCollection[tuple[int, int]] | None
    dead_messages: PCollection[Any] | None


@dataclass
class AggregateReports(beam.PTransform[PCollection[Reports], AggregatedReports]):
    """Reports in; snapshots, histograms and dead letters out.

    The input is what `ReadReports` or another source of hushgram reads, or any PCollection of messages (bytes: Avro's
    single-object encoding of a Report or a ReportBatch) or of records (dicts with the fields of either). What cannot be
    counted becomes a dead letter with a reason; nothing raises on data.

    If the input is bounded, all of it is aggregated at once: every window has one pane. If it is unbounded, windows
    have early, on-time and late panes, each of which holds all of the window so far; the timestamp of a message is the
    time at which it counts as received.

    Windows are those of the collections, by event time; windows of the input have no effect. Sliding ones are refused,
    since a report counts once for each window that it lies in; that goes for a WindowFn of your own, too.

    Args:
        collections: The collections that reports may belong to, one or several, or the path of a YAML file that defines
            them.
        as_of: The time, in milliseconds since 1970, at which bounded input counts as received; later event times are
            from the future. None is the time at which the pipeline is constructed.
        generation: A correction that counts fewer reports than an earlier result takes a higher one.
        fanout: Hot keys are first combined on this many workers; 0 leaves it to the runner. It has no effect on
            unbounded input.
        schema_registry: Where schemas are looked up that messages name by id, in front or in a header; messages in the
            single-object encoding are read beside them. A registry that is away is waited for.
        refused_messages: Takes the messages that were refused, as they are: such as `PublishDeadLetters`. The source
            must keep keys and headers (`whole`), if they are to be there. Dead letters come out as without it.

    >>> import apache_beam as beam, hushgram
    >>> from apache_beam.testing.util import assert_that, equal_to
    >>> collection = hushgram.Collection(name="commute", low=0, high=180, epsilon=1.0)
    >>> record = {"collection": "commute", "revision": collection.revision, "cell": 3, "event_time": 1_767_225_600_000}
    >>> with beam.Pipeline("FnApiRunner") as pipeline:
    ...     reports = pipeline | beam.Create([record, {"collection": "commute"}])
    ...     snapshots, histograms, dead_letters = reports | AggregateReports([collection])
    ...     counts = snapshots | beam.Map(lambda snapshot: snapshot.reports)
    ...     reasons = dead_letters | "Reasons" >> beam.Map(lambda letter: letter.reason)
    ...     _ = assert_that(counts, equal_to([1])), assert_that(reasons, equal_to(["undecodable"]), label="no revision")
    """

    collections: Collections
    as_of: int | None = None
    generation: int = 0
    fanout: int = 0
    schema_registry: SchemaRegistry | None = None
    refused_messages: beam.PTransform[PCollection[Any], Any] | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self.index = CollectionIndex.of(check_collections(self.collections))
        self.as_of = None if self.as_of is None else check_milliseconds("as_of", self.as_of)
        self.generation = check_whole("generation", self.generation)
        self.fanout = check_whole("fanout", self.fanout)

    def expand(self, reports: PCollection[Reports]) -> AggregatedReports:
        check_reports(reports)
        as_of = time.time_ns() // 1_000_000 if self.as_of is None else self.as_of
        parser = Parser(self.index, as_of, self.schema_registry, whole=self.refused_messages is not None)
        counted = count_reports(reports, parser, self.fanout)
        if counted.dead_messages is not None and self.refused_messages is not None:
            counted.dead_messages | "Refused messages" >> self.refused_messages
        results = [
            panes | f"Estimate, {name}" >> EstimateWindows(in_branch(self.index, name), self.generation)
            for name, panes in counted.panes.items()
        ]
        return _aggregated(results | "All results" >> beam.Flatten(), counted.dead_letters)


@dataclass
class AggregateRun(beam.PTransform[PCollection[Reports], AggregatedReports]):
    """The same for one of many batch runs into a folder: what it counts is committed there, and the snapshots are those
    of the sum of all runs. Where all workers are on one machine, uploads that carry an id wait for each other in a
    folder of it, if one is given."""

    parser: Parser
    attempt: Attempt
    format: str
    fanout: int = 0
    fail_if_refused: bool = False
    spill_folder: str | None = None

    def expand(self, reports: PCollection[Reports]) -> AggregatedReports:
        index = self.parser.index
        counted = count_reports(reports, self.parser, self.fanout, self.attempt, self.spill_folder)
        panes = tuple(counted.panes.values()) | "All panes" >> beam.Flatten()
        max_age_ms = int(index.max_ages.max(initial=0))
        results = (
            (panes, counted.dead_letters, counted.ids)
            | "Commit" >> CommitRun(self.attempt, self.format, max_age_ms, self.fail_if_refused)
            | "Estimate" >> EstimateWindows(index, self.attempt.generation)
        )
        return _aggregated(results, counted.dead_letters)


def count_reports(
    reports: PCollection[Reports],
    parser: Parser,
    fanout: int = 0,
    attempt: Attempt | None = None,
    spill_folder: str | None = None,
) -> CountedReports:
    """Reports counted by window; `attempt` is that of a batch run, one of many into a folder."""
    streaming = not reports.is_bounded
    windows = branches(parser.index)
    outputs = [DEAD_LETTERS, IDENTIFIED, *([DEAD_MESSAGES] if parser.whole else [])]
    parsed = (
        reports  # PCollection[Read | bytes | dict]
        | "Batch messages" >> BatchMessages()  # PCollection[Read]
        | "Parse and tally" >> beam.ParDo(ParseAndTally(parser)).with_outputs(*outputs, *windows)
    )
    identified = typed(parsed[IDENTIFIED], tuple[int, bytes])  # (shard, uploads)
    if spill_folder is not None:
        identified |= "Spill" >> beam.ParDo(SpillPieces(spill_folder)).with_output_types(tuple[int, Place])
    if not streaming:
        identified |= "By shard of ids" >> beam.GroupByKey()
    deduplicate: TallyUploads = (
        DeduplicateStream(parser.index) if streaming else DeduplicateBatch(parser.index, attempt, spill_folder)
    )
    run_outputs = [] if attempt is None else [COUNTED_IDS]
    unique = identified | "Each id once" >> beam.ParDo(deduplicate).with_outputs(DEAD_LETTERS, *run_outputs, *windows)
    panes = {
        name: (typed(parsed[name], tuple[Series, Tallies]), typed(unique[name], tuple[Series, Tallies]))
        | f"Partials, {name}" >> beam.Flatten()
        | f"Combine, {name}" >> CombineWindows(setting, fanout)  # PCollection[PaneOfWindow]
        for name, setting in windows.items()
    }
    dead_letters = (
        typed(parsed[DEAD_LETTERS], DeadLetter),
        typed(unique[DEAD_LETTERS], DeadLetter),
    ) | "All dead letters" >> beam.Flatten()
    ids = None if attempt is None else typed(unique[COUNTED_IDS], tuple[int, int])
    dead_messages = typed(parsed[DEAD_MESSAGES], Any) if parser.whole else None
    return CountedReports(panes, dead_letters, ids, dead_messages)


def typed(elements: PCollection[Any], element_type: Any) -> PCollection[Any]:
    """Declares the type of one of several outputs, so that elements travel in their own coder and are never pickled.

    Beam's own hints for tagged outputs need a newer version than the earliest that hushgram runs on.
    """
    elements.element_type = convert_to_beam_type(element_type)
    return elements


def _aggregated(
    results: PCollection[tuple[Snapshot, Histogram]], dead_letters: PCollection[DeadLetter]
) -> AggregatedReports:
    return AggregatedReports(
        results | "Snapshots" >> beam.Keys(), results | "Histograms" >> beam.Values(), dead_letters
    )
