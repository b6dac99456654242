"""The report of an examination: for people who file it, and for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hushgram.pipelines.cli.tables import table_lines
from hushgram.pipelines.conform.free_draws import LawResult
from hushgram.pipelines.conform.uploads import UploadsResult
from hushgram.pipelines.conform.vectors import VectorsResult
from hushgram.pipelines.formatting import shown

FORMAT = "hushgram-conformance/1"


@dataclass(frozen=True)
class Examination:
    """All that was found; parts that were not reached, as the program stopped answering, are missing."""

    command: Sequence[str]
    version: str
    examined_at: str
    odds: float
    vectors: VectorsResult | None
    laws: Sequence[LawResult]
    uploads: UploadsResult | None
    stopped: str | None
    """What the program did instead of answering."""

    @property
    def conforms(self) -> bool:
        return (
            self.stopped is None
            and self.vectors is not None
            and self.vectors.passed
            and all(law.passed for law in self.laws)
            and self.uploads is not None
            and self.uploads.passed
        )


def report_lines(found: Examination) -> Iterator[str]:
    yield f"hushgram {found.version} examined, on {found.examined_at}:"
    yield f"  {shown(' '.join(found.command))}"
    yield ""
    if found.vectors is not None:
        right = found.vectors.cases - found.vectors.failed
        yield f"Scripted draws: {right:,} of {found.vectors.cases:,} answers are as they must be."
        for example in found.vectors.examples:
            yield shown(f"  {example}")
    if found.laws:
        reports = sum(law.reports for law in found.laws)
        yield f"Free draws: {reports:,} reports of {len(found.laws)} laws."
        rows = [
            [shown(law.name), law.revision, f"{law.epsilon:g}", _bounds(law), f"{law.fit_pvalue:.2g}", _word(law)]
            for law in found.laws
        ]
        yield from table_lines(["law", "revision", "ε declared", "ε measured", "p of fit", ""], rows)
        for law in found.laws:
            for fault in law.faults:
                yield shown(f"  {law.name}: {fault}")
    if found.uploads is not None:
        yield from _uploads(found.uploads)
    if found.stopped is not None:
        yield shown(f"The program {found.stopped}")
    yield ""
    yield "Verdict: " + ("it conforms." if found.conforms else "IT DOES NOT CONFORM.")
    yield from _odds(found)


def _uploads(found: UploadsResult) -> Iterator[str]:
    if not found.offered:
        yield "Messages with its own clock and ids: not examined, as it makes none on request."
        return
    wrong = "" if found.passed else " They are wrong:"
    yield f"Messages with its own clock and ids: {found.uploads:,} were read.{wrong}"
    for fault in found.faults:
        yield shown(f"  {fault}")


def _odds(found: Examination) -> Iterator[str]:
    one_in = f"1 in {round(1 / found.odds):,}"
    yield f"A client that keeps the law fails with a probability of at most {one_in}."
    if found.conforms:
        yield "ε is measured by the reports that tell two values of the domain apart best, from below and from above."
        yield f"These figures hold together but for {one_in}. What deviates by less than chance does is found by"
        yield "scripted draws alone: they are exact."


def _bounds(law: LawResult) -> str:
    upper = "…" if math.isinf(law.epsilon_upper) else f"{law.epsilon_upper:.3g}"
    return f"{law.epsilon_lower:.3g} to {upper}"


def _word(law: LawResult) -> str:
    return "" if law.passed else "FAILED"


def as_json(found: Examination) -> dict[str, Any]:
    """The same for programs; an upper bound that there is none of is null."""
    laws = [{**asdict(law), "passed": law.passed} for law in found.laws]
    for law in laws:
        law["epsilon_upper"] = None if math.isinf(law["epsilon_upper"]) else law["epsilon_upper"]
    return {
        "format": FORMAT,
        "conforms": found.conforms,
        "command": list(found.command),
        "version": found.version,
        "examined_at": found.examined_at,
        "odds_of_failing_by_chance": found.odds,
        "vectors": None if found.vectors is None else {**asdict(found.vectors), "passed": found.vectors.passed},
        "laws": laws,
        "uploads": None if found.uploads is None else {**asdict(found.uploads), "passed": found.uploads.passed},
        "stopped": found.stopped,
    }
