"""A panel of the paper through the product itself, `hushgram simulate` and `hushgram aggregate`, against arrays alone.

Both are given the same seed. The tallies must be equal, and the estimates equal to the last digits.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from benchmarks.paper.methods import METHODS
from benchmarks.paper.trials import ResultRow
from hushgram import Collection, load_collections
from hushgram._arrays import FloatArray, IntArray
from hushgram.pipelines import aggregate
from hushgram.pipelines.cli.console import parse_time
from hushgram.pipelines.results import read_results
from hushgram.pipelines.simulate import command
from hushgram.pipelines.simulate.command import HOUR
from hushgram.pipelines.simulate.devices import fleet_generator
from hushgram.pipelines.simulate.shapes import draw_for
from hushgram.schemas.records import Histogram, Snapshot
from hushgram.simulation import METRICS, Summary

THROUGH = ("SW+EMS", "HH-ADMM")
VALUES = "beta(5,2)"
START = "2026-01-01T00:00Z"
CLOSE = 1e-9


@dataclass(frozen=True)
class Agreement:
    """The number of collections that went both ways, of the reports behind them, and the greatest difference."""

    collections: int
    reports: int
    farthest: float


def run_through_product(
    folder: Path, epsilons: Sequence[float], buckets: int, reports: int, runs: int
) -> tuple[list[ResultRow], Agreement]:
    """W1 of Beta by methods and ε, measured through the pipeline; raises where the arrays give another result."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "collections.yaml"
    path.write_text(yaml.safe_dump({"collections": _definitions(epsilons, buckets)}))
    collections = load_collections(path)
    errors: dict[str, list[float]] = {name: [] for name in collections}
    farthest = 0.0
    for seed in range(runs):
        tallies, estimates = _by_pipeline(path, folder / str(seed), reports, seed)
        for name, (true, tally) in _by_arrays(collections, reports, seed).items():
            if not np.array_equal(tally, tallies[name]):
                raise AssertionError(f"{name}, seed {seed}: the pipeline's tally is not that of the same cells")
            direct = collections[name].estimate(tally).probabilities
            assert direct is not None
            farthest = max(farthest, float(np.abs(direct - estimates[name]).max()))
            if farthest > CLOSE:
                raise AssertionError(
                    f"{name}, seed {seed}: the pipeline's estimate is {farthest} from that of its tally"
                )
            errors[name].append(METRICS["w1"](true, estimates[name]))
    rows = []
    for name, collection in collections.items():
        summary = Summary.of(errors[name])
        setting = ("beta", collection.epsilon, buckets, None, "w1")
        rows.append(ResultRow("product", _method(name), *setting, summary.mean, summary.error, summary.runs))
    return rows, Agreement(runs * len(collections), runs * len(collections) * reports, farthest)


def _definitions(epsilons: Sequence[float], buckets: int) -> dict[str, object]:
    return {
        f"{method} at {epsilon:g}": {
            "domain": {"low": 0, "high": 1},
            "buckets": buckets,
            "epsilon": epsilon,
            "windows": {"size": "1h"},
            **METHODS[method].options,
        }
        for method in THROUGH
        for epsilon in epsilons
    }


def _method(collection: str) -> str:
    return collection.partition(" at ")[0]


def _by_pipeline(
    collections: Path, folder: Path, reports: int, seed: int
) -> tuple[dict[str, IntArray], dict[str, FloatArray]]:
    """The tally and the estimate of each collection, from one window of simulated reports."""
    collections_option = ["--collections", str(collections)]
    simulation_options = [
        "--values",
        VALUES,
        "--reports",
        str(reports),
        "--start",
        START,
        "--hours",
        "1",
        "--seed",
        str(seed),
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        command.run([*collections_option, *simulation_options, "--packed", "--output", str(folder / "reports")])
        aggregate.run(
            [*collections_option, "--input", str(folder / "reports" / "*.avro"), "--output", str(folder / "results")]
        )
    histograms = read_results(str(folder / "results"), "histograms", Histogram.from_avro)
    snapshots = read_results(str(folder / "results"), "snapshots", Snapshot.from_avro)
    tallies = {histogram.key.collection: counts for histogram in histograms for _, counts in histogram.tallies.values()}
    return tallies, {snapshot.key.collection: np.array(snapshot.probabilities) for snapshot in snapshots}


def _by_arrays(collections: dict[str, Collection], reports: int, seed: int) -> dict[str, tuple[FloatArray, IntArray]]:
    """The true histogram and the tally of each collection, from the same generators in the same order."""
    results = {}
    for name, collection in collections.items():
        rng = fleet_generator(seed, collection, VALUES, reports, parse_time("start", START), HOUR)
        rng.integers(0, HOUR, reports)  # when each device reports
        values = draw_for(collection, VALUES)(reports, rng)
        true = np.histogram(values, collection.buckets, (0, 1))[0] / reports
        results[name] = true, collection.tally(collection.simulate(values, seed=int(rng.integers(2**63))))
    return results
