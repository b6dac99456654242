"""Results read back from files, as commands do: what is wrong with them ends a command in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.cli.inputs import name_passed_over
from hushgram.transforms.sources import result_files as files
from hushgram.transforms.sources.result_files import (
    Result,
    ResultsError,
    best,
    letter_folders,
    matching,
    none_there,
    result_files,
)

__all__ = [
    "best",
    "each_best",
    "letter_folders",
    "matching",
    "none_there",
    "read_records",
    "read_result_file",
    "read_results",
    "result_files",
]


def read_results(directory: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]) -> list[Result]:
    """All results in a directory's folder `kind`, or in the directory itself; of several about one window, the best."""
    with _usage_errors():
        return files.read_results(directory, kind, from_avro, name_passed_over)


def each_best(
    directory: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]
) -> Iterator[tuple[str, Result]]:
    """The best result of each window with the file that it is in, as `read_results` has them, one file at a time."""
    with _usage_errors():
        yield from files.each_best(directory, kind, from_avro, name_passed_over)


def read_result_file(path: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]) -> list[Result]:
    """The results of one file."""
    with _usage_errors():
        return files.read_result_file(path, kind, from_avro)


def read_records(path: str) -> list[Any]:
    """The records of one file of results."""
    with _usage_errors():
        return files.read_records(path)


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except ResultsError as error:
        raise UsageError(str(error)) from None
