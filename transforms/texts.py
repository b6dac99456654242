"""Small texts that a person wrote, such as settings, from wherever Beam can read."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

LARGEST_TEXT = 1 << 20


def read_text(path: str) -> str:
    """A text of a file, or an OSError, whatever the file system's own error is."""
    try:
        with _opened(path) as file:
            content = file.read(LARGEST_TEXT + 1)
    except Exception as error:  # each file system has errors of its own
        raise OSError(str(error)) from None
    if len(content) > LARGEST_TEXT:
        raise OSError(f"more than {LARGEST_TEXT} bytes, allowed: at most so many")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise OSError(str(error)) from None


def _opened(path: str) -> BinaryIO:
    if "://" not in path:
        return Path(path).open("rb")
    from apache_beam.io.filesystems import FileSystems  # only here: it takes longer to load than most commands to run

    return FileSystems.open(path)
