"""The engine of a stream, recognised by Beam's options, with the options it needs for exact counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
    TestOptions,
)
from apache_beam.runners.worker import sdk_worker

from hushgram.pipelines.cli import logs, signals
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.cli.options import by_name, plain_flags, short_name, suggestion


@dataclass(frozen=True)
class Engine:
    """The options an engine requires, those it gets unless the user sets them, and those it must not get."""

    name: str
    partitions_together: bool = False
    """Whether one element holds all partitions of a topic, as an engine with one watermark for a stage needs it."""
    settled: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    """Options by name, with the reason."""
    outlives_command: bool = False
    """Whether a job goes on when the command that submitted it ends."""

    def submitting(self) -> None:
        """From now on the job may have reached the engine when a signal ends the command, which then says so."""
        if self.outlives_command:
            signals.say_when_stopped(f"stopped while submitting; {self.name} knows whether the job runs")

    def submitted(self) -> None:
        if self.outlives_command:
            signals.say_when_stopped(f"the job goes on; {self.name} is where it is stopped")


PRISM = Engine("Prism", partitions_together=True, defaults={"prism_log_level": "warn"})
FLINK = Engine(
    "Flink",
    # Without it a source element that a checkpoint meets can stall unread, and does not hold the watermark.
    settled={"finish_bundle_before_checkpointing": "true", "checkpointing_mode": "EXACTLY_ONCE"},
    defaults={"checkpointing_interval": "5000", "max_bundle_time_mills": "200", "max_bundle_size": "1000"},
    refused={"shutdown_sources_after_idle_ms": "sources would end while there is still something to read"},
    outlives_command=True,
)
DATAFLOW = Engine("Dataflow", outlives_command=True)

ENGINES = {
    "prismrunner": PRISM,
    "flinkrunner": FLINK,
    "portablerunner": FLINK,  # a job server in front of a cluster
    "dataflowrunner": DATAFLOW,
}
IN_PROCESS = Engine("the in-process runner")
KNOWN = "PrismRunner for one machine, FlinkRunner or PortableRunner for a Flink cluster, DataflowRunner"


def engine_of(arguments: Sequence[str]) -> Engine:
    """The engine of a batch job that Beam's options name; any other than a cluster ends with the command."""
    return ENGINES.get(short_name(by_name(arguments).get("runner") or ""), IN_PROCESS)


def for_stream(arguments: Sequence[str]) -> tuple[Engine, list[str]]:
    """The engine that Beam's options name, Prism if none, and all options that its job takes.

    >>> engine, options = for_stream([])
    >>> engine.name, options
    ('Prism', ['--runner=PrismRunner', '--prism_log_level=warn', '--streaming'])
    """
    options = by_name(arguments)
    runner = options.get("runner") or "PrismRunner"
    engine = ENGINES.get(short_name(runner))
    if engine is None:
        raise UsageError(f"--runner: got {runner!r}, which cannot run a stream without end; allowed: {KNOWN}")
    for name, reason in engine.refused.items():
        if name in options:
            raise UsageError(f"--{name}: not with {engine.name}: {reason}")
    for name, value in engine.settled.items():
        if (options.get(name) or value).lower() != value.lower():
            raise UsageError(f"--{name}: got {options[name]!r}, allowed: {value}, or counts would not be exact")
    interval = options.get("checkpointing_interval")
    if "checkpointing_interval" in engine.defaults and interval is not None and not _positive(interval):
        raise UsageError(
            f"--checkpointing_interval: got {interval!r}, allowed: milliseconds, since counts are exact by checkpoints"
        )
    wanted = {"runner": "PrismRunner", **engine.settled, **engine.defaults}
    added = [_written(name, value) for name, value in wanted.items() if name not in options]
    return engine, [*plain_flags(arguments), *added, *([] if "streaming" in options else ["--streaming"])]


def runs_here(arguments: Sequence[str]) -> bool:
    """Whether Beam's options name a runner whose workers are all on this machine and end with the command.

    >>> runs_here(["--runner=DirectRunner"]), runs_here(["--runner=FlinkRunner"])
    (True, False)
    """
    return short_name(by_name(arguments).get("runner") or "FnApiRunner") in ("fnapirunner", "directrunner")


def check_runner(arguments: Sequence[str]) -> None:
    """Of a batch job: one that Beam knows, or a class, by its name with dots, which Beam imports."""
    runner = by_name(arguments).get("runner") or "FnApiRunner"
    known = {name.lower(): name for name in StandardOptions.KNOWN_RUNNER_NAMES}
    if "." not in runner and not {runner.lower(), f"{runner.lower()}runner"} & set(known):
        raise UsageError(
            f"--runner: got {runner!r}, allowed: {', '.join(sorted(known.values()))}"
            + suggestion(runner.lower(), known)
        )


def only_translated(options: PipelineOptions) -> bool:
    """Whether the job is built and checked, but not started by us: in a dry run, and in a template's launcher."""
    return bool(options.view_as(TestOptions).dry_run or options.view_as(GoogleCloudOptions).template_location)


def pipeline_with(options: PipelineOptions) -> beam.Pipeline:
    """A pipeline for the runner that the options name, or the line that says what is wrong with them.

    Several workers of the in-process runner are threads unless the options say processes: with neither, Beam has one.
    """
    direct = options.view_as(DirectOptions)
    if direct.direct_num_workers != 1 and direct.direct_running_mode == "in_memory":
        direct.direct_running_mode = "multi_threading"
    # A worker inside this process prints each failure that it also logs; what is logged can be left out.
    vars(sdk_worker)["print"] = lambda *_, **__: None
    try:
        return beam.Pipeline(options=options)
    except (ValueError, ImportError, AttributeError) as error:  # values that do not go together, a runner not installed
        raise UsageError(" ".join(str(error).split())) from None


@contextmanager
def job_errors() -> Iterator[None]:
    """Around a running job: an error of ours that ended it, as a sink that stays away raises it, becomes its line."""
    try:
        yield
    except Exception as error:
        reason = logs.own_error(error)
        if reason is None:
            raise
        logs.end()
        raise UsageError(f"the job ended: {reason}") from None


def _written(name: str, value: str) -> str:
    return f"--{name}" if value == "true" else f"--{name}={value}"


def _positive(text: str) -> bool:
    return text.isdecimal() and int(text) > 0
