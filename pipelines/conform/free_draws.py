"""The second part of the examination: the client draws by itself, and its reports are held against the exact law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hushgram import Collection
from hushgram._arrays import IntArray
from hushgram._validation import describe
from hushgram.pipelines.conform.law import ReportLaw
from hushgram.pipelines.conform.program import Program, ProgramError
from hushgram.pipelines.conform.statistics import bound_epsilon, find_repeat, fit_pvalue, serial_pvalue
from hushgram.pipelines.conform.vectors import VectorSet

ODDS = 1e-6
"""The probability that a client which keeps the law fails."""
PLACES = (0.0, 0.25, 0.6, 1.0)
"""Shares of the domain that values are drawn at: both ends, and two that are no mirror images of one another or of
themselves, since a fault may be symmetric."""
BATCH = 20_000
"""Reports of one request, so that answers stay small."""


@dataclass(frozen=True)
class Question:
    """A manifest, and values whose positions are known."""

    name: str
    manifest: Mapping[str, Any]
    values: tuple[tuple[str, int], ...]

    @property
    def epsilon(self) -> float:
        return float(self.manifest["device"]["epsilon"])


@dataclass(frozen=True)
class LawResult:
    """What the reports of one manifest say."""

    name: str
    revision: str
    epsilon: float
    epsilon_lower: float
    epsilon_upper: float
    fit_pvalue: float
    serial_pvalue: float
    reports: int
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults


def question_of(part: VectorSet) -> Question:
    """Positions among the cases of a set, spread over the domain."""
    known = {
        case["answer"]["position"]: case["request"]["value"] for case in part.cases if "position" in case["answer"]
    }
    places = sorted(known)
    return Question(part.name, part.manifest, tuple((known[at], at) for at in _spread(places)))


def question_about(collection: Collection) -> Question:
    """Values spread over a collection's domain."""
    numbers = collection.domain.from_unit(PLACES)
    places = collection.mechanism.locate(collection.domain.to_unit(numbers))
    values = tuple((repr(float(number)), int(place)) for number, place in zip(numbers, places, strict=True))
    return Question(collection.name, collection.manifest(), values)


def _spread(places: Sequence[int]) -> list[int]:
    wanted = [places[0] + share * (places[-1] - places[0]) for share in PLACES]
    return sorted({min(places, key=lambda place: abs(place - target)) for target in wanted})


def examine_law(program: Program, second: Program, question: Question, reports: int, odds: float) -> LawResult:
    """Draws of every value from the program, and of the first also from a second process; then all tests.

    `odds` are shared by all tests, so that together they raise a false alarm no more often.
    """
    laws = [ReportLaw.of(question.manifest, place) for _, place in question.values]
    drawn = [
        draw(program, question, value, reports, law.cells)
        for (value, _), law in zip(question.values, laws, strict=True)
    ]
    first, law = question.values[0][0], laws[0]
    again = [draw(one, question, first, reports // 4, law.cells) for one in (program, second)]
    pairs = list(combinations(range(len(laws)), 2))
    tests = 2 * len(laws) + len(pairs)
    fits = [fit_pvalue(law, cells) for law, cells in zip(laws, drawn, strict=True)]
    series = [serial_pvalue(law, cells) for law, cells in zip(laws, drawn, strict=True)]
    bounds = [bound_epsilon((laws[a], laws[b]), (drawn[a], drawn[b]), odds / tests) for a, b in pairs]
    lower, upper = max(bound.lower for bound in bounds), max(bound.upper for bound in bounds)
    faults = []
    if lower > question.epsilon:
        faults.append(f"ε is {lower:.3g} or more, and {question.epsilon:g} was declared")
    if min(fits) < odds / tests:
        value = question.values[int(np.argmin(fits))][0]
        faults.append(f"reports of {value} do not follow the law: as badly by chance with p ≤ {min(fits):.2g}")
    if min(series) < odds / tests:
        faults.append(f"reports depend on those before: as strongly by chance with p = {min(series):.2g}")
    stretch = find_repeat(law, [drawn[0], *again])
    if stretch is not None:
        faults.append(f"{stretch} reports in a row came twice: the generator repeats, or starts from the same seed")
    return LawResult(
        question.name,
        str(question.manifest["revision"]),
        question.epsilon,
        lower,
        upper,
        min(fits),
        min(series),
        sum(cells.size for cells in (*drawn, *again)),
        tuple(faults),
    )


def draw(program: Program, question: Question, value: str, reports: int, limit: int) -> IntArray:
    """Cells that the client draws by itself."""
    parts = []
    for start in range(0, reports, BATCH):
        wanted = min(BATCH, reports - start)
        manifest = {"manifest": question.manifest} if start == 0 else {}
        parts.append(_cells(program.ask({**manifest, "value": value, "repeat": wanted}), wanted, limit))
    return np.concatenate(parts)


def _cells(answer: Mapping[str, Any], wanted: int, limit: int) -> IntArray:
    cells = answer.get("cells")
    if not isinstance(cells, list) or len(cells) != wanted or not all(type(cell) is int for cell in cells):
        raise ProgramError(f"answered {describe(answer)}, allowed: cells, a list of {wanted} whole numbers")
    if not 0 <= min(cells) <= max(cells) < limit:
        raise ProgramError(f"drew a cell outside of the {limit} that there are")
    return np.array(cells, dtype=np.int64)
