"""Pieces of uploads wait for the others of their shard in files, and the engine groups only where they are.

Engines copy what they group several times, and the in-process runner holds all of it in memory. Files need a disk that
all workers share: they are for runs on one machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import apache_beam as beam

from hushgram.transforms.filesystem import is_local

Place = tuple[str, int, int]
"""A file in the folder, where a piece begins in it, and its length."""


@contextmanager
def spill_folder(run_folder: str) -> Iterator[str]:
    """A folder for the files of one run, which is gone when the block ends.

    It lies in the run's own folder, where the next run removes what a killed one left; if that is no local one, in the
    system's folder for temporary files.
    """
    if not is_local(run_folder):
        with tempfile.TemporaryDirectory(prefix="hushgram-", ignore_cleanup_errors=True) as folder:
            yield folder
        return
    folder = os.path.join(run_folder, "spilled")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class SpillPieces(beam.DoFn):
    """The pieces of a bundle, into one file with a name of its own: what a failed bundle has written, nobody reads."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def start_bundle(self) -> None:
        self.name = secrets.token_hex(8)

    def process(self, element: tuple[int, bytes]) -> Iterator[tuple[int, Place]]:
        shard, piece = element
        try:
            os.makedirs(self.folder, exist_ok=True)
            with open(os.path.join(self.folder, self.name), "ab") as file:
                start = file.tell()
                file.write(piece)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.folder) from None
        yield shard, (self.name, start, len(piece))


def read_piece(folder: str, place: Place) -> bytes:
    """A piece that a bundle has spilled."""
    name, start, length = place
    with open(os.path.join(folder, name), "rb", buffering=0) as file:
        file.seek(start)
        return file.read(length)
