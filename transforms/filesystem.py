"""Files on any file system that Beam knows: which ones a pattern finds, how they are read, and how they are written.

Only regular files are read. Beam's own matching on a local disk never finds a name with a backslash, and hands out
FIFOs and sockets, which block or fail when they are opened; so local disks are listed here, with Beam's patterns.

A file that is written appears whole or not at all: it is written under a hidden name beside the real one, and renamed.

Beam is imported where it is needed: it takes longer to load than most commands take to run.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from hushgram.transforms.gate import WRITES

LARGEST_TEXT = 1 << 20

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
class FoundFile:
    """A regular file that a pattern finds."""

    path: str
    size: int
    modified_seconds: float | None


@dataclass(frozen=True)
class PassedOver:
    """A name that a pattern finds, or a folder that may have more of them, and why nothing is read from it."""

    path: str
    reason: str
    is_folder: bool = False

    def __str__(self) -> str:
        return f"{as_text(self.path)}: passed over: {self.reason}"


@dataclass(frozen=True)
class Matched:
    """What a pattern finds, by path."""

    files: tuple[FoundFile, ...]
    passed_over: tuple[PassedOver, ...] = ()


def is_local(path: str) -> bool:
    return "://" not in path


def check_file_system(path: str) -> None:
    """Raises an OSError if Beam has no file system for an address, since it is mistyped, or lacks its library."""
    if not is_local(path):
        from apache_beam.io.filesystems import FileSystems

        try:
            FileSystems.get_filesystem(path)
        except ValueError as error:
            raise OSError(str(error)) from None


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
        return Matched(tuple(_remote_files(pattern, directory)))
    unlisted: list[OSError] = []
    paths = sorted(_local_paths(pattern, directory, unlisted))
    if not paths and os.path.lexists(os.path.join(directory, pattern)):
        paths = [os.path.join(directory, pattern)]
    files = []
    passed_over = [PassedOver(str(error.filename), error.strerror or str(error), True) for error in unlisted]
    for path in paths:
        try:
            found = os.stat(path)
        except OSError as error:
            if os.path.lexists(path):  # else it has gone since it was listed
                passed_over.append(PassedOver(path, error.strerror or str(error)))
            continue
        if stat.S_ISREG(found.st_mode):
            files.append(FoundFile(path, found.st_size, found.st_mtime))
        else:
            passed_over.append(PassedOver(path, f"{kind_of(found)}, allowed: regular files"))
    return Matched(tuple(files), tuple(passed_over))


def _remote_files(pattern: str, directory: str) -> Iterator[FoundFile]:
    from apache_beam.io.filesystems import FileSystems

    [match] = FileSystems.match([FileSystems.join(directory, pattern) if directory else pattern])
    for file in sorted(match.metadata_list, key=lambda file: file.path):
        yield FoundFile(file.path, file.size_in_bytes, file.last_updated_in_seconds)


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
    from apache_beam.io.filesystem import CompressedFile, CompressionTypes

    if not is_local(path):
        return _open_remote(path)
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


def read_text(path: str) -> str:
    """The text of a small file that a person wrote; an OSError, whatever the file system's own error is."""
    try:
        with Path(path).open("rb") if is_local(path) else _open_remote(path) as file:
            content = file.read(LARGEST_TEXT + 1)
    except Exception as error:  # each file system has errors of its own
        raise OSError(str(error)) from None
    if len(content) > LARGEST_TEXT:
        raise OSError(f"more than {LARGEST_TEXT} bytes, allowed: at most that many")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise OSError(str(error)) from None


def _open_remote(path: str) -> BinaryIO:
    from apache_beam.io.filesystems import FileSystems

    return FileSystems.open(path)


def write_atomically(path: str, data: bytes, durable: bool = False) -> None:
    """A file that appears whole or not at all, in place of one that may be there."""
    with atomically(path, durable) as file:
        file.write(data)


def delete_files(paths: Iterable[str]) -> None:
    """Removes files, one after the other; another may have removed them already."""
    for path in paths:
        if is_local(path):
            with suppress(FileNotFoundError):
                os.unlink(path)
        else:
            _delete_remote(path)


def _delete_remote(path: str) -> None:
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    try:
        FileSystems.delete([path])
    except (BeamIOError, FileNotFoundError):
        if FileSystems.exists(path):
            raise


@contextmanager
def atomically(path: str, durable: bool = False) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name, and the place of one that may be there, when the block ends.

    If anything fails, such as a disk that is full, nothing of it is left. Missing directories are created. On a local
    disk an OSError names the path itself, not the hidden one. A `durable` file outlives a loss of power from then on,
    if its directory was there before; on other file systems every file that was closed does.
    """
    with _local_file(path, durable) if is_local(path) else _remote_file(path) as file:
        yield file


@contextmanager
def _local_file(path: str, durable: bool) -> Iterator[BinaryIO]:
    directory, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(directory, _hidden(name))
    try:
        os.makedirs(directory, exist_ok=True)
        with WRITES.passing(temporary):
            with open(temporary, "wb") as file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
            if durable:
                sync_directory(directory)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            raise OSError(error.errno, error.strerror, path) from None
        raise


def sync_directory(path: str) -> None:
    """So that the names in it outlive a loss of power, too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _remote_file(path: str) -> Iterator[Any]:
    from apache_beam.io.filesystems import FileSystems

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
