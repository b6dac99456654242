"""hushgram beside other libraries of local differential privacy: `make peers`, or `python -m benchmarks.peers`.

Everybody gets the same values, the same buckets and the same ε. Peers run in an environment of their own, through the
calls that their documents show. Accuracy first, two peers at a time; then speed, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from benchmarks.datasets import SMOOTH, bundled
from benchmarks.peers import ours
from benchmarks.peers.abilities import ABILITIES, LIBRARIES
from benchmarks.peers.answers import read_decoded, read_estimates, read_speeds
from benchmarks.peers.environment import BUILD, PEERS, REQUIREMENTS, Peer, PeerError, install, interpreter, pinned, run
from benchmarks.peers.tables import Library, audits, details, overview, table
from hushgram._arrays import FloatArray, IntArray

BUCKETS = 256
EPSILONS = (0.5, 1.0, 2.0)
SPEED_EPSILON = 1.0
AUDIT_REPORTS = 20_000
SEED = 2026
DATASETS = {"beta": "Beta(5, 2)", "retirement": "retirement"}
OVERVIEW_DATASET = DATASETS["retirement"]
"""The short table is of real values."""


def values_of(dataset: str, runs: int, reports: int) -> IntArray:
    """Bucket numbers of devices drawn from a data set, one row for each run."""
    shape = SMOOTH["beta(5, 2)"](BUCKETS) if dataset == "beta" else bundled(dataset, BUCKETS)
    rng = np.random.default_rng([SEED, *dataset.encode()])
    return rng.choice(BUCKETS, size=(runs, reports), p=shape)


def shares_of(values: IntArray) -> FloatArray:
    """The share of each bucket in each run: the truth that estimates are held against."""
    return np.array([np.bincount(row, minlength=BUCKETS) / row.size for row in values])


def measure(peer: Peer, python: Path | PeerError, folder: Path, runs: int) -> Library:
    """The peer's estimates, or the reason for their absence."""
    name = f"{peer.distribution} {pinned(REQUIREMENTS.read_text())[peer.distribution]}"
    shapes = {(dataset, epsilon): (runs, BUCKETS) for dataset in DATASETS for epsilon in EPSILONS}
    try:
        if isinstance(python, PeerError):
            raise python
        return Library(name, read_estimates(run(peer, python, folder, "accuracy"), shapes), {})
    except PeerError as error:
        return Library(name, {}, {}, str(error))


def prepare(folder: Path) -> dict[str, Path | PeerError]:
    """The Python of each peer, or the reason for its absence."""
    answers: dict[str, Path | PeerError] = {}
    for peer in PEERS:
        try:
            python = interpreter(folder)
            install(peer, python)
            answers[peer.distribution] = python
        except PeerError as error:
            answers[peer.distribution] = error
    return answers


def add_speed(peer: Peer, library: Library, python: Path | PeerError, folder: Path) -> tuple[Library, list[str]]:
    """The library with its speeds, and a sentence for each method whose reports hushgram reads as well."""
    if library.failure is not None or isinstance(python, PeerError):
        return library, []
    try:
        answer = run(peer, python, folder, "speed")
        return Library(library.name, library.estimates, read_speeds(answer)), compare_decoding(peer, answer, folder)
    except PeerError as error:
        return Library(library.name, library.estimates, {}, f"speed: {error}"), []


def compare_decoding(peer: Peer, answer: str, folder: Path) -> list[str]:
    """hushgram's reading of the reports that the peer's own devices made, beside the peer's reading of them."""
    sentences = []
    for method, theirs in read_decoded(answer).items():
        cells = np.load(folder / f"{peer.distribution}-cells.npy")
        collection = ours.build_collection("seeded OLH", BUCKETS, SPEED_EPSILON)
        shares = ours.estimate_shares(collection, collection.tally(cells))
        if theirs.min() >= 0:  # negative shares were cut off, and the others scaled to sum to 1
            shares = np.maximum(shares, 0) / np.maximum(shares, 0).sum()
        difference = float(np.abs(shares - theirs).max())
        sentences.append(
            f"hushgram's `seeded_hashing` read {cells.size} reports made by {peer.distribution} ({method}): "
            f"its frequencies and theirs differ by {difference:.0e} at most."
        )
    return sentences


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=4, help="repetitions for each figure of accuracy")
    parser.add_argument("--reports", type=int, default=10_000, help="devices in each of them")
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time that a server gets, about")
    options = parser.parse_args(arguments)
    if options.runs < 2 or options.reports < 1000 or options.seconds <= 0:
        parser.error("allowed: at least 2 runs, at least 1000 reports, seconds above 0")
    start, folder = time.monotonic(), BUILD / "run"
    folder.mkdir(parents=True, exist_ok=True)

    values = {dataset: values_of(dataset, options.runs, options.reports) for dataset in DATASETS}
    for dataset, rows in values.items():
        np.save(folder / f"{dataset}.npy", rows)
    task = {"buckets": BUCKETS, "epsilons": EPSILONS, "datasets": list(DATASETS), "speed_epsilon": SPEED_EPSILON}
    task |= {"audit_reports": AUDIT_REPORTS, "seconds": options.seconds}
    (folder / "task.json").write_text(json.dumps(task))

    pythons = prepare(BUILD / "venv")
    with ThreadPoolExecutor(2) as pool:
        measured = list(pool.map(lambda peer: measure(peer, pythons[peer.distribution], folder, options.runs), PEERS))
    hushgram = Library(
        "hushgram",
        ours.measure_accuracy(values, BUCKETS, EPSILONS, SPEED_EPSILON, AUDIT_REPORTS, SEED),
        ours.measure_speed(values["beta"][0], BUCKETS, SPEED_EPSILON, options.seconds, SEED),
    )
    libraries, sentences = [hushgram], []
    for peer, library in zip(PEERS, measured, strict=True):
        timed_library, remarks = add_speed(peer, library, pythons[peer.distribution], folder)
        libraries.append(timed_library)
        sentences += remarks

    truths = {DATASETS[dataset]: shares_of(rows) for dataset, rows in values.items()}
    renamed_libraries = [rename_datasets(library) for library in libraries]
    print(overview(renamed_libraries, {OVERVIEW_DATASET: truths[OVERVIEW_DATASET]}, SPEED_EPSILON), end="\n\n")
    print(table(["what", *LIBRARIES], ([ability, *cells] for ability, cells in ABILITIES.items())), end="\n\n")
    for dataset, true in truths.items():
        print(f"{dataset}:\n\n{details(renamed_libraries, dataset, true, EPSILONS)}", end="\n\n")
    print(audits(renamed_libraries, SPEED_EPSILON), end="\n\n")
    print("\n".join(sentences), end="\n\n")
    print(
        f"{options.runs} runs of {options.reports} devices, {BUCKETS} buckets. W1 and KS in thousandths, MSE in "
        f"millionths, ± one standard error.\nAll in {time.monotonic() - start:.0f} s on {os.cpu_count()} cores; "
        f"load over the last 15 minutes {os.getloadavg()[2]:.1f}."
    )


def rename_datasets(library: Library) -> Library:
    """The library with its data sets named as in the tables."""
    estimates = {
        method: type(result)(
            {(DATASETS[dataset], epsilon): runs for (dataset, epsilon), runs in result.runs.items()}, result.audit
        )
        for method, result in library.estimates.items()
    }
    return Library(library.name, estimates, library.speeds, library.failure)


if __name__ == "__main__":
    main()
