"""Whether the log-spline's 95 % intervals hold less often than those of EMS: `python -m benchmarks.paired_coverage`.

Both estimate the same simulated tallies on 1024 buckets with a Square Wave, of every smooth and hard shape. A row is a
shape and a number of reports, with all ε together:

1. How often the intervals of each held: mean, median, the distribution function at its deciles, the curve by its band,
   each of 64 bins on average, and all of them at once by simultaneous bounds. The least share of any one ε stands
   in parentheses.
2. The widths of both, as medians over all collections: of the mean and the median in percent of the domain, of the
   distribution function, the band and a bin's mass in percent of all values.
3. Of each part, the collections in which only one of the two held. If both held equally often, either is as likely to
   be that one; p is the probability that EMS is it at least as often as it was (McNemar's exact test, one-sided).
   Holm's correction over all parts of all rows says which parts are surely covered worse: p at most 5 % in all. For
   single bins, those collections count in which one held more bins than the other.
4. How many parts of each kind are surely covered worse, how many surely better, and how many held in less than 93 %.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby, product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from benchmarks.coverage import (
    EPSILONS,
    REPORTS,
    SHAPES,
    Setting,
    bins_held,
    curve_held,
    decile_points,
    draw,
    table,
    widths,
)
from benchmarks.datasets import HARD, SMOOTH, SPIKY
from hushgram._arrays import BoolArray, FloatArray, IntArray

ESTIMATORS = {"ems": "EMS", "log_spline": "log-spline"}
SHARES = ["mean", "median", "deciles", "worst decile", "band", "bins", "all bins"]
WIDTHS = ["mean", "median", "deciles", "band", "bins"]
SURELY = 0.05
"""The probability, by chance, that any part is called surely worse that is not."""
ENOUGH = 0.93
"""What an interval of 95 % should hold."""


@dataclass(frozen=True, eq=False)
class Held:
    """What the intervals of one estimator held, of some simulated collections."""

    curve: BoolArray
    """Mean, median, band and deciles: collections × (3 + deciles)."""
    together: BoolArray
    """All bins at once."""
    single: BoolArray
    """Collections × bins."""
    widths: FloatArray
    """Collections × `WIDTHS`, in percent of the domain, or of all values."""

    @property
    def shares(self) -> FloatArray:
        """As `SHARES`."""
        mean, median, band, *deciles = self.curve.mean(axis=0)
        whole = [mean, median, np.mean(deciles), np.min(deciles), band]
        return np.array([*whole, self.single.mean(), self.together.mean()])

    @property
    def counts(self) -> IntArray:
        """How much of each part was held, collections × parts: 0 or 1, but of single bins their number."""
        mean, median, band, *deciles = self.curve.T.astype(np.int64)
        return np.column_stack([mean, median, *deciles, band, self.single.sum(axis=1), self.together])


@dataclass(frozen=True)
class Part:
    """One part of a row: in how many collections only EMS held it, in how many only the log-spline, and the shares in
    which either did."""

    shape: str
    reports: int
    name: str
    only_ems: int
    only_log_spline: int
    shares: tuple[float, float]

    @property
    def worse(self) -> float:
        """The p-value of being covered worse than by EMS."""
        return mcnemar(self.only_ems, self.only_log_spline)

    @property
    def better(self) -> float:
        return mcnemar(self.only_log_spline, self.only_ems)

    @property
    def kind(self) -> str:
        return "deciles" if self.name.startswith("F") else self.name


def mcnemar(worse: int, better: int) -> float:
    """The probability of at least as many of one kind among the discordant pairs, if both kinds are equally likely.

    >>> mcnemar(0, 0), mcnemar(3, 0), mcnemar(5, 5) > 0.5
    (1.0, 0.125, True)
    """
    return float(stats.binom.sf(worse - 1, worse + better, 0.5))


def holm(p: Sequence[float]) -> list[float]:
    """Corrected p-values: those at most a level are together wrong with no more than that probability.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.asarray(p)[order] * np.arange(len(p), 0, -1))
    return np.minimum(corrected, 1.0).tolist()


def measure(setting: Setting) -> Held:
    truth, tallies = draw(setting)
    estimates = setting.collection(setting.method).estimate_many(tallies)
    bins = bins_held(estimates, truth)
    found = np.array([widths(estimate, truth) for estimate in estimates])
    # The domain is as long as it has buckets; a bin's density times its length is its mass.
    domain, length = setting.buckets, setting.buckets / (bins.shape[1] - 1)
    scale = 100 * np.array([1 / domain, 1 / domain, 1.0, 1.0, length])
    return Held(curve_held(estimates, truth), bins[:, 0], bins[:, 1:], found * scale)


def join(parts: Sequence[Held]) -> Held:
    """All ε together."""
    names = ("curve", "together", "single", "widths")
    return Held(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def part_names(setting: Setting) -> list[str]:
    """Of the columns of `Held.counts`."""
    curve = np.concatenate([[0.0], np.cumsum(SHAPES[setting.shape](setting.buckets))])
    deciles = [f"F = {curve[point]:.2f}" for point in decile_points(curve)]
    return ["mean", "median", *deciles, "band", "bins", "all bins"]


def compare(setting: Setting, ems: Held, log_spline: Held) -> list[Part]:
    """Each part, with the collections in which one held it, or more of it, and the other did not."""
    names = part_names(setting)
    whole = np.array([ems.single.shape[1] if name == "bins" else 1 for name in names])
    gain = log_spline.counts - ems.counts
    shares = [held.counts.mean(axis=0) / whole for held in (ems, log_spline)]
    numbers = zip(names, (gain < 0).sum(axis=0), (gain > 0).sum(axis=0), *shares, strict=True)
    return [
        Part(setting.shape, setting.reports, name, int(worse), int(better), (float(theirs), float(ours)))
        for name, worse, better, theirs, ours in numbers
    ]


def coverage_row(parts: Sequence[Held]) -> list[str]:
    """The shares of all ε together, and the least of one."""
    least = np.min([part.shares for part in parts], axis=0)
    pairs = zip(join(parts).shares, least, strict=True)
    return [f"{100 * share:.0f} ({100 * lowest:.0f})" for share, lowest in pairs]


def widths_row(ems: Held, log_spline: Held) -> list[str]:
    """The median widths of both, and their ratio."""
    theirs, ours = (np.median(held.widths, axis=0) for held in (ems, log_spline))
    return [f"{their:.2g}, {our:.2g} ({our / their:.2f})" for their, our in zip(theirs, ours, strict=True)]


def part_rows(parts: Sequence[Part]) -> list[list[str]]:
    """Every part with its p-value, before and after the correction, the surest first."""
    corrected = holm([part.worse for part in parts])
    rows = []
    for part, p in sorted(zip(parts, corrected, strict=True), key=lambda pair: pair[0].worse):
        shares = [f"{100 * share:.1f}" for share in part.shares]
        discordant = [str(part.only_ems), str(part.only_log_spline)]
        verdict = "surely worse" if p <= SURELY else ""
        place = [part.shape, _spaced(part.reports), part.name]
        rows.append([*place, *shares, *discordant, f"{part.worse:.2g}", f"{p:.2g}", verdict])
    return rows


def kind_rows(parts: Sequence[Part]) -> list[list[str]]:
    """Of each kind of part: how many are surely worse, how many surely better, how many are held too seldom."""
    worse = np.array(holm([part.worse for part in parts])) <= SURELY
    better = np.array(holm([part.better for part in parts])) <= SURELY
    too_seldom = np.array([part.shares for part in parts]) < ENOUGH
    kinds = np.array([part.kind for part in parts])
    columns = np.column_stack([np.ones(len(parts)), worse, worse & too_seldom[:, 1], better, too_seldom]).astype(int)
    return [[kind, *map(str, columns[kinds == kind].sum(axis=0))] for kind in dict.fromkeys(kinds.tolist())]


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n## {title}\n\n" + table([header, ["---"] * len(header), *rows]), flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="collections at each ε (default: 100)")
    parser.add_argument("--buckets", type=int, default=1024)
    shapes = [*SMOOTH, *SPIKY, *HARD]
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=shapes, metavar="SHAPE", help="only these")
    parser.add_argument("--reports", nargs="+", type=int, default=REPORTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    options = parser.parse_args(argv)
    methods = [{"estimator": name, "intervals": "smooth", "mechanism": "square_wave"} for name in ESTIMATORS]
    settings = [
        Setting(shape, reports, epsilon, options.buckets, options.runs, method)
        for shape, reports, epsilon, method in product(options.shapes, options.reports, options.epsilons, methods)
    ]
    coverage: dict[str, list[list[str]]] = {name: [] for name in ESTIMATORS}
    compared_widths, parts = [], []
    with ProcessPoolExecutor(options.workers) as pool:
        found = zip(settings, pool.map(measure, settings), strict=True)
        for (shape, reports), some in groupby(found, lambda pair: (pair[0].shape, pair[0].reports)):
            row = list(some)
            held = {name: [each for s, each in row if s.method["estimator"] == name] for name in ESTIMATORS}
            place = [shape, _spaced(reports)]
            for name, each in held.items():
                coverage[name].append([*place, *coverage_row(each)])
                print(table([[*place, name, *coverage[name][-1][2:]]]), flush=True)
            ems, log_spline = (join(each) for each in held.values())
            compared_widths.append([*place, *widths_row(ems, log_spline)])
            parts += compare(row[0][0], ems, log_spline)
    for name, title in ESTIMATORS.items():
        _show(f"{title}: held, in %", ["shape", "reports", *SHARES], coverage[name])
    header = ["shape", "reports", *WIDTHS]
    _show("Widths of EMS and of the log-spline, in %, and their ratio", header, compared_widths)
    header = ["shape", "reports", "part", "EMS", "log-spline", "only EMS", "only log-spline", "p", "corrected", ""]
    _show("Parts, and the collections in which only one held", header, part_rows(parts))
    below = f"below {100 * ENOUGH:.0f} %"
    surely = ["surely worse", f"and {below}", "surely better"]
    _show(
        "Kinds of parts",
        ["part", "number", *surely, *(f"{title} {below}" for title in ESTIMATORS.values())],
        kind_rows(parts),
    )


if __name__ == "__main__":
    main()
