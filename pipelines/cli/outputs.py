"""Where a command writes: checked before any work begins; an error of the disk ends in one line."""

from __future__ import annotations

import errno
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hushgram.pipelines.cli.console import UsageError
from hushgram.transforms.filesystem import check_file_system

RESULTS = ("snapshots", "histograms", "dead_letters")
"""The folders below the output of a run."""
REPEAT = "what is there is whole; run it again when this is mended"
DISK_ERROR = re.compile(
    r"\b[A-Za-z]*Error: \[Errno \d+\] (?P<reason>[^:\n[]+)(?:: (?P<quote>['\"])(?P<path>[^\n]+?)(?P=quote))?"
)
"""How an engine reports an OSError: it raises an error of its own with this text."""


def check_directory(option: str, path: str, folders: Sequence[str] = ()) -> None:
    """Whether files can be written in a directory of this machine, and in some folders below it, which may be missing.

    Something is really written, to a file without a name, since permissions do not show that a disk is full. Of another
    place nothing is asked but whether Beam has a file system for its address.
    """
    if "://" in path:
        with writing(option, path):
            check_file_system(path)
    else:
        for folder in (path, *(os.path.join(path, name) for name in folders)):
            _write_something(option, path, os.path.abspath(folder))


def check_file(option: str, path: str) -> None:
    """Whether a file of this machine can be written."""
    if os.path.isdir(path):
        raise UsageError(f"{option} {path}: cannot be written: {os.strerror(errno.EISDIR)}")
    if "://" not in path:
        _write_something(option, path, os.path.dirname(os.path.abspath(path)))


def _write_something(option: str, path: str, directory: str) -> None:
    """In the directory, or in what is there of the way to it."""
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    with writing(option, path):
        try:
            with tempfile.TemporaryFile(dir=directory) as file:
                file.write(b"\0")
                file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, directory) from None


@contextmanager
def writing(option: str, path: str) -> Iterator[None]:
    """An OSError from within ends the command with a line that names the option."""
    try:
        yield
    except OSError as error:
        reason = _named(error).removeprefix(f"{path}: ")
        raise UsageError(f"{option} {path}: cannot be written: {reason}") from None


@contextmanager
def disk_errors_in_one_line() -> Iterator[None]:
    """An OSError that a worker of a pipeline met ends the command with a line; Beam's own account of it is left out.

    All other errors stay as they are.
    """
    logger = logging.getLogger("apache_beam.runners.common")
    logger.addFilter(_tells_of_no_disk_error)
    try:
        yield
    except Exception as error:
        line = disk_error(error)
        if line is None:
            raise
        raise UsageError(f"the run did not end: {line}; {REPEAT}") from None
    finally:
        logger.removeFilter(_tells_of_no_disk_error)


def disk_error(error: BaseException) -> str | None:
    """The path and the reason of the OSError behind an error of a pipeline, if it is one.

    >>> disk_error(RuntimeError("OSError: [Errno 28] No space left on device: '/results/a.avro' [while running 'W']"))
    '/results/a.avro: No space left on device'
    """
    if isinstance(error, OSError) and error.errno is not None:
        return _named(error)
    found = DISK_ERROR.search(str(error))
    return found and ": ".join(filter(None, (found["path"], found["reason"].strip())))


def _named(error: OSError) -> str:
    path = f"{error.filename}: " if error.filename else ""
    return f"{path}{error.strerror or ' '.join(str(error).split())}"


def _tells_of_no_disk_error(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return error is None or disk_error(error) is None
