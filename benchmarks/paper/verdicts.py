"""How a claim is judged by the table: methods are held against one another, setting by setting, with room for noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl
from scipy import stats

from benchmarks.paper.data import DATA
from hushgram.trials import Summary

Judgement = Literal["holds", "holds in part", "does not hold"]
ORDER: tuple[Judgement, ...] = ("does not hold", "holds in part", "holds")
CHANCE = 0.01
"""Two means differ when Welch's test says so at this level: equal ones would, by chance, once in 100 comparisons."""


@dataclass(frozen=True)
class Verdict:
    """What the table says of a claim, and the numbers behind it."""

    judgement: Judgement
    numbers: str

    def __and__(self, other: Verdict) -> Verdict:
        """Of a claim in two parts: both hold, one of them does or each in part, or neither does."""
        both = {self.judgement, other.judgement}
        judgement: Judgement = self.judgement if len(both) == 1 else "holds in part"
        return Verdict(judgement, f"{self.numbers}; {other.numbers}")


class Table:
    """The results, looked up by figure, method, data set and so on."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame
        keys = ("figure", "method", "data", "metric", "epsilon", "buckets", "bandwidth")
        self.cells = {
            tuple(row[key] for key in keys): Summary(row["mean"], row["error"], row["runs"])
            for row in frame.iter_rows(named=True)
        }
        self.of_methods = {key[1:5]: summary for key, summary in self.cells.items() if key[0] == "methods"}
        self.of_shapes = {
            (key[1], key[2], key[6]): summary
            for key, summary in self.cells.items()
            if key[0] == "shapes" and key[3] == "w1"
        }
        self.of_buckets = {
            (key[2], key[4], key[5]): summary
            for key, summary in self.cells.items()
            if key[0] == "buckets" and key[3] == "w1"
        }

    def method(self, name: str, data: str, metric: str, epsilon: float) -> Summary:
        return self.of_methods[name, data, metric, epsilon]

    def over_bandwidths(self, data: str, metric: str, epsilon: float) -> dict[float, Summary]:
        """Square Wave with EMS by its half-width b."""
        return {
            key[6]: summary
            for key, summary in self.cells.items()
            if (key[0], key[2], key[3], key[4]) == ("bandwidths", data, metric, epsilon)
        }


def differ(one: Summary, other: Summary) -> int:
    """-1 where the first is surely lower, 1 where it is surely higher, 0 where noise could have made the difference."""
    gap, first, second = one.mean - other.mean, one.error**2, other.error**2
    if min(one.runs, other.runs) < 2 or gap == 0:
        return 0
    if first + second > 0:
        freedom = (first + second) ** 2 / (first**2 / (one.runs - 1) + second**2 / (other.runs - 1))
        if abs(gap) <= float(stats.t.isf(CHANCE / 2, freedom)) * math.sqrt(first + second):
            return 0
    return 1 if gap > 0 else -1


@dataclass
class Duel:
    """One method against another, or against the best of several, in many settings."""

    lower: list[str] = field(default_factory=list)
    level: list[str] = field(default_factory=list)
    higher: list[str] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)

    def add(self, where: str, one: Summary, others: Sequence[Summary]) -> None:
        best = min(others, key=lambda summary: summary.mean)
        (self.level, self.higher, self.lower)[differ(one, best)].append(where)
        self.logs.append(math.log(max(one.mean, 1e-300) / max(best.mean, 1e-300)))

    @property
    def ratio(self) -> float:
        """The typical (geometric mean) error of the one over that of the best other."""
        return math.exp(sum(self.logs) / len(self.logs))

    @property
    def ratios(self) -> tuple[float, float]:
        return math.exp(min(self.logs)), math.exp(max(self.logs))

    def __str__(self) -> str:
        settings = len(self.logs)
        higher = f"higher in {len(self.higher)}" + (f" ({briefly(self.higher)})" if self.higher else "")
        counts = f"lower in {len(self.lower)} of {settings}, not told apart in {len(self.level)}, {higher}"
        return f"{counts}; typically {self.ratio:.2f} times"

    def always(self) -> Verdict:
        """Lower wherever noise lets one tell; in part where that is so in most settings."""
        settings = len(self.logs)
        if not self.higher and self.lower:
            return Verdict("holds", str(self))
        return Verdict("holds in part" if len(self.higher) <= settings / 2 else "does not hold", str(self))

    def mostly(self) -> Verdict:
        """Lower, or not told apart, in more than half of the settings; in part in more than a quarter."""
        settings, good = len(self.logs), len(self.lower) + len(self.level)
        if not self.lower:
            return Verdict("does not hold", str(self))
        return Verdict(ORDER[(good > settings / 4) + (good > settings / 2)], str(self))

    def near(self, factor: float) -> Verdict:
        """Typically within a factor, above or below; in part within its square."""
        reach = abs(math.log(self.ratio)) / math.log(factor)
        low, high = self.ratios
        numbers = f"typically {self.ratio:.2f} times, from {low:.2f} to {high:.2f}"
        return Verdict(ORDER[(reach <= 2) + (reach <= 1)], numbers)


def duel(
    table: Table,
    one: str,
    others: Iterable[str],
    metrics: Iterable[str],
    data: Iterable[str],
    epsilons: Iterable[float],
) -> Duel:
    """A method against the best of the others that are not itself, at each setting."""
    result, rivals, many = Duel(), [other for other in others if other != one], list(epsilons)
    labels = list(metrics)
    for metric in labels:
        for name in data:
            for epsilon in many:
                label = f"{DATA[name].title} {metric} ε = {epsilon:g}" if len(labels) > 1 else at(name, epsilon)
                rows = [table.method(rival, name, metric, epsilon) for rival in rivals]
                result.add(label, table.method(one, name, metric, epsilon), rows)
    return result


def at(data: str, epsilon: float) -> str:
    return f"{DATA[data].title} ε = {epsilon:g}"


def briefly(labels: Sequence[str], most: int = 4) -> str:
    return ", ".join(labels[:most]) + (f" and {len(labels) - most} more" if len(labels) > most else "")
