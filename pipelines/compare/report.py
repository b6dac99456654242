"""Comparisons as tables and sentences for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hushgram.comparison import Comparison, Difference
from hushgram.comparison.sentence import decimals, fixed, percent, pvalue_text
from hushgram.intervals import NotEstimableError
from hushgram.pipelines.cli.tables import table_lines
from hushgram.pipelines.compare.sides import Side
from hushgram.pipelines.formatting import NOTES, number, shown

THRESHOLD = 0.05
"""A corrected p-value below this is a difference."""
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The quantiles of a comparison; snapshots hold them unless they were made with others."""


@dataclass(frozen=True)
class Row:
    """A number of both sides, and its difference."""

    of: str
    at: float | None
    first: float
    second: float
    difference: Difference[float]

    @property
    def name(self) -> str:
        if self.at is None:
            return {"std": "standard deviation"}.get(self.of, self.of)
        return "median" if self.at == 0.5 else f"{100 * self.at:g} % quantile"


@dataclass(frozen=True)
class Compared:
    """Two sides, their comparison, and its p-value, corrected where there are several comparisons."""

    first: Side
    second: Side
    comparison: Comparison
    pvalue: float | None
    comparisons: int

    @property
    def sentence(self) -> str:
        names = (shown(self.first.name), shown(self.second.name))
        return self.comparison.sentence(*names, pvalue=self.pvalue, threshold=THRESHOLD)

    @property
    def has_distributions(self) -> bool:
        """Whether more than the means is known."""
        return all(side.distribution.probabilities is not None for side in (self.first, self.second))

    def rows(self) -> Iterator[Row]:
        """Those that both sides have."""
        one, other, comparison = self.first.distribution, self.second.distribution, self.comparison
        yield Row("mean", None, one.mean, other.mean, comparison.mean)
        with suppress(NotEstimableError):
            yield Row("std", None, one.std, other.std, comparison.std)
        for share in SHARES:
            with suppress(NotEstimableError):
                yield Row("quantile", share, one.quantile(share), other.quantile(share), comparison.quantile(share))


def lines(compared: Compared) -> Iterator[str]:
    """A comparison as a table, a sentence, and what to make of them."""
    sides = (compared.first, compared.second)
    growing = ", at any time" if compared.comparison.growing else ""
    interval = f"{percent(compared.comparison.level)} interval{growing}"
    heading = ["", *(shown(side.name) for side in sides), "difference", interval]
    cells = [["reports", *(f"{side.distribution.reports:,}" for side in sides), "", ""]]
    for row in compared.rows():
        value, low, high = row.difference
        places = decimals((high - low) / 2, digits=2)
        ends = f"{fixed(low, places)} to {fixed(high, places)}"
        cells.append([row.name, number(row.first), number(row.second), fixed(value, places), ends])
    yield from table_lines(heading, cells)
    yield ""
    yield compared.sentence
    yield from _where(compared)
    yield _test(compared)
    for side in sides:
        if side.distribution.status in NOTES:
            yield f"{shown(side.name)}: {NOTES[side.distribution.status].short}."


def _where(compared: Compared) -> Iterator[str]:
    """Where the distribution functions differ most, if their band leaves no doubt."""
    try:
        curve = compared.comparison.curve()
    except NotEstimableError:
        return
    # How far the band is from zero, on either side of it.
    clear = [max(low, -high) for low, high in zip(curve.low, curve.high, strict=True)]
    place = max(range(len(clear)), key=clear.__getitem__)
    if clear[place] > 0:
        unit = compared.first.distribution.domain.unit
        low, high = 100 * curve.low[place], 100 * curve.high[place]
        places = decimals((high - low) / 2)
        yield (
            f"Up to {number(float(curve.points[place]))}{f' {shown(unit)}' if unit else ''} there are "
            f"{100 * curve.value[place]:+.{places}f} percentage points more values of {shown(compared.first.name)}, "
            f"band {low:+.{places}f} to {high:+.{places}f}."
        )


def _test(compared: Compared) -> str:
    if compared.pvalue is None:
        return "There is no test that both are the same distribution without --collections."
    of = "One distribution?" if compared.has_distributions else "One mean?"
    corrected = f", corrected for {compared.comparisons} comparisons (Holm)" if compared.comparisons > 1 else ""
    growing = ", valid at any time while reports arrive" if compared.comparison.growing else ""
    return f"{of} {pvalue_text(compared.pvalue)}{corrected}{growing}."


def to_json(collection: str, unit: str, all_compared: Sequence[Compared]) -> dict[str, Any]:
    """The same for programs; differences are first less second."""
    several = len(all_compared) > 1
    return {
        "collection": collection,
        "unit": unit,
        "correction": {"pvalues": "holm", "intervals": "bonferroni"} if several else None,
        "comparisons": [_as_object(compared) for compared in all_compared],
    }


def _as_object(compared: Compared) -> dict[str, Any]:
    comparison = compared.comparison
    curve = None
    with suppress(NotEstimableError):
        curve = {name: values.tolist() for name, values in comparison.curve()._asdict().items()}
    return {
        "first": _side(compared.first),
        "second": _side(compared.second),
        "level": comparison.level,
        "always_valid": comparison.growing,
        "pvalue": comparison.pvalue,
        "corrected_pvalue": compared.pvalue,
        "detectable": comparison.detectable,
        "sentence": compared.sentence,
        "differences": [
            {"of": row.of, "at": row.at, "first": row.first, "second": row.second, **_difference(row)}
            for row in compared.rows()
        ],
        "curve": curve,
    }


def _difference(row: Row) -> dict[str, float]:
    value, low, high = row.difference
    return {"difference": value, "low": low, "high": high}


def _side(side: Side) -> dict[str, Any]:
    windows = sorted({(key.window_start, key.window_end) for key in side.keys})
    return {
        "name": side.name,
        "reports": side.distribution.reports,
        "status": side.distribution.status,
        "windows": [{"window_start": start, "window_end": end} for start, end in windows],
    }
