"""A whole machine: very many reports in files, with one worker and with several: `python -m benchmarks.scale`.

By default 10⁹ packed reports without ids, and 10⁸ single ones, each with its id; they take 5 GB of disk. The files
repeat one that was drawn, all but the ids, which are all new.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import io
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.batch import HOURS, START, YAML, write_packed
from benchmarks.stages import Stages
from hushgram import Collection, load_collections
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.columns import Labels
from hushgram.schemas.container import SYNC_SIZE, read_header
from hushgram.schemas.writer import encode_reports, write_container

PACKED_IN_A_FILE = 10_000_000
SINGLE_IN_A_FILE = 1_000_000
IN_A_BLOCK = 10_000
POLL = 0.2


@dataclass(frozen=True)
class Run:
    """How long a command took, and the greatest memory of all its processes together, in megabytes."""

    seconds: float
    megabytes: float


def write_single(folder: Path, collection: Collection, reports: int) -> None:
    """Single reports, each with an id of its own."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(2)
    for number, first in enumerate(range(0, reports, SINGLE_IN_A_FILE)):
        count = min(SINGLE_IN_A_FILE, reports - first)
        with (folder / f"{number:04d}.avro").open("wb") as file:
            write_container(file, REPORT, (_block(collection, rng, size) for size in _sizes(count, IN_A_BLOCK)))


def _block(collection: Collection, rng: np.random.Generator, count: int) -> tuple[int, bytes]:
    cells = rng.integers(0, collection.mechanism.cells, count)
    times = START + rng.integers(0, HOURS * 3_600_000, count)
    group = Labels(collection.groups, rng.integers(0, len(collection.groups), count))
    ids = np.frombuffer(rng.bytes(16 * count), dtype=np.uint8).reshape(-1, 16)
    return count, encode_reports(collection.name, collection.revision, cells, times, group, ids)


def _sizes(total: int, largest: int) -> list[int]:
    return [min(largest, total - first) for first in range(0, total, largest)]


def write_many_packed(folder: Path, collection: Collection, reports: int) -> None:
    """Packed reports: the blocks of one file many times over, each time behind a sync marker of its own, since files
    that begin alike are taken for copies."""
    once = min(reports, PACKED_IN_A_FILE)
    write_packed(folder, collection, once)
    first = (folder / "000.avro").read_bytes()
    sync = read_header(io.BytesIO(first)).sync
    for number in range(1, reports // once):
        (folder / f"{number:03d}.avro").write_bytes(first.replace(sync, secrets.token_bytes(SYNC_SIZE)))


def run(collections: Path, pattern: str, output: Path, *options: str) -> Run:
    """`hushgram aggregate` in processes of its own."""
    command = [sys.executable, "-m", "hushgram", "aggregate", "--collections", str(collections)]
    command += ["--input", pattern, "--output", str(output), *options]
    start, most = time.perf_counter(), 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most = max(most, sum(map(_resident, _family(process.pid))))
            time.sleep(POLL)
        assert process.stderr is not None
        if process.returncode:
            raise SystemExit(f"ended with {process.returncode}: {process.stderr.read()[-2000:]}")
    return Run(time.perf_counter() - start, most)


def _family(pid: int) -> list[int]:
    """A process and all that it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = [task.name for task in Path(f"/proc/{pid}/task").iterdir() if task.name != str(pid)]
        for thread in threads:
            children += Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
    except OSError:  # it has ended
        return []
    return [pid, *(one for child in children for one in _family(int(child)))]


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(collections: Path, folder: Path, reports: int, workers: int) -> list[str]:
    """Lines of a table: one worker, and several in each of the ways that the runner has for them."""
    several = f"--direct_num_workers={workers}"
    ways = {
        "one": [],
        f"{workers} threads": [several],
        f"{workers} processes": [several, "--direct_running_mode=multi_processing"],
    }
    lines, one = [], 0.0
    for number, (name, options) in enumerate(ways.items()):
        result = run(collections, str(folder / "*.avro"), folder / f"results-{number}", *options)
        one = one or result.seconds
        lines.append(
            f"| {name} | {reports / result.seconds / 1e6:.2f} M/s | {one / result.seconds:.2f}× |"
            f" {result.megabytes:,.0f} MB |"
        )
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--packed", type=int, default=10**9, help="packed reports")
    parser.add_argument("--single", type=int, default=10**8, help="single reports")
    parser.add_argument("--workers", type=int, default=2, help="how many workers are held against one")
    parser.add_argument("--folder", type=Path, help="where the files are made; a temporary folder by default")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        base = Path(name)
        collections = base / "collections.yaml"
        collections.write_text(YAML)
        [collection] = load_collections(collections).values()
        for kind, reports, write in (
            ("packed", arguments.packed, write_many_packed),
            ("single, with ids", arguments.single, write_single),
        ):
            folder = base / kind.partition(",")[0]
            write(folder, collection, reports)
            print(f"\n{reports:,} reports, {kind}\n")
            print("| workers | reports | against one | memory |\n|---|---|---|---|")
            print("\n".join(measure(collections, folder, reports, arguments.workers)), flush=True)
            stages = Stages([collection], sorted(folder.glob("*.avro"))[:1])
            steps = stages.nanoseconds().items()
            print("\nNanoseconds a report, without Beam: " + ", ".join(f"{step} {cost:.1f}" for step, cost in steps))


if __name__ == "__main__":
    main()
