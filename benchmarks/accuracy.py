"""How close the log-spline comes to the truth, beside EMS: `python -m benchmarks.accuracy [--runs N] [--workers N]`.

For each shape, number of reports and ε, both estimate the same simulated tallies on 1024 buckets with a Square Wave. A
row has the ratios of their average errors, log-spline over EMS: the Wasserstein distance W1, the Kolmogorov-Smirnov
distance KS, and the total variation TV of the mass of 64 bins, which is the error of the density. Standard errors are
those of paired runs.

Then each shape's geometric means over its settings, in three groups: the grid; shapes that have guided the tuning
since; and shapes kept aside, which nothing was tuned on. The last tables have the settings above a limit, and the rule
by which the log-spline would be the default. `--no-jumps` shows what jumps do to a setting: with it, the log-spline has
none.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.coverage import table
from benchmarks.datasets import HARD, KEPT_ASIDE, SMOOTH, SPIKY
from benchmarks.widths import Comparison, average, compare
from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.estimators.log_spline import candidates

SHAPES = {**SMOOTH, **SPIKY, **HARD, **KEPT_ASIDE}
GRID = (*SMOOTH, *SPIKY, "retirement", "30 % zeros", "two spikes", "both ends")
GROUPS = {
    "grid": GRID,
    "guided the tuning": tuple(name for name in HARD if name not in GRID),
    "kept aside": tuple(KEPT_ASIDE),
}
REPORTS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
BUCKETS, BINS = 1024, 64
ERRORS = ("W1", "KS", "TV")
LIMITS = (1.05, 1.1)
SURELY = 2.0
"""Standard errors by which a ratio surely exceeds a limit."""
MOST = 1.1
"""What no setting's W1 and KS may exceed, for the log-spline to be the default."""
MEANS = {"grid": (0.8, 0.7), "kept aside": (0.9, 0.85)}
"""The same of the geometric means of W1 and KS."""


@dataclass(frozen=True)
class Setting:
    """Simulated windows of one shape."""

    shape: str
    reports: int
    epsilon: float
    runs: int


@dataclass(frozen=True, eq=False)
class Row:
    """What was found at a setting: ratios of errors, and the number of windows that the log-spline left to EMS."""

    setting: Setting
    seen: Comparison
    left: int

    def above(self, limit: float, surely: bool = False) -> list[bool]:
        """Whether each error exceeds a limit."""
        return (self.seen.ratio - (SURELY if surely else 0.0) * self.seen.error > limit).tolist()

    def cells(self) -> list[str]:
        place = [self.setting.shape, f"{self.setting.reports:,}".replace(",", " "), f"{self.setting.epsilon:g}"]
        return [*place, *figures(self.seen), str(self.left)]


def measure(setting: Setting) -> Row:
    ours, left = errors(setting, "log_spline")
    theirs, _ = errors(setting, "ems")
    return Row(setting, compare(ours, theirs), left)


def errors(setting: Setting, estimator: str) -> tuple[FloatArray, int]:
    """W1, KS and TV of each run, runs × 3, and how many windows another estimator had to answer."""
    truth = SHAPES[setting.shape](BUCKETS)
    epsilon = setting.epsilon
    collection = Collection(name="c", low=0, high=1, buckets=BUCKETS, epsilon=epsilon, estimator=estimator)
    cells = collection.mechanism.forward(truth)
    rng = np.random.default_rng([setting.reports, int(10 * epsilon), *setting.shape.encode()])
    estimates = collection.estimate_many(list(rng.multinomial(setting.reports, cells / cells.sum(), size=setting.runs)))
    replaced = sum(estimate.solution.estimator is not None for estimate in estimates)
    return np.array([distances(estimate.probabilities, truth) for estimate in estimates]), replaced


def distances(x: FloatArray | None, truth: FloatArray) -> list[float]:
    """W1, KS and TV."""
    assert x is not None
    gap = np.abs(np.cumsum(x - truth))
    return [gap.mean(), gap.max(), np.abs((x - truth).reshape(BINS, -1).sum(axis=1)).sum() / 2]


def try_no_jumps() -> None:
    """From now on, no jump of this process gains enough to be tried."""
    candidates.PROMISING_GAIN = candidates.PROMISING_FREE_GAIN = math.inf


def figures(seen: Comparison) -> list[str]:
    return [f"{ratio:.2f} ± {error:.2f}" for ratio, error in zip(seen.ratio, seen.error, strict=True)]


def summarise(name: str, rows: Sequence[Row]) -> list[str]:
    """The geometric means over settings, and the greatest ratios."""
    greatest = np.max([row.seen.ratio for row in rows], axis=0)
    means = figures(average([row.seen for row in rows]))
    return [name, *(f"{mean} (at most {most:.2f})" for mean, most in zip(means, greatest, strict=True))]


def count(name: str, rows: Sequence[Row]) -> list[str]:
    """How many settings exceed the limits, and the greatest of them surely; and how many windows were left to EMS."""
    kinds = [*((limit, False) for limit in LIMITS), (LIMITS[-1], True)]
    above = np.array([np.sum([row.above(*kind) for row in rows], axis=0) for kind in kinds]).T
    left, windows = sum(row.left for row in rows), sum(row.setting.runs for row in rows)
    numbers = [" / ".join(map(str, kind)) for kind in above.tolist()]
    return [name, str(len(rows)), *numbers, f"{left:,} of {windows:,}".replace(",", " ")]


def judge(groups: Mapping[str, Sequence[Row]]) -> list[list[str]]:
    """Each condition of the rule, what was found, and whether it is met."""
    rows = [row for group in groups.values() for row in group]
    greatest = np.max([row.seen.ratio for row in rows], axis=0)[:2]
    above = sum(any(row.above(MOST)[:2]) for row in rows)
    surely = sum(any(row.above(MOST, surely=True)[:2]) for row in rows)
    where = f"{above} of {len(rows)} settings above, {surely} of them surely"
    found = " and ".join(f"{most:.2f}" for most in greatest)
    verdicts = [[f"every setting's W1 and KS at most {MOST:g}", f"at most {found}: {where}", _word(above == 0)]]
    for name, most in MEANS.items():
        means = average([row.seen for row in groups[name]])
        condition = f"geometric means of W1 and KS, {name}, at most {most[0]:g} and {most[1]:g}"
        verdicts.append([condition, " and ".join(figures(means)[:2]), _word(bool((means.ratio[:2] <= most).all()))])
    return verdicts


def _word(met: bool) -> str:
    return "met" if met else "missed"


def _show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n" + table([header, ["---"] * len(header), *rows]), flush=True)


def report(rows: Sequence[Row]) -> None:
    """The tables of all settings together."""
    groups = {name: [row for row in rows if row.setting.shape in shapes] for name, shapes in GROUPS.items()}
    groups = {name: group for name, group in groups.items() if group}
    shares = []
    for name, group in groups.items():
        for shape in GROUPS[name]:
            if some := [row for row in group if row.setting.shape == shape]:
                shares.append(summarise(shape, some))
        shares.append(summarise(f"**{name}**", group))
    _show(["shape", "W1", "KS", f"TV of {BINS} bins"], shares)
    limits = " / ".join(f"{limit:g}" for limit in LIMITS)
    above = [f"{name} above {limits} / surely above {LIMITS[-1]:g}" for name in ERRORS]
    counts = [count(name, group) for name, group in {**groups, "all": rows}.items()]
    _show(["settings", "number", *above, "windows left to EMS"], counts)
    worst = [row for row in rows if any(row.above(MOST)[:2])]
    _show(["above", "reports", "ε", *ERRORS, "left to EMS"], [row.cells() for row in worst])
    if MEANS.keys() <= groups.keys():
        _show(["rule of a default", "found", ""], judge(groups))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="simulated windows for each row (default: 20)")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), metavar="SHAPE", help="only these")
    parser.add_argument("--reports", nargs="+", type=int, default=REPORTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--no-jumps", action="store_true", help="fits of the log-spline without jumps")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: one for each core)")
    options = parser.parse_args(argv)
    places = product(options.shapes, options.reports, options.epsilons)
    settings = [Setting(*place, options.runs) for place in places]
    header = ["shape", "reports", "ε", *ERRORS, "left to EMS"]
    print(table([header, ["---"] * len(header)]), flush=True)
    rows = []
    with ProcessPoolExecutor(options.workers, initializer=try_no_jumps if options.no_jumps else None) as pool:
        for row in pool.map(measure, settings):
            rows.append(row)
            print(table([row.cells()]), flush=True)
    report(rows)


if __name__ == "__main__":
    main()
