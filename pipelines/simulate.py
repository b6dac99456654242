"""`hushgram simulate`: privatised reports from values that are known, to files or live to Kafka; the truth is kept."""

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
from hushgram.mechanisms.base import chunks
from pipelines.console import UsageError, collections_in, offsets_in, parse_time, say
from pipelines.live import Faults, Live, send
from pipelines.outside import outside_words
from pipelines.simulated import CELLS_PER_BATCH, Devices, batches, columns, simulate_devices, truth
from pipelines.values import Draw, draw_for, known_values
from pipelines.words import shown
from schemas.definitions import REPORT, REPORT_BATCH
from schemas.encode import encode_reports, write_container

EXAMPLE = "hushgram simulate --collections collections.yaml --values taxi --reports 100000 --output reports"
ROWS_PER_FILE = 500_000
ROWS_PER_BLOCK = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--output", metavar="DIR", help="where the files go; the truth, to truth.jsonl")
    parser.add_argument("--collection", metavar="NAME", help="only this one (default: all)")
    parser.add_argument("--values", default="beta(5,2)", help=f"one of {known_values()}")
    parser.add_argument("--reports", type=int, default=100_000, metavar="N", help="for each collection")
    parser.add_argument("--start", default="2026-01-01T00:00Z", metavar="TIME", help="of the first event")
    parser.add_argument("--hours", type=float, default=4.0, help="that events are spread over")
    parser.add_argument("--packed", action="store_true", help=f"batches of up to {CELLS_PER_BATCH} reports")
    parser.add_argument("--ids", action="store_true", help="a random id for each upload")
    parser.add_argument("--seed", type=int, default=0)
    live = parser.add_argument_group("live to Kafka", "events happen as they are sent; --output keeps the truth only")
    live.add_argument("--kafka", metavar="ADDRESS", help="brokers to send to, such as localhost:9092")
    live.add_argument("--topic", metavar="NAME", help="that reports are sent to")
    live.add_argument("--kafka-properties", metavar="FILE", help="properties of librdkafka, one name=value a line")
    live.add_argument("--rate", type=float, default=1000, metavar="R", help="reports a second, of each collection")
    live.add_argument("--late", type=float, default=0, metavar="SHARE", help="of reports that come late, up to max_age")
    live.add_argument("--damaged", type=float, default=0, metavar="SHARE", help="of messages that are cut short")
    live.add_argument("--repeated", type=float, default=0, metavar="SHARE", help="of messages sent twice, with --ids")


def run(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="hushgram simulate", description=__doc__, epilog=f"example: {EXAMPLE}")
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    collections = collections_in(options.collections)
    if options.collection and options.collection not in collections:
        raise UsageError(f"--collection: got {options.collection!r}, allowed: {', '.join(collections)}")
    if not 0 < options.reports <= 10**9 or not 0 < options.hours <= 24 * 3650:
        raise UsageError("--reports and --hours: allowed: more than zero, at most 10⁹ reports and ten years")
    if not options.output and not options.kafka:
        raise UsageError("--output: missing; it may be left out with --kafka only")
    chosen = [collections[options.collection]] if options.collection else list(collections.values())
    draws = [(collection, draw_for(collection, options.values)) for collection in chosen]
    rng, started = np.random.default_rng(options.seed), time.monotonic()
    live = _live(options) if options.kafka else None
    truths = send(live, draws, rng) if live else _write_files(options, draws, rng)
    if options.output:
        path = Path(options.output) / "truth.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in truths), encoding="utf-8")
    where = f"topic {options.topic}" if live else options.output
    total, seconds = options.reports * len(chosen), time.monotonic() - started
    say(f"wrote {total:,} reports of {len(chosen)} collections to {where} in {seconds:.1f} s")
    return 0


def _live(options: argparse.Namespace) -> Live:
    if not options.topic:
        raise UsageError("--topic: missing; --kafka needs it")
    if not 0 < options.rate <= 10**7:
        raise UsageError(f"--rate: got {options.rate}, allowed: more than zero, at most 10⁷")
    for name in ("late", "damaged", "repeated"):
        if not 0 <= getattr(options, name) <= 1:
            raise UsageError(f"--{name}: got {getattr(options, name)}, allowed: from 0 to 1")
    if options.repeated and not options.ids:
        raise UsageError("--repeated: only with --ids, since reports without an id count as often as they come")
    properties = {"bootstrap.servers": options.kafka}
    offsets_in(options.topic, {**properties, "group.id": "hushgram"}, options.kafka_properties, latest=True)
    faults = Faults(options.late, options.damaged, options.repeated)
    sent = (options.topic, properties, options.kafka_properties)
    return Live(*sent, options.reports, options.rate, options.packed, options.ids, faults)


def _write_files(
    options: argparse.Namespace, draws: Sequence[tuple[Collection, Draw]], rng: np.random.Generator
) -> list[dict[str, Any]]:
    start, span = parse_time("--start", options.start), int(options.hours * 3_600_000)
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    truths: list[dict[str, Any]] = []
    for collection, draw in draws:
        devices = simulate_devices(collection, draw, start + rng.integers(0, span, options.reports), rng)
        write_reports(output, collection, devices, options.packed, rng if options.ids else None)
        for line in outside_words(collection, devices.values):
            say(f"{shown(collection.name)}: {line}")
        truths += truth(collection, devices)
    return truths


def write_reports(
    output: Path, collection: Collection, devices: Devices, packed: bool, ids: np.random.Generator | None
) -> None:
    """Files of at most `ROWS_PER_FILE` records each; the collection's name stays out of their names."""
    if packed:
        rows = [batch for _, batch in batches(collection, devices, ids)]
        for number, part in enumerate(chunks(len(rows), ROWS_PER_FILE)):
            with _file(output, collection, number).open("wb") as file:
                fastavro.writer(file, REPORT_BATCH.parsed, rows[part], codec="deflate", sync_interval=1 << 18)
        return
    for number, part in enumerate(chunks(len(devices), ROWS_PER_FILE)):
        with _file(output, collection, number).open("wb") as file:
            write_container(file, REPORT, _blocks(collection, devices.take(part), ids))


def _file(output: Path, collection: Collection, number: int) -> Path:
    return output / f"{collection.revision}-{number:05d}.avro"


def _blocks(collection: Collection, devices: Devices, ids: np.random.Generator | None) -> Iterator[tuple[int, bytes]]:
    for part in chunks(len(devices), ROWS_PER_BLOCK):
        block = devices.take(part)
        yield len(block), encode_reports(*columns(collection, block, ids))
