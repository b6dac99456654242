"""`hushgram aggregate`: report files in; snapshots, histograms and dead letters out."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.iobase import Read
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from pipelines import sinks
from pipelines.console import UsageError, check_generation, collections_in, parse_time, say
from pipelines.engines import check_runner, engine_of, only_translated, pipeline_with, quieten
from pipelines.options import parse, plain_flags
from pipelines.progress import Progress
from schemas.definitions import DEAD_LETTER, HISTOGRAM, SNAPSHOT
from transforms.aggregate import AggregateReports
from transforms.parse import Parser
from transforms.plan import Plan
from transforms.sinks.files import FORMATS, WriteRecords
from transforms.sources.avro_files import AvroBlocks

EXAMPLE = "hushgram aggregate --collections collections.yaml --input 'reports/*.avro' --output results"


@dataclass(frozen=True)
class Job:
    """A batch run, its options checked."""

    plan: Plan
    inputs: tuple[str, ...]
    output: str
    format: str
    as_of: int
    generation: int
    fanout: int
    sinks: tuple[sinks.Sink, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--input", required=True, action="append", metavar="GLOB", help="report files; may be repeated")
    parser.add_argument("--output", required=True, metavar="DIR", help="where snapshots, histograms and letters go")
    sinks.add_argument(parser)
    parser.add_argument("--format", choices=FORMATS, default="avro", help="of the results (default: avro)")
    parser.add_argument("--as-of", metavar="TIME", help="later reports are from the future (default: now)")
    parser.add_argument("--generation", type=int, default=0, help="a corrected rerun takes a higher one")
    parser.add_argument("--fanout", type=int, default=0, help="spread hot keys over so many workers first")


def job_of(options: argparse.Namespace, for_beam: Sequence[str] = ()) -> Job:
    """The checked job, or a `UsageError` that a person can act on: before any worker starts."""
    plan = Plan.of(collections_in(options.collections).values())
    for pattern in options.input:
        check_input(pattern)
    check_generation(options.generation)
    if options.fanout < 0:
        raise UsageError("--fanout: allowed: zero or more")
    as_of = parse_time("--as-of", options.as_of) if options.as_of else int(time.time() * 1000)
    temp_location = PipelineOptions(list(for_beam)).view_as(GoogleCloudOptions).temp_location
    here = not any(option.startswith("--runner") for option in for_beam)
    others = sinks.sinks_of(options.sink, sinks.Run(streaming=False, here=here, temp_location=temp_location))
    inputs = tuple(options.input)
    return Job(plan, inputs, options.output, options.format, as_of, options.generation, options.fanout, others)


def check_input(pattern: str) -> None:
    """Whether there is something to read, told before the pipeline starts."""
    try:
        found = [file.path for file in FileSystems.match([pattern])[0].metadata_list]
    except Exception as error:  # each file system has errors of its own
        raise UsageError(f"--input {pattern}: cannot be read: {error}") from None
    if not found:
        raise UsageError(f"--input {pattern}: no such file (quote patterns, so that the shell leaves them alone)")
    for path in found:
        if Path(path).is_dir():
            raise UsageError(f"--input {pattern}: {path} is a directory; name its files, such as '{path}/*.avro'")


def build(pipeline: beam.Pipeline, job: Job) -> None:
    """The pipeline as a sentence."""
    runs = [
        pipeline | f"Read {index}" >> Read(AvroBlocks(pattern)) for index, pattern in enumerate(job.inputs)
    ] | "All runs" >> beam.Flatten()
    results = runs | "Aggregate" >> AggregateReports(Parser(job.plan, job.as_of), job.generation, job.fanout)
    for kind, definition, records in (
        ("snapshots", SNAPSHOT, results.answers | "Snapshots" >> beam.Keys()),
        ("histograms", HISTOGRAM, results.answers | "Histograms" >> beam.Values()),
        ("dead_letters", DEAD_LETTER, results.letters),
    ):
        directory = FileSystems.join(job.output, kind)
        records | f"Write {kind}" >> WriteRecords(directory, definition, job.format)
    sinks.write_to(job.sinks, results)


def run(argv: Sequence[str]) -> int:
    """Runs with the command line's options; those it does not know are Beam's, which must know them."""
    parser = argparse.ArgumentParser(
        prog="hushgram aggregate", description=__doc__, epilog=f"example: {EXAMPLE}", allow_abbrev=False
    )
    add_arguments(parser)
    options, given = parse(parser, argv, runner="FnApiRunner")
    check_runner(given)
    for_beam = plain_flags(given)
    return execute(job_of(options, for_beam), for_beam)


def execute(job: Job, for_beam: Sequence[str]) -> int:
    started = time.monotonic()
    quieten()
    if not any(option.startswith("--runner") for option in for_beam):
        for_beam = [*for_beam, "--runner=FnApiRunner"]
    options = PipelineOptions(list(for_beam), save_main_session=False)
    pipeline = pipeline_with(options)
    build(pipeline, job)
    if only_translated(options):
        pipeline.run()
        say("the job is translated, and was not started")
        return 0
    engine = engine_of(for_beam)
    with Progress():
        engine.submitting()
        result = pipeline.run()
        engine.submitted()
        result.wait_until_finish()
    counters = counted(result)
    summarise(counters, time.monotonic() - started)
    for sink in job.sinks:
        say(sinks.closing_line(sink.name, counters.get(sink.name, 0), counters.get(f"{sink.name}: no better", 0)))
    say(f"results in {job.output}, as of {datetime.fromtimestamp(job.as_of / 1000, UTC):%Y-%m-%d %H:%M} UTC")
    return 0


def counted(result: Any) -> dict[str, int]:
    """The counters of a run that has ended, by name."""
    counters: dict[str, int] = {}
    for counter in result.metrics().query()["counters"]:
        name = counter.key.metric.name
        counters[name] = counters.get(name, 0) + counter.committed
    return counters


def summarise(counters: Mapping[str, int], seconds: float) -> None:
    """read = accepted + refused, by reason."""
    read, accepted, windows = (counters.get(name, 0) for name in ("read", "accepted", "estimated"))
    refused = {name.partition(":")[2]: count for name, count in counters.items() if name.startswith("refused:")}
    unknown = refused.pop("of unknown number", 0)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(refused.items()) if count)
    total = sum(refused.values())
    say(f"read {read:,} reports = accepted {accepted:,} + refused {total:,}" + (f" ({reasons})" if reasons else ""))
    if unknown:
        say(f"and {unknown:,} places that could not be read, with an unknown number of reports: see dead_letters")
    say(f"{windows:,} windows in {seconds:.1f} s, {read / seconds:,.0f} reports/s")
