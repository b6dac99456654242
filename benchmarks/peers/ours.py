"""hushgram's half of the comparison: the same questions as the scripts of the peers answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.peers.answers import Audit, Estimates, Speed
from hushgram import Collection
from hushgram._arrays import FloatArray, IntArray
from hushgram.mechanisms.base import FrequencyOracle

METHODS: dict[str, dict[str, Any]] = {
    "Square Wave, EMS (default)": {},
    "hierarchy, HH-ADMM": {"mechanism": "hierarchy"},
    "local hashing": {"mechanism": "local_hashing"},
    "seeded OLH": {"mechanism": "seeded_hashing"},
    "GRR": {"mechanism": "randomized_response"},
}
Cells = npt.NDArray[np.unsignedinteger[Any]]


def build_collection(method: str, buckets: int, epsilon: float) -> Collection:
    """A collection whose value is the number of its bucket."""
    options = dict(METHODS[method])
    if options.get("mechanism") in ("local_hashing", "seeded_hashing", "randomized_response"):
        options["bins"] = buckets
    return Collection(name="peer", low=0, high=buckets, buckets=buckets, epsilon=epsilon, **options)


def estimate_shares(collection: Collection, tally: IntArray) -> FloatArray:
    """Unbiased frequencies where the mechanism has them, as the peers give them; else the estimated distribution."""
    mechanism = collection.mechanism
    if isinstance(mechanism, FrequencyOracle):
        return mechanism.frequencies(tally)
    probabilities = collection.estimate(tally).probabilities
    assert probabilities is not None
    return probabilities


def measure_accuracy(
    values: Mapping[str, IntArray],
    buckets: int,
    epsilons: tuple[float, ...],
    audit_epsilon: float,
    reports: int,
    seed: int,
) -> dict[str, Estimates]:
    rng = np.random.default_rng(seed)
    answers = {}
    for name in METHODS:
        runs: dict[tuple[str, float], FloatArray] = {}
        for epsilon in epsilons:
            collection = build_collection(name, buckets, epsilon)
            for dataset, rows in values.items():
                tallies = [collection.tally(collection.simulate(row + 0.5, rng)) for row in rows]
                runs[dataset, epsilon] = np.array([estimate_shares(collection, tally) for tally in tallies])
        answers[name] = Estimates(runs, audit(build_collection(name, buckets, audit_epsilon), reports, rng))
    return answers


def audit(collection: Collection, reports: int, rng: np.random.Generator) -> Audit | None:
    """The same test as for the peers; a cell supports the value that sends it more often."""
    mechanism = collection.mechanism
    if mechanism.tally_length != mechanism.cells:
        return None
    first, last = (mechanism.forward(np.eye(collection.buckets)[bucket]) for bucket in (0, collection.buckets - 1))
    supports = first > last * (1 + 1e-9)
    cells_by_value = [
        collection.simulate(np.full(reports, bucket + 0.5), rng) for bucket in (0, collection.buckets - 1)
    ]
    own, other = (int(np.count_nonzero(supports[cells])) for cells in cells_by_value)
    return Audit(reports, own, other)


def measure_speed(values: IntArray, buckets: int, epsilon: float, seconds: float, seed: int) -> dict[str, Speed]:
    """Devices report one by one, from the system's generator; a server tallies an array of cells and estimates."""
    answers = {}
    for name in METHODS:
        collection = build_collection(name, buckets, epsilon)
        collection.report(0.5)  # so that cached values are computed now
        start = time.process_time()
        for value in values.tolist():
            collection.report(value + 0.5)
        device = values.size / (time.process_time() - start)
        cells = collection.simulate(values + 0.5, seed)
        server, reports = time_server(
            lambda many, collection=collection: collection.estimate(collection.tally(many)),  # type: ignore[misc]
            cells,
            seconds,
        )
        answers[name] = Speed(device, server, reports)
    return answers


def time_server(server: Callable[[Cells], object], cells: Cells, seconds: float) -> tuple[float, int]:
    """Reports a second, for the largest number of reports that a server handles in about `seconds`, and that number."""
    sample = cells
    while True:
        start = time.process_time()
        server(sample)
        elapsed = time.process_time() - start
        if elapsed >= seconds / 2 or sample.size >= LARGEST:
            return sample.size / elapsed, sample.size
        sample = np.resize(cells, min(LARGEST, int(sample.size * min(20.0, max(1.5, 0.9 * seconds / elapsed)))))


LARGEST = 50_000_000
"""Reports that a server is timed on, at most, for the sake of memory."""
