"""Values to simulate: a bundled data set, a named distribution, or a column of a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from hushgram import Collection
from hushgram.arrays import FloatArray
from pipelines.console import UsageError

BUNDLED = Path(__file__).parents[1] / "benchmarks" / "data"

Draw = Callable[[int, np.random.Generator], FloatArray]

ON_THE_DOMAIN: dict[str, Callable[..., Draw]] = {
    "uniform": lambda: lambda n, rng: rng.random(n),
    "beta": lambda a, b: lambda n, rng: rng.beta(a, b, n),
}
IN_UNITS: dict[str, Callable[..., Draw]] = {
    "normal": lambda mean, deviation: lambda n, rng: rng.normal(mean, deviation, n),
    "lognormal": lambda mean, deviation: lambda n, rng: rng.lognormal(mean, deviation, n),
    "gamma": lambda shape, scale: lambda n, rng: rng.gamma(shape, scale, n),
    "exponential": lambda scale: lambda n, rng: rng.exponential(scale, n),
}


def known_values() -> str:
    sets = sorted(path.stem for path in BUNDLED.glob("*.npz"))
    return ", ".join(
        [*sets, "uniform", "beta(5,2)", "normal(40,10)", "lognormal(3,1)", "gamma(4,9)", "data.csv:column"]
    )


def draw_for(collection: Collection, text: str) -> Draw:
    """What draws values in the collection's units; data sets, and shapes on [0, 1], are stretched over its domain."""
    match = re.fullmatch(r"([a-z]+)(?:\(([-0-9.,\s]*)\))?", text)
    if match and (BUNDLED / f"{match[1]}.npz").exists():
        return _stretched(collection, _bundled(BUNDLED / f"{match[1]}.npz"))
    if match and match[1] in ON_THE_DOMAIN | IN_UNITS:
        make = (ON_THE_DOMAIN | IN_UNITS)[match[1]]
        try:
            drawn = make(*(float(part) for part in (match[2] or "").split(",") if part.strip()))
            drawn(1, np.random.default_rng(0))
        except (TypeError, ValueError) as error:
            raise UsageError(f"--values {text}: {error}") from None
        return _stretched(collection, drawn) if match[1] in ON_THE_DOMAIN else drawn
    path, _, column = text.rpartition(":")
    if path and Path(path).is_file():
        return _column(path, column)
    raise UsageError(f"--values: got {text!r}, allowed: {known_values()}")


def _stretched(collection: Collection, draw: Draw) -> Draw:
    return lambda n, rng: collection.domain.from_unit(draw(n, rng))


def _bundled(path: Path) -> Draw:
    with np.load(path) as file:
        units = (file["values"] * float(file["scale"]) - float(file["lo"])) / float(file["hi"] - file["lo"])
        shares = file["counts"] / file["counts"].sum()
    return lambda n, rng: rng.choice(units, n, p=shares)


def _column(path: str, column: str) -> Draw:
    try:
        frame = pl.read_parquet(path) if path.endswith(".parquet") else pl.read_csv(path)
        values = frame[column].drop_nulls().cast(pl.Float64).to_numpy()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"--values {path}:{column}: {' '.join(str(error).split())[:200]}") from None
    if not values.size or not np.isfinite(values).all():
        raise UsageError(f"--values {path}:{column}: allowed: at least one number, and finite ones only")
    return lambda n, rng: rng.choice(values, n)
