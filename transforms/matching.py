"""Which files a pattern finds, and how they are opened: regular files only, on any file system that Beam knows.

Beam's own matching on a local disk never finds a name with a backslash, and hands out FIFOs and sockets, which block or
fail when they are opened. So local disks are listed here, with Beam's patterns; other file systems are asked by Beam.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from apache_beam.io.filesystem import CompressedFile, CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}

WILDCARDS = re.compile(r"\*\*|\*|\?|\[(?P<other>!?)(?P<members>\]?[^\]]*)\]")
MEANINGS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class PassedOver:
    """A name that a pattern finds, and why nothing is read from it."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{as_text(self.path)}: passed over: {self.reason}"


@dataclass(frozen=True)
class Matched:
    """What a pattern finds, by path."""

    files: tuple[FileMetadata, ...]
    passed_over: tuple[PassedOver, ...] = ()


def is_local(path: str) -> bool:
    return "://" not in path


def as_text(path: str) -> str:
    """A path that may hold bytes that are no text, as text that any file and any terminal takes.

    >>> as_text("reports/\\udcff.avro")
    'reports/\\\\udcff.avro'
    """
    return path.encode(errors="backslashreplace").decode()


def match_files(pattern: str, directory: str = "") -> Matched:
    """The regular files that match a pattern, which stands below a directory if one is given.

    In a pattern `*`, `?` and `[…]` have Beam's meaning, and `**` crosses folders; in the directory's name nothing has a
    meaning of its own. A pattern that matches nothing may be the very name of a file on this disk.
    """
    if not is_local(directory or pattern):
        [match] = FileSystems.match([FileSystems.join(directory, pattern) if directory else pattern])
        return Matched(tuple(sorted(match.metadata_list, key=lambda file: file.path)))
    unlisted: list[OSError] = []
    paths = sorted(_local_paths(pattern, directory, unlisted))
    if not paths and os.path.lexists(os.path.join(directory, pattern)):
        paths = [os.path.join(directory, pattern)]
    files = []
    passed_over = [PassedOver(str(error.filename), error.strerror or str(error)) for error in unlisted]
    for path in paths:
        try:
            found = os.stat(path)
        except OSError as error:
            passed_over.append(PassedOver(path, error.strerror or str(error)))
            continue
        if stat.S_ISREG(found.st_mode):
            files.append(FileMetadata(path, found.st_size, found.st_mtime))
        else:
            passed_over.append(PassedOver(path, f"{kind_of(found)}, allowed: regular files"))
    return Matched(tuple(files), tuple(passed_over))


def kind_of(found: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")


def _local_paths(pattern: str, directory: str, unlisted: list[OSError]) -> Iterator[str]:
    """Names that match, whatever they are, but for folders. Folders that cannot be listed are added to `unlisted`."""
    pattern = f"{pattern}*" if pattern.endswith("/") else pattern
    before_wildcard = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    if before_wildcard == pattern:
        return
    matches = _expression(pattern).fullmatch
    below = os.path.join(directory, "")
    start = os.path.join(below, os.path.dirname(before_wildcard))

    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            unlisted.append(error)

    for folder, folders, names in os.walk(start or os.curdir, onerror=note):
        inside = os.path.join(folder, "").removeprefix("" if start else os.path.join(os.curdir, ""))
        relative = inside.removeprefix(below)
        if "**" not in pattern and relative.count("/") >= pattern.count("/"):
            folders.clear()  # what lies deeper cannot match
        yield from (inside + name for name in names if matches(relative + name))


def _expression(pattern: str) -> re.Pattern[str]:
    """
    >>> [bool(_expression("in/*.[!b]vro").fullmatch(path)) for path in ("in/a.avro", "in/a.bvro", "in/a/a.avro")]
    [True, False, False]
    """
    parts, end = [], 0
    for token in WILDCARDS.finditer(pattern):
        parts.append(re.escape(pattern[end : token.start()]))
        members = re.sub(r"[]\\[^&~|]", r"\\\g<0>", token["members"] or "")
        parts.append(MEANINGS.get(token[0]) or f"[{'^' if token['other'] else ''}{members}]")
        end = token.end()
    return re.compile("".join(parts) + re.escape(pattern[end:]), re.DOTALL)


def open_file(path: str) -> BinaryIO:
    """A file to read, decompressed as its name says. What is no regular file is refused, and never waited for."""
    if not is_local(path):
        return FileSystems.open(path)
    # A FIFO that nobody writes to would block without O_NONBLOCK; to regular files it makes no difference.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"{kind_of(found)}, allowed: regular files", path)
        file = os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
    compression = CompressionTypes.detect_compression_type(path)
    if compression == CompressionTypes.UNCOMPRESSED:
        return file
    return cast(BinaryIO, CompressedFile(file, compression_type=compression))
