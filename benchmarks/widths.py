"""Square Waves of several widths beside one width: `python -m benchmarks.widths [--runs N] [--search-runs N]`.

Both estimators on simulated tallies of four data sets, 10⁵ and 10⁶ reports, on 1024 buckets; errors are the Wasserstein
distance (W1) and the Kolmogorov-Smirnov distance (KS), given as ratios to those of one width, below 1 if better.

1. Search: with few runs, every set of `WIDTH_SETS` at each ε. The set with the least geometric mean of all ratios is
   chosen; it is the same for both estimators, since devices do not know how their reports are estimated. With
   `--search-runs 0` the sets of `BEST_SETS`, which an earlier search chose, are judged.
2. Judgement: many fresh runs of the chosen set and of one width, so that the luck of the choice has no part in it.
3. Verdict: a set is fit to be the default of new collections if at no setting either error is significantly greater
   than with one width, and the geometric means of both are at least 5 % less. Significant is what exceeds as many
   standard errors (z) as any of all comparisons exceeds as seldom by chance, by Student's law, as a single normal
   one exceeds three.
4. The same geometric means of each estimator alone.

Runs of both sides have the same seeds, and standard errors are those of the paired differences. Every row is printed
and written to the output file as soon as it is known; the same numbers of runs give the same rows.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Literal

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from benchmarks.coverage import table
from benchmarks.datasets import SMOOTH, bundled
from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.planning.widths import BEST_SETS, WIDTH_SETS, WidthSet
from hushgram.simulation import draw_tally

DATA = ("beta(5, 2)", "taxi", "retirement", "income")
REPORTS = (100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
ESTIMATORS = ("ems", "log_spline")
SINGLE = 3.0
"""Standard errors that a single comparison must exceed to be significant."""
WORTH_A_DEFAULT = 0.05
OUTPUT = Path("build/widths.md")


@dataclass(frozen=True)
class Setting:
    """Simulated windows of one data set with one width and with some sets; another stage has other tallies."""

    stage: Literal["search", "judgement"]
    epsilon: float
    estimator: str
    data: str
    reports: int
    sets: tuple[WidthSet, ...]
    buckets: int
    runs: int

    def generator(self, run: int) -> np.random.Generator:
        """The same for one width and for every set."""
        names = f"{self.stage} {self.estimator} {self.data}".encode()
        return np.random.default_rng([self.reports, int(10 * self.epsilon), run, *names])


def measure(setting: Setting) -> FloatArray:
    """W1 and KS of each run, with one width and with each set: (1 + sets) × runs × 2."""
    d = setting.buckets
    truth = SMOOTH[setting.data](d) if setting.data in SMOOTH else bundled(setting.data, d)
    plain = {"low": 0, "high": 1, "buckets": d, "epsilon": setting.epsilon, "estimator": setting.estimator}
    results = []
    for widths in (None, *setting.sets):
        collection = Collection(name="c", **plain, widths=widths)  # type: ignore[arg-type]
        generators = map(setting.generator, range(setting.runs))
        tallies = [draw_tally(collection, truth, setting.reports, rng) for rng in generators]
        estimates = np.array([estimate.probabilities for estimate in collection.estimate_many(tallies)])
        gaps = np.abs(np.cumsum(estimates - truth, axis=1))
        results.append(np.column_stack([gaps.mean(axis=1), gaps.max(axis=1)]))
    return np.array(results)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The ratio of the errors with several widths to those with one, its standard error, and by how many standard
    errors the former are greater; each of W1 and KS."""

    ratio: FloatArray
    error: FloatArray
    z: FloatArray


def compare(several: FloatArray, one: FloatArray) -> Comparison:
    """Of paired runs, runs × 2 each: standard errors are those of differences, whatever the pairs have in common."""
    ratio, root = several.mean(axis=0) / one.mean(axis=0), math.sqrt(len(one))
    error = (several - ratio * one).std(axis=0, ddof=1) / root / one.mean(axis=0)  # to first order
    noise = (several - one).std(axis=0, ddof=1) / root
    return Comparison(ratio, error, (several - one).mean(axis=0) / np.maximum(noise, np.finfo(float).tiny))


def compare_sets(setting: Setting) -> list[Comparison]:
    """Each set of a setting with one width."""
    one, *several = measure(setting)
    return [compare(errors, one) for errors in several]


def average(comparisons: Sequence[Comparison]) -> Comparison:
    """The geometric mean of the ratios of independent settings, and the greatest z."""
    ratios = np.array([each.ratio for each in comparisons])
    relative = np.array([each.error for each in comparisons]) / ratios
    mean = np.exp(np.log(ratios).mean(axis=0))
    error = mean * np.sqrt((relative**2).sum(axis=0)) / len(comparisons)
    return Comparison(mean, error, np.max([each.z for each in comparisons], axis=0))


def choose(sets: Sequence[WidthSet], found: Sequence[Sequence[Comparison]]) -> WidthSet:
    """The set with the least geometric mean of W1 and KS over the estimators; `found` has a row for each of these."""
    logarithms = np.log([[each.ratio for each in row] for row in found])
    return sets[int(np.argmin(logarithms.mean(axis=(0, 2))))]


def critical(comparisons: int, runs: int) -> float:
    """The limit on z for many comparisons: by chance, any exceeds it as rarely as a single normal value exceeds 3.

    >>> round(critical(1, runs=10**6), 2), round(critical(128, runs=100), 2)
    (3.0, 4.47)
    """
    return float(stats.t.isf(stats.norm.sf(SINGLE) / comparisons, runs - 1))


def verdict(overall: Comparison, limit: float) -> str:
    """Whether a set is fit to be the default, in words."""
    if (overall.z > limit).any():
        return "no: worse somewhere"
    if (overall.ratio > 1 - WORTH_A_DEFAULT).any():
        return "no: gains too little"
    return "yes"


def _figures(seen: Comparison) -> list[str]:
    return [f"{ratio:.3f} ± {error:.3f}" for ratio, error in zip(seen.ratio, seen.error, strict=True)]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="simulated windows that judge a set (default: 100)")
    parser.add_argument(
        "--search-runs",
        type=int,
        default=24,
        help="simulated windows that choose it (default: 24); 0: the best sets known",
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    parser.add_argument("--buckets", type=int, default=1024)
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"the file of the tables (default: {OUTPUT})")
    options = parser.parse_args(argv)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("w") as file, ProcessPoolExecutor(options.workers) as pool:

        def tell(*lines: str) -> None:
            for line in lines:
                print(line, flush=True)
                print(line, file=file, flush=True)

        def begin(title: str, *names: str) -> None:
            tell("", f"## {title}", "", table([names, ["---"] * len(names)]))

        places = list(product(EPSILONS, ESTIMATORS, DATA, REPORTS))
        chosen = {epsilon: BEST_SETS[epsilon] for epsilon in EPSILONS}
        if options.search_runs:
            begin(f"Search, {options.search_runs} runs", "estimator", "ε", "widths", "W1", "KS")
            settings = [Setting("search", *place, WIDTH_SETS, options.buckets, options.search_runs) for place in places]
            found: dict[float, list[list[Comparison]]] = {}
            seen = zip(settings, pool.map(compare_sets, settings), strict=True)
            for (epsilon, estimator), some in groupby(seen, lambda item: (item[0].epsilon, item[0].estimator)):
                averages = [average(each) for each in zip(*(comparisons for _, comparisons in some), strict=True)]
                found.setdefault(epsilon, []).append(averages)
                for widths, each in zip(WIDTH_SETS, averages, strict=True):
                    tell(table([[estimator, f"{epsilon:g}", str(list(widths)), *_figures(each)]]))
            chosen = {epsilon: choose(WIDTH_SETS, rows) for epsilon, rows in found.items()}

        begin(f"Judgement, {options.runs} other runs", "estimator", "ε", "widths", "data", "reports", "W1", "KS", "z")
        settings = [
            Setting("judgement", *place, (chosen[place[0]],), options.buckets, options.runs) for place in places
        ]
        judged: dict[tuple[float, str], list[Comparison]] = {}
        for setting, [each] in zip(settings, pool.map(compare_sets, settings), strict=True):
            judged.setdefault((setting.epsilon, setting.estimator), []).append(each)
            where = [setting.estimator, f"{setting.epsilon:g}", str(list(setting.sets[0])), setting.data]
            both = ", ".join(f"{z:+.1f}" for z in each.z)
            tell(table([[*where, f"{setting.reports:,}".replace(",", " "), *_figures(each), both]]))

        limit = critical(2 * len(settings), options.runs)
        begin("Verdict", "ε", "widths", "W1", "KS", "greatest W1 and KS", f"greatest z, at most {limit:.2f}", "default")
        for epsilon, widths in chosen.items():
            several = [each for estimator in ESTIMATORS for each in judged[epsilon, estimator]]
            overall = average(several)
            greatest = ", ".join(f"{ratio:.2f}" for ratio in np.max([each.ratio for each in several], axis=0))
            words = [greatest, f"{overall.z.max():+.1f}", verdict(overall, limit)]
            tell(table([[f"{epsilon:g}", str(list(widths)), *_figures(overall), *words]]))

        titles = {"ems": "EMS", "log_spline": "log-spline"}
        columns = [f"{titles[name]}, {error}" for name in ESTIMATORS for error in ("W1", "KS")]
        begin("By estimator", "ε", "widths", *columns)
        for epsilon, widths in chosen.items():
            alone = [figure for name in ESTIMATORS for figure in _figures(average(judged[epsilon, name]))]
            tell(table([[f"{epsilon:g}", str(list(widths)), *alone]]))


if __name__ == "__main__":
    main()
