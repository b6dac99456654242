"""`make stream-demo`: broker, engine, simulated devices and pipeline on this machine, panes as they arrive."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from devtools.beam import prism
from devtools.broker import Broker
from devtools.flink import Cluster
from devtools.processes import Process, ProcessError, stop
from devtools.tools import ROOT, InstallError, ToolMissingError
from hushgram.pipelines import show
from hushgram.pipelines.cli.console import complain, say
from hushgram.pipelines.results import read_results, result_files
from hushgram.schemas.records import Snapshot

COLLECTIONS = ROOT / "examples" / "stream.yaml"
MARK = ".hushgram-demo"
"""In the folder of a demo: another demo may empty it."""
PATIENCE = 120.0
"""Seconds after the last report within which every window must be whole."""


class FolderError(Exception):
    """A folder with something in it that a demo did not write."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.demo", description=__doc__)
    parser.add_argument("--dir", type=Path, default=ROOT / "build" / "stream-demo", help="for results, logs and data")
    parser.add_argument("--engine", choices=("prism", "flink"), default="prism")
    parser.add_argument("--rate", type=int, default=2000, help="reports a second")
    parser.add_argument("--seconds", type=int, default=30, help="that devices report for")
    options = parser.parse_args(argv)
    try:
        return run(options.dir, options.engine, options.rate, options.seconds)
    except (FolderError, ToolMissingError, InstallError, ProcessError) as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 130


def run(folder: Path, engine: str, rate: int, seconds: int) -> int:
    clear_folder(folder)
    with ExitStack() as stack:
        say("starting Kafka" + (" and Flink" if engine == "flink" else ""))
        broker = stack.enter_context(Broker(folder / "kafka"))
        if engine == "flink":
            cluster = stack.enter_context(Cluster(folder / "flink"))
            engine_options = cluster.options()
        else:
            engine_options = [f"--prism_location={prism()}"]
        source = ["--collections", COLLECTIONS, "--kafka", broker.address, "--topic", broker.create_topic("reports", 4)]
        faults = ["--ids", "--late", "0.01", "--damaged", "0.001", "--repeated", "0.01"]
        amount = ["--rate", rate, "--reports", rate * seconds, "--values", "taxi", "--output", folder]
        pipeline = stack.enter_context(
            run_command(folder, "stream", *source, "--output", folder / "results", *engine_options)
        )
        devices = stack.enter_context(run_command(folder, "simulate", *source, *amount, *faults))
        say(f"{rate:,} reports a second for {seconds} s; each line is a pane: all that is known of a window by then")
        complete = _follow(folder, pipeline, devices)
    if not complete:
        complain(f"not every window became whole; see the logs in {folder}")
        return 1
    say("every report that could be counted was counted once; the estimates, and what only the simulation knew:")
    return show.run([str(folder / "results"), "--truth", str(folder / "truth.jsonl"), "--fewest", "100"])


def clear_folder(folder: Path) -> None:
    """Empties the folder of an earlier demo, and no other."""
    mark = folder / MARK
    if folder.exists() and any(folder.iterdir()):
        if not mark.exists():
            raise FolderError(f"{folder}: is not empty, and not from a demo; --dir takes another")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()


@contextmanager
def run_command(folder: Path, name: str, *arguments: object) -> Iterator[Process]:
    """A command of hushgram, until the end of the block; its log is in the folder."""
    process = Process([sys.executable, "-m", "hushgram", name, *map(str, arguments)], folder / f"{name}.log")
    try:
        yield process
    finally:
        stop([process])


def _follow(folder: Path, pipeline: Process, devices: Process) -> bool:
    """Shows panes as they come, and returns whether every window came to hold all reports that were sent."""
    panes, end = show.Follower(str(folder / "results")), float("inf")
    while time.monotonic() < end:
        pipeline.check()
        for line in panes.lines():
            say(line)
        if not devices.alive:
            end = min(end, time.monotonic() + PATIENCE)
            if _is_complete(folder):
                return True
        time.sleep(0.5)
    return False


def _is_complete(folder: Path) -> bool:
    if not result_files(str(folder / "results"), "snapshots"):
        return False
    truths = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    reports_by_key = {s.key: s.reports for s in read_results(str(folder / "results"), "snapshots", Snapshot.from_avro)}
    reports_by_window = {
        (key.collection, key.group, key.window_start, key.window_end): reports
        for key, reports in reports_by_key.items()
    }
    return all(
        reports_by_window.get((truth["collection"], truth["group"], truth["window_start"], truth["window_end"]))
        == truth["reports"]
        for truth in truths
    )


if __name__ == "__main__":
    sys.exit(main())
