"""The `hushgram` command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from hushgram.pipelines.cli import signals
from hushgram.pipelines.cli.console import OutputError, UsageError, complain, say

COMMANDS = {
    "plan": "predict the error, and how many reports it takes, before the first device reports",
    "simulate": "make files of privatised reports from values that are known",
    "try": "take numbers of your own through simulated devices, the pipeline and the page",
    "aggregate": "count report files and estimate the distribution of every window",
    "stream": "count reports as they come, and estimate every window early, on time and late",
    "rollup": "merge histograms into longer windows, and estimate again",
    "compact": "fold old panes away: of each collection and day, one file of the best ones",
    "check": "list what of some report files would be accepted and refused",
    "show": "print snapshots as a table in the terminal",
    "compare": "say by how much groups, windows or whole results differ, and whether they do at all",
    "changes": "list the windows that differ from those before them, or from a week before",
    "view": "show snapshots as a page in the browser, as one file or live",
    "export": "write results as long tables for BI tools, as Parquet or CSV",
    "manifest": "write what devices need of a collection, for clients in any language",
    "conform": "examine a client in any language: does it keep its promise of privacy?",
    "replay": "send dead letters of a topic again that are acceptable now",
    "schemas": "print the schemas of reports and results, or put them into a schema registry",
    "collect": "take reports over HTTP, and keep them in files or a topic for aggregate and stream",
}
MODULES = {
    command: f"{command}.command"
    for command in ("plan", "simulate", "compare", "changes", "view", "conform", "collect", "replay")
} | {"try": "trial.command"}
"""Commands that are a folder of files."""
EXTRAS = {"collect": "collect"}
"""What a command needs, if that is not Beam."""


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  hushgram {name.ljust(width)}  {what}" for name, what in COMMANDS.items()]
    title = "the distribution of a number, without any device's number"
    return "\n".join([title, "", *lines, "", "each command has --help; hushgram --version prints the version"])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command. Without arguments this is the program: it takes those of the process, and answers to signals."""
    if argv is not None:
        return _run(list(argv))
    signals.handle()
    try:
        return _printed(_run(sys.argv[1:]))
    except SystemExit as ended:  # argparse has printed help, or what is wrong
        return _printed(ended.code if isinstance(ended.code, int) else 1)
    finally:
        signals.finish()


def _run(arguments: list[str]) -> int:
    try:
        return _answer(arguments)
    except OutputError as error:
        return _unprinted(error)


def _answer(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(usage())
        return 0 if arguments else 2
    name = arguments[0]
    if name in ("-V", "--version", "version"):
        from hushgram import __version__

        say(f"hushgram {__version__}")
        return 0
    if name not in COMMANDS:
        from hushgram import _validation  # only here: the command answers to signals before anything slow is loaded

        complain(f"no command {name!r}, allowed: {', '.join(COMMANDS)}{_validation.suggest(name, COMMANDS)}")
        return 2
    try:
        run = _command(name)
        return run(arguments[1:])
    except UsageError as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:  # where this is not the program
        complain("stopped")
        return 130


def _command(name: str) -> Callable[[Sequence[str]], int]:
    """Beam warns, as it is imported, of parts that were never asked for; afterwards it may say what it likes."""
    from importlib import import_module

    from hushgram.pipelines.cli import logs

    logs.start()
    try:
        run: Callable[[Sequence[str]], int] = import_module(f"hushgram.pipelines.{MODULES.get(name, name)}").run
    except ModuleNotFoundError as error:
        if error.name == "hushgram._compiled":
            raise UsageError(str(error)) from None
        if (error.name or "").startswith("hushgram"):
            raise
        raise UsageError(f"{name} needs {error.name}: pip install 'hushgram[{EXTRAS.get(name, 'beam')}]'") from None
    logs.warn()
    return run


def _printed(code: int) -> int:
    """The exit code, once all that was printed has left; what cannot leave is dropped."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # closed when the process started
                stream.flush()
        except OSError as error:
            code = _unprinted(OutputError(error))
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _unprinted(error: OutputError) -> int:
    """The exit code. A reader that left early, as `head` does, wants to hear no more; a full disk is worth a line."""
    if error.closed:
        return signals.exit_code(signal.SIGPIPE)
    with suppress(OutputError):
        complain(str(error))
    return 1
