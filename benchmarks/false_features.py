"""How often the log-spline finds a feature where there is none: `python -m benchmarks.false_features [--runs N]`.

Windows of smooth shapes on 1024 buckets, with a Square Wave; `--shapes` takes other ones of `benchmarks.accuracy`, too,
whose windows are the same. A row has the number of windows in whose fit a point mass, a hill or a jump was left, over
all shapes, by kind, and by shape.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from benchmarks import accuracy
from benchmarks.coverage import table
from benchmarks.datasets import SMOOTH
from hushgram._arrays import FloatArray
from hushgram.estimators.log_spline.basis import basis_of
from hushgram.estimators.log_spline.search import fit
from hushgram.mechanisms import SquareWave

BUCKETS = 1024
REPORTS = (10_000, 100_000, 1_000_000, 10_000_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
SHAPES = (*SMOOTH, "normal", "exponential")

Setting = tuple[str, int, float, int]


def shares_of(shape: str) -> FloatArray:
    if shape in accuracy.SHAPES:
        return accuracy.SHAPES[shape](BUCKETS)
    shares = np.diff(stats.norm(0.5, 0.15).cdf(np.linspace(0, 1, BUCKETS + 1)))
    return np.asarray(shares / shares.sum(), dtype=np.float64)


def count(setting: Setting) -> Counter[str]:
    """The windows with a feature of each kind, and with any."""
    shape, reports, epsilon, runs = setting
    mechanism = SquareWave(BUCKETS, epsilon)
    cells = mechanism.forward(shares_of(shape))
    rng = np.random.default_rng([reports, int(10 * epsilon), *shape.encode()])
    found: Counter[str] = Counter()
    for tally in rng.multinomial(reports, cells / cells.sum(), size=runs).astype(np.float64):
        kinds = {feature.kind for feature in fit(basis_of((mechanism,)), [tally]).posterior.model.features}
        found.update(kinds)
        found["any"] += bool(kinds)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="simulated windows of each shape for each row")
    known = dict.fromkeys((*SHAPES, *accuracy.SHAPES))
    parser.add_argument("--shapes", nargs="+", choices=known, default=SHAPES, metavar="SHAPE", help="only these")
    parser.add_argument("--reports", nargs="+", type=int, default=REPORTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    options = parser.parse_args(argv)
    shapes, runs = options.shapes, options.runs
    print(table([["reports", "ε", "windows", "any", "point", "hill", "jump", *shapes], ["---"] * (7 + len(shapes))]))
    total: Counter[str] = Counter()
    settings = list(product(options.reports, options.epsilons))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for reports, epsilon in settings:
            counts = list(pool.map(count, [(shape, reports, epsilon, runs) for shape in shapes]))
            row = sum(counts, Counter())
            total += row
            kinds = [str(row[kind]) for kind in ("any", "point", "hill", "jump")]
            windows = str(runs * len(shapes))
            found = [str(each["any"]) for each in counts]
            print(table([[f"{reports:,}".replace(",", " "), str(epsilon), windows, *kinds, *found]]), flush=True)
    windows = runs * len(shapes) * len(settings)
    print(f"{total['any']} of {windows} windows, {total['any'] / windows:.1%}")


if __name__ == "__main__":
    main()
