"""`python -m benchmarks.chaos`: random faults against a real stream on this machine; exit code 1 on any loss."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.chaos import contained
from benchmarks.chaos.run import ChaosPlan, run
from benchmarks.chaos.schedule import KINDS, Fault, fault
from benchmarks.chaos.sender import SenderError
from benchmarks.chaos.table import markdown, put_into
from benchmarks.chaos.watch import LostError
from devtools.processes import ProcessError
from devtools.tools import ROOT, InstallError, ToolMissingError

MODULE = "benchmarks.chaos"


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    defaults = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__, formatter_class=defaults)
    parser.add_argument("--seed", type=int, help="of all faults and reports; printed, so that a run can be repeated")
    parser.add_argument("--minutes", type=_positive, default=10.0, help="no fault begins later than this")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="fault N of the seed alone; repeatable")
    parser.add_argument("--dir", type=Path, default=ROOT / "build" / "chaos", help="for logs, and the table of the run")
    parser.add_argument("--document", type=Path, metavar="FILE", help="a Markdown file whose table is replaced")
    parser.add_argument("--list", type=int, metavar="N", help="print the first N faults of the seed, and start nothing")
    parser.add_argument("--contained", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _positive(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed: a number of minutes above 0")
    return minutes


def main(argv: Sequence[str] | None = None) -> int:
    options = parse_arguments(argv)
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    if options.list:
        for number in range(1, options.list + 1):
            print(f"{number:3}  {fault(seed, number)}")
        return 0
    if not options.contained and contained.permitted():
        forwarded = list(sys.argv[1:] if argv is None else argv)
        return contained.run(
            MODULE, [*forwarded, *([] if options.seed is not None else ["--seed", str(seed)]), "--contained"]
        )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return execute(options, seed)
    except (ToolMissingError, InstallError, ProcessError, LostError, SenderError, TimeoutError, ValueError) as error:
        say(f"chaos: {error}\nlogs are in {options.dir.absolute() / str(seed)}")
        return 1
    except KeyboardInterrupt:
        say("stopped")
        return 130


def execute(options: argparse.Namespace, seed: int) -> int:
    command = f"make chaos SEED={seed} MINUTES={options.minutes:g}"
    say(f"seed {seed}; the same again: {command}")
    if not options.contained:
        say("this machine permits no mounts of our own: faults of disks are left out")
    folder = options.dir.absolute() / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    outcomes = run(
        ChaosPlan(
            seed, faults(seed, options.only, options.contained), options.minutes, folder, options.contained, say=say
        )
    )
    lost = [outcome for outcome in outcomes if outcome.problems]
    summary = f"{len(outcomes) - len(lost)} of {len(outcomes)} faults without a loss"
    table = markdown(outcomes, command, summary)
    say(table)
    (options.dir / "table.md").write_text(table)
    if options.document and not lost:
        put_into(options.document, table)
    if lost:
        number = lost[0].fault.number
        say(f"lost; everything is in {folder}; that fault alone: python -m {MODULE} --seed {seed} --only {number}")
        return 1
    return 0


def faults(seed: int, only: Sequence[int] | None, with_disks: bool) -> Iterator[Fault]:
    """The faults of a seed, without those that this machine does not permit: the others keep their numbers."""
    number = 0
    while True:
        number += 1
        if only and number > max(only):
            return
        candidate = fault(seed, number, KINDS)
        permitted = with_disks or not any(injury.kind.needs_disks for injury in candidate.injuries)
        if permitted and (not only or number in only):
            yield candidate


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
