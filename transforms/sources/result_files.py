"""Results read back from files: snapshots and histograms, of each window the best."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from hushgram.schemas.reader import avro_records
from hushgram.schemas.records import Histogram, Key, Snapshot
from hushgram.transforms.arguments import AnyPath, check_path
from hushgram.transforms.filesystem import Matched, is_local, match_files, open_file
from hushgram.transforms.run_store import DEAD_LETTERS, LISTINGS, committed_runs
from hushgram.transforms.runs import run_folder
from hushgram.transforms.sinks.layout import PATTERNS

LOG = logging.getLogger(__name__)
Result = TypeVar("Result", Snapshot, Histogram)

ENDINGS = (".avro", ".parquet", ".jsonl")


class ResultsError(Exception):
    """Results that are not there, or cannot be read: one line that says which, and why.

    >>> try:
    ...     read_snapshots("no/such/folder")
    ... except ResultsError as error:
    ...     print(error)
    no/such/folder: no such directory
    """


def read_snapshots(path: AnyPath) -> list[Snapshot]:
    """The snapshots in a folder that `WriteSnapshots` or the command has written: of each window, the best pane.

    Args:
        path: The folder of results, or its folder `snapshots`, on any file system that Beam knows.

    Returns:
        Snapshots by collection, window and group; group None, which is all groups together, comes first.

    Raises:
        ResultsError: There is no snapshot, or a file cannot be read, or holds something else; the error names it.

    >>> read_snapshots("no/such/folder")
    Traceback (most recent call last):
    hushgram.transforms.sources.result_files.ResultsError: no/such/folder: no such directory
    """
    return read_results(check_path("path", path), "snapshots", Snapshot.from_avro)


def read_histograms(path: AnyPath) -> list[Histogram]:
    """The histograms in a folder of results, as `read_snapshots` reads snapshots.

    >>> read_histograms("no/such/folder")
    Traceback (most recent call last):
    hushgram.transforms.sources.result_files.ResultsError: no/such/folder: no such directory
    """
    return read_results(check_path("path", path), "histograms", Histogram.from_avro)


def log_passed_over(found: Matched) -> None:
    for passed_over in found.passed_over:
        LOG.warning("%s", passed_over)


def read_results(
    directory: str,
    kind: str,
    from_avro: Callable[[Mapping[str, Any]], Result],
    report_passed_over: Callable[[Matched], None] = log_passed_over,
) -> list[Result]:
    """All results in a directory's folder `kind`, or in the directory itself; of several about one window, the best.

    A file that goes between listing and opening was folded into another, which the next listing has.
    """
    chosen = dict[Key, Result]()
    for _, results in _each_file(directory, kind, from_avro, report_passed_over):
        keep_best(chosen, results)
    return sorted_results(chosen)


def each_best(
    directory: str,
    kind: str,
    from_avro: Callable[[Mapping[str, Any]], Result],
    report_passed_over: Callable[[Matched], None] = log_passed_over,
) -> Iterator[tuple[str, Result]]:
    """The best result of each window with the file that it is in, file by file: memory holds one file, and all keys.

    Files are read twice, first for the rank of what they hold. What goes in between is found where it went, or
    something better in its place.
    """
    ranks: dict[Key, tuple[tuple[int, int, int], str]] = {}
    for path, results in _each_file(directory, kind, from_avro, report_passed_over):
        for result in results:
            if result.key not in ranks or result.rank > ranks[result.key][0]:
                ranks[result.key] = result.rank, path
    for path in sorted({path for _, path in ranks.values()}):
        results = []
        with suppress(FileNotFoundError):
            results = read_result_file(path, kind, from_avro)
        for result in results:
            if ranks.get(result.key) == (result.rank, path):
                del ranks[result.key]  # two of one rank are one
                yield path, result
    if not ranks:
        return
    for path, results in _each_file(directory, kind, from_avro, report_passed_over):
        for result in results:
            if result.key in ranks and result.rank >= ranks[result.key][0]:
                del ranks[result.key]
                yield path, result
    if ranks:
        raise _restless(directory)


def _each_file(
    directory: str,
    kind: str,
    from_avro: Callable[[Mapping[str, Any]], Result],
    report_passed_over: Callable[[Matched], None],
) -> Iterator[tuple[str, list[Result]]]:
    """The results of each file, by path. If a file goes before it is read, those that are not read yet are listed anew.

    Raises a ResultsError if there is no result, or if files go again and again.
    """
    read: set[str] = set()
    found = False
    for _ in range(LISTINGS):
        gone = False
        for path in sorted(_paths(directory, kind, report_passed_over) - read):
            try:
                results = read_result_file(path, kind, from_avro)
            except FileNotFoundError:
                gone = True
                continue
            read.add(path)
            found = found or bool(results)
            yield path, results
        if not gone:
            break
    else:
        raise _restless(directory)
    if not found:
        raise ResultsError(f"{directory}: {none_there(directory, kind)}")


def _restless(directory: str) -> ResultsError:
    return ResultsError(f"{directory}: results change faster than they are read; try again")


def _paths(directory: str, kind: str, report_passed_over: Callable[[Matched], None]) -> set[str]:
    letters = FileSystems.join(directory, DEAD_LETTERS, "")
    for folder in (FileSystems.join(directory, kind), directory):
        found = matching_results(folder)
        report_passed_over(found)
        paths = {file.path for file in found.files if not file.path.startswith(letters)}
        if paths:
            return paths
    return set()


def read_result_file(path: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result]) -> list[Result]:
    """The results of one file, which may be anyone's; a ResultsError if it holds something else."""
    return [_result(path, kind, from_avro, record) for record in read_records(path)]


def _result(path: str, kind: str, from_avro: Callable[[Mapping[str, Any]], Result], record: Any) -> Result:
    if not isinstance(record, Mapping):
        raise ResultsError(f"{path}: got a value of type {type(record).__name__}, allowed: {kind}")
    try:
        result = from_avro(record)
        _check_order(result)
    except KeyError as error:
        raise ResultsError(f"{path}: a record without {error.args[0]}, allowed: {kind}") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ResultsError(f"{path}: a value of a wrong type, allowed: {kind} ({error})") from None
    return result


def _check_order(result: Snapshot | Histogram) -> None:
    """What results are sorted and compared by must be of the types that can be."""
    key = result.key
    for value, kind in (
        (key.collection, str),
        (key.group or "", str),
        *((number, int) for number in (key.window_start, key.window_end, *result.rank)),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{value!r} is no {kind.__name__}")


def letter_folders(directory: str) -> list[str]:
    """Where dead letters are: those of a stream, and those of each batch run that counts."""
    runs = [run_folder(directory, run.identity) for run in committed_runs(directory)]
    return [FileSystems.join(folder, DEAD_LETTERS) for folder in (directory, *runs)]


def none_there(directory: str, kind: str) -> str:
    """Why there are no results of a kind, and what writes them."""
    if "://" not in directory and not Path(directory).exists():
        return "no such directory"
    kinds = ", ".join(ENDINGS)
    return f"no {kind} there, as {kinds} files below a folder for each collection; `hushgram aggregate` writes them"


def result_files(directory: str, kind: str) -> list[str]:
    return [file.path for file in matching_results(FileSystems.join(directory, kind)).files]


def matching_results(folder: str) -> Matched:
    """The files of results below a folder such as `snapshots`, and what is passed over.

    No listing of a long folder is of one moment: it may be past the place of a new file when that comes, and not yet at
    those of the files that go for it. So the folder is listed until two listings agree, or for some times.
    """
    found = _list_results(folder)
    for _ in range(LISTINGS):
        before, found = found, _list_results(folder)
        if {file.path for file in before.files} == {file.path for file in found.files}:
            break
    return found


def _list_results(folder: str) -> Matched:
    found = [matching(folder, pattern) for pattern in PATTERNS]
    return Matched(
        tuple(file for part in found for file in part.files),
        tuple(dict.fromkeys(passed for part in found for passed in part.passed_over)),
    )


def matching(directory: str, pattern: str) -> Matched:
    """The files of results that a pattern finds below a directory, by name, and what of that name is passed over."""
    found = match_files(pattern, directory)
    passed_over = (part for part in found.passed_over if part.is_folder or part.path.endswith(ENDINGS))
    return Matched(tuple(file for file in found.files if file.path.endswith(ENDINGS)), tuple(passed_over))


def best(results: Iterable[Result]) -> list[Result]:
    """One result for each collection, group and window: by generation, then reports, then pane."""
    chosen: dict[Key, Result] = {}
    keep_best(chosen, results)
    return sorted_results(chosen)


def keep_best(chosen: dict[Key, Result], results: Iterable[Result]) -> None:
    """The same, bit by bit; of equals the first stays."""
    for result in results:
        if result.key not in chosen or result.rank > chosen[result.key].rank:
            chosen[result.key] = result


def sorted_results(chosen: Mapping[Key, Result]) -> list[Result]:
    return [chosen[key] for key in sorted(chosen, key=in_order)]


def in_order(key: Key) -> tuple[str, int, int, bool, str]:
    """What results are sorted by: collection, window and group; all groups together come first."""
    return key.collection, key.window_start, key.window_end, key.group is not None, key.group or ""


def read_records(path: str) -> list[Any]:
    """The records of one file of results."""
    try:
        with open_file(path) as file:
            data = file.read()
        if path.endswith(".parquet"):
            return pq.read_table(io.BytesIO(data)).to_pylist()
        if path.endswith(".jsonl"):
            return [json.loads(line) for line in data.splitlines() if line.strip()]
        return list(avro_records(data))
    except FileNotFoundError:
        raise
    except Exception as error:  # a foreign or damaged file may raise what its reader happens to raise
        if not is_local(path) and not FileSystems.exists(path):  # each file system has errors of its own
            raise FileNotFoundError(path) from None
        raise ResultsError(f"{path}: cannot be read: {error}") from None
