"""The first part of the examination: vectors, whose draws are scripted, so that every answer is known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from hushgram._validation import describe
from hushgram.pipelines.conform.program import Program

MOST_SHOWN = 20


@dataclass(frozen=True)
class VectorSet:
    """Cases of one manifest."""

    file: str
    name: str
    manifest: Mapping[str, Any]
    cases: Sequence[Mapping[str, Any]]

    @property
    def tells_values_apart(self) -> bool:
        """Whether its values have more than one position."""
        return len({case["answer"]["position"] for case in self.cases if "position" in case["answer"]}) > 1


@dataclass(frozen=True)
class VectorsResult:
    """How many cases there were, how many failed, and the first of those, by name."""

    cases: int
    failed: int
    examples: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return self.failed == 0


@lru_cache(maxsize=1)
def vector_sets() -> tuple[VectorSet, ...]:
    """All that are in the package."""
    folder = resources.files("hushgram.pipelines.conform") / "vectors"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    return tuple(
        VectorSet(file.name, part["name"], part["manifest"], part["cases"])
        for file in files
        for part in json.loads(file.read_text(encoding="utf-8"))["sets"]
    )


def examine_vectors(program: Program, sets: Sequence[VectorSet]) -> VectorsResult:
    """Asks for every case; a program that stops answering raises a `ProgramError`."""
    failures = [failure for part in sets for failure in _failures(program, part)]
    return VectorsResult(sum(len(part.cases) for part in sets), len(failures), tuple(failures[:MOST_SHOWN]))


def _failures(program: Program, part: VectorSet) -> Iterator[str]:
    for number, case in enumerate(part.cases, 1):
        # Only with the first case, so that clients keep a manifest, as they will on a device.
        manifest = {"manifest": part.manifest} if number == 1 else {}
        wanted, answer = case["answer"], program.ask({**manifest, **case["request"]})
        where = f"{part.file}: {part.name}, case {number}, value {case['request'].get('value', '-')}"
        if "refused" in wanted:
            if "refused" not in answer:
                yield f"{where}: answered {describe(answer)}, and had to refuse"
            continue
        wrong = [name for name, value in wanted.items() if answer.get(name) != value]
        if "refused" in answer:
            yield f"{where}: refused: {describe(answer['refused'])}"
        elif wrong:
            name = wrong[0]
            yield f"{where}: {name} is {describe(answer.get(name))}, and had to be {describe(wanted[name])}"
