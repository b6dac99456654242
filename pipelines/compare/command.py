"""`hushgram compare`: says by how much groups, windows or whole results differ, and whether they do at all."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from itertools import combinations

from hushgram import Collection
from hushgram._validation import suggest
from hushgram.comparison import Comparison, holm
from hushgram.pipelines.cli.console import UsageError, collections_in, command_parser, pick_collection, say
from hushgram.pipelines.compare.report import THRESHOLD, Compared, lines, to_json
from hushgram.pipelines.compare.sides import (
    Part,
    Result,
    Side,
    check_apart,
    make_side,
    of_group,
    of_groups,
    of_the_others,
    of_window,
)
from hushgram.pipelines.formatting import shown
from hushgram.pipelines.results import read_results
from hushgram.schemas.records import Histogram, Snapshot

EXAMPLE = "hushgram compare results --collections collections.yaml --groups Bronx Queens"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="RESULTS", help="a folder of results")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--groups",
        nargs="+",
        metavar="GROUP",
        help="groups, each with each; one alone with all others together, never with the total that contains it",
    )
    what.add_argument(
        "--windows",
        nargs="+",
        metavar="TIME",
        help="windows by when they begin, each with each; a part of a time such as 2026-01-01 is all that begin then",
    )
    what.add_argument("--against", metavar="OTHER", help="another folder of results, of the same collections")
    parser.add_argument("--others", action="store_true", help="each of --groups with all other groups together")
    parser.add_argument(
        "--collections",
        metavar="FILE",
        help="the YAML file of collections, to add tallies up and to test them; without it, stored intervals serve",
    )
    parser.add_argument("--collection", metavar="NAME", help="which collection, if there are several")
    parser.add_argument("--in-window", metavar="TIME", help="only windows that begin then (default: all, added up)")
    parser.add_argument("--in-group", metavar="GROUP", help="only this group (default: all together)")
    parser.add_argument("--json", action="store_true", help="print JSON, with the curve of differences")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("compare", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    _check(options)
    collections = collections_in(options.collections) if options.collections else None
    results = _read(options.directory, collections)
    name = _pick_name(options.collection, results)
    collection = None if collections is None else pick_collection(collections, name)
    pairs = _pairs(options, _of(results, name), collections, name)
    made = {part: make_side(part, collection) for part in dict.fromkeys(part for pair in pairs for part in pair)}
    compared = compare([(made[one], made[other]) for one, other in pairs])
    unit = compared[0].first.distribution.domain.unit
    if options.json:
        say(json.dumps(to_json(name, unit, compared), ensure_ascii=False))
        return 0
    say(f"{shown(name)} ({shown(unit) or 'no unit'})")
    for each in compared:
        say("")
        for line in lines(each):
            say(line)
    if len(compared) > 1:
        say("")
        say(
            f"Of {len(compared)} comparisons the intervals hold all together at 95 % (Bonferroni), p-values are Holm's."
        )
    return 0


def compare(pairs: Sequence[tuple[Side, Side]]) -> list[Compared]:
    """All pairs, with intervals that hold together at 95 %, and p-values that are corrected for their number."""
    level = 1 - THRESHOLD / len(pairs)
    made = []
    for first, second in pairs:
        try:
            growing = first.growing or second.growing
            made.append(Comparison(first.distribution, second.distribution, level, growing))
            _ = made[-1].mean  # stored intervals have one level only
        except ValueError as error:
            raise UsageError(f"{first.name} and {second.name}: {error}") from None
    pvalues = [comparison.pvalue for comparison in made]
    known = holm([pvalue for pvalue in pvalues if pvalue is not None])
    corrected: list[float | None] = list(known) if len(known) == len(pvalues) else [None] * len(pvalues)
    return [
        Compared(first, second, comparison, pvalue, len(pairs))
        for (first, second), comparison, pvalue in zip(pairs, made, corrected, strict=True)
    ]


def _check(options: argparse.Namespace) -> None:
    """Refuses options that say nothing, or two things, in this comparison."""
    if options.others and not options.groups:
        raise UsageError("--others: only with --groups")
    if options.in_group is not None and options.groups:
        raise UsageError("--in-group: not with --groups, which names groups already")
    if options.in_window is not None and options.windows:
        raise UsageError("--in-window: not with --windows, which names windows already")
    if options.windows and len(options.windows) < 2:
        raise UsageError("--windows: got one, allowed: two or more")


def _read(directory: str, collections: Mapping[str, Collection] | None) -> list[Result]:
    if collections is None:
        return [*read_results(directory, "snapshots", Snapshot.from_avro)]
    return [*read_results(directory, "histograms", Histogram.from_avro)]


def _pick_name(chosen: str | None, results: Sequence[Result]) -> str:
    """The collection that is compared."""
    names = sorted({result.key.collection for result in results})
    if chosen is None and len(names) > 1:
        raise UsageError(f"--collection: there are several, name one of: {', '.join(names)}")
    if chosen is not None and chosen not in names:
        raise UsageError(f"--collection: got {chosen!r}, allowed: {', '.join(names)}{suggest(chosen, names)}")
    return names[0] if chosen is None else chosen


def _of(results: Sequence[Result], name: str) -> list[Result]:
    return [result for result in results if result.key.collection == name]


def _pairs(
    options: argparse.Namespace,
    results: Sequence[Result],
    collections: Mapping[str, Collection] | None,
    name: str,
) -> list[tuple[Part, Part]]:
    """The sides of each comparison, without reports in common."""
    zone = _zone(results, collections, name)
    if options.in_window is not None:
        results = of_window("--in-window", results, options.in_window, zone)
    if options.against is not None:
        others = _of(_read(options.against, collections), name)
        if not others:
            raise UsageError(f"--against {options.against}: no results of {name!r}")
        if options.in_window is not None:
            others = of_window("--in-window", others, options.in_window, zone)
        folders = [(options.directory, results), (options.against, others)]
        if os.path.realpath(options.directory) == os.path.realpath(options.against):
            raise UsageError(f"--against: {options.directory} and {options.against} are the same folder")
        first, second = (Part(folder, tuple(of_group(part, options.in_group))) for folder, part in folders)
        return [(first, second)]
    if options.groups:
        parts = of_groups(results, options.groups)
        if options.others or len(parts) == 1:
            return [(part, of_the_others(results, part.name)) for part in parts]
    else:
        within = of_group(results, options.in_group)
        parts = [Part(text, tuple(of_window("--windows", within, text, zone))) for text in options.windows]
    pairs = list(combinations(parts, 2))
    for pair in pairs:
        check_apart(*pair)
    return pairs


def _zone(results: Sequence[Result], collections: Mapping[str, Collection] | None, name: str) -> str | None:
    """The time zone that windows are named by."""
    if collections is not None:
        return pick_collection(collections, name).windows.time_zone
    return next((result.time_zone for result in results if isinstance(result, Snapshot)), None)
