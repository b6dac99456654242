"""Results for the tests of the page: real estimates of known values, written as the pipelines write them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushgram import Collection
from hushgram.schemas.avro_schemas import DEAD_LETTER, HISTOGRAM, SNAPSHOT
from hushgram.schemas.records import DeadLetter, Histogram, Key, Pane, Snapshot
from hushgram.transforms.estimation import histogram, snapshots
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.files import FORMATS, file_name, safe_name
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START

COMMUTE = Collection(name="commute", low=0, high=180, unit="minutes", buckets=64, epsilon=2.0, groups=("DE", "FR"))
AGE = Collection(
    name="age", low=0, high=63, integer=True, unit="years", buckets=64, epsilon=2.0, mechanism="hierarchy", branching=2
)
LATENCY = Collection(name="latency", low=1, high=10_000, scale="log", unit="ms", buckets=128, epsilon=2.0)
LOAD = Collection(name="load", low=0, high=1, epsilon=1.0, mechanism="piecewise", groups=("eu", "us"))


def make_estimate(
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
    [snapshot] = snapshots(collection, [(key, pane, Tallies({collection.revision: (reports, counts)}))])
    return snapshot


def pane_name(record: Snapshot | Histogram) -> str:
    """The file of one pane in a folder for each collection, as earlier versions named it."""
    group = "all" if record.key.group is None else f"group-{safe_name(record.key.group)}"
    pane = record.pane
    return f"{file_name(record)}-{group}-n{record.reports}-p{pane.index}-{pane.timing}"


def write_pane(directory: Path, snapshot: Snapshot, kind: str = "avro") -> Path:
    """As `hushgram stream` did in earlier versions: a file for each pane."""
    path = directory / "snapshots" / f"{pane_name(snapshot)}.{kind}"
    write_atomically(str(path), FORMATS[kind](SNAPSHOT, [snapshot]))
    return path


def write_window(directory: Path, groups: Sequence[Snapshot], kind: str = "avro") -> Path:
    """As `hushgram aggregate` did in earlier versions: a file for each window, with all groups."""
    path = directory / "snapshots" / f"{file_name(groups[0])}.{kind}"
    write_atomically(str(path), FORMATS[kind](SNAPSHOT, list(groups)))
    return path


TRIP = Collection(name="trip", low=0, high=60, unit="minutes", buckets=64, epsilon=2.0, groups=("A", "B", "C"))


def write_tallied(
    directory: Path, windows: int = 4, reports: int = 4000, collection: Collection = TRIP
) -> list[tuple[Snapshot, Histogram]]:
    """Snapshots with the tallies beside them, as `hushgram aggregate` writes both.

    Trips of A are longer than those of B and C, which are alike; in the last window those of B are longer, too.
    """
    rng, made = np.random.default_rng(4), []
    for hour in range(windows):
        longer = {"A": 1.5, "B": 2.5 if hour == windows - 1 else 1.0, "C": 1.0}
        values = {group: 60 * rng.beta(2 * factor, 5, reports) for group, factor in longer.items()}
        counts = {group: collection.tally(collection.simulate(own, seed=rng)) for group, own in values.items()}
        tallies = {None: sum(counts.values()), **counts}
        panes = [
            (
                Key(collection.name, group, START + hour * HOUR, START + (hour + 1) * HOUR),
                Pane(),
                Tallies({collection.revision: (int(tally.sum()), tally)}),
            )
            for group, tally in tallies.items()
        ]
        estimated = snapshots(collection, panes)
        counted = [histogram(*pane) for pane in panes]
        path = write_window(directory, estimated)
        beside = directory / "histograms" / path.relative_to(directory / "snapshots")
        write_atomically(str(beside), FORMATS["avro"](HISTOGRAM, counted))
        made += zip(estimated, counted, strict=True)
    return made


def write_letters(directory: Path, letters: Sequence[DeadLetter], kind: str = "avro") -> Path:
    path = directory / "dead_letters" / f"{letters[0].reason}.{kind}"
    write_atomically(str(path), FORMATS[kind](DEAD_LETTER, list(letters)))
    return path


def make_letter(reason: str, reports: int | None, detail: str = "why", source: str = "reports[0]") -> DeadLetter:
    return DeadLetter(reason, reports, detail, source, 7, START, b"\x00\xff")  # type: ignore[arg-type]


PANES = [
    (1200, Pane(0, 0, "early")),
    (2600, Pane(0, 1, "early")),
    (4000, Pane(0, 2, "on_time")),
    (4200, Pane(0, 3, "late")),
]


def write_stream(directory: Path, hours: int = 5) -> list[Snapshot]:
    """Three collections of a stream, the last window still early; and some letters. Returns the panes that it wrote."""
    panes = []
    for hour in range(hours):
        for reports, pane in PANES[: 2 if hour == hours - 1 else 4]:
            for group, share in ((None, 1.0), ("DE", 0.6), ("FR", 0.2)):
                panes.append(make_estimate(COMMUTE, group, hour, int(share * reports), pane))
            panes.append(make_estimate(LATENCY, None, hour, reports, pane))
        panes += [make_estimate(LOAD, group, hour, 4000, seed=1) for group in (None, "eu", "us")]
        panes.append(make_estimate(AGE, None, hour, 3000))
    for snapshot in panes:
        write_pane(directory, snapshot)
    write_letters(directory, [make_letter("duplicate", 25), make_letter("duplicate", 4)])
    write_letters(directory, [make_letter("undecodable", None), make_letter("undecodable", 3, "no Avro")])
    return panes


def unpack(packed: bytes) -> tuple[Any, int]:
    """The object that `pack` encoded, decoded by its description alone, and how many numbers are stored in it."""
    data = gzip.decompress(packed)
    length = int.from_bytes(data[:4], "little")
    planes = np.frombuffer(data[4 + length :], np.uint8).reshape(8, -1)
    numbers = np.ascontiguousarray(planes.T).view("<f8").ravel()

    def restore(value: Any) -> Any:
        if isinstance(value, dict) and "$" in value:
            start, count = value["$"]
            return numbers[start : start + count]
        if isinstance(value, dict):
            return {key: restore(inner) for key, inner in value.items()}
        return [restore(inner) for inner in value] if isinstance(value, list) else value

    return restore(json.loads(data[4 : 4 + length])), numbers.size
