"""What the template's launcher runs: the command that the image was built for, with the template's parameters.

It needs the installed package alone. Parameters come as `--name=value`, each once, with underscores in their names;
where an option may be repeated, its parameter holds several values, with a space between them. Whatever is no option
of the command is Beam's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from hushgram.pipelines import aggregate, stream
from hushgram.pipelines.cli import command

COMMANDS = {"aggregate": aggregate, "stream": stream}


def options_of(name: str) -> dict[str, argparse.Action]:
    """The options of a command by the names of their parameters."""
    parser = argparse.ArgumentParser(add_help=False)
    COMMANDS[name].add_arguments(parser)
    return {option.option_strings[0][2:].replace("-", "_"): option for option in parser._actions}


def may_be_repeated(option: argparse.Action) -> bool:
    return isinstance(option, argparse._AppendAction)


def arguments(name: str, parameters: Sequence[str]) -> list[str]:
    """The command line that some parameters stand for.

    >>> arguments("aggregate", ["--input=gs://b/a.avro gs://b/c.avro", "--as_of=2026-01-01", "--region=europe-west1"])
    ['--input=gs://b/a.avro', '--input=gs://b/c.avro', '--as-of=2026-01-01', '--region=europe-west1']
    """
    return [written for parameter in parameters for written in _written(options_of(name), parameter)]


def _written(options: dict[str, argparse.Action], parameter: str) -> Iterator[str]:
    name, equals, value = parameter.partition("=")
    option = options.get(name.removeprefix("--")) if name.startswith("--") else None
    if option is None:
        yield parameter
    elif value:  # the console sends what was left empty, too
        for part in value.split() if may_be_repeated(option) else [value]:
            yield f"{option.option_strings[0]}{equals}{part}"


if __name__ == "__main__":
    chosen = os.environ["HUSHGRAM_COMMAND"]
    sys.exit(command.main([chosen, *arguments(chosen, sys.argv[1:])]))
