"""`hushgram conform`: examines a client in any language, by scripted and by free draws, and reports on its ε."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from hushgram import __version__
from hushgram.pipelines.cli.console import UsageError, collections_in, command_parser, say
from hushgram.pipelines.conform.free_draws import (
    ODDS,
    LawResult,
    Question,
    examine_law,
    question_about,
    question_of,
)
from hushgram.pipelines.conform.program import Program, ProgramError
from hushgram.pipelines.conform.report import Examination, as_json, report_lines
from hushgram.pipelines.conform.uploads import UploadsResult, examine_uploads
from hushgram.pipelines.conform.vectors import VectorsResult, examine_vectors, vector_sets

EXAMPLE = "hushgram conform --json -- node client.js --conform > conformance.json"
LEAST_DRAWS, MOST_DRAWS = 1000, 10_000_000
SHARE = 0.9
"""The part of the odds that tests of laws have; what is left is more than repeats and ids take."""
DRAWN_SETS = ("several widths", "a total near 2^63")
"""Sets that are drawn from beside the first of each mechanism: other laws than that."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", metavar="FILE", help="examine the laws of these collections, too")
    parser.add_argument(
        "--draws", type=int, default=40_000, metavar="N", help="reports of each value that is drawn (default: 40000)"
    )
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for one answer (default: 60)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("program", nargs="+", metavar="PROGRAM", help="behind --, the client and its arguments")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("conform", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    """Exit code 0 if the client conforms, 1 if it does not."""
    if not LEAST_DRAWS <= options.draws <= MOST_DRAWS:
        raise UsageError(f"--draws: got {options.draws}, allowed: a whole number from {LEAST_DRAWS} to {MOST_DRAWS}")
    if not 0 < options.timeout <= 86_400:
        raise UsageError(f"--timeout: got {options.timeout:g}, allowed: seconds, above 0 and at most a day")
    questions = list(_questions(options.collections))
    found = examine(options.program, questions, options.draws, options.timeout)
    if options.json:
        say(json.dumps(as_json(found), ensure_ascii=False, indent=2))
    else:
        for line in report_lines(found):
            say(line)
    return 0 if found.conforms else 1


def _questions(collections: str | None) -> Iterator[Question]:
    files = set()
    for part in vector_sets():
        if part.tells_values_apart and (part.file not in files or part.name.endswith(DRAWN_SETS)):
            files.add(part.file)
            yield question_of(part)
    if collections is not None:
        yield from map(question_about, collections_in(collections).values())


def examine(command: Sequence[str], questions: Sequence[Question], draws: int, seconds: float) -> Examination:
    """Runs the client twice: what one process draws, another must not draw again."""
    vectors: VectorsResult | None = None
    laws: list[LawResult] = []
    uploads: UploadsResult | None = None
    stopped = None
    try:
        with Program(command, seconds) as program, Program(command, seconds) as second:
            vectors = examine_vectors(program, vector_sets())
            for question in questions:
                laws.append(examine_law(program, second, question, draws, SHARE * ODDS / len(questions)))
            uploads = examine_uploads((program, second), questions[0])
    except ProgramError as error:
        stopped = str(error)
    examined_at = datetime.now(UTC).isoformat(timespec="seconds")
    return Examination(list(command), __version__, examined_at, ODDS, vectors, laws, uploads, stopped)
