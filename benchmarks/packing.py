"""How much faster reports pass the pipeline in batches with ids than singly: `python -m benchmarks.packing`.

Equally many reports, each with an id by which duplicates are found: as messages, which come one by one as from a topic,
and in files. Both sides run in this process, on the in-process runner, and take turns; of each the fastest run counts.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import hushgram.beam as hg
from benchmarks.batch import YAML
from benchmarks.streams import encode_messages
from hushgram import Collection, load_collections
from hushgram.pipelines.simulate import command

REPORTS = 2_000_000
REPEATS = 3
LENGTH_BYTES = 4


def write_messages(path: Path, messages: Sequence[bytes]) -> None:
    """Messages one after the other, each behind its length."""
    with path.open("wb") as file:
        for message in messages:
            file.write(len(message).to_bytes(LENGTH_BYTES, "little") + message)


def read_messages(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while length := file.read(LENGTH_BYTES):
            yield file.read(int.from_bytes(length, "little"))


def time_pipeline(source: Any, collection: Collection) -> float:
    """Seconds from a source of reports to snapshots."""
    start = time.perf_counter()
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        pipeline | source | hg.AggregateReports([collection])
    return time.perf_counter() - start


def build_source(kind: str, name: str, base: Path) -> Any:
    if kind == "files":
        return hg.ReadReports(base / name / "*.avro")
    path = str(base / f"{name}.messages")
    return beam.Create([path]) | "Messages" >> beam.FlatMap(read_messages).with_output_types(bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=REPORTS, help=f"on each side (default: {REPORTS:,})")
    reports = parser.parse_args().reports
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        collections = base / "collections.yaml"
        collections.write_text(YAML)
        [collection] = load_collections(collections).values()
        simulation = ["--collections", str(collections), "--reports", str(reports), "--hours", "1"]
        command.run([*simulation, "--ids", "--output", str(base / "single")])
        command.run([*simulation, "--ids", "reports", "--packed", "--output", str(base / "packed")])
        for name, is_packed in (("single", False), ("packed", True)):
            messages = encode_messages(collection, reports, is_packed, ids=True, report_ids=True)
            write_messages(base / f"{name}.messages", messages)

        print("| what | measured | target |\n|---|---|---|")
        for kind, target in (("messages", "≥ 5×"), ("files", "")):
            seconds: dict[str, list[float]] = {"single": [], "packed": []}
            for _ in range(REPEATS):
                for name, times in seconds.items():
                    times.append(time_pipeline(build_source(kind, name, base), collection))
            single, packed = (reports / min(times) for times in seconds.values())
            rates = f"{packed / 1e3:,.0f} k/s against {single / 1e3:,.0f} k/s"
            label = f"batches of 1000 with an id for each report, as {kind}, against single reports with ids"
            print(f"| {label} | {packed / single:.1f}× ({rates}) | {target} |")


if __name__ == "__main__":
    main()
