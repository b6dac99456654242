"""How a claim is judged by the table: methods are compared with one another, setting by setting, allowing for noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import polars as pl
from scipy import stats

from benchmarks.paper.data import DATA
from hushgram.simulation import Summary

Judgement = Literal["holds", "holds in part", "does not hold"]
ORDER: tuple[Judgement, ...] = ("does not hold", "holds in part", "holds")
CHANCE = 0.01
"""Two means differ when Welch's test says so at this level: equal ones would, by chance, once in 100 comparisons."""
SURE = float(stats.norm.isf(CHANCE / 2))
"""The same for a figure of many settings, whose noise is all but normal, in its standard errors."""


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


def compare(one: Summary, other: Summary) -> int:
    """-1 where the first is surely lower, 1 where it is surely higher, 0 where noise could have made the difference."""
    gap, first, second = one.mean - other.mean, one.error**2, other.error**2
    if min(one.runs, other.runs) < 2 or gap == 0:
        return 0
    if first + second > 0:
        degrees_of_freedom = (first + second) ** 2 / (first**2 / (one.runs - 1) + second**2 / (other.runs - 1))
        if abs(gap) <= float(stats.t.isf(CHANCE / 2, degrees_of_freedom)) * math.sqrt(first + second):
            return 0
    return 1 if gap > 0 else -1


@dataclass
class Duel:
    """One method against another, or against the best of several, in many settings.

    The best of several has the luck of the lowest noise on its side, which counts against the one.
    """

    lower: list[str] = field(default_factory=list)
    level: list[str] = field(default_factory=list)
    higher: list[str] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)

    def add(self, label: str, one: Summary, others: Sequence[Summary]) -> None:
        best = min(others, key=lambda summary: summary.mean)
        (self.level, self.higher, self.lower)[compare(one, best)].append(label)
        means = [max(summary.mean, 1e-300) for summary in (one, best)]
        self.logs.append(math.log(means[0] / means[1]))
        relative = [summary.error / mean for summary, mean in zip((one, best), means, strict=True)]
        self.noise.append(sum(0.0 if math.isnan(share) else share**2 for share in relative))

    def __add__(self, other: Duel) -> Duel:
        return Duel(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    @property
    def ahead(self) -> int:
        """In how many settings the one has the lower mean, sure or not."""
        return sum(log < 0 for log in self.logs)

    @property
    def ratio(self) -> float:
        """The typical (geometric mean) error of the one over that of the best other."""
        return math.exp(sum(self.logs) / len(self.logs))

    @property
    def spread(self) -> float:
        """The standard error of the typical ratio's logarithm."""
        return math.sqrt(sum(self.noise)) / len(self.logs)

    @property
    def typically(self) -> str:
        return f"typically {self.ratio:.2f} ± {self.ratio * self.spread:.2f} times the error"

    @property
    def most(self) -> float:
        return math.exp(max(self.logs))

    def __str__(self) -> str:
        behind = f"surely behind in {len(self.higher)}" + (f" ({abbreviate(self.higher)})" if self.higher else "")
        return f"ahead in {self.ahead} of {len(self.logs)}, surely in {len(self.lower)}, {behind}; {self.typically}"

    def always(self) -> Verdict:
        """Nowhere surely behind, and surely ahead on the whole; in part where ahead in half of the settings."""
        if not self.higher and math.log(self.ratio) < -SURE * self.spread:
            return Verdict("holds", str(self))
        return Verdict("holds in part" if self.ahead >= len(self.logs) / 2 else "does not hold", str(self))

    def mostly(self) -> Verdict:
        """Ahead in more than half of the settings, surely behind in less than a quarter; in part if one of the two."""
        most = self.ahead > len(self.logs) / 2
        return Verdict(ORDER[most + (len(self.higher) < len(self.logs) / 4)], str(self))

    def near(self, factor: float) -> Verdict:
        """Typically within a factor, above or below; in part within its square."""
        reach = abs(math.log(self.ratio)) / math.log(factor)
        low, high = math.exp(min(self.logs)), self.most
        return Verdict(ORDER[(reach <= 2) + (reach <= 1)], f"{self.typically}, from {low:.2f} to {high:.2f}")


def duel(
    table: Table,
    one: str,
    others: Iterable[str],
    metrics: Iterable[str],
    data: Iterable[str],
    epsilons: Iterable[float],
) -> Duel:
    """A method against the best of the others that are not itself, at each setting."""
    result, rivals, epsilon_list = Duel(), [other for other in others if other != one], list(epsilons)
    labels = list(metrics)
    for metric in labels:
        for name in data:
            for epsilon in epsilon_list:
                label = (
                    f"{DATA[name].title} {metric} ε = {epsilon:g}"
                    if len(labels) > 1
                    else describe_setting(name, epsilon)
                )
                rows = [table.method(rival, name, metric, epsilon) for rival in rivals]
                result.add(label, table.method(one, name, metric, epsilon), rows)
    return result


def describe_setting(data: str, epsilon: float) -> str:
    return f"{DATA[data].title} ε = {epsilon:g}"


def abbreviate(labels: Sequence[str], most: int = 4) -> str:
    return ", ".join(labels[:most]) + (f" and {len(labels) - most} more" if len(labels) > most else "")
