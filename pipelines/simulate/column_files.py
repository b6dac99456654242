"""A column of numbers from a file of a person: CSV, Parquet or JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hushgram import _validation
from hushgram._arrays import FloatArray

if TYPE_CHECKING:
    import polars as pl

JSON_LINES = (".jsonl", ".ndjson")
MOST_COLUMNS = 20
"""Limit of the columns that a message lists."""


def read_numbers(path: str, column: str | None) -> FloatArray:
    """The finite numbers of a column, or of the only one; a `ValueError` says what is wrong with it."""
    values = read_column(path, column)
    if not values.size:
        raise ValueError("the column is empty, allowed: at least one number")
    if not np.isfinite(values).all():
        raise ValueError(f"got {values[~np.isfinite(values)][0]}, allowed: finite numbers only")
    return values


def read_column(path: str, column: str | None) -> FloatArray:
    """The numbers of a column, empty cells left out."""
    import polars as pl  # only here: it takes its time to load

    try:
        frame = _read(path)
    except pl.exceptions.NoDataError:
        raise ValueError("the file is empty") from None
    if column is None and len(frame.columns) == 1:
        [column] = frame.columns
    if column not in frame.columns:
        raise ValueError(_no_column(path, column, frame.columns))
    values = frame[column]
    numbers = (values.str.strip_chars() if values.dtype == pl.String else values).cast(pl.Float64, strict=False)
    wrong = (numbers.is_null() & values.is_not_null()).arg_true()
    if len(wrong):
        row = int(wrong[0])
        place = f"row {row + 1}" if path.endswith(".parquet") else f"line {row + (1 if _is_json(path) else 2)}"
        raise ValueError(f"column {column!r}: got {_validation.describe(values[row])} in {place}, allowed: numbers")
    return numbers.drop_nulls().to_numpy()


def _read(path: str) -> pl.DataFrame:
    import polars as pl

    if path.endswith(".parquet"):
        return pl.read_parquet(path)
    if _is_json(path):
        return pl.read_ndjson(path, infer_schema_length=None)
    # All is read as text: a type guessed from the first rows would not fit a text farther down.
    return pl.read_csv(path, infer_schema=False, separator="\t" if path.endswith(".tsv") else ",")


def _is_json(path: str) -> bool:
    return path.endswith(JSON_LINES)


def _no_column(path: str, column: str | None, columns: Sequence[str]) -> str:
    listed = ", ".join(map(_validation.describe_key, columns[:MOST_COLUMNS])) + (
        ", …" if len(columns) > MOST_COLUMNS else ""
    )
    example = f"; name one as {path}:{_validation.describe_key(columns[0])}" if columns else ""
    if column is None:
        return f"which column? The file has: {listed}{example}"
    return f"no column {column!r}, the file has: {listed}{_validation.suggest(column, columns) or example}"
