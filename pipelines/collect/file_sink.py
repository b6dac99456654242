"""Batches to a folder that `hushgram stream --watch` and `hushgram aggregate` read: a file for all that is kept at
once.

A file appears whole, once it and its name are on the disk. Names are random, so any number of collectors may share a
folder.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from hushgram.pipelines.collect.packing import Batch
from hushgram.pipelines.collect.sink import AwayError
from hushgram.schemas.avro_schemas import DEAD_LETTER, REPORT_BATCH, Definition
from hushgram.schemas.messages import PREFIX, encode_message
from hushgram.schemas.records import DeadLetter
from hushgram.schemas.writer import write_container
from hushgram.transforms.filesystem import atomically, sync_directory, write_atomically

DEAD_LETTERS = "dead_letters"
"""A folder within: readers of the reports pass over it."""
BLOCK_BYTES = 1 << 20
LEFTOVER_SECONDS = 3600
"""No file takes that long to write: one that has not got its name by then belonged to a process that was killed."""


class FileSink:
    """Keeps batches in files of a directory on this machine."""

    def __init__(self, directory: str) -> None:
        self.name = directory
        self.directory = os.path.abspath(directory)
        letters = os.path.join(self.directory, DEAD_LETTERS)
        folders = [letters, self.directory, os.path.dirname(self.directory)]
        while not os.path.isdir(folders[-1]):  # a new folder is on the disk once the one that it is in has been synced
            folders.append(os.path.dirname(folders[-1]))
        os.makedirs(letters, exist_ok=True)
        for folder in folders:
            sync_directory(folder)
        _remove_leftovers(self.directory)

    def keep(self, batches: Sequence[Batch]) -> None:
        self._write("reports", REPORT_BATCH, batches)

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self._write(f"{DEAD_LETTERS}/letters", DEAD_LETTER, [letter.to_avro() for letter in letters])

    def probe(self) -> None:
        """Something is really written, since permissions do not show that a disk is full."""
        path = os.path.join(self.directory, f".probe-{secrets.token_hex(8)}")
        try:
            write_atomically(path, bytes(4096), durable=True)
            os.unlink(path)
        except OSError as error:
            raise _away(error) from None

    def close(self) -> None:
        """Nothing is left to be written."""

    def _write(self, prefix: str, definition: Definition, records: Sequence[Mapping[str, Any]]) -> None:
        path = os.path.join(self.directory, f"{prefix}-{secrets.token_hex(8)}.avro")
        try:
            with atomically(path, durable=True) as file:
                # Ids are random, and do not get smaller by any compression.
                write_container(file, definition, _blocks(definition, records), compressed=False)
        except OSError as error:
            with suppress(OSError):  # it may have got its name before the directory could be synced
                os.unlink(path)
            raise _away(error) from None


def _blocks(definition: Definition, records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, bytes]]:
    """Records in blocks of about `BLOCK_BYTES`, which readers can hold at once."""
    bodies, size = list[bytes](), 0
    for record in records:
        bodies.append(encode_message(definition, record)[PREFIX:])
        size += len(bodies[-1])
        if size >= BLOCK_BYTES:
            yield len(bodies), b"".join(bodies)
            bodies, size = [], 0
    if bodies:
        yield len(bodies), b"".join(bodies)


def _away(error: OSError) -> AwayError:
    return AwayError(f"{error.filename or 'the disk'}: {error.strerror or type(error).__name__}")


def _remove_leftovers(directory: str) -> None:
    """Hidden files of collectors that were killed while they wrote."""
    for folder in (directory, os.path.join(directory, DEAD_LETTERS)):
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):  # another collector may be faster
                    hidden = entry.name.startswith((".reports-", ".letters-", ".probe-", "..probe-"))
                    if hidden and entry.stat().st_mtime < time.time() - LEFTOVER_SECONDS:
                        os.unlink(entry.path)
