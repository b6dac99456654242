"""A column of numbers from a file of a person: CSV, Parquet or JSON lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import isfile
from typing import TYPE_CHECKING

import numpy as np

from hushgram import _validation
from hushgram._arrays import FloatArray

if TYPE_CHECKING:
    import polars as pl

JSON_LINES = (".jsonl", ".ndjson")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Of the columns of a text, with their names."""
MISSING = ("", "na", "n/a", "nan", "null", "none")
"""Texts that stand for no value, in lower case."""
MOST_COLUMNS = 20
"""Limit of the columns that a message lists."""


@dataclass(frozen=True, eq=False)
class Column:
    """The numbers of a column, and how many of its cells have none."""

    numbers: FloatArray
    missing: int = 0

    def missing_words(self) -> str:
        """
        >>> Column(np.array([1.0, 2.0]), missing=1).missing_words()
        '1 of 3 values is missing, and left out'
        """
        verb = "is" if self.missing == 1 else "are"
        return f"{self.missing:,} of {self.numbers.size + self.missing:,} values {verb} missing, and left out"


def find_column(text: str) -> tuple[str, str | None] | None:
    """The file and the column that a text such as `data.csv:minutes` names, where there is such a file.

    A name of either may hold a colon, so each colon is tried, from the last on. The column is None where the text is a
    file's name as it stands.
    """
    if isfile(text):
        return text, None
    for colon in reversed([at for at, character in enumerate(text) if character == ":"]):
        if isfile(text[:colon]):
            return text[:colon], text[colon + 1 :]
    return None


def read_numbers(path: str, column: str | None) -> Column:
    """The finite numbers of a column, or of the only one; a `ValueError` says what is wrong with it."""
    found = read_column(path, column)
    values = found.numbers
    if not values.size:
        raise ValueError("the column is empty, allowed: at least one number")
    if not np.isfinite(values).all():
        raise ValueError(f"got {values[~np.isfinite(values)][0]}, allowed: finite numbers only")
    return found


def read_column(path: str, column: str | None) -> Column:
    """The numbers of a column, finite or infinite."""
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
    if values.dtype == pl.String:
        texts = values.str.strip_chars()
        values = values.set(texts.str.to_lowercase().is_in(MISSING), None)
        numbers = texts.cast(pl.Float64, strict=False)
    else:
        numbers = values.cast(pl.Float64, strict=False)
    wrong = (numbers.is_null() & values.is_not_null()).arg_true()
    if len(wrong):
        row = int(wrong[0])
        place = f"row {row + 1}" if path.endswith(".parquet") else f"line {row + (1 if _is_json(path) else 2)}"
        got = _validation.describe(values[row])
        raise ValueError(f"column {column!r}: got {got} in {place}, allowed: numbers, such as 12.5")
    known = numbers.fill_nan(None).drop_nulls()
    return Column(known.to_numpy(), missing=len(numbers) - len(known))


def _read(path: str) -> pl.DataFrame:
    import polars as pl

    if path.endswith(".parquet"):
        return pl.read_parquet(path, glob=False)
    if _is_json(path):
        return pl.read_ndjson(path, infer_schema_length=None)
    separator = find_separator(path)
    try:
        # All is read as text: a type guessed from the first rows would not fit a text farther down.
        frame = pl.read_csv(path, infer_schema=False, separator=separator, glob=False)
    except pl.exceptions.ComputeError:
        raise ValueError(_why_unreadable(path, separator)) from None
    rows = frame.select(~pl.all_horizontal(pl.all().is_null())).to_series().arg_true()
    return frame.head(int(rows[-1]) + 1 if len(rows) else 0)  # without empty lines at the end


def find_separator(path: str) -> str:
    """What stands between the columns: of the possible characters the one that the header has most of."""
    usual = "\t" if path.endswith(".tsv") else ","
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        header = next(filter(str.strip, file), "").rstrip("\n")
    if not header.replace("\t", "").isprintable():  # compressed, perhaps
        return usual
    return max((usual, *SEPARATORS), key=re.sub(r'"[^"]*"', "", header).count)


def _why_unreadable(path: str, separator: str) -> str:
    """What is wrong with a text that is no table; the library that reads tables does not say where."""
    between = f"columns are separated by {SEPARATORS[separator]}, as in the header"
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=separator, strict=True)
        try:
            width = len(next(filter(None, rows), ()))
            for row in rows:
                if len(row) > width:
                    return f"line {rows.line_num} has {len(row)} columns, allowed: at most {width}; {between}"
        except UnicodeDecodeError:
            return "the file is no text in UTF-8"
        except csv.Error:
            return f"a quote is opened and not closed, at or before line {rows.line_num}; {between}"
    return f"the file is no table; {between}"


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
