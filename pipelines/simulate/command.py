"""`hushgram simulate`: writes privatised reports of known values, to files or live to Kafka, and the truth."""

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
from hushgram.pipelines.cli import registry
from hushgram.pipelines.cli.console import (
    UsageError,
    check_target,
    collections_in,
    command_parser,
    parse_time,
    pick_collection,
    say,
)
from hushgram.pipelines.cli.outputs import check_directory, writing
from hushgram.pipelines.domain_warnings import outside_words
from hushgram.pipelines.formatting import count, shown
from hushgram.pipelines.simulate.devices import (
    CELLS_PER_BATCH,
    Devices,
    Fleet,
    batches,
    columns,
    fleet_generator,
    truth,
)
from hushgram.pipelines.simulate.kafka_feed import Faults, Live, send
from hushgram.pipelines.simulate.shapes import draw_for, known_values, missing_words
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.writer import encode_reports, write_container
from hushgram.transforms.filesystem import atomically

EXAMPLE = "hushgram simulate --collections collections.yaml --values taxi --reports 100000 --output reports"
HOUR = 3_600_000
MOST_REPORTS = 10**9
MOST_HOURS = 24 * 3650
ROWS_PER_FILE = 500_000
ROWS_PER_BLOCK = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--output", metavar="DIR", help="the folder for the files, and for the truth in truth.jsonl")
    parser.add_argument("--collection", metavar="NAME", help="simulate only this collection (default: all)")
    parser.add_argument("--values", default="beta(5,2)", help=f"what devices measure: one of {known_values()}")
    parser.add_argument(
        "--group-values",
        action="append",
        default=[],
        metavar="GROUP=VALUES",
        help="what devices of one group measure instead, such as 'DE=gamma(4,9)'; may be repeated",
    )
    parser.add_argument(
        "--reports",
        type=int,
        default=100_000,
        metavar="N",
        help="the number of reports of each collection (default: 100000)",
    )
    parser.add_argument(
        "--start",
        default="2026-01-01T00:00Z",
        metavar="TIME",
        help="the time of the first event (default: 2026-01-01T00:00Z)",
    )
    parser.add_argument("--hours", type=float, default=4.0, help="the time that events are spread over (default: 4)")
    parser.add_argument("--packed", action="store_true", help=f"write batches of up to {CELLS_PER_BATCH} reports")
    parser.add_argument(
        "--ids",
        nargs="?",
        const="uploads",
        choices=["uploads", "reports"],
        help="give each upload a random id (--ids), or each report, also within batches (--ids reports)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="equal commands with equal seeds write equal reports; others differ in values, noise and ids; "
        "live, no two runs are equal (default: 0)",
    )
    live = parser.add_argument_group("live to Kafka", "events happen as they are sent; --output keeps the truth only")
    live.add_argument("--kafka", metavar="ADDRESS", help="brokers to send to, such as localhost:9092")
    live.add_argument("--topic", metavar="NAME", help="the topic to send to")
    live.add_argument("--kafka-properties", metavar="FILE", help=registry.PROPERTIES)
    registry.add_arguments(live, "messages")
    live.add_argument(
        "--rate", type=float, default=1000, metavar="R", help="reports of each collection a second (default: 1000)"
    )
    live.add_argument(
        "--late", type=float, default=0, metavar="SHARE", help="the share of reports that come late, up to max_age"
    )
    live.add_argument(
        "--damaged", type=float, default=0, metavar="SHARE", help="the share of messages that are cut short"
    )
    live.add_argument(
        "--repeated",
        type=float,
        default=0,
        metavar="SHARE",
        help="with --ids: the share of messages that are sent twice",
    )


def run(argv: Sequence[str]) -> int:
    parser = command_parser("simulate", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    collections = collections_in(options.collections)
    chosen = [pick_collection(collections, options.collection)] if options.collection else list(collections.values())
    if not 0 < options.reports <= MOST_REPORTS:
        raise UsageError(f"--reports: got {options.reports}, allowed: more than zero, at most {MOST_REPORTS:,}")
    if not 0 < options.hours <= MOST_HOURS:
        raise UsageError(f"--hours: got {options.hours:g}, allowed: more than zero, at most {MOST_HOURS:,}, ten years")
    if options.seed < 0:
        raise UsageError(f"--seed: got {options.seed}, allowed: a whole number of zero or more")
    registry.check_combination(options)
    if options.schema_registry and not options.framed:
        raise UsageError("--schema-registry: only with --framed; otherwise messages name their schema without it")
    if not options.output and not options.kafka:
        raise UsageError("--output: missing; it may be left out with --kafka only")
    if options.output:
        if "://" in options.output:
            raise UsageError(f"--output {options.output}: allowed: a folder of this machine")
        check_directory("--output", options.output)
    draws = [(collection, draw_for(collection, options.values)) for collection in chosen]
    group_values = _group_values(options.group_values, chosen)
    group_draws = [
        {label: draw_for(c, group_values[label], "--group-values") for label in c.groups if label in group_values}
        for c in chosen
    ]
    # The same values for all collections.
    drawn = [draws[0][1], *{label: draw for of_one in group_draws for label, draw in of_one.items()}.values()]
    for line in dict.fromkeys(line for draw in drawn for line in missing_words(draw)):
        say(line)
    started, live = time.monotonic(), _live(options) if options.kafka else None
    start, span = parse_time("--start", options.start), int(options.hours * HOUR)
    # What happens live happens once: reports with the ids of an earlier run would not be counted.
    when = (time.time_ns(),) if live else (start, span)
    request = (options.values, options.reports, *when, *sorted(group_values.items()))
    fleets = [
        Fleet(c, draw, fleet_generator(options.seed, c, *request), own)
        for (c, draw), own in zip(draws, group_draws, strict=True)
    ]
    truths = send(live, fleets) if live else _write_files(options, fleets, start, span)
    if options.output:
        with writing("--output", options.output), atomically(str(Path(options.output) / "truth.jsonl")) as file:
            file.write("".join(json.dumps(line) + "\n" for line in truths).encode())
    where = f"topic {options.topic}" if live else options.output
    total, seconds = options.reports * len(chosen), time.monotonic() - started
    say(f"wrote {total:,} reports of {count(len(chosen), 'collection')} to {where} in {seconds:.1f} s")
    return 0


def _group_values(texts: Sequence[str], collections: Sequence[Collection]) -> dict[str, str]:
    """What each group measures, by its label; a label may hold an equals sign itself."""
    labels = sorted({label for collection in collections for label in collection.groups}, key=len, reverse=True)
    found: dict[str, str] = {}
    for text in texts:
        label = next((label for label in labels if text.startswith(f"{label}=")), None)
        if label is None:
            known = ", ".join(map(shown, sorted(labels))) or "none, the collection lists no groups"
            raise UsageError(f"--group-values: got {shown(text)}, allowed: GROUP=VALUES with one of the groups {known}")
        if label in found:
            raise UsageError(f"--group-values {shown(text)}: got {shown(label)} twice, allowed: once for each group")
        found[label] = text.removeprefix(f"{label}=")
    return found


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
    check_target(options.topic, {**properties, "group.id": "hushgram"}, options.kafka_properties)
    faults = Faults(options.late, options.damaged, options.repeated)
    sent = (options.topic, properties, options.kafka_properties)
    frames = registry.frames_in(options, options.kafka_properties)
    return Live(*sent, options.reports, options.rate, options.packed, options.ids, faults, frames)


def _write_files(options: argparse.Namespace, fleets: Sequence[Fleet], start: int, span: int) -> list[dict[str, Any]]:
    output = Path(options.output)
    truths: list[dict[str, Any]] = []
    for fleet in fleets:
        collection, rng = fleet.collection, fleet.rng
        devices = fleet.simulate(start + rng.integers(0, span, options.reports))
        with writing("--output", options.output):
            write_reports(
                output, collection, devices, options.packed, rng if options.ids else None, options.ids == "reports"
            )
        for line in outside_words(collection, devices.values):
            say(f"{shown(collection.name)}: {line}")
        truths += truth(collection, devices)
    return truths


def write_reports(
    output: Path,
    collection: Collection,
    devices: Devices,
    packed: bool,
    ids: np.random.Generator | None,
    report_ids: bool = False,
) -> None:
    """Files of at most `ROWS_PER_FILE` records each; the collection's name stays out of their names."""
    if packed:
        rows = [batch for _, batch in batches(collection, devices, ids, report_ids)]
        for number, part in enumerate(chunks(len(rows), ROWS_PER_FILE)):
            with atomically(_file(output, collection, number)) as file:
                fastavro.writer(file, REPORT_BATCH.parsed, rows[part], codec="deflate", sync_interval=1 << 18)
        return
    for number, part in enumerate(chunks(len(devices), ROWS_PER_FILE)):
        with atomically(_file(output, collection, number)) as file:
            write_container(file, REPORT, _blocks(collection, devices.take(part), ids))


def _file(output: Path, collection: Collection, number: int) -> str:
    return str(output / f"{collection.revision}-{number:05d}.avro")


def _blocks(collection: Collection, devices: Devices, ids: np.random.Generator | None) -> Iterator[tuple[int, bytes]]:
    for part in chunks(len(devices), ROWS_PER_BLOCK):
        block = devices.take(part)
        yield len(block), encode_reports(*columns(collection, block, ids))
