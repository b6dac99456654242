"""The files that a command reads: found before any work begins; what is passed over is named."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hushgram.pipelines.cli.console import UsageError, complain
from hushgram.pipelines.formatting import shown
from hushgram.transforms.filesystem import FoundFile, Matched, as_text, match_files

NAMED = 5
"""At most this many names are listed of what is passed over; the rest is counted."""


def matching_files(patterns: Sequence[str]) -> dict[str, int]:
    """The files that the patterns of `--input` find, each once, and their sizes; a pattern must find something."""
    found = [file for pattern in patterns for file in _matching(pattern)]
    return {file.path if "://" in file.path else os.path.abspath(file.path): file.size for file in found}


def _matching(pattern: str) -> tuple[FoundFile, ...]:
    try:
        found = match_files(pattern)
    except Exception as error:  # each file system has errors of its own
        raise UsageError(f"--input {pattern}: cannot be read: {error}") from None
    if not found.files and not found.passed_over:
        raise UsageError(f"--input {pattern}: no such file (quote patterns, so that the shell leaves them alone)")
    if not found.files:
        path, reason = shown(as_text(found.passed_over[0].path)), found.passed_over[0].reason
        if reason.startswith("a directory"):
            raise UsageError(f"--input {pattern}: {path} is a directory; name its files, such as '{path}/*.avro'")
        raise UsageError(f"--input {pattern}: nothing to read; {path}: {reason}")
    name_passed_over(found)
    return found.files


def name_passed_over(found: Matched) -> None:
    """A line for each name that was found and is not read, so that nothing is left out silently."""
    for passed_over in found.passed_over[:NAMED]:
        complain(shown(str(passed_over)))
    if len(found.passed_over) > NAMED:
        complain(f"passed over: {len(found.passed_over) - NAMED:,} more that are no regular files or cannot be read")
