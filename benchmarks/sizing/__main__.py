"""What a number of devices costs a day, from costs measured on this machine: messages, bytes, cores, state, shuffle."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from benchmarks.sizing import costs, tables
from benchmarks.sizing.load import Load
from benchmarks.sizing.model import build_row, limits
from benchmarks.sizing.sizes import message_bytes, sizes
from benchmarks.sizing.spread import PARTITIONS_PER_SLOT, spread
from hushgram import Collection, CollectionError, Windows
from hushgram.pipelines.cli.console import UsageError, collections_in, complain, say
from hushgram.schemas.messages import LARGEST_MESSAGE
from hushgram.windows import parse_duration

EXAMPLE = (
    "python -m benchmarks.sizing --devices 2e7 --batch 1 --batch 100 --ids --groups 50 --windows 1h/15m --early 5m"
)
DEFAULT = Collection(
    name="commute", low=0, high=180, unit="minutes", buckets=1024, epsilon=1.0, groups=("DE", "FR", "US")
)
DEVICES, BATCHES = (10**6, 10**8, 10**9), (1, 1000)
ESTIMATED_BUCKETS, ESTIMATED_REPORTS = (1024, 4096), 1_000_000
SPREAD_SLOTS = (2, 4, 16)


class SizingParser(argparse.ArgumentParser):
    """A mistake is one line, as everywhere."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


@dataclass(frozen=True)
class Question:
    """The checked options of the command."""

    loads: tuple[Load, ...]
    worker_memory: float
    check: bool


def build_parser() -> SizingParser:
    parser = SizingParser(prog="python -m benchmarks.sizing", description=__doc__, epilog=f"example: {EXAMPLE}")
    parser.add_argument("--devices", action="append", metavar="N", help="that report in a day; may be repeated")
    parser.add_argument("--reports-per-device", default="1", metavar="N", help="a day (default: 1)")
    parser.add_argument("--batch", action="append", metavar="N", help="reports in a message; may be repeated")
    parser.add_argument("--ids", action="store_true", help="messages carry an id, and count once")
    parser.add_argument("--late", default="0.01", metavar="SHARE", help="of messages after their window's on-time pane")
    parser.add_argument("--peak", default="2", metavar="RATIO", help="of the busiest hour to the mean (default: 2)")
    parser.add_argument("--partitions", default="16", metavar="N", help="of the topic (default: 16)")
    parser.add_argument("--slots", default="4", metavar="N", help="of the engine, each a Python worker (default: 4)")
    parser.add_argument("--worker-memory", default="4", metavar="GB", help="that a worker may fill (default: 4)")
    parser.add_argument(
        "--collections", metavar="FILE", help="the YAML file of collections (default: one of 1024 buckets)"
    )
    parser.add_argument("--collection", metavar="NAME", help="of that file; may be left out if there is only one")
    parser.add_argument("--groups", metavar="N", help="number of groups, in place of the collection's own")
    parser.add_argument("--windows", metavar="SIZE[/EVERY]", help="such as 1h or 1h/15m, whatever the collection has")
    parser.add_argument("--early", metavar="TIME", help="between early panes, such as 1m, or none")
    parser.add_argument("--max-age", metavar="TIME", help="of a report that still counts, such as 1d")
    parser.add_argument("--check", action="store_true", help="also hold the arithmetic against a simulated run")
    return parser


def question_of(argv: Sequence[str] | None) -> Question:
    """The checked question, or a `UsageError` that a person can act on."""
    options = build_parser().parse_args(argv)
    try:
        collection = _collection(options)
    except CollectionError as error:
        raise UsageError(str(error)) from None
    numbers = [_whole("--devices", text, 1, 10**12) for text in options.devices or map(str, DEVICES)]
    batches = [_whole("--batch", text, 1, LARGEST_MESSAGE) for text in options.batch or map(str, BATCHES)]
    base = Load(
        collection,
        devices=1,
        reports_per_device=_number("--reports-per-device", options.reports_per_device, 1e-6, 1e6),
        ids=options.ids,
        late=_number("--late", options.late, 0, 0.99),
        peak=_number("--peak", options.peak, 1, 24),
        partitions=_whole("--partitions", options.partitions, 1, 1024),
        slots=_whole("--slots", options.slots, 1, 256),
    )
    loads = tuple(replace(base, devices=number, batch=batch) for number in numbers for batch in batches)
    for load in loads:
        if message_bytes(load) > LARGEST_MESSAGE:
            raise UsageError(f"--batch: got {load.batch}, allowed: a message of at most {LARGEST_MESSAGE} bytes")
    return Question(loads, 1e9 * _number("--worker-memory", options.worker_memory, 0.1, 10_000), options.check)


def _collection(options: argparse.Namespace) -> Collection:
    collection = DEFAULT
    if options.collections:
        defined = collections_in(options.collections)
        name = options.collection or (next(iter(defined)) if len(defined) == 1 else None)
        if name not in defined:
            raise UsageError(f"--collection: got {name!r}, allowed: {', '.join(defined)}")
        collection = defined[name]
    elif options.collection:
        raise UsageError("--collection: only with --collections")
    if options.groups is not None:
        count = _whole("--groups", options.groups, 0, 10_000)
        collection = replace(collection, groups=tuple(f"g{number:04d}" for number in range(count)))
    return replace(collection, windows=_windows(options, collection.windows))


def _windows(options: argparse.Namespace, windows: Windows) -> Windows:
    if options.windows is not None:
        size, slash, every = options.windows.partition("/")
        length = parse_duration("--windows", size)
        windows = replace(windows, size=length, every=parse_duration("--windows", every) if slash else length)
    if options.early is not None:
        early = None if options.early == "none" else parse_duration("--early", options.early)
        windows = replace(windows, early=early)
    if options.max_age is not None:
        windows = replace(windows, max_age=parse_duration("--max-age", options.max_age))
    return windows


def _number(name: str, text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise UsageError(f"{name}: got {text!r}, allowed: a number from {least:g} to {most:g}")
    return number


def _whole(name: str, text: str, least: int, most: int) -> int:
    number = _number(name, text, least, most)
    if not number.is_integer():
        raise UsageError(f"{name}: got {text!r}, allowed: a whole number")
    return int(number)


def answer(question: Question) -> None:
    """Measures, and prints all tables."""
    loads = question.loads
    sizes_of_loads = [sizes(load) for load in loads]
    costs_of_loads = costs.measure(loads, _report_progress)
    rows = [build_row(*cost_of_load) for cost_of_load in zip(loads, sizes_of_loads, costs_of_loads, strict=True)]
    say(tables.format_table(tables.rows_table(loads, rows)))
    say(tables.format_table(tables.bytes_table(loads, sizes_of_loads)))
    say(tables.format_table(tables.costs_table(loads, costs_of_loads)))
    most = max(load.devices for load in loads)
    for load, size, cost_of_load in zip(loads, sizes_of_loads, costs_of_loads, strict=True):
        if load.devices == most:
            say(
                tables.format_table(tables.limits_table(load, limits(load, size, cost_of_load, question.worker_memory)))
            )
    collection = loads[0].collection
    seconds: list[tuple[int, str, float]] = []
    for buckets in ESTIMATED_BUCKETS:
        try:
            seconds += [(buckets, *cost) for cost in costs.estimates(collection, buckets, ESTIMATED_REPORTS)]
        except CollectionError:  # the mechanism or the domain does not allow this number
            continue
    interval = loads[0].pause or loads[0].windows.size / 1000
    if seconds:
        say(tables.format_table(tables.estimates_table(interval, ESTIMATED_REPORTS, seconds)))
    over = dict.fromkeys([*SPREAD_SLOTS, loads[0].slots])
    say(
        tables.format_table(
            tables.spread_table(
                [[spread(times * slots, slots) for times in PARTITIONS_PER_SLOT] for slots in sorted(over)]
            )
        )
    )
    if question.check:
        from benchmarks.sizing import check

        say(tables.format_table(check.table(check.lines_of(loads[0], costs_of_loads[0], _report_progress))))


def _report_progress(step: str) -> None:
    """Prints the current step for a person who waits, and not among the tables."""
    if sys.stderr.isatty():
        print(f"{step} …", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    try:
        answer(question_of(argv))
    except UsageError as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:
        complain("stopped")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
