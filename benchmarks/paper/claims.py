"""What the paper says of its experiments (section 6), in our words, each with a judge of the table.

A judge is a function from the table to a verdict. Errors are means over runs; "best" means the lowest.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.paper.data import DATA, population, truth
from benchmarks.paper.experiments import BANDWIDTH_EPSILONS, BUCKETS, EPSILONS
from benchmarks.paper.methods import ALL, RANGES, RATIOS, SHAPES
from benchmarks.paper.verdicts import ORDER, Duel, Judgement, Table, Verdict, describe_setting, duel
from hushgram.mechanisms import best_bandwidth
from hushgram.simulation import METRICS

BINNINGS = ("CFO-16", "CFO-32", "CFO-64")
DISTRIBUTIONS = ("SW+EMS", "SW+EM", "HH-ADMM", *BINNINGS)
ON_RANGES = (*DISTRIBUTIONS, "HH", "HaarHRR")
SMOOTH = tuple(name for name, data in DATA.items() if not data.spiky)
INCOME = ("income",)
LEAST, MOST = EPSILONS[0], EPSILONS[-1]


@dataclass(frozen=True)
class Claim:
    key: str
    section: str
    text: str
    judge: Callable[[Table], Verdict]


CLAIMS: list[Claim] = []


def claim(key: str, section: str, text: str) -> Callable[[Callable[[Table], Verdict]], Callable[[Table], Verdict]]:
    def add(judge: Callable[[Table], Verdict]) -> Callable[[Table], Verdict]:
        CLAIMS.append(Claim(key, section, text, judge))
        return judge

    return add


def _duel_with_rivals(table: Table, one: str, metric: str, data: tuple[str, ...] = tuple(DATA)) -> Duel:
    return duel(table, one, ON_RANGES if metric in RANGES else DISTRIBUTIONS, (metric,), data, EPSILONS)


# Overview (6.1) ------------------------------------------------------------------------------------------------------


@claim("overall", "6.1", "Over all data sets, ε and metrics, SW+EMS is best in most settings.")
def _(table: Table) -> Verdict:
    duels = [_duel_with_rivals(table, "SW+EMS", metric) for metric in ALL]
    numbers = ", ".join(f"{metric} {part.ahead}" for metric, part in zip(ALL, duels, strict=True))
    total = sum(duels, Duel()).mostly()
    return Verdict(total.judgement, f"{total.numbers}; ahead by metric, of 20 each: {numbers}")


@claim("overall-income", "6.1", "On income, HH-ADMM is best under some of the metrics.")
def _(table: Table) -> Verdict:
    duels = {metric: _duel_with_rivals(table, "HH-ADMM", metric, INCOME) for metric in ALL}
    listing = ", ".join(f"{metric} {part.ahead} ({len(part.lower)} surely)" for metric, part in duels.items())
    most = any(len(part.lower) > len(EPSILONS) / 2 for part in duels.values())
    some = any(part.lower for part in duels.values())
    return Verdict(ORDER[some + most], f"number of the {len(EPSILONS)} ε at which it is ahead: {listing}")


@claim("spread", "6.1", "The standard deviation between repetitions is small against the errors themselves.")
def _(table: Table) -> Verdict:
    spreads = {
        metric: statistics.median(
            summary.error * summary.runs**0.5 / summary.mean
            for (_, _, of, epsilon), summary in table.of_methods.items()
            if of == metric and epsilon in EPSILONS and summary.mean > 0
        )
        for metric in ALL
    }
    small = sum(spread < 0.25 for spread in spreads.values())
    numbers = "median of the deviation over the mean: " + ", ".join(f"{m} {100 * s:.0f} %" for m, s in spreads.items())
    return Verdict(ORDER[(small > 0) + (small == len(spreads))], numbers)


# Distances (6.2) -----------------------------------------------------------------------------------------------------


@claim("w1-best", "6.2", "SW+EMS has the least W1 in most settings.")
def _(table: Table) -> Verdict:
    return _duel_with_rivals(table, "SW+EMS", "w1").mostly()


@claim("w1-next", "6.2", "SW+EM and HH-ADMM come next on W1: both beat the best binning in most settings.")
def _(table: Table) -> Verdict:
    em, tree = (duel(table, one, BINNINGS, ("w1",), DATA, EPSILONS).mostly() for one in ("SW+EM", "HH-ADMM"))
    return _label("SW+EM", em) & _label("HH-ADMM", tree)


@claim("w1-few-bins", "6.2", "At small ε fewer bins give a lower W1.")
def _(table: Table) -> Verdict:
    return _label(
        "16 bins against the others at ε = 0.5", duel(table, "CFO-16", BINNINGS, ("w1",), DATA, [LEAST]).always()
    )


@claim("w1-flat-bins", "6.2", "With few bins W1 flattens as ε grows: what is left is the bias of bins.")
def _(table: Table) -> Verdict:
    falls = {
        data: [
            table.method(name, data, "w1", MOST).mean / table.method(name, data, "w1", 1.0).mean
            for name in ("CFO-16", "CFO-64")
        ]
        for data in DATA
    }
    flatter = sum(few > many for few, many in falls.values())
    listing = ", ".join(f"{DATA[data].title} {few:.2f} and {many:.2f}" for data, (few, many) in falls.items())
    biases = {data: _binned_bias(data, 16) / table.method("CFO-16", data, "w1", MOST).mean for data in DATA}
    left = ", ".join(f"{DATA[data].title} {100 * bias:.0f} %" for data, bias in biases.items())
    numbers = (
        f"W1 at ε = {MOST:g} over that at ε = 1, of 16 and of 64 bins: {listing}; of the former bias alone: {left}"
    )
    return Verdict(_share(flatter, len(falls)), numbers)


def _binned_bias(data: str, bins: int) -> float:
    """W1 between a data set and itself in bins: an error that no number of reports removes."""
    true = truth(population(data), DATA[data].buckets)
    return METRICS["w1"](true, np.repeat(true.reshape(bins, -1).mean(axis=1), true.size // bins))


@claim("w1-many-bins", "6.2", "At large ε more bins give a lower W1.")
def _(table: Table) -> Verdict:
    duels = [duel(table, more, ["CFO-16"], ("w1",), DATA, [MOST]) for more in BINNINGS[1:]]
    return _label(f"32 and 64 bins, each against 16, at ε = {MOST:g}", sum(duels, Duel()).always())


@claim("w1-best-bins", "6.2", "Even the best number of bins for each setting has a higher W1 than SW+EMS.")
def _(table: Table) -> Verdict:
    return duel(table, "SW+EMS", BINNINGS, ("w1",), DATA, EPSILONS).always()


@claim(
    "ks-best", "6.2", "On Beta, taxi and retirement SW+EMS has the least KS distance, in general, and SW+EM is next."
)
def _(table: Table) -> Verdict:
    others = [name for name in DISTRIBUTIONS if name != "SW+EMS"]
    first = _duel_with_rivals(table, "SW+EMS", "ks", SMOOTH).mostly()
    return _label("SW+EMS", first) & _label("SW+EM", duel(table, "SW+EM", others, ("ks",), SMOOTH, EPSILONS).mostly())


@claim("ks-income", "6.2", "On income HH-ADMM has a lower KS distance than SW+EM and SW+EMS, the more so at large ε.")
def _(table: Table) -> Verdict:
    waves = ("SW+EMS", "SW+EM")
    result = duel(table, "HH-ADMM", waves, ("ks",), INCOME, EPSILONS)
    first, last = (duel(table, "HH-ADMM", waves, ("ks",), INCOME, [e]).ratio for e in (LEAST, MOST))
    grows = Verdict(
        "holds" if last < first else "does not hold", f"{first:.2f} times at ε = {LEAST:g}, {last:.2f} at {MOST:g}"
    )
    return result.always() & grows


@claim("w1-income", "6.2", "On income HH-ADMM has nevertheless a higher W1 than SW+EMS.")
def _(table: Table) -> Verdict:
    return _label("SW+EMS", duel(table, "SW+EMS", ["HH-ADMM"], ("w1",), INCOME, EPSILONS).always())


@claim("ks-income-bins", "6.2", "Few bins do poorly on income's KS distance: 16 bins are behind every other method.")
def _(table: Table) -> Verdict:
    total = Duel()
    for epsilon in EPSILONS:
        binned = table.method("CFO-16", "income", "ks", epsilon)
        for other in DISTRIBUTIONS:
            if other != "CFO-16":
                total.add(f"{other} ε = {epsilon:g}", table.method(other, "income", "ks", epsilon), [binned])
    return _label("the others", total.always())


# Range queries (6.3) -------------------------------------------------------------------------------------------------


@claim("range-trees", "6.3", "SW+EMS answers range queries better than HH and HaarHRR.")
def _(table: Table) -> Verdict:
    return duel(table, "SW+EMS", ("HH", "HaarHRR"), RANGES, DATA, EPSILONS).always()


@claim("range-best", "6.3", "SW+EMS is best on range queries but for short ones on taxi, and income from ε = 2 on.")
def _(table: Table) -> Verdict:
    total = Duel()
    for metric in RANGES:
        for data in DATA:
            for epsilon in EPSILONS:
                if (data, metric) != ("taxi", "range_0.1") and not (data == "income" and epsilon >= 2):
                    others = [table.method(name, data, metric, epsilon) for name in ON_RANGES if name != "SW+EMS"]
                    ours = table.method("SW+EMS", data, metric, epsilon)
                    total.add(f"{DATA[data].title} {metric[6:]} ε = {epsilon:g}", ours, others)
    return total.always()


@claim("range-taxi", "6.3", "On taxi's short ranges SW+EMS is level with 64 bins, and ahead of every tree.")
def _(table: Table) -> Verdict:
    short = (("range_0.1",), ("taxi",), EPSILONS)
    bins = _label("SW+EMS over 64 bins", duel(table, "SW+EMS", ["CFO-64"], *short).near(1.25))
    return bins & _label("SW+EMS against trees", duel(table, "SW+EMS", ("HH", "HaarHRR", "HH-ADMM"), *short).always())


@claim("range-income", "6.3", "On income's ranges the waves do well up to ε = 2; beyond, HH-ADMM is best.")
def _(table: Table) -> Verdict:
    others = [name for name in ON_RANGES if name != "SW+EM"]
    private = duel(table, "SW+EMS", others, RANGES, INCOME, [e for e in EPSILONS if e <= 2]).mostly()
    beyond = duel(table, "HH-ADMM", ON_RANGES, RANGES, INCOME, [e for e in EPSILONS if e > 2]).always()
    return _label("SW+EMS up to ε = 2", private) & _label("HH-ADMM beyond", beyond)


# Mean, variance, quantiles (6.3) -------------------------------------------------------------------------------------


@claim("mean-sr-pm", "6.3", "For the mean, SR is better than PM at small ε and worse at large ε.")
def _(table: Table) -> Verdict:
    small = duel(table, "SR", ["PM"], ("mean",), DATA, [LEAST])
    large = duel(table, "PM", ["SR"], ("mean",), DATA, EPSILONS[-2:])
    return _label(f"SR at ε = {LEAST:g}", small.mostly()) & _label("PM at ε ≥ 2", large.mostly())


@claim("mean-near", "6.3", "For the mean, SW+EMS is comparable to the better of SR and PM.")
def _(table: Table) -> Verdict:
    return duel(table, "SW+EMS", ("SR", "PM"), ("mean",), DATA, EPSILONS).near(1.5)


@claim("mean-tree", "6.3", "For the mean, HH-ADMM is better than every binning, and not as good as SW+EMS.")
def _(table: Table) -> Verdict:
    bins = duel(table, "HH-ADMM", BINNINGS, ("mean",), DATA, EPSILONS).always()
    waves = duel(table, "SW+EMS", ["HH-ADMM"], ("mean",), DATA, EPSILONS).always()
    return _label("HH-ADMM against bins", bins) & _label("SW+EMS against HH-ADMM", waves)


@claim("variance-two-phases", "6.3", "For the variance, SR and PM are behind SW+EM and SW+EMS in most settings.")
def _(table: Table) -> Verdict:
    verdicts = [duel(table, one, ("SR", "PM"), ("variance",), DATA, EPSILONS).mostly() for one in ("SW+EMS", "SW+EM")]
    return _label("SW+EMS", verdicts[0]) & _label("SW+EM", verdicts[1])


@claim(
    "variance-others", "6.3", "For the variance the other methods rank as before: SW+EMS ahead of HH-ADMM and of bins."
)
def _(table: Table) -> Verdict:
    return _duel_with_rivals(table, "SW+EMS", "variance").mostly()


@claim("quantiles-best", "6.3", "Apart from income, SW+EMS has the best quantiles.")
def _(table: Table) -> Verdict:
    return _duel_with_rivals(table, "SW+EMS", "quantiles", SMOOTH).always()


@claim("quantiles-em", "6.3", "SW+EM has better quantiles than SW+EMS in some settings, but not reliably.")
def _(table: Table) -> Verdict:
    result = duel(table, "SW+EM", ["SW+EMS"], ("quantiles",), SMOOTH, EPSILONS)
    return Verdict(ORDER[bool(result.lower) + bool(result.higher)], str(result))


@claim(
    "quantiles-tree", "6.3", "Apart from income, HH-ADMM's quantiles are behind SW+EMS, and close to the best binning."
)
def _(table: Table) -> Verdict:
    ahead = duel(table, "SW+EMS", ["HH-ADMM"], ("quantiles",), SMOOTH, EPSILONS).mostly()
    close = duel(table, "HH-ADMM", BINNINGS, ("quantiles",), SMOOTH, EPSILONS).near(1.5)
    return _label("SW+EMS against HH-ADMM", ahead) & _label("HH-ADMM over the best binning", close)


@claim(
    "quantiles-bins",
    "6.3",
    "Apart from income, few bins have the better quantiles at small ε, and the gap narrows with ε.",
)
def _(table: Table) -> Verdict:
    first, last = (duel(table, "CFO-64", ["CFO-16"], ("quantiles",), SMOOTH, [e]) for e in (LEAST, MOST))
    numbers = f"64 bins over 16: {first.ratio:.2f} times at ε = {LEAST:g}, {last.ratio:.2f} at {MOST:g}"
    return Verdict(ORDER[(first.ratio > 1) + (last.ratio < first.ratio)], numbers)


@claim(
    "quantiles-income-bins",
    "6.3",
    "On income few bins have quantiles 10 to 100 times as wrong as the others', even at ε = 0.5.",
)
def _(table: Table) -> Verdict:
    waves = ("SW+EMS", "SW+EM", "HH-ADMM")
    factors = {e: duel(table, "CFO-16", waves, ("quantiles",), INCOME, [e]).ratio for e in EPSILONS}
    listing = ", ".join(f"{factor:.1f} at ε = {epsilon:g}" for epsilon, factor in factors.items())
    many = any(factor >= 10 for factor in factors.values())
    return Verdict(ORDER[many + (factors[LEAST] >= 10)], f"16 bins over the best of the others: {listing} times")


@claim("quantiles-income", "6.3", "On income HH-ADMM has the best quantiles.")
def _(table: Table) -> Verdict:
    return _duel_with_rivals(table, "HH-ADMM", "quantiles", INCOME).always()


# Waves, bandwidth, buckets (6.4) -------------------------------------------------------------------------------------


@claim("shape-square", "6.4", "At ε = 1 the square wave has the least W1 of all shapes, whatever b.")
def _(table: Table) -> Verdict:
    best, each = Duel(), Duel()
    for (name, data, b), ours in table.of_shapes.items():
        if name == "square":
            others = [table.of_shapes[other.name, data, b] for other in SHAPES[:-1]]
            best.add(f"{DATA[data].title} b = {b:g}", ours, others)
            for other in others:
                each.add(f"{DATA[data].title} b = {b:g}", ours, [other])
    return _label("against the best other shape", best.always()) & _label("against each", each.always())


@claim("shape-order", "6.4", "The smaller the ratio of a trapezoid's sides, the worse, in general.")
def _(table: Table) -> Verdict:
    total, names = Duel(), [f"ratio {ratio}" if ratio else "triangle" for ratio in RATIOS]
    for lower, upper in pairwise(names):
        for (name, data, b), steeper in table.of_shapes.items():
            if name == upper:
                total.add(f"{DATA[data].title} b = {b:g}", steeper, [table.of_shapes[lower, data, b]])
    return _label("each ratio against the next smaller", total.mostly())


@claim("bandwidth", "6.4", "The chosen b is among those with the least W1.")
def _(table: Table) -> Verdict:
    return _bandwidth(table, ("w1",))


@claim("bandwidth-others", "6.4", "Other metrics say the same of the chosen b.")
def _(table: Table) -> Verdict:
    return _bandwidth(table, ("ks", *RANGES, "quantiles"))


def _bandwidth(table: Table, metrics: tuple[str, ...]) -> Verdict:
    """Against the best of the grid, which has the luck of the lowest noise on its side."""
    total = Duel()
    for metric in metrics:
        for data in DATA:
            for epsilon in BANDWIDTH_EPSILONS:
                errors = table.over_bandwidths(data, metric, epsilon)
                total.add(describe_setting(data, epsilon), errors[best_bandwidth(epsilon)], list(errors.values()))
    settings = len(total.logs)
    close = f"surely worse than the best b in {len(total.higher)} of {settings} settings"
    return Verdict(_share(settings - len(total.higher), settings), close) & total.near(1.25)


@claim("buckets-differ", "6.4", "Data sets differ in the number of buckets that is best.")
def _(table: Table) -> Verdict:
    wins = {data: _best_buckets(table, data) for data in DATA}
    listing = "; ".join(f"{DATA[data].title}: {', '.join(map(str, counts))}" for data, counts in wins.items())
    differs = len({tuple(counts) for counts in wins.values()}) > 1
    return Verdict("holds" if differs else "does not hold", f"lowest W1 at ε = {EPSILONS}: {listing}")


@claim("buckets-beta", "6.4", "For Beta, 256 buckets are best.")
def _(table: Table) -> Verdict:
    best, each = _buckets(table, 256, ("beta",))
    return _label("against the best other number", best.always()) & _label("against each", each.always())


@claim("buckets-others", "6.4", "For the other data sets, 1024 buckets are best in most settings.")
def _(table: Table) -> Verdict:
    best, each = _buckets(table, 1024, tuple(name for name in DATA if name != "beta"))
    return _label("against the best other number", best.mostly()) & _label("against each", each.mostly())


def _buckets(table: Table, count: int, data: tuple[str, ...]) -> tuple[Duel, Duel]:
    """A number of buckets against the best of the others, and against each of them."""
    best, each = Duel(), Duel()
    for name in data:
        for epsilon in EPSILONS:
            ours = table.of_buckets[name, epsilon, count]
            others = [table.of_buckets[name, epsilon, other] for other in BUCKETS if other != count]
            best.add(describe_setting(name, epsilon), ours, others)
            for other in others:
                each.add(describe_setting(name, epsilon), ours, [other])
    return best, each


def _best_buckets(table: Table, data: str) -> list[int]:
    return [min(BUCKETS, key=lambda count: table.of_buckets[data, epsilon, count].mean) for epsilon in EPSILONS]


# Elsewhere in the paper ----------------------------------------------------------------------------------------------


@claim("discrete", "5.4", "Bucketing before or after randomizing makes little difference.")
def _(table: Table) -> Verdict:
    return duel(table, "discrete SW+EMS", ["SW+EMS"], ("w1", "ks"), DATA, EPSILONS).near(1.1)


@claim("tree-constraints", "4, 8", "HH-ADMM is an improvement over HH and HaarHRR.")
def _(table: Table) -> Verdict:
    return duel(table, "HH-ADMM", ("HH", "HaarHRR"), RANGES, DATA, EPSILONS).always()


def _label(label: str, verdict: Verdict) -> Verdict:
    return Verdict(verdict.judgement, f"{label}: {verdict.numbers}")


def _share(good: int, total: int) -> Judgement:
    return ORDER[(good >= total / 2) + (good == total)]
