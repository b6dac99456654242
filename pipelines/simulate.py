"""`hushgram simulate`: files of privatised reports from values that are known, with the truth beside them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from hushgram import Collection
from hushgram.arrays import FloatArray, IntArray
from hushgram.mechanisms.base import chunks
from pipelines.console import UsageError, collections_in, parse_time, say
from pipelines.values import draw_for, known_values
from schemas.columns import Labels
from schemas.definitions import REPORT, REPORT_BATCH
from schemas.encode import encode_reports, write_container
from transforms.plan import cell_width

EXAMPLE = "hushgram simulate --collections collections.yaml --values taxi --reports 100000 --output reports"
ROWS_PER_FILE = 500_000
ROWS_PER_BLOCK = 10_000
CELLS_PER_BATCH = 1000
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--output", required=True, metavar="DIR", help="where the files go; the truth, to truth.jsonl")
    parser.add_argument("--collection", metavar="NAME", help="only this one (default: all)")
    parser.add_argument("--values", default="beta(5,2)", help=f"one of {known_values()}")
    parser.add_argument("--reports", type=int, default=100_000, metavar="N", help="for each collection")
    parser.add_argument("--start", default="2026-01-01T00:00Z", metavar="TIME", help="of the first event")
    parser.add_argument("--hours", type=float, default=4.0, help="that events are spread over")
    parser.add_argument("--packed", action="store_true", help=f"batches of up to {CELLS_PER_BATCH} reports")
    parser.add_argument("--ids", action="store_true", help="a random id for each upload")
    parser.add_argument("--seed", type=int, default=0)


def run(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="hushgram simulate", description=__doc__, epilog=f"example: {EXAMPLE}")
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    started = time.monotonic()
    collections = collections_in(options.collections)
    if options.collection and options.collection not in collections:
        raise UsageError(f"--collection: got {options.collection!r}, allowed: {', '.join(collections)}")
    if not 0 < options.reports <= 10**9 or not 0 < options.hours <= 24 * 3650:
        raise UsageError("--reports and --hours: allowed: more than zero, at most 10⁹ reports and ten years")
    chosen = [collections[options.collection]] if options.collection else list(collections.values())
    draws = [(collection, draw_for(collection, options.values)) for collection in chosen]
    start, span = parse_time("--start", options.start), int(options.hours * 3_600_000)
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(options.seed)
    truths: list[dict[str, Any]] = []
    for collection, draw in draws:
        values = draw(options.reports, rng)
        times = start + rng.integers(0, span, options.reports)
        groups = rng.integers(0, max(1, len(collection.groups)), options.reports) if collection.groups else None
        write_reports(output, collection, values, times, groups, rng, options.packed, options.ids)
        truths += truth(collection, values, times, groups)
    (output / "truth.jsonl").write_text("".join(json.dumps(line) + "\n" for line in truths), encoding="utf-8")
    total, seconds = options.reports * len(chosen), time.monotonic() - started
    say(f"wrote {total:,} reports of {len(chosen)} collections to {output} in {seconds:.1f} s")
    return 0


def write_reports(
    output: Path,
    collection: Collection,
    values: FloatArray,
    times: IntArray,
    groups: IntArray | None,
    rng: np.random.Generator,
    packed: bool,
    ids: bool,
) -> None:
    """Files of at most `ROWS_PER_FILE` records each; the collection's name stays out of their names."""
    cells = collection.simulate(values, rng)
    if packed:
        rows = list(_batches(collection, cells, times, groups, rng if ids else None))
        for number, part in enumerate(chunks(len(rows), ROWS_PER_FILE)):
            with _file(output, collection, number).open("wb") as file:
                fastavro.writer(file, REPORT_BATCH.parsed, rows[part], codec="deflate", sync_interval=1 << 18)
        return
    labels = Labels(
        (*collection.groups, None), np.full(times.size, len(collection.groups)) if groups is None else groups
    )
    for number, part in enumerate(chunks(times.size, ROWS_PER_FILE)):
        with _file(output, collection, number).open("wb") as file:
            write_container(
                file, REPORT, _blocks(collection, cells[part], times[part], labels, part, rng if ids else None)
            )


def _file(output: Path, collection: Collection, number: int) -> Path:
    return output / f"{collection.revision}-{number:05d}.avro"


def _blocks(
    collection: Collection, cells: Any, times: IntArray, labels: Labels, where: slice, ids: np.random.Generator | None
) -> Iterator[tuple[int, bytes]]:
    codes = labels.codes[where]
    for part in chunks(times.size, ROWS_PER_BLOCK):
        group = Labels(labels.names, codes[part])
        size = times[part].size
        random = None if ids is None else np.frombuffer(ids.bytes(16 * size), dtype=np.uint8).reshape(-1, 16)
        numbers = cells[part].astype(np.int64)
        yield size, encode_reports(collection.name, collection.revision, numbers, times[part], group, random)


def _batches(
    collection: Collection, cells: Any, times: IntArray, groups: IntArray | None, ids: np.random.Generator | None
) -> Iterator[dict[str, Any]]:
    """Reports of one group and one slice of time together; their time is that of the first."""
    same = {"collection": collection.name, "revision": bytes.fromhex(collection.revision)}
    width = cell_width(collection.randomizer.cells)
    group = np.full(times.size, -1) if groups is None else groups
    slices = times // collection.windows.slice
    order = np.lexsort((times, group, slices))
    ends = np.flatnonzero(np.diff(slices[order]) | np.diff(group[order])) + 1
    for run in np.split(order, ends):
        for start in range(0, run.size, CELLS_PER_BATCH):
            part = run[start : start + CELLS_PER_BATCH]
            yield {
                **same,
                "cells": cells[part].astype(f"<u{width}").tobytes(),
                "event_time": int(times[part[0]]),
                "group": None if groups is None else collection.groups[int(group[part[0]])],
                "id": None if ids is None else ids.bytes(16),
            }


def truth(
    collection: Collection, values: FloatArray, times: IntArray, groups: IntArray | None
) -> Iterator[dict[str, Any]]:
    """Of every window and group: how many, their mean and quantiles, after the clipping that devices do."""
    clipped = np.clip(values, collection.low, collection.high)
    every, size = collection.windows.every, collection.windows.size
    first, last = int(times.min()) // every * every, int(times.max()) // every * every
    for begin in range(first - (size - every) // every * every, last + 1, every):
        inside = (times >= begin) & (times < begin + size)
        members = [(None, inside)] + [
            (label, inside & (groups == index)) for index, label in enumerate(collection.groups) if groups is not None
        ]
        for label, mine in members:
            if mine.any():
                yield {
                    "collection": collection.name,
                    "group": label,
                    "window_start": begin,
                    "window_end": begin + size,
                    "reports": int(mine.sum()),
                    "mean": float(clipped[mine].mean()),
                    "quantiles": {str(share): float(np.quantile(clipped[mine], share)) for share in SHARES},
                }
