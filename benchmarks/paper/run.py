"""Measures settings on two processes and stores each setting's rows, so that a run that was stopped can go on."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import polars as pl

from benchmarks.paper.fingerprint import code_fingerprint
from benchmarks.paper.rivals.measure import measure_rival
from benchmarks.paper.trials import ResultRow, Setting, measure

PROCESSES = 2
SILENCE = 60.0
"""Seconds that a run may go on without a line about where it is."""
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


_asked_to_end = threading.Event()


def end_when_asked() -> None:
    """On SIGTERM a run finishes the settings that are under way, keeps them, and leaves no process behind.

    The handler does no more than take note: an exception in the middle of the pool's own work could leave it locked.
    """
    signal.signal(signal.SIGTERM, lambda *_: _asked_to_end.set())


def measure_all(settings: Sequence[Setting], cache: Path, processes: int = PROCESSES) -> list[ResultRow]:
    """The rows of all settings; those that `cache` holds, measured by the same code, are taken from there."""
    start = last_line = time.monotonic()
    cache.mkdir(parents=True, exist_ok=True)
    paths = {setting: cache / _file_name(setting) for setting in settings}
    missing = [setting for setting, path in paths.items() if not path.exists()]
    print(f"{len(settings)} settings, {len(settings) - len(missing)} of them kept from before", flush=True)
    with ProcessPoolExecutor(processes) as pool:
        futures = {pool.submit(_measure_and_keep, setting, paths[setting]): setting for setting in missing}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                future.result()
                now = time.monotonic()
                if now - last_line > SILENCE or number == len(missing):
                    last_line = now
                    progress = f"{number:5} of {len(missing)}, {now - start:.0f} s"
                    print(f"{progress}: {_describe(futures[future])}", flush=True)
                if _asked_to_end.is_set():
                    sys.exit("stopped; the same command goes on from here")
        except BaseException:
            pool.shutdown(cancel_futures=True)  # what is under way is still kept
            raise
    return [ResultRow(**line) for path in paths.values() for line in json.loads(path.read_text())]


def _file_name(setting: Setting) -> str:
    """Rivals have a fingerprint of their own: a change to one of them costs no other row."""
    measured_by = measure_rival if setting.figure == "rivals" else measure
    key = f"{code_fingerprint(measured_by.__module__)} {setting}"
    return f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _measure_and_keep(setting: Setting, path: Path) -> None:
    rows = measure_rival(setting) if setting.figure == "rivals" else measure(setting)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps([row.as_dict() for row in rows]))
    os.replace(unfinished, path)


def _describe(setting: Setting) -> str:
    return f"{setting.figure}, {setting.data}, ε = {setting.epsilon}, {' and '.join(setting.methods)}"
