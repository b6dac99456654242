"""Options of a command that passes the rest of them on to Beam: each must be known to the command or to its runner.

Beam ignores what it does not know, so that a misspelt option would change nothing, and nobody would hear of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import NoReturn

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as job_api
from apache_beam.portability.api import beam_job_api_pb2_grpc as job_grpc

from hushgram.pipelines.cli import flink_options
from hushgram.pipelines.cli.console import UsageError

ON_FLINK = ("flinkrunner", "portablerunner")
ANSWER_SECONDS = 5.0
"""How long a job server may take to name the options that it knows."""

Add = Callable[[argparse.ArgumentParser], None]


def parse(parser: argparse.ArgumentParser, argv: Sequence[str], runner: str) -> tuple[argparse.Namespace, list[str]]:
    """The command's own options, and those for Beam, all of them known; `runner` is the default one."""
    options, rest = parser.parse_known_args(argv)
    rest_by_name = by_name(rest)
    runner = rest_by_name.get("runner") or runner
    beams = _parser(_add_flink_options if short_name(runner) in ON_FLINK else _add_nothing)
    plain = plain_flags(rest)
    unknown = beams.parse_known_args(plain)[1]
    endpoint = rest_by_name.get("job_endpoint")
    if unknown and endpoint and short_name(runner) == "portablerunner":
        unknown = _parser(lambda parser: _add_described_options(parser, endpoint)).parse_known_args(plain)[1]
    if unknown:
        _refuse(unknown, [*_names(parser), *_names(beams)], f"{parser.prog} or {runner}")
    return options, rest


def by_name(arguments: Sequence[str]) -> dict[str, str | None]:
    """Options by name; None is one without a value."""
    options: dict[str, str | None] = {}
    for place, option in enumerate(arguments):
        if option.startswith("--"):
            name, equals, value = option[2:].partition("=")
            following = arguments[place + 1 : place + 2]
            options[name] = value if equals else next((text for text in following if not text.startswith("--")), None)
    return options


def short_name(runner: str) -> str:
    """As Beam compares names: without the module, and without regard to case."""
    return runner.rpartition(".")[2].lower()


def _parser(add: Add) -> argparse.ArgumentParser:
    """Beam's own, with the options of all its classes, whose mistakes are lines to act on."""
    parsers: list[argparse.ArgumentParser] = []

    def add_and_keep(parser: argparse.ArgumentParser) -> None:
        add(parser)
        parsers.append(parser)

    PipelineOptions([]).get_all_options(add_extra_args_fn=add_and_keep)
    [parser] = parsers
    parser.error = _refuse_value  # type: ignore[method-assign]
    return parser


def _refuse_value(message: str) -> NoReturn:
    raise UsageError(message.removeprefix("argument "))


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    """Beam's Python package knows all options of the other runners."""


def _add_flink_options(parser: argparse.ArgumentParser) -> None:
    _add(parser, flink_options.WITH_VALUE)
    _add(parser, flink_options.SWITCH_ON, action="store_true")
    _add(parser, flink_options.SWITCH_OFF, action="store_false")


def _add_described_options(parser: argparse.ArgumentParser, endpoint: str) -> None:
    """A job server's own: of another version, or in front of another engine."""
    described = described_options(endpoint)
    flags = {option.name for option in described if option.type == job_api.PipelineOptionType.BOOLEAN}
    _add(parser, flags, action="store_true")
    _add(parser, {option.name for option in described} - flags)


def _add(parser: argparse.ArgumentParser, names: Iterable[str], action: str = "store") -> None:
    known = _names(parser)
    for name in names:
        if f"--{name}" not in known:
            parser.add_argument(f"--{name}", action=action)


def described_options(endpoint: str) -> list[job_api.PipelineOptionDescriptor]:
    """What a job server says that it knows; nothing if it does not answer."""
    with grpc.insecure_channel(endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
            request = job_api.DescribePipelineOptionsRequest()
            answer = job_grpc.JobServiceStub(channel).DescribePipelineOptions(request, timeout=ANSWER_SECONDS)
        except (grpc.RpcError, grpc.FutureTimeoutError):
            return []
        return list(answer.options)


def plain_flags(arguments: Sequence[str]) -> list[str]:
    """Options with flags as Beam takes them: with the default's word they are left out, with the other one bare.

    >>> plain_flags(["--streaming=true", "--allow_non_restored_state=false", "--operator_chaining=false"])
    ['--streaming', '--operator_chaining']
    """
    actions = _parser(_add_flink_options)._actions
    flags = {
        name: str(action.const).lower() for action in actions for name in action.option_strings if action.nargs == 0
    }
    plain = []
    for option in arguments:
        name, _, value = option.partition("=")
        if name not in flags or value.lower() not in ("true", "false"):
            plain.append(option)
        elif value.lower() == flags[name]:
            plain.append(name)
    return plain


def _names(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings}


def _refuse(unknown: Sequence[str], known: Iterable[str], by_whom: str) -> NoReturn:
    name = next((word for word in unknown if word.startswith("-")), None)
    if name is None:
        raise UsageError(
            f"{unknown[0]!r}: belongs to no option; a value follows its option, --name value or --name=value"
        )
    name = name.partition("=")[0]
    alike = {_compared(option): option for option in known}
    raise UsageError(f"{name}: no option of {by_whom}{suggestion(_compared(name), alike)}")


def _compared(option: str) -> str:
    """Dashes and underscores are mistaken for each other, and no reason to think of another option."""
    return option.strip("-").replace("-", "_").lower()


def suggestion(name: str, known: dict[str, str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {known[close[0]]}?" if close else ""
