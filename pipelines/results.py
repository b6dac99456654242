"""Results read back from files, as commands do: what is wrong with them ends a command in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Generic

from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.cli.inputs import name_passed_over
from hushgram.schemas.records import Key
from hushgram.transforms.filesystem import check_file_system
from hushgram.transforms.sources import result_files as files
from hushgram.transforms.sources.result_files import (
    Result,
    ResultsError,
    best,
    letter_folders,
    matching,
    matching_results,
    none_there,
    result_files,
)

__all__ = [
    "NewResults",
    "best",
    "each_best",
    "letter_folders",
    "matching",
    "matching_results",
    "none_there",
    "read_records",
    "read_result_file",
    "read_results",
    "reading",
    "result_files",
]


def read_results(directory: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]) -> list[Result]:
    """All results in a directory's folder `kind`, or in the directory itself; of several about one window, the best."""
    with reading(directory):
        return files.read_results(directory, kind, from_avro, name_passed_over)


def each_best(
    directory: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]
) -> Iterator[tuple[str, Result]]:
    """The best result of each window with the file that it is in, as `read_results` has them, one file at a time."""
    with reading(directory):
        yield from files.each_best(directory, kind, from_avro, name_passed_over)


def read_result_file(path: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]) -> list[Result]:
    """The results of one file."""
    with reading(path):
        return files.read_result_file(path, kind, from_avro)


class NewResults(Generic[Result]):
    """The results that have come to a folder since the last look, each pane once: files are folded into others."""

    def __init__(self, directory: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]) -> None:
        self.directory, self.kind = directory, kind
        self.from_avro: Callable[[Mapping[str, Any]], Result] = from_avro
        self._files: set[str] = set()
        self._panes: set[tuple[Key, tuple[int, int, int]]] = set()

    def read(self, left_out: Callable[[UsageError], None]) -> list[Result]:
        """What is new; `left_out` is called once for each file that cannot be read.

        A file that has gone since it was listed was folded into another, which the next look finds.
        """
        listed = set(result_files(self.directory, self.kind))
        new, self._files = sorted(listed - self._files), listed
        found = list[Result]()
        for path in new:
            try:
                with suppress(FileNotFoundError):
                    found += read_result_file(path, self.kind, self.from_avro)
            except UsageError as error:
                left_out(error)
        return [result for result in found if self._is_new(result)]

    def _is_new(self, result: Result) -> bool:
        pane = result.key, result.rank
        is_new = pane not in self._panes
        self._panes.add(pane)
        return is_new


def read_records(path: str) -> list[Any]:
    """The records of one file of results."""
    with reading(path):
        return files.read_records(path)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """What is wrong with results, or with the file system that they are on, ends a command with a line.

    A file that has gone is its reader's to look for: another may have taken its place.
    """
    try:
        check_file_system(path)
        yield
    except FileNotFoundError:
        raise
    except ResultsError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
