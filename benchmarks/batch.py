"""How fast the batch pipeline is, as ratios within one run: `python -m benchmarks.batch`.

The reference is the plain way to do it in Beam, one element for each report: ReadFromAvro, TimestampedValue,
WindowInto, CombinePerKey, on the in-process runner with one worker, as ours. It reads one of the same files, since all
of them would take it minutes; what that takes beyond a run of hardly any reports is its price for a report. Ours also
removes duplicates, estimates the windows and writes the results.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import io
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window

from benchmarks.stages import Stages, time_native_alone
from hushgram import Collection, load_collections
from hushgram.pipelines import aggregate
from hushgram.pipelines.simulate import command
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.container import SYNC_SIZE, read_header

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 256
    epsilon: 1.0
    groups: [DE, FR, US]
"""
SINGLE = 20_000_000
HARDLY_ANY = 4_000
"""Enough for every window to have some, so that all are estimated."""
FILES = 200
PACKED = 100_000_000
HOURS = 4
START = 1_767_225_600_000


class CountCells(beam.CombineFn):
    """The obvious implementation: a vector, and one added to it for each report."""

    def __init__(self, cells: int) -> None:
        self.cells = cells

    def create_accumulator(self) -> Any:
        return np.zeros(self.cells, dtype=np.int64)

    def add_input(self, accumulator: Any, element: int) -> Any:
        accumulator[element] += 1
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> Any:
        return sum(accumulators, self.create_accumulator())

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


def _timestamped(report: dict[str, Any]) -> Any:
    element = (report["collection"], report["group"] or ""), report["cell"]
    return window.TimestampedValue(element, report["event_time"].timestamp())


def time_plain_beam(pattern: str, cells: int) -> float:
    """Seconds of the plain pipeline."""
    start = time.perf_counter()
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        (
            pipeline
            | beam.io.ReadFromAvro(pattern)
            | beam.Map(_timestamped)
            | beam.WindowInto(window.FixedWindows(3600))
            | beam.CombinePerKey(CountCells(cells))
        )
    return time.perf_counter() - start


def time_ours(collections: Path, pattern: str, output: Path, *options: str) -> float:
    """Seconds of `hushgram aggregate`."""
    start = time.perf_counter()
    arguments = ["--collections", str(collections), "--input", pattern, "--output", str(output), *options]
    with open(os.devnull, "w") as devnull:
        stdout, sys.stdout = sys.stdout, devnull
        try:
            aggregate.run(arguments)
        finally:
            sys.stdout = stdout
    return time.perf_counter() - start


def simulate(folder: Path, collections: Path, reports: int) -> list[Path]:
    """Files of single reports, each with its id."""
    options = ["--collections", str(collections), "--reports", str(reports), "--hours", str(HOURS), "--ids"]
    command.run([*options, "--output", str(folder)])
    return sorted(folder.glob("*.avro"))


def write_packed(directory: Path, collection: Collection, reports: int) -> None:
    """Batches of 1000 reports, ten million to a file."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for number, first in enumerate(range(0, reports, 10_000_000)):
        count = min(10_000_000, reports - first)
        cells = collection.simulate(180 * rng.beta(5, 2, count), rng)
        rows = (
            {
                "collection": collection.name,
                "revision": bytes.fromhex(collection.revision),
                "cells": cells[at : at + 1000].astype("<u2").tobytes(),
                "event_time": START + int(rng.integers(0, HOURS * 3_600_000)),
                "group": collection.groups[at // 1000 % 3],
                "id": None,
            }
            for at in range(0, count, 1000)
        )
        with (directory / f"{number:03d}.avro").open("wb") as file:
            fastavro.writer(file, REPORT_BATCH.parsed, rows, codec="snappy", sync_interval=1 << 18)


def copy_often(path: Path, folder: Path, times: int) -> None:
    """A file many times, each with a sync marker of its own, since files that begin alike are taken for copies."""
    folder.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes()
    sync = read_header(io.BytesIO(data)).sync
    for number in range(times):
        (folder / f"copy-{number:04d}.avro").write_bytes(data.replace(sync, secrets.token_bytes(SYNC_SIZE)))


def measure_memory(collections: Path, directory: Path) -> float:
    """Megabytes at the highest of a process that aggregates a directory."""
    # VmHWM, since ru_maxrss of a child begins with what its parent had.
    code = (
        "import re, sys; from pathlib import Path; from benchmarks import batch;"
        "batch.time_ours(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]));"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) / 1024)"
    )
    arguments = [str(collections), str(directory / "*.avro"), str(directory / "out")]
    completed = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return float(completed.stdout.split()[-1])


def measure_estimation() -> float:
    """The time of 1000 groups' estimates together, over that of one by one."""
    collection = Collection(name="c", low=0, high=1, buckets=256, epsilon=1.0)
    rng = np.random.default_rng(1)
    tallies = [collection.tally(collection.simulate(rng.beta(5, 2, 5000), rng)) for _ in range(1000)]
    start = time.perf_counter()
    collection.estimate_many(tallies)
    together = time.perf_counter() - start
    start = time.perf_counter()
    for tally in tallies[:100]:
        collection.estimate(tally)
    return together / (10 * (time.perf_counter() - start))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        collections = base / "collections.yaml"
        collections.write_text(YAML)
        [collection] = load_collections(collections).values()
        cells = collection.mechanism.cells
        files = simulate(base / "single", collections, SINGLE)
        write_packed(base / "packed", collection, PACKED)
        singles, packed = str(base / "single" / "*.avro"), str(base / "packed" / "*.avro")
        few, tiny = (simulate(base / str(reports), collections, reports)[0] for reports in (HARDLY_ANY, 10))
        copy_often(tiny, base / "files", FILES)
        shutil.copy(few, base / "files" / "few.avro")
        time_ours(collections, singles, base / "warm")

        start, start_of_two, of_files = (
            min(time_ours(collections, str(pattern), base / f"{name}-{turn}", *options) for turn in range(3))
            for name, pattern, options in (
                ("one", few, ()),
                ("two", few, ("--direct_num_workers=2",)),
                ("files", base / "files" / "*.avro", ()),
            )
        )
        fast = min(time_ours(collections, singles, base / "o1") for _ in range(3))
        small = min(time_ours(collections, packed, base / "o2") for _ in range(2))
        native = min(time_native_alone(files, cells)[0] for _ in range(3))
        stages = min((Stages([collection], files) for _ in range(3)), key=lambda stages: stages.total)
        plain_start, plain_file = (min(time_plain_beam(str(path), cells) for _ in range(2)) for path in (few, files[0]))
        plain = plain_start + (plain_file - plain_start) / command.ROWS_PER_FILE * SINGLE
        grows, own = (1e9 * seconds / SINGLE for seconds in (fast - start, stages.total))
        rows = [
            ("Report files (deflate, with ids and groups) against plain Beam", f"{plain / fast:.0f}× faster", "≥ 60×"),
            ("(reports/s: plain Beam, ours)", f"{SINGLE / plain:,.0f}, {SINGLE / fast:,.0f}", ""),
            (
                "ReportBatch files, reports/s against the same",
                f"{(PACKED / small) / (SINGLE / plain):,.0f}× ({PACKED / small / 1e6:.1f} M/s)",
                "≥ 1000×",
            ),
            (f"(fixed: a run of {HARDLY_ANY:,} reports in the same {4 * HOURS} windows)", f"{start:.2f} s", ""),
            (
                "(the same with two threads, so with two bundles where there is work for them)",
                f"{start_of_two:.2f} s",
                "",
            ),
            ("(each file more)", f"{1e3 * (of_files - start) / FILES:.1f} ms", ""),
            (
                "(grows with reports; of that our own code, and Beam)",
                f"{grows:.0f} ns; {own:.0f}, {grows - own:.0f}",
                "",
            ),
            ("the same without Beam, reports/s", f"{SINGLE / stages.total / 1e6:.1f} M/s", "≥ 5 M/s"),
            (
                "(nanoseconds a report)",
                ", ".join(f"{step} {cost:.0f}" for step, cost in stages.nanoseconds().items()),
                "",
            ),
            ("share of the speed of inflate, decode and bincount alone", f"{100 * native / fast:.0f} %", "≥ 40 %"),
            ("estimating 1000 groups, d = 256, against one by one", f"{measure_estimation():.2f}× the time", "≤ 0.4×"),
        ]
        write_packed(base / "ten", collection, 10_000_000)
        ten, hundred = measure_memory(collections, base / "ten"), measure_memory(collections, base / "packed")
        measured = f"{hundred / ten:.2f}×, {hundred:.0f} MB"
        rows.append(("10⁸ packed reports: memory against that at 10⁷", measured, "≤ 1.2×, under 700 MB"))
        print("| what | measured | target |\n|---|---|---|")
        for row in rows:
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
