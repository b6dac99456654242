"""`hushgram check`: reads report files as a run would; lists what it would accept and refuse, with examples."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hushgram.pipelines.cli.console import collections_in, command_parser, parse_time, say
from hushgram.pipelines.cli.inputs import matching_files
from hushgram.pipelines.cli.tables import table_lines
from hushgram.pipelines.formatting import shown
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.dead_messages import DeadMessage
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sources.avro_files import ranges, read_range
from hushgram.transforms.uploads import Uploads

EXAMPLE = "hushgram check --collections collections.yaml --input 'reports/*.avro'"
EXAMPLES_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--input", required=True, action="append", metavar="GLOB", help="report files; may be repeated")
    parser.add_argument("--as-of", metavar="TIME", help="the time of the run: later reports are refused (default: now)")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("check", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    """Exit code 0 if all would be accepted, 1 if something would be refused."""
    index = CollectionIndex.of(collections_in(options.collections).values())
    files = matching_files(options.input)
    as_of = parse_time("--as-of", options.as_of) if options.as_of else int(time.time() * 1000)
    accepted, with_id, letters = _read(Parser(index, as_of), files)
    rows = [["accept", f"{reports:,}", f"{name} {revision}"] for (name, revision), reports in sorted(accepted.items())]
    rows += [["refuse", *_refusal(reason, parts)] for reason, parts in sorted(letters.items())]
    examples: list[list[DeadLetter]] = [[] for _ in accepted]
    examples += [parts[:EXAMPLES_SHOWN] for _, parts in sorted(letters.items())]
    for line, parts in zip(table_lines([""] * 3, rows, indent=0), examples, strict=True):
        say(line)
        for part in parts:
            say(shown(f"{'':8}{part.source} at {part.position}: {part.detail}"))
    if with_id:
        say(f"{with_id:,} reports carry an id; duplicates among them would be counted once")
    return 1 if letters else 0


def _refusal(reason: str, letters: Sequence[DeadLetter]) -> tuple[str, str]:
    known, unknown = sum(letter.reports or 0 for letter in letters), sum(letter.reports is None for letter in letters)
    return f"{known:,}", reason + (f", and {unknown:,} places with an unknown number" if unknown else "")


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
        for place, revisions in enumerate(parser.index.revisions):
            for number, kind in enumerate(revisions):
                members = (outcome.collection == place) & (outcome.revision == number)
                accepted[kind.name, kind.revision] += int(outcome.sizes[members].sum())
    return +accepted, with_id, letters


def _outcomes(parser: Parser, files: Mapping[str, int]) -> Iterator[Uploads | DeadLetter]:
    for path, size in files.items():
        for part in ranges(path, size):
            for read in read_range(*part):
                yield from (outcome for outcome in parser.parse(read) if not isinstance(outcome, DeadMessage))
