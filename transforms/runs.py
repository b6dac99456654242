"""The runs of a batch output folder: what each has counted, and the rules by which the next one may count.

A run keeps its histograms, dead letters and counted ids in a folder of its own, `runs/NAME/ATTEMPT`. Its manifest,
`runs/NAME/run.json`, appears last and by one rename: from then on the run counts, whole or not at all. The snapshot of
a window is estimated from the sum of all runs, so a run commits first and sums afterwards: of two runs at once, the one
that commits last finds both. `run_store.py` reads and writes all of it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from hushgram.schemas.records import Key
from hushgram.transforms.sinks.files import safe_name

FORMAT = "hushgram-run/1"


class RunError(Exception):
    """A run that would count something twice, or lose what another has counted: one line that says what to do."""


@dataclass(frozen=True)
class CountedFile:
    """A report file as it was when a run listed it.

    `fingerprint` is that of its header and first block, which stay the same when the file is moved, copied, compressed
    or appended to; None where there is no first block.
    """

    path: str
    size: int
    fingerprint: str | None = None


@dataclass(frozen=True)
class CountedIds:
    """The upload ids that a run has counted, in one file for each shard.

    They expire when their reports are older than `max_age`, and not before the run itself is: so a backfill in several
    runs counts an upload once, too.
    """

    shards: tuple[int, ...] = ()
    expire_ms: int = 0


@dataclass(frozen=True)
class Manifest:
    """What a committed run has counted. `windows` has the reports of every window that a run of this name ever touched,
    with zero where nothing is left of them."""

    name: str
    attempt: str
    generation: int
    committed_at_ms: int
    files: tuple[CountedFile, ...] = ()
    windows: Mapping[Key, int] = field(default_factory=dict)
    ids: CountedIds = CountedIds()
    replaces: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        return self.name, self.attempt

    def to_json(self) -> str:
        content = {
            "format": FORMAT,
            "name": self.name,
            "attempt": self.attempt,
            "generation": self.generation,
            "committed_at_ms": self.committed_at_ms,
            "files": [vars(file) for file in self.files],
            "windows": [[*vars(key).values(), reports] for key, reports in self.windows.items()],
            "ids": vars(self.ids),
            "replaces": self.replaces,
        }
        return json.dumps(content, indent=1) + "\n"  # ASCII: names of files may be no text

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Raises ValueError on anything that `to_json` cannot have written."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r}, this program reads {FORMAT!r}")
            return cls(
                name=str(content["name"]),
                attempt=str(content["attempt"]),
                generation=int(content["generation"]),
                committed_at_ms=int(content["committed_at_ms"]),
                files=tuple(CountedFile(**file) for file in content["files"]),
                windows=dict(map(_window, content["windows"])),
                ids=CountedIds(tuple(content["ids"]["shards"]), int(content["ids"]["expire_ms"])),
                replaces=tuple((str(name), str(attempt)) for name, attempt in content["replaces"]),
            )
        except (KeyError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"not a run's manifest: {type(error).__name__} {error}") from None


def _window(row: Any) -> tuple[Key, int]:
    collection, group, start, end, reports = row
    if not isinstance(collection, str) or not isinstance(group, str | None):
        raise TypeError("a window without a name")
    return Key(collection, group, int(start), int(end)), int(reports)


@dataclass(frozen=True)
class Attempt:
    """One attempt to carry out a run, as planned before it starts."""

    directory: str
    name: str
    attempt: str
    files: tuple[CountedFile, ...]
    generation: int
    """Of its snapshots: the one asked for, and no lower than the folder has already."""
    is_correction: bool = False
    """Whether a generation above the folder's was asked for, so that windows may shrink."""
    others: tuple[tuple[str, str], ...] = ()
    """The runs, by identity, whose ids this attempt knows as counted."""
    known_ids: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Of these runs the folder, and the shards that have ids."""
    replaces: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> str:
        return run_folder(self.directory, (self.name, self.attempt))


def run_folder(directory: str, identity: tuple[str, str]) -> str:
    name, attempt = identity
    return FileSystems.join(directory, "runs", safe_name(name), attempt)


def default_name(patterns: Sequence[str]) -> str:
    """A run's name, made of its input patterns: readable, and different for different patterns.

    >>> default_name(["/logs/2026-01-01/*.avro"])
    'logs-2026-01-01-avro-887e2d98'
    """
    absolute = sorted(pattern if "://" in pattern else str(Path(pattern).absolute()) for pattern in patterns)
    readable = re.sub("[^a-zA-Z0-9._]+", "-", patterns[0].replace("*.", "")).strip("-.")[-60:]
    return f"{readable or 'run'}-{hashlib.sha256(json.dumps(absolute).encode()).hexdigest()[:8]}"


def check_files(files: Sequence[CountedFile], others: Iterable[Manifest]) -> None:
    """Refuses a file that another run has counted, or that is given twice under two names."""
    first: dict[str, str] = {}
    for file in files:
        if file.fingerprint is not None and first.setdefault(file.fingerprint, file.path) != file.path:
            same = f"{first[file.fingerprint]} and {file.path}"
            raise RunError(f"--input: {same} begin with the same reports: a file and its copy; name one of them")
    by_path = {file.path for file in files}
    for run in others:
        for file in run.files:
            path = file.path if file.path in by_path else first.get(file.fingerprint or "")
            if path is not None:
                was = "" if path == file.path else f", then named {file.path}"
                raise RunError(
                    f"--input: {path} was counted by run {run.name!r}{was}; leave it out, repeat that run with "
                    f"--run {run.name!r}, or let this run take its place with --replace {run.name!r}"
                )


@dataclass(frozen=True)
class Objection:
    """Why an attempt cannot be committed. `passing` says that a new attempt of the same run may succeed."""

    detail: str
    passing: bool


def objection(plan: Attempt, runs: Sequence[Manifest], windows: Mapping[Key, int], has_ids: bool) -> Objection | None:
    """What stands against committing an attempt now, given the runs that are committed by now."""
    own = next((run for run in runs if run.name == plan.name), None)
    others = [run for run in runs if run.name != plan.name and run.identity not in plan.replaces]
    if own is not None and own.attempt > plan.attempt:
        return Objection(f"run {plan.name!r} was started and finished again meanwhile", passing=False)
    try:
        check_files(plan.files, others)
    except RunError as error:
        return Objection(str(error), passing=False)
    unseen = [run.name for run in others if run.ids.shards and run.identity not in plan.others]
    if has_ids and unseen:
        return Objection(f"run {unseen[0]!r} finished meanwhile, with upload ids that may be the same", passing=True)
    if max((run.generation for run in runs), default=0) > plan.generation:
        return Objection("a run with a higher generation finished meanwhile", passing=True)
    before = touched(plan, runs)
    shrunk = [key for key, reports in before.items() if windows.get(key, 0) < reports]
    if shrunk and not plan.is_correction:
        key = min(shrunk, key=lambda key: (key.collection, key.window_start, key.group or ""))
        day = datetime.fromtimestamp(key.window_start / 1000, UTC)
        return Objection(
            f"run {plan.name!r} counted {before[key]:,} reports in the window of {key.collection!r} from "
            f"{day:%Y-%m-%d %H:%M} UTC before, and {windows.get(key, 0):,} now ({len(shrunk):,} windows shrink); "
            f"nothing was changed. If these are other files, give the run another name with --run; if fewer is right, "
            f"give --generation {plan.generation + 1}",
            passing=False,
        )
    return None


def touched(plan: Attempt, runs: Sequence[Manifest]) -> dict[Key, int]:
    """What the runs that an attempt takes the place of have counted: its own earlier one, and those it replaces."""
    before: dict[Key, int] = {}
    for run in runs:
        if run.name == plan.name or run.identity in plan.replaces:
            for key, reports in run.windows.items():
                before[key] = before.get(key, 0) + reports
    return before
