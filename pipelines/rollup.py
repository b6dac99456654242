"""`hushgram rollup`: merges histograms into longer windows and estimates them again, without any report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from apache_beam.io.filesystems import FileSystems

from hushgram import Collection, CollectionError, Windows
from hushgram.local_days import check_time_zone
from hushgram.pipelines.cli.console import UsageError, check_generation, collections_in, command_parser, complain, say
from hushgram.pipelines.cli.outputs import check_directory, writing
from hushgram.pipelines.cli.sinks import add_patience, closing_line, patience_in, writable_at_once
from hushgram.pipelines.formatting import span
from hushgram.pipelines.results import read_results, reading
from hushgram.quantile_shares import check_quantiles
from hushgram.schemas.avro_schemas import HISTOGRAM, SNAPSHOT
from hushgram.schemas.records import Histogram, Key, Pane, Snapshot
from hushgram.transforms.estimation import histogram, snapshots
from hushgram.transforms.run_store import committed_runs
from hushgram.transforms.sinks.files import FORMATS, window_name
from hushgram.transforms.sinks.window_files import write_window
from hushgram.transforms.tallies import Tallies
from hushgram.windows import WEEKDAYS, format_duration, parse_duration

Answer = Snapshot | Histogram
EXAMPLE = "hushgram rollup --collections collections.yaml --input results/histograms --window 1d --output days"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument(
        "--input",
        required=True,
        action="append",
        metavar="DIR",
        help="a folder of results, or of their histograms; may be repeated, and all add up",
    )
    parser.add_argument(
        "--window", metavar="TIME", help="such as 1d: windows are merged into these (default: as they are)"
    )
    parser.add_argument(
        "--time-zone", metavar="ZONE", help="such as Europe/Berlin: whose days and weeks (default: the collection's)"
    )
    parser.add_argument(
        "--week-start", choices=WEEKDAYS, help="the day on which weeks begin (default: the collection's)"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder for the results")
    parser.add_argument(
        "--sink", action="append", default=[], metavar="SINK", help="a PostgreSQL or Iceberg table to write to, too"
    )
    add_patience(parser)
    parser.add_argument("--estimator", help="an estimator other than the collection's")
    parser.add_argument("--quantiles", metavar="LIST", help="shares such as 0.5,0.9,0.99 (default: the collection's)")
    parser.add_argument("--format", choices=FORMATS, default="avro", help="the format of the results (default: avro)")
    parser.add_argument("--generation", type=int, default=0, help="higher for a corrected rerun (default: 0)")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("rollup", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    check_generation(options.generation)
    collections = collections_in(options.collections)
    try:
        if options.estimator:
            collections = {name: replace(c, estimator=options.estimator) for name, c in collections.items()}
        goals = _goals(options, collections) if options.window else None
    except CollectionError as error:
        raise UsageError(str(error)) from None
    for name in ("time_zone", "week_start"):
        if getattr(options, name) and goals is None:
            raise UsageError(f"--{name.replace('_', '-')}: only with --window")
    shares = _shares(options.quantiles) if options.quantiles else None
    check_directory("--output", options.output, ("snapshots", "histograms"))
    databases = writable_at_once(options.sink, patience_in(options))
    check_inputs(options.input)
    with reading(options.output):
        runs = committed_runs(options.output)
    if runs:
        raise UsageError(f"--output {options.output}: has batch runs; give roll-ups a folder of their own")
    histograms = [part for folder in options.input for part in read_results(folder, "histograms", Histogram.from_avro)]
    unknown = {part.key.collection for part in histograms} - set(collections)
    if unknown:
        raise UsageError(f"histograms of {sorted(unknown)[0]!r}, which {options.collections} does not define")
    merged = merge(histograms, collections, goals, options.generation)
    answers: list[Snapshot] = []
    kept_windows = 0
    for name, collection in collections.items():
        collection = collection if goals is None else replace(collection, windows=goals[name])
        windows = [(key, pane, tallies) for key, pane, tallies in merged if key.collection == name]
        if windows:
            estimated = _estimate(collection, windows, shares)
            kept_windows += _write(options.output, options.format, estimated, windows)
            answers += estimated
    for database in databases:
        assert database.write is not None
        say(closing_line(database.name, len(answers), len(answers) - database.write(answers)))
    say(f"merged {len(histograms):,} histograms into {len(merged):,}, in {options.output}")
    if kept_windows:
        complain(
            f"{kept_windows:,} windows of {options.output} stay as they are: they have more reports than this roll-up; "
            "if fewer is right, give a higher --generation"
        )
        return 1
    return 0


def check_inputs(folders: Sequence[str]) -> None:
    """Refuses what would be counted twice: one folder given twice, or a report file that two folders have counted."""
    seen: dict[str, str] = {}
    files: dict[str, str] = {}
    for folder in folders:
        root = folder if "://" in folder else os.path.realpath(folder)
        root = root.rstrip("/").removesuffix("/histograms")
        if root in seen:
            raise UsageError(f"--input: {seen[root]} and {folder} are the same folder, and would count twice")
        seen[root] = folder
        with reading(folder):
            runs = committed_runs(root)
        for run in runs:
            for file in run.files:
                first = files.setdefault(file.fingerprint or file.path, folder)
                if first != folder:
                    raise UsageError(f"--input: {first} and {folder} have both counted {file.path}")


def _goals(options: argparse.Namespace, collections: Mapping[str, Collection]) -> dict[str, Windows]:
    """Of each collection, the windows that its histograms are merged into."""
    length = parse_duration("--window", options.window)
    if options.time_zone:
        check_time_zone("--time-zone", options.time_zone)
    goals = {}
    for name, collection in collections.items():
        own = collection.windows
        zone, week_start = options.time_zone or own.time_zone, options.week_start or own.week_start
        try:
            goals[name] = replace(own, size=length, every=length, time_zone=zone, week_start=week_start)
        except CollectionError as error:
            raise CollectionError(f"--window: for {name!r}: {error}") from None
    return goals


def merge(
    histograms: Sequence[Histogram],
    collections: Mapping[str, Collection],
    goals: Mapping[str, Windows] | None,
    generation: int,
) -> list[tuple[Key, Pane, Tallies]]:
    """Histograms added up into the windows of `goals`, by collection, or left as they are."""
    together: dict[Key, list[Histogram]] = {}
    for part in histograms:
        key = part.key if goals is None else _goal(part.key, collections[part.key.collection].windows, goals)
        if key is not None:
            together.setdefault(key, []).append(part)
    for parts in together.values():
        # Several folders may have the same window, of other reports; it then adds up.
        for one, other in pairwise(sorted({part.key for part in parts}, key=lambda key: key.window_start)):
            if other.window_start < one.window_end:
                windows = f"{span(one)} and {span(other)} UTC"
                raise UsageError(
                    f"--input: windows of {one.collection!r} overlap: {windows}; allowed: those of one length"
                )
    return [
        (key, Pane(generation), Tallies.merge(Tallies(dict(part.tallies), part.events) for part in parts))
        for key, parts in together.items()
    ]


def _goal(key: Key, own: Windows, goals: Mapping[str, Windows]) -> Key | None:
    """The longer window that one is a part of; None for sliding windows whose reports stand in others, side by side."""
    goal = goals[key.collection]
    [(start, end)] = goal.holding(key.window_start)
    sliding = own.every < own.size and (key.window_start, key.window_end) in own.holding(key.window_start)
    fits = key.window_end <= end
    if sliding:
        if own.between(start, key.window_start) % own.size:
            return None
        fits = fits and own.between(start, end) % own.size == 0
    if not fits:
        zone = f" in {goal.time_zone}" if goal.time_zone else ""
        raise UsageError(
            f"--window: windows of {key.collection!r} such as {span(key)} UTC do not fit evenly into "
            f"{format_duration(goal.size)}{zone}; allowed: lengths that they divide, and a --time-zone whose days they "
            "divide"
        )
    return Key(key.collection, key.group, start, end)


def _estimate(
    collection: Collection, windows: Sequence[tuple[Key, Pane, Tallies]], shares: Sequence[float] | None
) -> list[Snapshot]:
    try:
        return snapshots(collection, windows, shares)
    except ValueError as error:  # a revision that the file no longer lists, a tally of another length
        raise UsageError(f"{collection.name}: {error}") from None


def _write(output: str, kind: str, answers: Sequence[Snapshot], windows: Sequence[tuple[Key, Pane, Tallies]]) -> int:
    """How many windows were left as they are, in one folder or both, since what is there is better."""
    left: set[str] = set()
    for folder, definition, records in (
        ("snapshots", SNAPSHOT, list[Answer](answers)),
        ("histograms", HISTOGRAM, list[Answer](histogram(*window) for window in windows)),
    ):
        by_window: dict[str, list[Answer]] = {}
        for record in records:
            by_window.setdefault(window_name(record.key), []).append(record)
        directory = FileSystems.join(output, folder)
        with writing("--output", output):
            left |= {
                window
                for window, together in by_window.items()
                if write_window(directory, definition, kind, together) is None
            }
    return len(left)


def _shares(text: str) -> tuple[float, ...]:
    try:
        return check_quantiles([float(part) for part in text.split(",")])
    except ValueError:
        allowed = "different numbers between 0 and 1, such as 0.5,0.9,0.99"
        raise UsageError(f"--quantiles: got {text!r}, allowed: {allowed}") from None
