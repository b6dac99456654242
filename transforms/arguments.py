"""The arguments of transforms, checked once: when a pipeline is constructed, and before anything runs."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from apache_beam.pvalue import PCollection

from hushgram import Collection, CollectionError
from hushgram._validation import describe
from hushgram.config import parse_collections
from hushgram.transforms.filesystem import read_text

AnyPath = str | os.PathLike[str]
"""A path, a pattern or an address of any file system that Beam knows."""
Collections = AnyPath | Collection | Iterable[Collection] | Mapping[str, Collection]
"""One collection, several, or the path of a YAML file that defines them."""

MOST = 2**31 - 1
YEAR_2000, YEAR_10000 = 946_684_800_000, 253_402_300_800_000
"""Milliseconds since 1970. A number before the first is surely of seconds, one behind the second of something finer."""


def check_path(name: str, value: AnyPath) -> str:
    """A path as text.

    >>> import pathlib
    >>> check_path("path", pathlib.PurePosixPath("results") / "today")
    'results/today'
    """
    try:
        path = os.fspath(value)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise TypeError(f"{name}: got {describe(value)}, allowed: a path, as text or os.PathLike")
    if path is not value and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path):  # what `Path` makes of gs://bucket
        raise ValueError(f"{name}: got {describe(value)}, allowed: an address with :// as text")
    return path


def check_whole(name: str, value: Any) -> int:
    """A whole number, zero or more.

    >>> check_whole("fanout", -1)
    Traceback (most recent call last):
    ValueError: fanout: got -1, allowed: a whole number from 0 to 2147483647
    """
    return _check_integer(name, value, 0, MOST, f"a whole number from 0 to {MOST}")


def check_milliseconds(name: str, value: Any) -> int:
    """A time from the year 2000 on, in milliseconds since 1970."""
    allowed = "milliseconds since 1970, such as 1767225600000 for 2026-01-01 00:00 UTC"
    return _check_integer(name, value, YEAR_2000, YEAR_10000, allowed)


def _check_integer(name: str, value: Any, least: int, most: int, allowed: str) -> int:
    try:
        number = None if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name}: got {describe(value)}, allowed: {allowed}")
    if not least <= number <= most:
        raise ValueError(f"{name}: got {describe(value)}, allowed: {allowed}")
    return number


def check_collections(value: object) -> tuple[Collection, ...]:
    """The collections that a value stands for, at least one."""
    if isinstance(value, Collection):
        return (value,)
    if isinstance(value, str | os.PathLike):
        return tuple(_read(check_path("collections", value)).values())
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        allowed = "a Collection, several of them in a list, or the path of a YAML file"
        raise TypeError(f"collections: got {describe(value)}, allowed: {allowed}")
    named = value.items() if isinstance(value, Mapping) else enumerate(value)
    collections = []
    for place, one in named:
        if not isinstance(one, Collection):
            raise TypeError(f"collections[{place!r}]: got {describe(one)}, allowed: a Collection")
        collections.append(one)
    if not collections:
        raise CollectionError("collections: got none, allowed: at least one")
    return tuple(collections)


def check_reports(value: object) -> None:
    """The input of `AggregateReports`, which is easily applied to a pipeline itself."""
    if not isinstance(value, PCollection):
        allowed = "a PCollection of reports, such as what pipeline | ReadReports('reports/*.avro') gives"
        raise TypeError(f"AggregateReports: got {type(value).__name__}, allowed: {allowed}")


def _read(path: str) -> dict[str, Collection]:
    try:
        return parse_collections(read_text(path))
    except OSError as error:
        raise OSError(f"{path}: cannot be read: {error}") from None
    except CollectionError as error:
        raise CollectionError(f"{path}: {error}") from None
