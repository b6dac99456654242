"""Damaged records, chosen ids and odd uploads for the C code, built with sanitizers: `python -m devtools.fuzz`.

Any access outside of an array, anything that C leaves undefined, and any promise that is broken ends it with an error.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH

HERE = Path(__file__).parent
SANITIZERS = "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"
TEXTS = None, "", "DE", "FR", "commute!", "commute to work", "é", "😀" * 40
SEEDS = 16


def build(folder: Path, name: str) -> Path:
    """A fuzzer, compiled into a folder."""
    program, sources = folder / name, [HERE.parent / "schemas", HERE.parent / "transforms"]
    options = ["-std=c99", "-O1", "-g", "-Wall", "-Wextra", *SANITIZERS, *(f"-I{source}" for source in sources)]
    subprocess.run(["cc", *options, str(HERE / f"{name}.c"), "-o", str(program)], check=True)
    return program


def write_seeds(folder: Path) -> list[Path]:
    """Blocks of a few records of every kind: a byte for the kind, one for the count, then the records."""
    rng, paths = np.random.default_rng(1), []
    versions = [REPORT.parsed, *REPORT_BATCH.versions.values()]
    for kind, version in enumerate(versions):
        for number in range(SEEDS):
            records, stream = list(_records(rng, 1 + number)), io.BytesIO()
            for record in records:
                fastavro.schemaless_writer(stream, version, record)
            paths.append(folder / f"{kind}-{number}")
            paths[-1].write_bytes(bytes([kind, len(records)]) + stream.getvalue())
    return paths


def _records(rng: np.random.Generator, count: int) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        text = [TEXTS[place] for place in rng.integers(0, len(TEXTS), 2)]
        yield {
            "collection": text[0] or "",
            "revision": rng.bytes(8),
            "cell": int(rng.integers(0, 2**62)) >> int(rng.integers(0, 62)),
            "cells": rng.bytes(int(rng.integers(0, 90))),
            "event_time": int(rng.integers(-(2**62), 2**62)) >> int(rng.integers(0, 62)),
            "group": text[1],
            "id": rng.bytes(16) if rng.random() < 0.5 else None,
            "ids": rng.bytes(16 * int(rng.integers(0, 6))) if rng.random() < 0.5 else None,
        }


def fuzz_decoder(seconds: int, start: int) -> str:
    """What was tried in some seconds; `CalledProcessError` if anything was found."""
    return _fuzz("fuzz_decoder", seconds, start, write_seeds)


def fuzz_ids(seconds: int, start: int) -> str:
    """The same of ids."""
    return _fuzz("fuzz_ids", seconds, start, lambda folder: [])


def fuzz_uploads(seconds: int, start: int) -> str:
    """The same of uploads: judged, put in order by shard, and counted."""
    return _fuzz("fuzz_uploads", seconds, start, lambda folder: [])


def _fuzz(name: str, seconds: int, start: int, seeds_in: Callable[[Path], list[Path]]) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = [str(build(folder, name)), str(seconds), str(start), *map(str, seeds_in(folder))]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long each of the three runs (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="where random numbers start; the same one repeats a run")
    arguments = parser.parse_args(argv)
    try:
        for fuzz in (fuzz_decoder, fuzz_ids, fuzz_uploads):
            print(fuzz(round(60 * arguments.minutes), arguments.seed), flush=True)
    except subprocess.CalledProcessError as error:
        print(f"ended with {error.returncode}: what was found stands above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
