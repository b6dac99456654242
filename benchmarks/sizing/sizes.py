"""How many bytes a load takes at each place, as the product's own encoders make them. The same for everyone: seeded."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from apache_beam.coders import coders, typecoders
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from scipy.special import betainc

from benchmarks.sizing.load import Load
from hushgram import Collection
from hushgram._arrays import IntArray, UIntArray
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.columns import Labels
from hushgram.schemas.container import write_long
from hushgram.schemas.messages import FIRST_BATCH, encode_message
from hushgram.schemas.records import Events, Key, Series
from hushgram.schemas.writer import encode_report_messages
from hushgram.transforms.collection_index import cell_width
from hushgram.transforms.deduplication import grain_ms
from hushgram.transforms.seen_ids import SeenIds
from hushgram.transforms.tallies import Tallies, encode
from hushgram.transforms.uploads import Uploads, pieces
from hushgram.transforms.windowing import PaneOfWindow, window_fn, windows_holding

START = 1_767_225_600_000
"""2026-01-01T00:00Z: when simulated uploads happen, where no clock is asked."""
SEED = 1
SAMPLE = 4096
DRAWS = 16
CELLS = 1 << 22
"""Cells that are drawn to see the size of one thing, at most."""
IDS_IN_MEMORY = 1 << 17
PRODUCED_TOGETHER = 100
"""Records that a producer sends as one batch; it has a header of its own."""
BATCH_HEADER = 61
"""Bytes in front of a batch of records (Kafka's protocol guide, record batch)."""


@dataclass(frozen=True)
class Sizes:
    """Bytes, on average where they vary."""

    message: float
    record: float
    """As Kafka keeps it."""
    partial: float
    """As it is shuffled: with its key, its time and its windows."""
    piece: float
    pane: float
    state_of_all: int
    """The tally of a window of all groups together, as it is kept."""
    state_of_group: int
    state_at_most: int
    """The tally of any number of reports."""
    id_kept: float
    """In the engine's state."""
    id_in_memory: float
    """In a worker, which holds what it keeps."""


def sizes(load: Load) -> Sizes:
    """Of everything that a load makes, and in a stream travels or is kept."""
    message = message_bytes(load)
    return Sizes(
        message=message,
        record=record_bytes(round(message)),
        partial=partial_bytes(load),
        piece=piece_bytes(load) if load.ids else 0.0,
        pane=pane_bytes(load),
        state_of_all=tally_bytes(load.collection, round(load.window_reports(of_group=False))),
        state_of_group=tally_bytes(load.collection, round(load.window_reports(of_group=True))) if load.groups else 0,
        state_at_most=most_tally_bytes(load.collection),
        id_kept=id_bytes(load) if load.ids else 0.0,
        id_in_memory=id_memory() if load.ids else 0.0,
    )


# What is drawn -------------------------------------------------------------------------------------------------------


@cache
def _law(collection: Collection) -> Any:
    """The probability of each cell, for values that are Beta(5, 2) on the domain."""
    x = np.diff(betainc(5, 2, np.linspace(0, 1, collection.buckets + 1)))
    law = collection.mechanism.forward(x)
    return law / law.sum()


def cells_of(collection: Collection, count: int, rng: np.random.Generator) -> IntArray:
    values = collection.domain.from_unit(rng.beta(5, 2, count))
    return collection.simulate(values, rng).astype(np.int64)


def tally_of(collection: Collection, reports: int, rng: np.random.Generator) -> Tallies:
    """A random tally of `reports` reports; for mechanisms that do not count cells, that of a sample, scaled up."""
    if collection.mechanism.tally_length == collection.mechanism.cells:
        counts = rng.multinomial(reports, _law(collection)).astype(np.int64)
    else:
        sample = min(reports, SAMPLE)
        counts = collection.tally(cells_of(collection, sample, rng)) * reports // max(sample, 1)
    return Tallies({collection.revision: (reports, counts)}, Events(START, START, reports))


def messages_of(load: Load, count: int, rng: np.random.Generator, now: int = START, within: int = 1000) -> list[bytes]:
    """Messages of events of the last milliseconds up to `now`, each of a group drawn at random."""
    collection = load.collection
    names = collection.groups or (None,)
    groups, times = rng.integers(0, len(names), count), now - rng.integers(0, within, count)
    cells = cells_of(collection, count * load.batch, rng)
    if load.batch == 1:
        ids = np.frombuffer(rng.bytes(16 * count), dtype=np.uint8).reshape(-1, 16) if load.ids else None
        return encode_report_messages(
            collection.name, collection.revision, cells, times, Labels(tuple(names), groups), ids
        )
    constants = {"collection": collection.name, "revision": bytes.fromhex(collection.revision)}
    width = cell_width(collection.mechanism.cells)
    packed = cells.reshape(count, load.batch).astype(f"<u{width}")
    return [
        encode_message(
            REPORT_BATCH,
            {
                **constants,
                "cells": packed[row].tobytes(),
                "event_time": int(times[row]),
                "group": names[groups[row]],
                "id": rng.bytes(16) if load.ids else None,
            },
            FIRST_BATCH,  # as devices write it
        )
        for row in range(count)
    ]


def uploads_of(load: Load, count: int, rng: np.random.Generator, now: int = START) -> Uploads:
    """The same as columns, past the parser."""
    zeros = np.zeros(count, dtype=np.int64)
    return Uploads(
        collection=zeros,
        revision=zeros,
        group=rng.integers(0, load.groups, count) if load.groups else zeros - 1,
        event_time=now - rng.integers(0, 1000, count),
        has_id=np.full(count, load.ids),
        id=_ids(count, rng),
        sizes=np.full(count, load.batch, dtype=np.int64),
        cells=cells_of(load.collection, count * load.batch, rng),
    )


def _ids(count: int, rng: np.random.Generator) -> UIntArray:
    return np.frombuffer(rng.bytes(16 * count), dtype=np.uint64).reshape(-1, 2)


# Bytes ---------------------------------------------------------------------------------------------------------------


def message_bytes(load: Load) -> float:
    """Of an Avro message, on average: a cell takes as many bytes as its number is large."""
    count = max(1, SAMPLE // load.batch)
    return sum(map(len, messages_of(load, count, np.random.default_rng(SEED)))) / count


def record_bytes(value: int, together: int = PRODUCED_TOGETHER) -> float:
    """Of a message as a record without key and headers, with its share of the batch's header.

    >>> record_bytes(39), record_bytes(2039)
    (46.97, 2048.97)
    """
    total = BATCH_HEADER
    for offset in range(together):  # stamped within 64 ms: a difference of one byte
        body = 1 + 1 + len(write_long(offset)) + 1 + len(write_long(value)) + value + 1
        total += len(write_long(body)) + body
    return total / together


def tally_bytes(collection: Collection, reports: int) -> int:
    """Of a tally of `reports` reports, as checkpoints and accumulators hold it."""
    return len(encode(tally_of(collection, reports, np.random.default_rng(SEED))))


def most_tally_bytes(collection: Collection) -> int:
    """Of a tally of any number of reports: every cell has a count of the largest width."""
    counts = np.full(collection.mechanism.tally_length, np.iinfo(np.int64).max)
    return len(encode(Tallies({collection.revision: (0, counts)}, Events(START, START, 0))))


def partial_bytes(load: Load) -> float:
    """Of a partial tally on its way to its key, averaged over those that are made."""
    kinds = [(late, of_group) for late in (False, True) for of_group in (False, True)]
    weights = [load.partials(*kind) for kind in kinds]
    weighted_kinds = [(weight, kind) for weight, kind in zip(weights, kinds, strict=True) if weight]
    return sum(weight * _partial_bytes(load, *kind) for weight, kind in weighted_kinds) / sum(weights)


def _partial_bytes(load: Load, late: bool, of_group: bool) -> float:
    """The mean over some bundles that have uploads of the key."""
    rng, collection = np.random.default_rng(SEED), load.collection
    key = Series(collection.name, collection.groups[0] if of_group else None)
    windows = windows_holding(load.windows, START)
    timestamp = windows[0].start
    counts = _at_least_one(load.uploads_in_partial(late, of_group), DRAWS, rng)
    tallies = (tally_of(collection, load.batch * count, rng) for count in counts)
    coder = coder_of(tuple[Series, Tallies], window_fn(load.windows).get_window_coder())
    return float(np.mean([len(coder.encode(WindowedValue((key, tally), timestamp, windows))) for tally in tallies]))


def piece_bytes(load: Load) -> float:
    """Of a block of uploads on its way to its shard of ids."""
    rng, lengths = np.random.default_rng(SEED), list[int]()
    coder = coder_of(tuple[int, bytes], GlobalWindows().get_window_coder())
    # Of what is sent at once: its pieces share the numbers that their columns begin with.
    mean = load.sent_together / -np.expm1(-load.sent_together)
    for count in _at_least_one(mean, min(DRAWS, max(1, int(CELLS / mean / load.batch))), rng):
        blocks = pieces([uploads_of(load, count, rng)], START)
        lengths += [
            len(coder.encode(WindowedValue(block, Timestamp(START // 1000), (GlobalWindow(),)))) for block in blocks
        ]
    return float(np.mean(lengths))


def pane_bytes(load: Load) -> float:
    """Of what is new in a pane on its way to the whole, averaged over early and late panes of all keys."""
    total = weight = 0.0
    coder = coder_of(PaneOfWindow, GlobalWindows().get_window_coder())
    for of_group in [False, True] if load.groups else [False]:
        reports = load.batch * load.uploads_a_second(of_group) * load.windows.size / 1000
        keys = load.groups if of_group else 1
        on_time = load.panes(of_group, growth=0.0) - load.late_panes(of_group, growth=0.0)
        for panes, share, timing in (
            (on_time, 1 - load.late, "early"),
            (load.late_panes(of_group, growth=0.0), load.late, "late"),
        ):
            if panes:
                new = max(load.batch, round(share * reports / panes))
                group = load.collection.groups[0] if of_group else None
                key = Key(load.collection.name, group, START, START + load.windows.size)
                tallies = tally_of(load.collection, new, np.random.default_rng(SEED))
                element = WindowedValue((key, (1, timing, tallies)), Timestamp(START // 1000), (GlobalWindow(),))
                total += keys * panes * len(coder.encode(element))
                weight += keys * panes
    return total / weight


def id_bytes(load: Load) -> float:
    """Of an id in the state, with its share of its chunk's expiry."""
    rng = np.random.default_rng(SEED)
    counts = _at_least_one(load.ids_in_piece, 16 * DRAWS, rng)
    total = sum(
        len(chunk) for count in counts for chunk in SeenIds(grain_ms(0)).add(_ids(count, rng), np.full(count, START))[1]
    )
    return total / sum(counts)


@cache
def id_memory() -> float:
    """Of an id in the arrays of a shard that knows many, to the byte: what else is allocated meanwhile varies."""
    rng, seen = np.random.default_rng(SEED), SeenIds(grain_ms(0))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(0, IDS_IN_MEMORY, SAMPLE):
        seen.add(_ids(SAMPLE, rng), np.full(SAMPLE, START))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round((after - before) / len(seen))


def _at_least_one(mean: float, draws: int, rng: np.random.Generator) -> list[int]:
    """Numbers of uploads where there are some, that have this mean."""
    return (1 + rng.poisson(max(0.0, mean - 1), draws)).tolist()


def coder_of(element: Any, window: coders.Coder) -> coders.WindowedValueCoder:
    return coders.WindowedValueCoder(typecoders.registry.get_coder(convert_to_beam_type(element)), window)
