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


def collection(method: str, buckets: int, epsilon: float) -> Collection:
    """A collection whose value is the number of its bucket."""
    options = dict(METHODS[method])
    if options.get("mechanism") in ("local_hashing", "seeded_hashing", "randomized_response"):
        options["bins"] = buckets
    return Collection(name="peer", low=0, high=buckets, buckets=buckets, epsilon=epsilon, **options)


def shares(asked: Collection, tally: IntArray) -> FloatArray:
    """Unbiased frequencies where the mechanism has them, as the peers give them; else the estimated distribution."""
    mechanism = asked.mechanism
    if isinstance(mechanism, FrequencyOracle):
        return mechanism.frequencies(tally)
    probabilities = asked.estimate(tally).probabilities
    assert probabilities is not None
    return probabilities


def accuracy(
    values: Mapping[str, IntArray], buckets: int, epsilons: tuple[float, ...], audited: float, reports: int, seed: int
) -> dict[str, Estimates]:
    rng = np.random.default_rng(seed)
    answers = {}
    for name in METHODS:
        runs: dict[tuple[str, float], FloatArray] = {}
        for epsilon in epsilons:
            asked = collection(name, buckets, epsilon)
            for dataset, rows in values.items():
                tallies = [asked.tally(asked.simulate(row + 0.5, rng)) for row in rows]
                runs[dataset, epsilon] = np.array([shares(asked, tally) for tally in tallies])
        answers[name] = Estimates(runs, audit(collection(name, buckets, audited), reports, rng))
    return answers


def audit(asked: Collection, reports: int, rng: np.random.Generator) -> Audit | None:
    """The same test as of the peers; a cell speaks for the value that sends it more often."""
    mechanism = asked.mechanism
    if mechanism.tally_length != mechanism.cells:
        return None
    first, last = (mechanism.forward(np.eye(asked.buckets)[bucket]) for bucket in (0, asked.buckets - 1))
    speaks = first > last * (1 + 1e-9)
    sent = [asked.simulate(np.full(reports, bucket + 0.5), rng) for bucket in (0, asked.buckets - 1)]
    own, other = (int(np.count_nonzero(speaks[cells])) for cells in sent)
    return Audit(reports, own, other)


def speed(values: IntArray, buckets: int, epsilon: float, seconds: float, seed: int) -> dict[str, Speed]:
    """Devices report one by one, from the system's generator; a server tallies an array of cells and estimates."""
    answers = {}
    for name in METHODS:
        asked = collection(name, buckets, epsilon)
        asked.report(0.5)  # what is computed once has been computed now
        start = time.process_time()
        for value in values.tolist():
            asked.report(value + 0.5)
        device = values.size / (time.process_time() - start)
        cells = asked.simulate(values + 0.5, seed)
        server, reports = fastest(lambda many, asked=asked: asked.estimate(asked.tally(many)), cells, seconds)  # type: ignore[misc]
        answers[name] = Speed(device, server, reports)
    return answers


def fastest(server: Callable[[Cells], object], cells: Cells, seconds: float) -> tuple[float, int]:
    """Reports a second, for the largest number of them that a server does in about `seconds`, and that number."""
    many = cells
    while True:
        start = time.process_time()
        server(many)
        took = time.process_time() - start
        if took >= seconds / 2 or many.size >= LARGEST:
            return many.size / took, many.size
        many = np.resize(cells, min(LARGEST, int(many.size * min(20.0, max(1.5, 0.9 * seconds / took)))))


LARGEST = 50_000_000
"""Reports that a server is timed on, at most, for the sake of memory."""
