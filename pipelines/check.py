"""`hushgram check`: reads report files as a run would, and tells what it would accept and refuse, with examples."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pipelines.console import collections_in, parse_time, say
from pipelines.inputs import matching_files
from pipelines.words import shown
from schemas.records import DeadLetter
from transforms.parse import Parser
from transforms.plan import Plan
from transforms.sources.avro_files import ranges, read_range
from transforms.uploads import Uploads

EXAMPLE = "hushgram check --collections collections.yaml --input 'reports/*.avro'"
EXAMPLES_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--input", required=True, action="append", metavar="GLOB", help="report files; may be repeated")
    parser.add_argument("--as-of", metavar="TIME", help="later reports are from the future (default: now)")


def run(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="hushgram check", description=__doc__, epilog=f"example: {EXAMPLE}")
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    """Exit code 0 if all would be accepted, 1 if something would be refused."""
    plan = Plan.of(collections_in(options.collections).values())
    files = matching_files(options.input)
    as_of = parse_time("--as-of", options.as_of) if options.as_of else int(time.time() * 1000)
    accepted, with_id, letters = _read(Parser(plan, as_of), files)
    for (name, revision), reports in sorted(accepted.items()):
        say(f"accept {reports:>12,}  {name} {revision}")
    for reason, mine in sorted(letters.items()):
        known, unknown = sum(part.reports or 0 for part in mine), sum(part.reports is None for part in mine)
        say(f"refuse {known:>12,}  {reason}" + (f", and {unknown:,} places with an unknown number" if unknown else ""))
        for part in mine[:EXAMPLES_SHOWN]:
            say(shown(f"{'':21}{part.source} at {part.position}: {part.detail}"))
    if with_id:
        say(f"{with_id:,} reports carry an id; duplicates among them would be counted once")
    return 1 if letters else 0


def _read(
    parser: Parser, files: Mapping[str, int]
) -> tuple[Counter[tuple[str, str]], int, dict[str, list[DeadLetter]]]:
    accepted: Counter[tuple[str, str]] = Counter()
    letters: dict[str, list[DeadLetter]] = {}
    with_id = 0
    for outcome in _outcomes(parser, files):
        if isinstance(outcome, DeadLetter):
            letters.setdefault(outcome.reason, []).append(outcome)
            continue
        with_id += int(outcome.sizes[outcome.has_id].sum())
        for place, revisions in enumerate(parser.plan.revisions):
            for index, kind in enumerate(revisions):
                mine = (outcome.collection == place) & (outcome.revision == index)
                accepted[kind.name, kind.revision] += int(outcome.sizes[mine].sum())
    return +accepted, with_id, letters


def _outcomes(parser: Parser, files: Mapping[str, int]) -> Iterator[Uploads | DeadLetter]:
    for path, size in files.items():
        for part in ranges(path, size):
            for read in read_range(*part):
                yield from parser.parse(read)
