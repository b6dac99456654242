"""How fast the mathematics is, as ratios within one run: `python -m benchmarks.speed`.

Every row compares two ways of doing the same thing on this machine, one after the other and several times over; the
ratio is that of the best times. BLAS is held to one thread.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.estimators.em import Part, maximize
from hushgram.estimators.tree import fit_by_admm, fit_nonnegative
from hushgram.mechanisms import LocalHashing, SeededHashing, SquareWave

Row = tuple[str, str, str]


def best(work: Callable[[], object], repeats: int = 5) -> float:
    """The least of several times, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def histogram(wave: SquareWave, reports: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return wave.tally(wave.perturb_many(wave.locate(rng.beta(5, 2, reports)), rng)).astype(np.float64)


def published_loop(wave: SquareWave, n: FloatArray, iterations: int) -> FloatArray:
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


def iterations_of_ems() -> list[Row]:
    small, large = SquareWave(1024, 1.0), SquareWave(4096, 1.0)
    n = histogram(small, 100_000, 1)
    windows = np.stack([histogram(small, 100_000, seed) for seed in range(64)])
    n_large = histogram(large, 100_000, 1)

    def ours(wave: SquareWave, counts: FloatArray) -> float:
        part = Part(wave, counts)
        return best(lambda: maximize([part], smoothing=1.0, tolerance=0.0, max_iterations=300), 7) / 300

    theirs = best(lambda: published_loop(small, n, 10)) / 10
    one, batch, four_times = ours(small, n[None, :]), ours(small, windows) / 64, ours(large, n_large[None, :])
    return [
        ("one EMS iteration, d = 1024, against the published loop", f"{theirs / one:.0f}× faster", "≥ 30×"),
        ("the same in a batch of 64 windows, for each window", f"{theirs / batch:.0f}× faster", "≥ 50×"),
        ("one iteration, d = 4096 over d = 1024", f"{four_times / one:.1f}× the time", "≤ 5×"),
        (
            "(one iteration, d = 1024: ours, ours in a batch, published)",
            f"{one * 1e6:.0f}, {batch * 1e6:.0f}, {theirs * 1e6:.0f} µs",
            "",
        ),
    ]


def evaluations_of_converged() -> list[Row]:
    rows = []
    for buckets, reports in ((256, 100_000), (1024, 100_000), (1024, 1_000_000)):
        wave = SquareWave(buckets, 1.0)
        windows = [Part(wave, np.stack([histogram(wave, reports, seed) for seed in range(8)]))]
        fixed = maximize(windows, smoothing=1.0, tolerance=0.0, max_iterations=30_000).x
        paper, fast = (maximize(windows, smoothing=1.0, stopping=mode) for mode in ("paper", "converged"))
        ratio = np.median(fast.iterations / paper.iterations)
        away = [np.abs(np.cumsum(fit.x - fixed, axis=1)).max() for fit in (fast, paper)]
        what = (
            f"`converged` mode, map evaluations against `paper` mode, d = {buckets}, 10^{len(str(reports)) - 1} reports"
        )
        measured = f"{ratio:.2f}×, off the fixed point by {away[0]:.0e} (paper mode: {away[1]:.0e})"
        rows.append((what, measured, "≤ 0.5×, not farther"))
    return rows


def adaptive_smoothing() -> list[Row]:
    rows = []
    full = Collection(name="c", low=0, high=1, buckets=1024, epsilon=1.0)
    adaptive = replace(full, smoothing="adaptive")
    for reports in (10_000, 100_000, 1_000_000):
        values = (np.random.default_rng(seed).beta(5, 2, reports) for seed in range(8))
        tallies = [full.tally(full.simulate(part, seed)) for seed, part in enumerate(values)]
        plain, chosen = (best(partial(collection.estimate_many, tallies), 3) for collection in (full, adaptive))
        what = f"`smoothing: adaptive` against plain EMS, d = 1024, 10^{len(str(reports)) - 1} reports"
        rows.append((what, f"{chosen / plain:.1f}× the time", ""))
    return rows


def hashing() -> list[Row]:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 1024, 10_000_000)
    linear, seeded = LocalHashing(1024, 1.0), SeededHashing(1024, 1.0)
    cells = linear.perturb_many(values, rng)
    table = best(lambda: linear.frequencies(linear.tally(cells)), 3) / cells.size

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
    loop = best(lambda: count_one_by_one(sample), 3) / 30

    seeded_cells = seeded.perturb_many(values[:20_000], rng)
    vectorised = best(lambda: seeded.tally(seeded_cells)) / seeded_cells.size
    seeded_loop = best(lambda: count_seeded_one_by_one(seeded, seeded_cells[:30].tolist()), 3) / 30
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


def trees() -> list[Row]:
    collection = Collection(name="c", low=0, high=1, buckets=1024, epsilon=1.0, mechanism="hierarchy")
    cells = collection.simulate(np.random.default_rng(1).beta(5, 2, 100_000), seed=1)
    parts = zip(collection.mechanism.oracles, collection.mechanism.split(collection.tally(cells)), strict=True)  # type: ignore[attr-defined]
    tree = [np.ones(1), *(oracle.frequencies(part) for oracle, part in parts)]
    weights = np.array([np.inf, 1, 1, 1, 1, 1])
    exact, iterated = (
        best(lambda: fit_nonnegative(tree, weights)),
        best(lambda: fit_by_admm(tree, weights, tolerance=1e-6), 3),
    )
    return [("exact tree solver against ADMM run to 1e-6, d = 1024", f"{iterated / exact:.0f}× faster", "≥ 5×")]


def simulation() -> list[Row]:
    collection = Collection(name="c", low=0, high=180, buckets=1024, epsilon=1.0)
    values = 180 * np.random.default_rng(1).beta(5, 2, 2_000_000)
    rng = np.random.default_rng(2)
    bound = collection.mechanism.laws[0].T
    ours = best(lambda: collection.simulate(values, rng))
    draws = best(lambda: rng.integers(0, bound, values.size, dtype=np.uint64))

    def temporaries(count: int) -> float:
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
            f"{temporaries(10**6):.1f} MB, {temporaries(10**8):.1f} MB",
            "bounded",
        ),
    ]


def main() -> None:
    print("| what | measured | target |\n|---|---|---|")
    for measure in (iterations_of_ems, evaluations_of_converged, adaptive_smoothing, hashing, trees, simulation):
        for row in measure():
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
