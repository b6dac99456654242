"""How often changes are found where there are none, and where there are: `python -m benchmarks.changes [--part PART]`.

1. False alarms: collections of 192 hours, so that the last day has a week before, in which nothing changes. A row has
   the share of collections with a false alarm at the stated rate of 5 %, beside the most that the rule lets pass in so
   many hours. As these are few, the same is measured at a stated rate of 100 %: the number of false alarms for each
   collection, beside the sum of all levels, which is what exact p-values give.
2. After a change: collections that change once, by so little that it is found at once, or some hours late, or not at
   all. What was found then decides on the reference; the numbers are of comparisons with windows after the change only.
3. Power: how often a shift of the distribution is found at once, in the 25th hour, if the reference is the window
   before, the last six, or all 24.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing import Pool

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.coverage import table
from benchmarks.datasets import SMOOTH, SPIKY
from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.alpha_spending import share_of_test, spent_share
from hushgram.changes import FALSE_ALARM_RATE, REFERENCES, Changes, TimedTally, find_changes
from hushgram.comparison import same_distribution
from hushgram.simulation import draw_tally

BUCKETS = 64
HOUR = 3_600_000
HOURS, WEEK = 192, 168
SHAPES = {**{name: SMOOTH[name] for name in ("beta(5, 2)", "taxi")}, **SPIKY}
SETTINGS = [(shape, reports, groups) for shape in SHAPES for reports, groups in ((2000, 0), (20_000, 0), (2000, 3))]
SHIFTS = (0.01, 0.02, 0.03, 0.05)
"""Of the distribution, as shares of the domain."""
REFERENCE_WINDOWS = (1, 6, 24)


def make_collection(groups: int = 0, epsilon: float = 1.0) -> Collection:
    labels = [f"group {index}" for index in range(groups)]
    return Collection(name="c", low=0, high=1, buckets=BUCKETS, epsilon=epsilon, groups=labels)


def simulate(
    collection: Collection, laws: Iterable[FloatArray], reports: int, rng: np.random.Generator
) -> Iterator[TimedTally]:
    """Hours with these distributions of values; with groups, each has as many reports, and all together the sum."""
    for hour, law in enumerate(laws):
        tallies = [draw_tally(collection, law, reports, rng) for _ in collection.groups or (None,)]
        for group, tally in zip((None, *collection.groups), (np.sum(tallies, axis=0), *tallies), strict=False):
            yield TimedTally(group, hour * HOUR, (hour + 1) * HOUR, {collection.revision: tally})


def shifted(shape: str, shift: float) -> FloatArray:
    """The distribution, moved towards the end of the domain where less of it lies; hours of the day go round."""
    fine = SHAPES[shape](100 * BUCKETS)
    steps = round(shift * fine.size)
    moved = np.roll(fine, steps if fine[: fine.size // 2].sum() > 0.5 else -steps)
    return moved.reshape(BUCKETS, 100).sum(axis=1)


def quiet_collection(setting: tuple[str, int, int], rate: float, seed: int) -> tuple[int, float]:
    """The false alarms of a collection in which nothing changes, and the sum of its levels."""
    shape, reports, groups = setting
    collection = make_collection(groups)
    rng = np.random.default_rng([seed, reports, groups, *shape.encode()])
    laws = [SHAPES[shape](BUCKETS)] * HOURS
    return count(find_changes(collection, simulate(collection, laws, reports, rng), false_alarm_rate=rate))


def changed_collection(shift: float, rate: float, seed: int) -> tuple[int, float]:
    """The same after the change, of the comparisons of windows that have one distribution."""
    collection, change = make_collection(), 24
    rng = np.random.default_rng([seed, round(1000 * shift)])
    laws = [shifted("beta(5, 2)", 0.0)] * change + [shifted("beta(5, 2)", shift)] * 48
    changes = find_changes(collection, simulate(collection, laws, 10_000, rng), false_alarm_rate=rate)
    return count(Changes(tuple(one for one in changes.comparisons if one.reference.start >= change * HOUR)))


def count(changes: Changes) -> tuple[int, float]:
    return len(changes.found), sum(one.level for one in changes.comparisons)


def is_found(setting: tuple[str, int, float, int], seed: int) -> bool:
    """Whether the test finds the shift, at the level that the 25th window has."""
    shape, reports, shift, windows = setting
    collection = make_collection()
    rng = np.random.default_rng([seed, reports, windows, round(1000 * shift), *shape.encode()])
    before = draw_tally(collection, shifted(shape, 0.0), windows * reports, rng)
    after = draw_tally(collection, shifted(shape, shift), reports, rng)
    level = FALSE_ALARM_RATE * share_of_test(25) / len(REFERENCES)
    return same_distribution([(collection.mechanism, after)], [(collection.mechanism, before)]) <= level


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="simulated collections for each number")
    parser.add_argument("--part", choices=PARTS, help="this one alone (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args()
    with Pool(options.jobs) as pool:
        each = partial(pool.map, chunksize=8)
        seeds = range(options.runs)
        for part in [options.part] if options.part else PARTS:
            for line in PARTS[part](each, seeds):
                print(line, flush=True)
            print()


Each = Callable[..., list[tuple[int, float]]]


def false_alarms(each: Each, seeds: Sequence[int]) -> Iterator[str]:
    heading = ["shape", "reports", "groups", "with a false alarm at 5 %", "at most", "false alarms at 100 %", "levels"]
    yield table([heading])
    most = f"{FALSE_ALARM_RATE * spent_share(HOURS):.1%}"
    all_few, all_many = list[tuple[int, float]](), list[tuple[int, float]]()
    for setting in SETTINGS:
        few, many = (each(partial(quiet_collection, setting, rate), seeds) for rate in (FALSE_ALARM_RATE, 1.0))
        shape, reports, groups = setting
        yield table([[shape, f"{reports:,}", str(groups), share_with_any(few), most, *averages(many)]])
        all_few, all_many = all_few + few, all_many + many
    yield table([["all", "", "", share_with_any(all_few), most, *averages(all_many)]])


def share_with_any(counts: Sequence[tuple[int, float]]) -> str:
    return f"{np.mean([found > 0 for found, _ in counts]):.1%}"


def averages(counts: Sequence[tuple[int, float]]) -> list[str]:
    return [f"{mean:.3f}" for mean in np.mean(counts, axis=0)]


def after_a_change(each: Each, seeds: Sequence[int]) -> Iterator[str]:
    yield table([["shift", "with a false alarm after it, at 5 %", "false alarms after it, at 100 %", "levels"]])
    for shift in SHIFTS:
        few, many = (each(partial(changed_collection, shift, rate), seeds) for rate in (FALSE_ALARM_RATE, 1.0))
        yield table([[f"{shift:g}", share_with_any(few), *averages(many)]])


def power(each: Each, seeds: Sequence[int]) -> Iterator[str]:
    yield table([["shape", "reports", "shift", *(f"against {windows}" for windows in REFERENCE_WINDOWS)]])
    for shape in SHAPES:
        for reports in (2000, 20_000):
            for shift in SHIFTS:
                settings = [(shape, reports, shift, windows) for windows in REFERENCE_WINDOWS]
                shares = [np.mean(each(partial(is_found, setting), seeds)) for setting in settings]
                yield table([[shape, f"{reports:,}", f"{shift:g}", *(f"{share:.0%}" for share in shares)]])


PARTS = {"false-alarms": false_alarms, "after-a-change": after_a_change, "power": power}


if __name__ == "__main__":
    main()
