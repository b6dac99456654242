"""Results for the tests of the page: real estimates of known values, written as the pipelines write them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushgram import Collection
from hushgram.schemas.avro_schemas import DEAD_LETTER, SNAPSHOT
from hushgram.schemas.records import DeadLetter, Key, Pane, Snapshot
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.files import FORMATS, file_name
from hushgram.transforms.sinks.result_files import pane_name
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START

COMMUTE = Collection(name="commute", low=0, high=180, unit="minutes", buckets=64, epsilon=2.0, groups=("DE", "FR"))
AGE = Collection(
    name="age", low=0, high=63, integer=True, unit="years", buckets=64, epsilon=2.0, mechanism="hierarchy", branching=2
)
LATENCY = Collection(name="latency", low=1, high=10_000, scale="log", unit="ms", buckets=128, epsilon=2.0)
LOAD = Collection(name="load", low=0, high=1, epsilon=1.0, mechanism="piecewise", groups=("eu", "us"))


def estimate(
    collection: Collection,
    group: str | None = None,
    hour: int = 0,
    reports: int = 4000,
    pane: Pane = Pane(),  # noqa: B008 - frozen
    seed: int = 0,
) -> Snapshot:
    """The snapshot of one pane. More reports of the same seed begin with the fewer ones."""
    rng = np.random.default_rng([seed, hour, len(group or "")])
    share = rng.beta(2 + hour % 3, 5, 20_000)
    values = collection.low + (collection.high - collection.low) * share
    if collection.scale == "log":
        values = collection.low * (collection.high / collection.low) ** share
    counts = collection.tally(collection.simulate(values, seed=seed)[:reports])
    key = Key(collection.name, group, START + hour * HOUR, START + (hour + 1) * HOUR)
    [made] = snapshots(collection, [(key, pane, Tallies({collection.revision: (reports, counts)}))])
    return made


def write_pane(directory: Path, snapshot: Snapshot, kind: str = "avro") -> Path:
    """As `hushgram stream` does: a file for each pane."""
    path = directory / "snapshots" / f"{pane_name(snapshot)}.{kind}"
    write_atomically(str(path), FORMATS[kind](SNAPSHOT, [snapshot]))
    return path


def write_window(directory: Path, together: Sequence[Snapshot], kind: str = "avro") -> Path:
    """As `hushgram aggregate` does: a file for each window, with all groups."""
    path = directory / "snapshots" / f"{file_name(together[0])}.{kind}"
    write_atomically(str(path), FORMATS[kind](SNAPSHOT, list(together)))
    return path


def write_letters(directory: Path, letters: Sequence[DeadLetter], kind: str = "avro") -> Path:
    path = directory / "dead_letters" / f"{letters[0].reason}.{kind}"
    write_atomically(str(path), FORMATS[kind](DEAD_LETTER, list(letters)))
    return path


def letter(reason: str, reports: int | None, detail: str = "why", source: str = "reports[0]") -> DeadLetter:
    return DeadLetter(reason, reports, detail, source, 7, START, b"\x00\xff")  # type: ignore[arg-type]


PANES = [
    (1200, Pane(0, 0, "early")),
    (2600, Pane(0, 1, "early")),
    (4000, Pane(0, 2, "on_time")),
    (4200, Pane(0, 3, "late")),
]


def write_stream(directory: Path, hours: int = 5) -> list[Snapshot]:
    """Three collections of a stream, the last window still early; and some letters. What was written comes back."""
    written = []
    for hour in range(hours):
        for reports, pane in PANES[: 2 if hour == hours - 1 else 4]:
            for group, part in ((None, 1.0), ("DE", 0.6), ("FR", 0.2)):
                written.append(estimate(COMMUTE, group, hour, int(part * reports), pane))
            written.append(estimate(LATENCY, None, hour, reports, pane))
        written += [estimate(LOAD, group, hour, 4000, seed=1) for group in (None, "eu", "us")]
        written.append(estimate(AGE, None, hour, 3000))
    for snapshot in written:
        write_pane(directory, snapshot)
    write_letters(directory, [letter("duplicate", 25), letter("duplicate", 4)])
    write_letters(directory, [letter("undecodable", None), letter("undecodable", 3, "no Avro")])
    return written


def unpack(packed: bytes) -> tuple[Any, int]:
    """What `pack` made, from its description alone, and how many numbers are stored in it."""
    data = gzip.decompress(packed)
    length = int.from_bytes(data[:4], "little")
    planes = np.frombuffer(data[4 + length :], np.uint8).reshape(8, -1)
    numbers = np.ascontiguousarray(planes.T).view("<f8").ravel()

    def whole(part: Any) -> Any:
        if isinstance(part, dict) and "$" in part:
            start, count = part["$"]
            return numbers[start : start + count]
        if isinstance(part, dict):
            return {key: whole(inner) for key, inner in part.items()}
        return [whole(inner) for inner in part] if isinstance(part, list) else part

    return whole(json.loads(data[4 : 4 + length])), numbers.size
