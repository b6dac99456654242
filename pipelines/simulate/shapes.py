"""Values to simulate: a bundled data set, a named distribution, a column of a file, or an earlier distribution."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import numpy as np

from hushgram import Collection, _validation
from hushgram._arrays import FloatArray
from hushgram.domain import Domain
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.formatting import count, shown
from hushgram.pipelines.simulate.column_files import JSON_LINES, Column, find_column, read_column, read_numbers

BUNDLED = Path(__file__).parent / "data"

Draw = Callable[[int, np.random.Generator], FloatArray]


@dataclass(frozen=True, eq=False)
class ColumnDraw:
    """Draws from the numbers of a file."""

    source: str
    column: Column

    def __call__(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.choice(self.column.numbers, n)


def missing_words(draw: Draw) -> list[str]:
    """A line about the cells without a number, if values come from a file that has some."""
    if not isinstance(draw, ColumnDraw) or not draw.column.missing:
        return []
    return [f"{shown(draw.source)}: {draw.column.missing_words()}"]


def _two_hills(n: int, rng: np.random.Generator) -> FloatArray:
    return np.where(rng.random(n) < 0.4, rng.beta(20, 60, n), rng.beta(30, 12, n))


ON_THE_DOMAIN: dict[str, Callable[..., Draw]] = {
    "uniform": lambda: lambda n, rng: rng.random(n),
    "beta": lambda a, b: lambda n, rng: rng.beta(a, b, n),
    "bimodal": lambda: _two_hills,
    # Its hill is in the first tenth, and one value in 2,300 is clipped to the end.
    "lognormal": lambda: lambda n, rng: np.minimum(rng.lognormal(-2, 0.6, n), 1.0),
}
IN_UNITS: dict[str, Callable[..., Draw]] = {
    "normal": lambda mean, deviation: lambda n, rng: rng.normal(mean, deviation, n),
    "lognormal": lambda mean, deviation: lambda n, rng: rng.lognormal(mean, deviation, n),
    "gamma": lambda shape, scale: lambda n, rng: rng.gamma(shape, scale, n),
    "exponential": lambda scale: lambda n, rng: rng.exponential(scale, n),
}
ENDINGS = (".csv", ".json", ".npz", ".parquet", ".tsv", ".txt", *JSON_LINES)
MOST_OF_AN_ERROR = 400
"""Limit of the characters that a message repeats of an error of another library."""
EXAMPLES = (
    *("uniform", "beta(5,2)", "bimodal", "lognormal", "normal(40,10)", "lognormal(3,1)", "gamma(4,9)"),
    *("data.csv:column", "counts.json", "results"),
)


def known_values() -> str:
    sets = sorted(path.stem for path in BUNDLED.glob("*.npz"))
    return ", ".join([*sets, *EXAMPLES])


def draw_for(collection: Collection, text: str, option: str = "--values") -> Draw:
    """What draws values in the collection's units; data sets, and shapes on [0, 1], are stretched over its domain."""
    match = re.fullmatch(r"([a-z]+)(?:\(([-0-9.,\s]*)\))?", text)
    if match and (BUNDLED / f"{match[1]}.npz").exists():
        return _stretched(collection.domain, _bundled(BUNDLED / f"{match[1]}.npz"))
    if match and match[1] in ON_THE_DOMAIN | IN_UNITS:
        in_units = match[1] in IN_UNITS and not (match[1] in ON_THE_DOMAIN and match[2] is None)
        try:
            drawn = _distribution((IN_UNITS if in_units else ON_THE_DOMAIN)[match[1]], match[2] or "")
        except ValueError as error:
            raise UsageError(f"{option} {shown(text)}: {error}") from None
        return drawn if in_units else _stretched(collection.domain, drawn)
    try:
        if text and Path(text).is_dir():
            return _earlier(collection, text)
        if found := find_column(text):
            path, column = found
            if column is not None:
                return ColumnDraw(text, read_numbers(path, column))
            return _stretched(collection.domain, _histogram(_counts(path)))
    except Exception as error:  # a foreign file may raise what its reader happens to raise
        raise UsageError(f"{option} {shown(text)}: {' '.join(str(error).split())[:MOST_OF_AN_ERROR]}") from None
    path = text.rpartition(":")[0]
    if path or "/" in text or Path(text).suffix in ENDINGS:
        raise UsageError(f"{option} {shown(text)}: no such file or directory: {shown(path or text)}")
    close = _validation.suggest(text.partition("(")[0], [name.partition("(")[0] for name in known_values().split(", ")])
    raise UsageError(f"{option}: got {text!r}, allowed: {known_values()}{close}")


def _distribution(make: Callable[..., Draw], numbers: str) -> Draw:
    """Draws from a distribution with these parameters; tried once."""
    names = list(signature(make).parameters)
    parameters = [float(part) for part in numbers.split(",") if part.strip()]
    if len(parameters) != len(names):
        expected = f"{len(names)} numbers, {' and '.join(names)}" if names else "no numbers"
        raise ValueError(f"got {len(parameters)} numbers, allowed: {expected}")
    draw = make(*parameters)
    try:
        draw(1, np.random.default_rng(0))
    except ValueError as error:
        raise ValueError(f"not possible as {' and '.join(names)}: {error}") from None
    return draw


def _stretched(domain: Domain, draw: Draw) -> Draw:
    return lambda n, rng: domain.from_unit(draw(n, rng))


def _bundled(path: Path) -> Draw:
    with np.load(path) as file:
        units = (file["values"] * float(file["scale"]) - float(file["lo"])) / float(file["hi"] - file["lo"])
        shares = file["counts"] / file["counts"].sum()
    return lambda n, rng: rng.choice(units, n, p=shares)


def _counts(path: str) -> FloatArray:
    """A histogram over equal parts of the domain: a list in JSON, or the column or array `counts` of a file."""
    if path.endswith(".json"):
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, list):
            raise ValueError(f"got {_validation.describe(content)}, allowed: a list of counts, such as [3, 5, 2]")
        return np.array(content, dtype=np.float64)
    if path.endswith(".npz"):
        with np.load(path) as file:
            return np.asarray(file["counts"], dtype=np.float64)
    if path.endswith((".csv", ".parquet")):
        counts = read_column(path, "counts")
        if counts.missing:
            raise ValueError(f"got no number in {count(counts.missing, 'row')}, allowed: a count in each row")
        return counts.numbers
    raise ValueError("allowed: counts as .json, .npz, .csv or .parquet, or a column of values as FILE:COLUMN")


def _histogram(counts: FloatArray) -> Draw:
    """Evenly within each part."""
    if counts.ndim != 1 or counts.size < 2 or not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise ValueError("allowed: two or more counts, none below zero and not all of them zero")
    shares = counts / counts.sum()
    return lambda n, rng: (rng.choice(shares.size, n, p=shares) + rng.random(n)) / shares.size


def _earlier(collection: Collection, directory: str) -> Draw:
    """What an earlier run estimated: the newest window of all groups that had reports enough."""
    from hushgram.pipelines.results import read_results  # only here: it needs Beam
    from hushgram.schemas.records import Snapshot

    snapshots = [
        s
        for s in read_results(directory, "snapshots", Snapshot.from_avro)
        if s.key.collection == collection.name and s.key.group is None and s.probabilities is not None
    ]
    trusted = [s for s in snapshots if s.status == "ok"]
    if not trusted:
        why = "none has reports enough; merge windows with hushgram rollup" if snapshots else "there is none"
        raise ValueError(f"no snapshot of {collection.name} with a distribution to go by: {why}")
    newest = max(trusted, key=lambda s: (s.key.window_end, s.reports))
    # Some estimators allow small negative probabilities.
    return _stretched(newest.domain, _histogram(np.maximum(newest.probabilities, 0.0)))  # type: ignore[arg-type]
