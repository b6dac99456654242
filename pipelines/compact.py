"""`hushgram compact`: folds old panes away, so that each collection and day has one file of the best ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from hushgram import CollectionError
from hushgram.pipelines.cli.console import UsageError, command_parser, complain, say
from hushgram.pipelines.cli.inputs import name_passed_over
from hushgram.pipelines.cli.outputs import writing
from hushgram.pipelines.formatting import count, shown
from hushgram.pipelines.results import none_there, reading
from hushgram.transforms.compaction import Compacted, folders
from hushgram.transforms.filesystem import Matched, PassedOver
from hushgram.transforms.folding import KINDS
from hushgram.transforms.sinks.files import FORMATS
from hushgram.windows import parse_duration

EXAMPLE = "hushgram compact results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="RESULTS", help="a folder of results; a stream may be writing to it")
    parser.add_argument(
        "--older-than",
        default="10m",
        metavar="TIME",
        help="leave files alone that were written since; 0s takes all (default: 10m)",
    )
    parser.add_argument("--format", choices=FORMATS, help="the format of the new files (default: that of the newest)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("compact", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    try:
        age_ms = parse_duration("--older-than", options.older_than)
    except CollectionError as error:
        raise UsageError(str(error)) from None
    changed_before = time.time() - age_ms / 1000
    young, done, passed_over = 0, list[Compacted](), list[PassedOver]()

    def name(found: Matched) -> None:
        name_passed_over(found)
        passed_over.extend(found.passed_over)

    with writing("RESULTS", options.directory):
        for kind in KINDS:
            with reading(options.directory):
                found = folders(kind, options.directory, changed_before, name)
            young += sum(folder.young for folder in found)
            for folder in found:
                done.append(folder.compact(options.format, options.dry_run))
                _report(kind.name, done[-1], options.dry_run)
    if not young and not done:
        raise UsageError(f"{options.directory}: {none_there(options.directory, 'snapshots')}")
    files, written = sum(one.files for one in done), sum(one.written for one in done)
    line = (
        f"would fold {count(files, 'file')}" if options.dry_run else f"folded {count(files, 'file')} into {written:,}"
    )
    say(line + (f"; {count(young, 'file')} younger than {options.older_than} left alone" if young else ""))
    return 1 if passed_over or any(one.problems for one in done) else 0


def _report(kind: str, one: Compacted, dry_run: bool) -> None:
    for problem in one.problems:
        complain(f"left alone: {shown(problem)}")
    if one.files:
        into = "" if dry_run else f" -> {count(one.written, 'file')}"
        panes = f"{count(one.panes, 'pane')}, {one.kept:,} of them best"
        say(f"{kind}/{shown(one.name)}: {count(one.files, 'file')}{into}: {panes}")
