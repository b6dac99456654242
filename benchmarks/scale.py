"""A whole machine: very many reports in files, with one worker and with several: `python -m benchmarks.scale`.

By default 10⁹ packed reports without ids, and 10⁸ single ones, each with its id; they take 5 GB of disk. The files
repeat one that was drawn, all but the ids, which are all new.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import numpy as np

from benchmarks.batch import HOURS, START, YAML, copy_often, write_packed
from benchmarks.stages import Stages
from hushgram import Collection, load_collections
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.columns import Labels
from hushgram.schemas.writer import encode_reports, write_container

PACKED_IN_A_FILE = 10_000_000
SINGLE_IN_A_FILE = 1_000_000
IN_A_BLOCK = 10_000
FILES_IN_STEPS = 10
"""Files that are read once more, step by step."""
POLL = 0.2
NATIVE_ALONE = """
import sys; from pathlib import Path; from benchmarks.stages import time_native_alone
print("ready", flush=True); sys.stdin.readline()
print(sum(time_native_alone([*map(Path, sys.argv[2:])], int(sys.argv[1]))[0] for _ in range(3)))
"""


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
    """Packed reports: the blocks of one file many times over."""
    once = min(reports, PACKED_IN_A_FILE)
    write_packed(folder, collection, once)
    copy_often(folder / "000.avro", folder, reports // once - 1)


def run(collections: Path, pattern: str, output: Path, *options: str) -> Run:
    """`hushgram aggregate` in processes of its own."""
    command = [sys.executable, "-m", "hushgram", "aggregate", "--collections", str(collections)]
    command += ["--input", pattern, "--output", str(output), *options]
    os.sync()  # so that no run waits for what was written before it
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


def measure(collections: Path, folder: Path, workers: int) -> dict[str, Run]:
    """One worker, and several in each of the ways that the runner has for them."""
    several = f"--direct_num_workers={workers}"
    ways = {
        "one": [],
        f"{workers} threads": [several],
        f"{workers} processes": [several, "--direct_running_mode=multi_processing"],
    }
    return {
        name: run(collections, str(folder / "*.avro"), folder / f"results-{number}", *options)
        for number, (name, options) in enumerate(ways.items())
    }


def measure_ceiling(paths: Sequence[Path], cells: int, processes: int) -> float:
    """What the machine gives to several processes that share nothing and run native code alone, of what one does."""
    alone, *_ = _time_together(paths, cells, 1)
    return processes * alone / max(_time_together(paths, cells, processes))


def _time_together(paths: Sequence[Path], cells: int, processes: int) -> list[float]:
    command = [sys.executable, "-c", NATIVE_ALONE, str(cells), *map(str, paths)]
    with ExitStack() as stack:
        started = [
            stack.enter_context(Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(processes)
        ]
        pipes = [(process.stdin, process.stdout) for process in started]
        for _, output in pipes:
            assert output is not None
            output.readline()
        for start, _ in pipes:
            assert start is not None
            start.write("start\n")
            start.flush()
        return [float(output.readline()) for _, output in pipes if output is not None]


def line(name: str, result: Run, reports: int, one: Run) -> str:
    """Of a table."""
    speed, against = reports / result.seconds / 1e6, one.seconds / result.seconds
    return f"| {name} | {speed:.2f} M/s | {against:.2f}× | {result.megabytes:,.0f} MB |"


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
            runs = measure(collections, folder, arguments.workers)
            for name, result in runs.items():
                print(line(name, result, reports, runs["one"]), flush=True)
            paths = sorted(folder.glob("*.avro"))[:FILES_IN_STEPS]
            shares = Stages([collection], paths).shares(runs["one"].seconds / reports).items()
            print(
                "\nWhere one worker's time goes: " + ", ".join(f"{step} {100 * share:.0f} %" for step, share in shares)
            )
            if kind != "packed":
                ceiling = measure_ceiling(paths, collection.mechanism.cells, arguments.workers)
                print(f"\n{arguments.workers} processes of native code alone, which share nothing: {ceiling:.2f}× one")


if __name__ == "__main__":
    main()
