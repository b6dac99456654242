"""Measures settings on two processes and stores each setting's rows, so that a run that was stopped can go on."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import polars as pl

from benchmarks.paper.trials import ResultRow, Setting, measure

ROOT = Path(__file__).parents[2]
SOURCES = ("hushgram/**/*.py", "benchmarks/coverage.py", "benchmarks/datasets.py", "pipelines/simulate/data/*.npz")
SOURCES_HERE = ("data.py", "methods.py", "trials.py")
PROCESSES = 2
SCHEMA = pl.Schema(
    {
        "figure": pl.String,
        "method": pl.String,
        "data": pl.String,
        "epsilon": pl.Float64,
        "buckets": pl.Int64,
        "bandwidth": pl.Float64,
        "metric": pl.String,
        "mean": pl.Float64,
        "error": pl.Float64,
        "runs": pl.Int64,
    }
)


def table_of(rows: Iterable[ResultRow]) -> pl.DataFrame:
    frame = pl.DataFrame([row.as_dict() for row in rows], schema=SCHEMA)
    return frame.sort("figure", "data", "metric", "method", "epsilon", "buckets", "bandwidth", nulls_last=True)


def code_fingerprint() -> str:
    """Changes with every file that a row depends on."""
    folder = Path(__file__).parent
    paths = [path for pattern in SOURCES for path in ROOT.glob(pattern)]
    paths += [folder / name for name in SOURCES_HERE]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()


def measure_all(settings: Sequence[Setting], cache: Path, processes: int = PROCESSES) -> list[ResultRow]:
    """The rows of all settings; those that `cache` holds, measured by the same code, are taken from there."""
    code, start = code_fingerprint(), time.monotonic()
    cache.mkdir(parents=True, exist_ok=True)
    paths = {
        setting: cache / f"{hashlib.sha256(f'{code} {setting}'.encode()).hexdigest()}.json" for setting in settings
    }
    missing = [setting for setting, path in paths.items() if not path.exists()]
    print(f"{len(settings)} settings, {len(settings) - len(missing)} of them kept from before", flush=True)
    with ProcessPoolExecutor(processes) as pool:
        futures = {pool.submit(measure, setting): setting for setting in missing}
        for number, future in enumerate(as_completed(futures), 1):
            setting = futures[future]
            _write(paths[setting], future.result())
            if number % 50 == 0 or number == len(missing):
                print(
                    f"{number:5} of {len(missing)}, {time.monotonic() - start:.0f} s: {_describe(setting)}", flush=True
                )
    return [ResultRow(**line) for path in paths.values() for line in json.loads(path.read_text())]


def _write(path: Path, rows: Sequence[ResultRow]) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps([row.as_dict() for row in rows]))
    os.replace(unfinished, path)


def _describe(setting: Setting) -> str:
    return f"{setting.figure}, {setting.data}, ε = {setting.epsilon}, {' and '.join(setting.methods)}"
