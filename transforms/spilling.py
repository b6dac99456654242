"""Pieces of uploads wait for the others of their shard in files, and the engine groups only where they are.

Engines copy what they group several times, and the in-process runner holds all of it in memory. Files need a disk that
all workers share: they are for runs on one machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

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
        self.file: BinaryIO | None = None

    def process(self, element: tuple[int, bytes]) -> Iterator[tuple[int, Place]]:
        shard, piece = element
        with self._errors_by_folder():
            if self.file is None:
                os.makedirs(self.folder, exist_ok=True)
                self.file = open(os.path.join(self.folder, self.name), "wb")  # noqa: SIM115 - closed with the bundle
            start = self.file.tell()
            self.file.write(piece)
        yield shard, (self.name, start, len(piece))

    def finish_bundle(self) -> None:
        if self.file is not None:
            with self._errors_by_folder():
                self.file.close()

    @contextmanager
    def _errors_by_folder(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.folder) from None


def read_pieces(folder: str, places: Iterable[Place]) -> list[bytes]:
    """Pieces that bundles have spilled."""
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        pieces = []
        for name, start, length in places:
            if name not in files:
                files[name] = stack.enter_context(open(os.path.join(folder, name), "rb"))
            files[name].seek(start)
            pieces.append(files[name].read(length))
    return pieces
