"""Files that appear whole or not at all: written under a hidden name beside the real one, and renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from transforms.gate import WRITES


@contextmanager
def atomically(path: str) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name, and the place of one that may be there, when the block ends.

    If anything fails, such as a disk that is full, nothing of it is left. Missing directories are made. On a local disk
    an OSError names the path itself, not the hidden one.
    """
    with _remote(path) if "://" in path else _local(path) as file:
        yield file


@contextmanager
def _local(path: str) -> Iterator[BinaryIO]:
    directory, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(directory, _hidden(name))
    try:
        os.makedirs(directory, exist_ok=True)
        with WRITES.passing(temporary):
            with open(temporary, "wb") as file:
                yield file
            os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            raise OSError(error.errno, error.strerror, path) from None
        raise


@contextmanager
def _remote(path: str) -> Iterator[Any]:
    from apache_beam.io.filesystems import FileSystems  # only here: not every command that writes files has use for it

    directory, name = FileSystems.split(path)
    if not FileSystems.exists(directory):
        try:
            FileSystems.mkdirs(directory)
        except OSError:  # another worker was faster
            if not FileSystems.exists(directory):
                raise
    temporary = FileSystems.join(directory, _hidden(name))
    try:
        with WRITES.passing(temporary):
            with FileSystems.create(temporary, mime_type="application/octet-stream") as file:
                yield file
            FileSystems.rename([temporary], [path])
    except BaseException:
        with suppress(Exception):  # each file system has errors of its own
            FileSystems.delete([temporary])
        raise


def _hidden(name: str) -> str:
    """Readers pass over names that begin with a dot; a long name is cut, since disks allow 255 bytes."""
    return f".{name.encode(errors='surrogateescape')[:200].decode(errors='ignore')}.{secrets.token_hex(8)}"
