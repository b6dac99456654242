"""`hushgram aggregate`: counts report files and estimates the distribution of every window."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, TestOptions

from hushgram.pipelines.cli import sinks
from hushgram.pipelines.cli.console import (
    UsageError,
    check_generation,
    collections_in,
    command_parser,
    complain,
    parse_share,
    parse_time,
    say,
)
from hushgram.pipelines.cli.inputs import matching_files
from hushgram.pipelines.cli.options import parse, plain_flags
from hushgram.pipelines.cli.outputs import check_directory, disk_errors_in_one_line
from hushgram.pipelines.cli.progress import Progress
from hushgram.pipelines.formatting import count
from hushgram.pipelines.results import reading, result_files
from hushgram.pipelines.runners import check_runner, engine_of, job_errors, only_translated, pipeline_with, runs_here
from hushgram.pipelines.staging import staged_requirements
from hushgram.schemas.records import REASONS
from hushgram.transforms.aggregate import AggregateRun
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.parsing import Parser
from hushgram.transforms.run_store import DEAD_LETTERS, committed_runs, outcome, plan_attempt
from hushgram.transforms.runs import Attempt, CountedFile, RunError, default_name
from hushgram.transforms.sinks.files import FORMATS
from hushgram.transforms.sinks.result_files import WriteHistograms, WriteSnapshots
from hushgram.transforms.sources.avro_files import ReadReportFiles, fingerprint
from hushgram.transforms.spilling import spill_folder

EXAMPLE = "hushgram aggregate --collections collections.yaml --input 'reports/*.avro' --output results"
ATTEMPTS = 5
"""A run that others got in the way of is repeated this often."""
LISTING_THREADS = 16


@dataclass(frozen=True)
class BatchJob:
    """A batch run, its options checked."""

    index: CollectionIndex
    inputs: tuple[str, ...]
    output: str
    run: str
    as_of: int
    replace: tuple[str, ...] = ()
    format: str = "avro"
    generation: int = 0
    fanout: int = 0
    max_refused: float = 1.0
    sinks: tuple[sinks.Sink, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--input", required=True, action="append", metavar="GLOB", help="report files; may be repeated")
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="the folder for the results; any number of runs add up there"
    )
    parser.add_argument("--run", metavar="NAME", help="the name of this run (default: made from the input patterns)")
    parser.add_argument(
        "--replace", action="append", default=[], metavar="RUN", help="a run that this one replaces; may be repeated"
    )
    sinks.add_argument(parser)
    parser.add_argument("--format", choices=FORMATS, default="avro", help="the format of the results (default: avro)")
    parser.add_argument("--as-of", metavar="TIME", help="the time of the run: later reports are refused (default: now)")
    parser.add_argument(
        "--generation", type=int, default=0, help="higher for a correction that counts fewer reports (default: 0)"
    )
    parser.add_argument(
        "--max-refused",
        metavar="SHARE",
        default="100%",
        help="exit with 1 if more than this share of reports was refused, duplicates aside, such as 1%%",
    )
    parser.add_argument(
        "--fanout",
        type=int,
        default=0,
        help="add up each window on this many workers first (default: 0, the engine's own way); streams have no fanout",
    )


def job_of(options: argparse.Namespace, for_beam: Sequence[str] = ()) -> BatchJob:
    """The checked job, or a `UsageError` that a person can act on: before any worker starts."""
    index = CollectionIndex.of(collections_in(options.collections).values())
    check_generation(options.generation)
    if options.fanout < 0:
        raise UsageError("--fanout: allowed: zero or more")
    as_of = parse_time("--as-of", options.as_of) if options.as_of else int(time.time() * 1000)
    temp_location = PipelineOptions(list(for_beam)).view_as(GoogleCloudOptions).temp_location
    here = not any(option.startswith("--runner") for option in for_beam)
    if here:
        check_directory("--output", options.output, ("snapshots", "histograms", "runs"))
    context = sinks.SinkContext(
        streaming=False, here=here, temp_location=temp_location, patience_seconds=sinks.patience_in(options)
    )
    return BatchJob(
        index=index,
        inputs=tuple(options.input),
        output=options.output if "://" in options.output else os.path.abspath(options.output),
        run=options.run or default_name(options.input),
        replace=tuple(options.replace),
        format=options.format,
        as_of=as_of,
        generation=options.generation,
        fanout=options.fanout,
        max_refused=parse_share("--max-refused", options.max_refused),
        sinks=sinks.sinks_of(options.sink, context),
    )


def input_files(patterns: Sequence[str]) -> list[CountedFile]:
    """The files that patterns find, with their fingerprints."""
    found = matching_files(patterns)
    with ThreadPoolExecutor(LISTING_THREADS) as threads:
        fingerprints = list(threads.map(fingerprint, found))
    return [CountedFile(path, size, mark) for (path, size), mark in zip(found.items(), fingerprints, strict=True)]


def plan_run(job: BatchJob) -> Attempt:
    """What the run may do beside the runs that the folder has by now."""
    try:
        with reading(job.output):
            runs = committed_runs(job.output)
            others = [] if runs else result_files(job.output, "histograms")
        if others:
            raise RunError(
                f"--output {job.output}: has results of `stream` or `rollup`; batch runs need their own folder"
            )
        return plan_attempt(job.output, job.run, input_files(job.inputs), runs, job.generation, job.replace)
    except RunError as error:
        raise UsageError(str(error)) from None


def build(
    pipeline: beam.Pipeline,
    job: BatchJob,
    attempt: Attempt,
    fail_if_refused: bool = False,
    spill_folder: str | None = None,
) -> None:
    """The pipeline as a sentence."""
    reads = pipeline | "Read" >> ReadReportFiles([(file.path, file.size) for file in attempt.files])
    parser = Parser(job.index, job.as_of)
    aggregate = AggregateRun(parser, attempt, job.format, job.fanout, fail_if_refused, spill_folder)
    results = reads | "Aggregate" >> aggregate
    results.snapshots | "Write snapshots" >> WriteSnapshots(job.output, job.format)
    results.histograms | "Write histograms" >> WriteHistograms(job.output, job.format)
    sinks.write_to(job.sinks, results)


def run(argv: Sequence[str]) -> int:
    """Runs with the command line's options; those it does not know are Beam's, which must know them."""
    parser = command_parser("aggregate", __doc__, EXAMPLE)
    add_arguments(parser)
    options, rest = parse(parser, argv, runner="FnApiRunner")
    check_runner(rest)
    for_beam = plain_flags(rest)
    return execute(job_of(options, for_beam), for_beam)


def execute(job: BatchJob, for_beam: Sequence[str]) -> int:
    """0 if the run is committed and counted something, and no more was refused than allowed; else 1."""
    started = time.monotonic()
    if not any(option.startswith("--runner") for option in for_beam):
        for_beam = [*for_beam, "--runner=FnApiRunner"]
    options = PipelineOptions(list(for_beam), save_main_session=False)
    if only_translated(options):
        return _translate(job, options)
    engine = engine_of(for_beam)
    for _ in range(ATTEMPTS):
        with disk_errors_in_one_line():
            attempt = plan_run(job)
            pipeline = pipeline_with(options)
            with spill_folder(attempt.folder) if runs_here(for_beam) else nullcontext() as folder:
                build(pipeline, job, attempt, spill_folder=folder)
                with job_errors(), Progress():
                    engine.submitting()
                    with staged_requirements(pipeline.options):
                        result = pipeline.run()
                    engine.submitted()
                    result.wait_until_finish()
            refusal = outcome(attempt)
        if refusal is None or not refusal.passing:
            break
        complain(f"{refusal.detail}; counting again")
    counters = counters_of(result)
    summarise(counters, time.monotonic() - started)
    if refusal is not None:
        complain(refusal.detail)
        return 1
    for index, sink in enumerate(job.sinks):
        written = counters_of(result, sinks.step_name(index, sink))
        say(sinks.closing_line(sink.name, written.get("snapshots", 0), written.get("no_better_snapshots", 0)))
    as_of = datetime.fromtimestamp(job.as_of / 1000, UTC)
    files = count(len(attempt.files), "file")
    say(f"run {job.run} of {files} is part of {job.output}, as of {as_of:%Y-%m-%d %H:%M} UTC")
    return judge(counters, job.max_refused, FileSystems.join(attempt.folder, DEAD_LETTERS))


def _translate(job: BatchJob, options: PipelineOptions) -> int:
    """Builds the job without waiting for it. A dry run looks at no folder; a template's launcher has to, and since
    nobody waits for its job, a run that is refused ends as a failed job."""
    if options.view_as(TestOptions).dry_run:
        attempt = plan_attempt(job.output, job.run, input_files(job.inputs), [], job.generation)
    else:
        attempt = plan_run(job)
    pipeline = pipeline_with(options)
    build(pipeline, job, attempt, fail_if_refused=True)
    with staged_requirements(pipeline.options):
        pipeline.run()
    say("the job is translated, and was not started")
    return 0


def counters_of(result: Any, step: str | None = None) -> dict[str, int]:
    """The counters of a run that has ended, by name: all of them, or those of one step."""
    counters: dict[str, int] = {}
    for counter in result.metrics().query()["counters"]:
        if step is None or counter.key.step.startswith(f"{step}/"):
            name = counter.key.metric.name
            counters[name] = counters.get(name, 0) + counter.committed
    return counters


def refusals(counters: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Refused reports by reason, and the number of places that hold an unknown number of them."""
    refused = {reason: counters.get(f"refused_{reason}", 0) for reason in sorted(REASONS)}
    return {reason: reports for reason, reports in refused.items() if reports}, counters.get("unreadable_places", 0)


def summarise(counters: Mapping[str, int], seconds: float) -> None:
    """read = accepted + refused, by reason."""
    read, accepted, windows = (counters.get(name, 0) for name in ("read", "accepted", "estimated"))
    refused, unknown = refusals(counters)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in refused.items())
    total = sum(refused.values())
    say(f"read {read:,} reports = accepted {accepted:,} + refused {total:,}" + (f" ({reasons})" if reasons else ""))
    if unknown:
        say(f"and {unknown:,} places that could not be read, with an unknown number of reports")
    say(f"{count(windows, 'window')} in {seconds:.1f} s, {read / seconds:,.0f} reports/s")


def judge(counters: Mapping[str, int], max_refused: float, letters: str) -> int:
    """The exit code that a scheduler acts on: 1 if nothing was accepted, or more was refused than allowed.

    A place that cannot be read counts as one report, since it holds at least that; a duplicate was counted before.
    """
    refused, unknown = refusals(counters)
    lost = sum(count for reason, count in refused.items() if reason != "duplicate") + unknown
    if lost:
        say(f"dead letters in {letters}")
    if not counters.get("accepted", 0):
        complain("no report was accepted: `hushgram check` says why, with examples")
        return 1
    share = lost / (counters.get("read", 0) + unknown)
    if share > max_refused:
        complain(f"--max-refused: {share:.2%} of the reports were refused, allowed: {max_refused:.2%}")
        return 1
    return 0
