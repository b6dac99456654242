"""The `hushgram` command."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from hushgram import checks
from pipelines.console import UsageError, complain, say

COMMANDS = {
    "plan": "tell what error to expect, and how many reports it takes, before the first device reports",
    "simulate": "make files of privatised reports from values that are known",
    "aggregate": "count report files and estimate the distribution of every window",
    "stream": "count reports as they come, and estimate every window early, on time and late",
    "rollup": "merge kept histograms into longer windows, and estimate again",
    "check": "tell what of some report files would be accepted and refused",
    "show": "snapshots as a table in the terminal",
    "view": "snapshots as a page for the browser, written as one file or shown live",
}
MODULES = {"aggregate": "batch", "stream": "streaming"}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  hushgram {name.ljust(width)}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(["the distribution of a number, without any device's number", "", *lines, "", "each has --help"])


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(usage())
        return 0 if arguments else 2
    name = arguments[0]
    if name not in COMMANDS:
        complain(f"no command {name!r}, allowed: {', '.join(COMMANDS)}{checks.hint(name, COMMANDS)}")
        return 2
    try:
        run = _command(name)
        return run(arguments[1:])
    except UsageError as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:
        complain("stopped")
        return 130


def _command(name: str) -> Callable[[Sequence[str]], int]:
    """Beam warns, as it is imported, of parts that were never asked for; afterwards it may say what it likes."""
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    run: Callable[[Sequence[str]], int] = import_module(f"pipelines.{MODULES.get(name, name)}").run
    logging.getLogger().setLevel(logging.WARNING)
    return run


if __name__ == "__main__":
    sys.exit(main())
