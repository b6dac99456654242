"""The outcomes of the faults, as lines for a person and as a table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.chaos.schedule import KINDS, Fault

BEGIN, END = "<!-- table of make chaos: begin -->", "<!-- table of make chaos: end -->"
HEADER = "| fault | times | recovery: median | worst | losses |\n|---|---|---|---|---|"


@dataclass(frozen=True)
class Outcome:
    """A fault, the seconds from its end until everything sent by then could be read, and the problems found."""

    fault: Fault
    recovery_seconds: float
    problems: tuple[str, ...] = ()


def line(outcome: Outcome, clock: str, verdict: str) -> str:
    recovery = "not recovered" if outcome.problems else f"recovered in {outcome.recovery_seconds:5.1f} s"
    return f"{outcome.fault.number:3}  {clock}  {outcome.fault}: {recovery}; {verdict}"


def markdown(outcomes: Sequence[Outcome], command: str, summary: str) -> str:
    """A row for each kind of fault that happened, alone or with another, and one for those that came in pairs."""
    rows = []
    for kind in KINDS:
        of_kind = [outcome for outcome in outcomes if any(part.kind == kind for part in outcome.fault.injuries)]
        rows.append((kind.phrase, of_kind))
    rows.append(("two of these at once", [outcome for outcome in outcomes if len(outcome.fault.injuries) > 1]))
    rows.append(("all", list(outcomes)))
    lines = [_row(phrase, outcomes) for phrase, outcomes in rows if outcomes]
    return "\n".join([f"`{command}`: {summary}", "", HEADER, *lines]) + "\n"


def _row(phrase: str, outcomes: Sequence[Outcome]) -> str:
    seconds = [outcome.recovery_seconds for outcome in outcomes if not outcome.problems]
    middle, worst = (f"{median(seconds):.0f} s", f"{max(seconds):.0f} s") if seconds else ("–", "–")
    losses = sum(bool(outcome.problems) for outcome in outcomes)
    return f"| {phrase} | {len(outcomes)} | {middle} | {worst} | {losses or 'none'} |"


def put_into(document: Path, table: str) -> None:
    """Replaces the text between the two marks of a document."""
    before, begin, rest = document.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{document}: it needs the lines {BEGIN} and {END}, with the table between them")
    document.write_text(f"{before}{BEGIN}\n{table}{END}{after}")
