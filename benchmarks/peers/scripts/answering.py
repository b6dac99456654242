"""The work of every peer's script: read the task, run the peer's methods on the values, write down the results.

`task.json` in the folder holds buckets, epsilons and so on; `<data set>.npy` holds bucket numbers, one row for a run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LARGEST = 20_000_000
"""Reports that a server is timed on, at most: a list of more would fill the memory."""


class PeerMethod(NamedTuple):
    """A peer's mechanism at one ε, both halves, called as its documentation calls them."""

    device: Callable[[int], Any]
    """The report of a device whose value is in this bucket."""
    server: Callable[[list[Any]], Any]
    """The estimated share of each bucket."""
    supports: Callable[[Any, int], bool] | None = None
    """Whether a report supports a value; where it is set, the audit of privacy uses it."""
    cells: Callable[[list[Any]], list[int]] | None = None
    """Reports as hushgram's cells, where it has the same protocol."""


Methods = Callable[[int, float], dict[str, Callable[[], PeerMethod]]]


def measure_accuracy(folder: Path, task: dict[str, Any], methods: Methods) -> dict[str, Any]:
    """Of each method the estimates of every run, and how often reports of two values supported the first of them."""
    values = {name: np.load(folder / f"{name}.npy") for name in task["datasets"]}
    answer: dict[str, Any] = {}
    for epsilon in task["epsilons"]:
        for name, make in methods(task["buckets"], epsilon).items():
            method = make()
            entry = answer.setdefault(name, {"estimates": {}, "audit": None})
            for dataset, runs in values.items():
                estimates = [
                    np.asarray(method.server([method.device(v) for v in run.tolist()])).tolist() for run in runs
                ]
                entry["estimates"].setdefault(dataset, {})[str(epsilon)] = estimates
            if epsilon == task["speed_epsilon"] and method.supports is not None:
                entry["audit"] = audit(method, task["buckets"], task["audit_reports"])
    return answer


def audit(method: PeerMethod, buckets: int, reports: int) -> dict[str, int]:
    """How many reports of the first and of the last value support the first and not the last."""
    assert method.supports is not None
    counts = []
    for value in (0, buckets - 1):
        answers = (method.device(value) for _ in range(reports))
        counts.append(
            sum(method.supports(answer, 0) and not method.supports(answer, buckets - 1) for answer in answers)
        )
    return {"reports": reports, "own": counts[0], "other": counts[1]}


def measure_speed(folder: Path, task: dict[str, Any], methods: Methods) -> dict[str, Any]:
    """Of each method the time of devices, and of a server for as many reports as it handles in the task's time."""
    values = np.load(folder / f"{task['datasets'][0]}.npy")[0].tolist()
    answer: dict[str, Any] = {}
    for name, make in methods(task["buckets"], task["speed_epsilon"]).items():
        method = make()
        method.server(
            [method.device(value) for value in values[:10]]
        )  # so that code compiled on first use is compiled now
        start = time.process_time()
        reports = [method.device(value) for value in values]
        device = time.process_time() - start
        if method.cells is not None:
            np.save(folder / f"{task['peer']}-cells.npy", np.array(method.cells(reports), dtype=np.int64))
            estimates = np.asarray(method.server(reports)).tolist()
        seconds, sample = time_server(method.server, reports, task["seconds"])
        answer[name] = {
            "device": {"reports": len(reports), "seconds": device},
            "server": {"reports": len(sample), "seconds": seconds},
            "estimate_of_cells": estimates if method.cells is not None else None,
        }
    return answer


def time_server(server: Callable[[list[Any]], Any], reports: list[Any], seconds: float) -> tuple[float, list[Any]]:
    """The server's time for the largest number of reports that it handles in about `seconds`: `reports`, repeated.

    Devices are slower than most servers, and to a server one report is like another. Times here are those of the
    processor, so that whatever else runs on the machine takes no part.
    """
    sample = reports[: max(1, len(reports) // 10)]
    while True:
        start = time.process_time()
        server(sample)
        elapsed = time.process_time() - start
        if elapsed >= seconds / 2 or len(sample) >= LARGEST:
            return elapsed, sample
        count = min(LARGEST, int(len(sample) * min(20.0, max(1.5, 0.9 * seconds / elapsed))))
        sample = (reports * (count // len(reports) + 1))[:count]


def main(package: str, methods: Methods) -> None:
    folder, phase = Path(sys.argv[1]), sys.argv[2]
    task = json.loads((folder / "task.json").read_text())
    task["peer"] = package
    results = {"accuracy": measure_accuracy, "speed": measure_speed}[phase](folder, task, methods)
    (folder / f"{package}-{phase}.json").write_text(json.dumps({"version": version(package), "methods": results}))
