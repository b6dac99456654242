"""Reports that are packed with their ids count as if each had come alone: once, however often and however packed."""

import random
from collections import Counter
from dataclasses import fields

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

import hushgram.beam as hg
from hushgram import Collection, Windows
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.columns import from_records
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import REASONS, DeadLetter
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.counting import TallyBuffer, tally
from hushgram.transforms.deduplication import first_of_each_id
from hushgram.transforms.judging import accept
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sources.message_batch import MessageBatch
from hushgram.transforms.uploads import Uploads, pieces, unpack
from tests.helpers.reports import (
    HOUR,
    START,
    compute_tallies,
    cut_times,
    make_batch_rows,
    make_batches_with_ids,
    make_report_rows,
)

NOW = START + 4 * HOUR
WINDOWS = Windows(max_age=6 * HOUR, max_delay=0, early=None)
COMMUTE = Collection(
    name="commute", low=0, high=180, buckets=16, epsilon=1, groups=("DE", "FR"), previous=[{"epsilon": 2}],
    windows=WINDOWS,
)  # fmt: skip
SLIDING = Windows(size=2 * HOUR, every=HOUR // 2, max_age=6 * HOUR, max_delay=0, early=None)
SEEDED = Collection(name="seeded", low=0, high=1, buckets=8, epsilon=1, mechanism="seeded_hashing", windows=SLIDING)
INDEX = CollectionIndex.of([COMMUTE, SEEDED])


PREVIOUS = list(COMMUTE.revisions)[1]
REPORTS = {
    "commute": make_report_rows(COMMUTE, 30, 1, ids=True)
    + make_report_rows(COMMUTE, 9, 2, ids=True, revision=PREVIOUS),
    "seeded": make_report_rows(SEEDED, 20, 3, ids=True),
}
REPORTS = {name: cut_times(INDEX.collections[INDEX.places[name]], rows) for name, rows in REPORTS.items()}
ALL = [row for rows in REPORTS.values() for row in rows]


def pack(rows, size):
    """Reports of any collection, packed with their ids."""
    return [
        batch
        for collection in INDEX.collections
        for batch in make_batches_with_ids(collection, [r for r in rows if r["collection"] == collection.name], size)
    ]


def unpack_rows(batches):
    """The reports of batches, one by one."""
    for batch in batches:
        width = len(batch["cells"]) * 16 // len(batch["ids"])
        for place, cell in enumerate(np.frombuffer(batch["cells"], f"<u{width}").tolist()):
            same = {name: value for name, value in batch.items() if name not in ("cells", "ids")}
            yield {**same, "cell": cell, "id": batch["ids"][16 * place : 16 * place + 16]}


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(ALL) - 1), max_size=30), st.integers(1, 9))
def test_a_batch_with_ids_is_accepted_as_its_reports_one_by_one(chosen, size):
    rows = [ALL[place] for place in chosen]
    batches = pack(rows, size)
    packed, refused = accept(INDEX, from_records(REPORT_BATCH, batches), NOW)
    single, _ = accept(INDEX, from_records(REPORT, list(unpack_rows(batches))), NOW)
    assert refused == []
    assert (len(packed), packed.reports) == (len(rows), len(rows))
    for field in fields(Uploads):
        assert np.array_equal(getattr(packed, field.name), getattr(single, field.name)), field.name


def test_batches_of_every_kind_stay_apart():
    rows = REPORTS["commute"]
    [with_id, without] = make_batch_rows(COMMUTE, rows[:6], 3)
    [with_ids] = make_batches_with_ids(COMMUTE, [{**row, "group": "DE", "event_time": START} for row in rows[6:9]])
    [empty] = [{**with_ids, "cells": b"", "ids": b""}]
    batches = [with_id, with_ids, empty, {**without, "id": None}, {**with_ids, "cells": b"\x05", "ids": b"i" * 16}]
    uploads, refused = accept(INDEX, from_records(REPORT_BATCH, batches), NOW)
    assert refused == []
    assert uploads.sizes.tolist() == [3, 1, 1, 1, 3, 1]
    assert uploads.has_id.tolist() == [True, True, True, True, False, True]
    ids = [b"".join(int(half).to_bytes(8, "big") for half in pair) for pair in uploads.id.tolist()]
    assert ids[:4] == [with_id["id"], *(row["id"] for row in rows[6:9])]
    assert ids[5] == b"i" * 16
    assert uploads.cells.tolist() == [row["cell"] for row in [*rows[:3], *rows[6:9], *rows[3:6]]] + [5]


def to_messages(rows):
    return [encode_message(REPORT_BATCH if "cells" in row else REPORT, row) for row in rows]


def to_comparable(partials):
    return {
        slice_: ({revision: (n, counts.tolist()) for revision, (n, counts) in tallies.parts.items()}, tallies.events)
        for slice_, tallies in partials
    }


def count_in_polls(polls):
    """By slice the tallies of messages, each id counted once, shard by shard; and the number of duplicates."""
    by_shard = {}
    for messages in polls:
        for outcome in Parser(INDEX, NOW).parse(MessageBatch("topic", None, None, tuple(messages))):
            assert isinstance(outcome, Uploads), outcome
            for shard, piece in pieces([outcome], NOW, count=5):
                by_shard.setdefault(shard, []).append(unpack(piece)[0])
    buffer, repeated = TallyBuffer(), 0
    for parts in by_shard.values():
        for part, is_first in zip(parts, first_of_each_id([part.id for part in parts]), strict=True):
            repeated += part.take(~is_first).reports
            for slice_, tallies in tally(INDEX, part.take(is_first)):
                buffer.add(slice_, tallies)
    return to_comparable(buffer.take()), repeated


def count_once():
    uploads, _ = accept(INDEX, from_records(REPORT, ALL), NOW)
    buffer = TallyBuffer()
    for slice_, tallies in tally(INDEX, uploads):
        buffer.add(slice_, tallies)
    return to_comparable(buffer.take())


def make_deliveries(rng):
    """All reports, each at least once: alone, packed, packed in another way, repeated, in any order."""
    alone = rng.sample(ALL, rng.randint(0, len(ALL)))
    rest = [row for row in ALL if row not in alone]
    batches = pack(rng.sample(rest, len(rest)) + rng.sample(alone, len(alone) // 2), rng.randint(1, 12))
    batches += pack(rng.sample(ALL, rng.randint(0, len(ALL))), rng.randint(1, 12))
    deliveries = alone + batches
    deliveries += rng.choices(deliveries, k=rng.randint(0, 10))
    rng.shuffle(deliveries)
    return deliveries


def count_reports(deliveries):
    return sum(len(row["ids"]) // 16 if "ids" in row else 1 for row in deliveries)


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_reports_count_once_however_they_are_packed_repeated_and_shuffled(rng):
    deliveries = make_deliveries(rng)
    messages = to_messages(deliveries)
    cuts = sorted(rng.sample(range(len(messages) + 1), min(3, len(messages))))
    polls = [messages[start:end] for start, end in zip([0, *cuts], [*cuts, len(messages)], strict=True)]
    tallies, repeated = count_in_polls(polls)
    assert tallies == count_once()
    assert repeated == count_reports(deliveries) - len(ALL)


def test_of_a_batch_with_some_repeated_ids_only_the_new_ones_count():
    rows = [{**row, "group": "DE", "event_time": START} for row in REPORTS["commute"][:8]]
    [first], [second] = (make_batches_with_ids(COMMUTE, part, 9) for part in (rows[:5], rows[3:] + rows[3:4]))
    tallies, repeated = count_in_polls([to_messages([first]), to_messages([second])])
    assert repeated == 3
    [(reports, counts)] = [part for (_, group, _), (parts, _) in tallies.items() if group for part in parts.values()]
    assert reports == 8
    assert counts == COMMUTE.tally([row["cell"] for row in rows]).tolist()


class Results:
    """The outputs, collected by a runner in this process."""

    histograms: list = []  # noqa: RUF012
    dead_letters: list = []  # noqa: RUF012


def run_pipeline(source, *options):
    Results.histograms, Results.dead_letters = [], []
    with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(list(options))) as pipeline:
        results = pipeline | source | hg.AggregateReports(INDEX.collections, as_of=NOW)
        results.histograms | "Keep histograms" >> beam.Map(lambda item: Results.histograms.append(item))
        results.dead_letters | "Keep dead letters" >> beam.Map(lambda item: Results.dead_letters.append(item))
    best = {}
    for item in sorted(Results.histograms, key=lambda item: item.rank):
        for revision, (_, counts) in item.tallies.items():
            best[item.key.collection, item.key.group, item.key.window_start, revision] = counts.tolist()
    refused = Counter()
    for letter in Results.dead_letters:
        refused[letter.reason] += letter.reports
    return best, refused


@pytest.mark.parametrize("seed", range(2))
def test_a_pipeline_counts_each_report_once(seed):
    """In batch all at once; in a stream by state, with messages that come one after the other."""
    deliveries = make_deliveries(random.Random(seed))
    messages, expected = to_messages(deliveries), compute_tallies(INDEX.collections, ALL)
    refused = {"duplicate": count_reports(deliveries) - len(ALL)}
    assert run_pipeline(beam.Create([*messages[::2], *deliveries[1::2]])) == (expected, refused)  # records, too
    stream = Stream().advance_watermark_to(Timestamp(seconds=START // 1000))
    for start in range(0, len(messages), 5):
        stream.add_elements(
            [TimestampedValue(message, Timestamp(seconds=NOW // 1000)) for message in messages[start : start + 5]]
        )
    assert run_pipeline(stream.advance_watermark_to_infinity(), "--streaming") == (expected, refused)


def parse(messages):
    """How many reports were accepted, and how many refused, by reason; None where that cannot be known."""
    outcomes = list(Parser(INDEX, NOW).parse(MessageBatch("topic", None, None, tuple(messages))))
    letters = [outcome for outcome in outcomes if isinstance(outcome, DeadLetter)]
    accepted = sum(outcome.reports for outcome in outcomes if isinstance(outcome, Uploads))
    return accepted, {letter.reason: letter.reports for letter in letters}, letters


ROWS = [{**row, "group": "FR", "event_time": START} for row in REPORTS["commute"][:5]]
[BATCH] = make_batches_with_ids(COMMUTE, ROWS)


@pytest.mark.parametrize("ids", [b"", b"i", BATCH["ids"][:-1], BATCH["ids"][:-16], BATCH["ids"] + b"i" * 16])
def test_a_batch_whose_ids_are_not_as_many_as_its_cells_is_refused(ids):
    accepted, refused, [letter] = parse(to_messages([{**BATCH, "ids": ids}, BATCH]))
    assert (accepted, refused) == (5, {"ragged_ids": 5})
    assert letter.detail == "a batch of 'commute' whose ids are not 16 bytes for each cell"
    assert letter.reason in REASONS


def test_a_batch_with_an_id_and_ids_is_refused():
    """Which of them says that it has come before, could not be known."""
    conflicting = {**BATCH, "id": b"i" * 16}
    accepted, refused, [letter] = parse(to_messages([BATCH, conflicting, {**conflicting, "ids": b""}]))
    assert (accepted, refused) == (5, {"conflicting_ids": 10})
    assert letter.detail == "a batch of 'commute' with both id and ids, allowed: one of them, and 1 more"
    assert letter.reason in REASONS


def test_a_batch_with_ids_has_one_fate():
    """A server has looked at the reports that it packed: one that no device could send is damage of the whole."""
    cells = BATCH["cells"][:-1] + b"\xff"
    messages = to_messages([BATCH, {**BATCH, "cells": cells}, {**BATCH, "group": "XX"}, {**BATCH, "cells": b""}])
    assert parse(messages)[:2] == (5, {"cell_out_of_range": 5, "unknown_group": 5, "ragged_ids": 0})


def test_damaged_messages_are_refused_or_still_batches():
    [message] = to_messages([BATCH])
    accepted = refused = 0
    for position in range(len(message)):
        for damaged in (message[:position], *(flip(message, position, bit) for bit in (0, 1, 6))):
            counted, letters, _ = parse([damaged])
            assert counted in (0, 5)
            assert (counted == 5) == (letters == {})
            accepted, refused = accepted + (counted == 5), refused + (counted == 0)
    assert accepted > 200
    assert refused > 200


def flip(message, position, bit):
    return message[:position] + bytes([message[position] ^ 1 << bit]) + message[position + 1 :]
