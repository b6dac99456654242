"""How fast the mathematics is, as ratios within one run: `python -m benchmarks.speed`.

Every row compares two ways of doing the same thing on this machine, one after the other and several times over; the
ratio is that of the best times. BLAS is held to one thread. `--before` is that of `benchmarks.snapshots`.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks import snapshots
from benchmarks.snapshots import time_best
from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.estimators.em import Part, maximize
from hushgram.estimators.tree import fit_by_admm, fit_nonnegative
from hushgram.mechanisms import LocalHashing, SeededHashing, SquareWave

SpeedRow = tuple[str, str, str]


def simulate_histogram(wave: SquareWave, reports: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return wave.tally(wave.perturb_many(wave.locate(rng.beta(5, 2, reports)), rng)).astype(np.float64)


def run_published_loop(wave: SquareWave, n: FloatArray, iterations: int) -> FloatArray:
    """EMS as published: a dense matrix, divided anew in each iteration; a dense smoothing matrix; logarithms."""
    M, d = wave.matrix(), wave.buckets
    S = (np.diag(np.full(d, 2.0)) + np.diag(np.ones(d - 1), 1) + np.diag(np.ones(d - 1), -1)) / 4
    x = np.full(d, 1 / d)
    for _ in range(iterations):
        P = x * ((M.T / (M @ x)) @ n)
        x = S @ (P / P.sum())
        x /= x.sum()
        n @ np.log(M @ x)
    return x


def measure_ems_iterations() -> list[SpeedRow]:
    small, large = SquareWave(1024, 1.0), SquareWave(4096, 1.0)
    n = simulate_histogram(small, 100_000, 1)
    windows = np.stack([simulate_histogram(small, 100_000, seed) for seed in range(64)])
    n_large = simulate_histogram(large, 100_000, 1)

    def time_ours(wave: SquareWave, counts: FloatArray) -> float:
        part = Part(wave, counts)
        return time_best(lambda: maximize([part], smoothing=1.0, tolerance=0.0, max_iterations=300), 7) / 300

    published = time_best(lambda: run_published_loop(small, n, 10)) / 10
    single, batch, four_times = (
        time_ours(small, n[None, :]),
        time_ours(small, windows) / 64,
        time_ours(large, n_large[None, :]),
    )
    return [
        ("one EMS iteration, d = 1024, against the published loop", f"{published / single:.0f}× faster", "≥ 30×"),
        ("the same in a batch of 64 windows, for each window", f"{published / batch:.0f}× faster", "≥ 50×"),
        ("one iteration, d = 4096 over d = 1024", f"{four_times / single:.1f}× the time", "≤ 5×"),
        (
            "(one iteration, d = 1024: ours, ours in a batch, published)",
            f"{single * 1e6:.0f}, {batch * 1e6:.0f}, {published * 1e6:.0f} µs",
            "",
        ),
    ]


def measure_converged_mode() -> list[SpeedRow]:
    rows = []
    for buckets, reports in ((256, 100_000), (1024, 100_000), (1024, 1_000_000)):
        wave = SquareWave(buckets, 1.0)
        windows = [Part(wave, np.stack([simulate_histogram(wave, reports, seed) for seed in range(8)]))]
        fixed = maximize(windows, smoothing=1.0, tolerance=0.0, max_iterations=30_000).x
        paper, fast = (maximize(windows, smoothing=1.0, stopping=mode) for mode in ("paper", "converged"))
        ratio = np.median(fast.iterations / paper.iterations)
        distances = [np.abs(np.cumsum(fit.x - fixed, axis=1)).max() for fit in (fast, paper)]
        label = (
            f"`converged` mode, map evaluations against `paper` mode, d = {buckets}, 10^{len(str(reports)) - 1} reports"
        )
        measured = f"{ratio:.2f}×, off the fixed point by {distances[0]:.0e} (paper mode: {distances[1]:.0e})"
        rows.append((label, measured, "≤ 0.5×, not farther"))
    return rows


def measure_adaptive_smoothing() -> list[SpeedRow]:
    rows = []
    full = Collection(name="c", low=0, high=1, buckets=1024, epsilon=1.0)
    adaptive = replace(full, smoothing="adaptive")
    for reports in (10_000, 100_000, 1_000_000):
        values = (np.random.default_rng(seed).beta(5, 2, reports) for seed in range(8))
        tallies = [full.tally(full.simulate(sample, seed)) for seed, sample in enumerate(values)]
        plain_seconds, adaptive_seconds = (
            time_best(partial(collection.estimate_many, tallies), 3) for collection in (full, adaptive)
        )
        label = f"`smoothing: adaptive` against plain EMS, d = 1024, 10^{len(str(reports)) - 1} reports"
        rows.append((label, f"{adaptive_seconds / plain_seconds:.1f}× the time", ""))
    return rows


def measure_hashing() -> list[SpeedRow]:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1024, 10_000_000)
    linear, seeded = LocalHashing(1024, 1.0), SeededHashing(1024, 1.0)
    cells = linear.perturb_many(values, rng)
    table = time_best(lambda: linear.frequencies(linear.tally(cells)), 3) / cells.size

    def count_one_by_one(sample: list[int]) -> list[int]:
        support, digits = (
            [0] * 1024,
            [[value // linear.g**j % linear.g for j in range(linear.digits)] for value in range(1024)],
        )
        for cell in sample:
            function, symbol = divmod(cell, linear.g)
            a = [function // linear.g**j % linear.g for j in range(linear.digits)]
            for value in range(1024):
                if sum(x * y for x, y in zip(a, digits[value], strict=True)) % linear.g == symbol:
                    support[value] += 1
        return support

    sample = cells[:30].tolist()
    assert linear.support(linear.tally(cells[:30])).tolist() == count_one_by_one(sample)
    loop = time_best(lambda: count_one_by_one(sample), 3) / 30

    seeded_cells = seeded.perturb_many(values[:20_000], rng)
    vectorised = time_best(lambda: seeded.tally(seeded_cells)) / seeded_cells.size
    seeded_loop = time_best(lambda: count_seeded_one_by_one(seeded, seeded_cells[:30].tolist()), 3) / 30
    return [
        (
            "local hashing, k = 1024: tally and decode 10⁷ reports, against a loop over reports and values",
            f"{loop / table:,.0f}× faster".replace(",", " "),
            "≥ 1000×",
        ),
        (
            "seeded OLH, k = 1024: support counting, against the same loop with the C library's xxh32",
            f"{seeded_loop / vectorised:.0f}× faster",
            "≥ 30×",
        ),
    ]


def count_seeded_one_by_one(oracle: SeededHashing, cells: list[int]) -> list[int]:
    import xxhash

    support = [0] * oracle.buckets
    for cell in cells:
        seed, symbol = divmod(cell, oracle.g)
        for value in range(oracle.buckets):
            if xxhash.xxh32(str(value).encode(), seed=seed).intdigest() % oracle.g == symbol:
                support[value] += 1
    return support


def measure_trees() -> list[SpeedRow]:
    collection = Collection(name="c", low=0, high=1, buckets=1024, epsilon=1.0, mechanism="hierarchy")
    cells = collection.simulate(np.random.default_rng(1).beta(5, 2, 100_000), seed=1)
    parts = zip(collection.mechanism.oracles, collection.mechanism.split(collection.tally(cells)), strict=True)  # type: ignore[attr-defined]
    tree = [np.ones(1), *(oracle.frequencies(part) for oracle, part in parts)]
    weights = np.array([np.inf, 1, 1, 1, 1, 1])
    exact, iterated = (
        time_best(lambda: fit_nonnegative(tree, weights)),
        time_best(lambda: fit_by_admm(tree, weights, tolerance=1e-6), 3),
    )
    return [("exact tree solver against ADMM run to 1e-6, d = 1024", f"{iterated / exact:.0f}× faster", "≥ 5×")]


def measure_simulation() -> list[SpeedRow]:
    collection = Collection(name="c", low=0, high=180, buckets=1024, epsilon=1.0)
    values = 180 * np.random.default_rng(1).beta(5, 2, 2_000_000)
    rng = np.random.default_rng(2)
    bound = collection.mechanism.laws[0].T
    ours = time_best(lambda: collection.simulate(values, rng))
    draws = time_best(lambda: rng.integers(0, bound, values.size, dtype=np.uint64))

    def measure_temporaries(count: int) -> float:
        """Megabytes beside the cells themselves, at the highest."""
        many = np.broadcast_to(np.float64(37.5), count)
        tracemalloc.start()
        cells = collection.simulate(many, seed=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return (peak - cells.nbytes) / 1e6

    return [
        (
            "`simulate`, discrete wave, against drawing as many bounded 64-bit integers",
            f"{ours / draws:.1f}× the time",
            "≤ 8×",
        ),
        (
            "memory of `simulate` beside its result, for 10⁶ and for 10⁸ values",
            f"{measure_temporaries(10**6):.1f} MB, {measure_temporaries(10**8):.1f} MB",
            "bounded",
        ),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__.partition("\n")[0])
    parser.add_argument("--before", metavar="FOLDER", help="a checkout of an earlier commit, to be timed as well")
    options = parser.parse_args(argv)
    print("| what | measured | target |\n|---|---|---|")
    for measure in (
        measure_ems_iterations,
        measure_converged_mode,
        measure_adaptive_smoothing,
        partial(snapshots.measure, options.before),
        measure_hashing,
        measure_trees,
        measure_simulation,
    ):
        for row in measure():
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
