"""A directory that report files keep arriving in, as an unbounded source.

The directory is one element. Files are taken by modification time and name, each name once; a file counts as received
when it was last changed, or with the file before it, if that is later. Files must appear whole: written under a name
that begins with a dot or underscore, which is passed over, and renamed. Only regular files count.

A file that cannot be read does not stop the others. It is tried again, after ever longer times, and becomes a dead
letter when patience ends; what is known of it travels with the restriction, and so survives checkpoints.
"""

from __future__ import annotations

import logging
import os
import posixpath
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from hushgram.transforms.arguments import AnyPath, check_path
from hushgram.transforms.filesystem import as_text, is_local, kind_of, match_files, open_file
from hushgram.transforms.sources.avro_files import BlockRun, Damage, read_file
from hushgram.transforms.sources.directory_state import Directory, DirectoryState
from hushgram.transforms.sources.message_batch import UNKNOWN
from hushgram.transforms.sources.splittable import (
    CALL_SECONDS,
    CLOCK_MARGIN,
    REST_SECONDS,
    Watermarks,
    advance,
    now,
)
from hushgram.windows import format_duration

LOG = logging.getLogger(__name__)

PATIENCE_MS = 600_000
"""A file that cannot be read for this long becomes a dead letter."""


def arrived(directory: str) -> dict[str, tuple[int, str]]:
    """The files of a directory in the order in which they are taken: by name, the time of the last change and the path.

    A path may hold bytes that are no text; a name is text, fit for dead letters and checkpoints. What cannot be looked
    at is listed, too, with no time: it may be a file.
    """
    return listing(directory)[0]


def listing(directory: str) -> tuple[dict[str, tuple[int, str]], dict[str, str]]:
    """The files of a directory, and what else is in it, with the reason why it is passed over."""
    found, passed_over = _local(directory) if is_local(directory) else (_remote(directory), {})
    return {as_text(path): (changed, path) for changed, path in sorted(found)}, passed_over


def _local(directory: str) -> tuple[list[tuple[int, str]], dict[str, str]]:
    found, passed_over = [], {}
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        names = []  # it may come
    for name in names:
        path = os.path.join(directory, name)
        if name[0] in "._":
            continue
        try:
            entry = os.stat(path)
        except OSError:
            if os.path.lexists(path):  # else it was taken away meanwhile
                found.append((UNKNOWN, path))
            continue
        if stat.S_ISREG(entry.st_mode):
            found.append((entry.st_mtime_ns // 1_000_000, path))
        elif not stat.S_ISDIR(entry.st_mode):
            passed_over[as_text(path)] = kind_of(entry)
    return found, passed_over


def _remote(directory: str) -> list[tuple[int, str]]:
    return [
        (int(1000 * (file.modified_seconds or 0)), file.path)
        for file in match_files("*", directory).files
        if posixpath.basename(file.path)[:1] not in ("", ".", "_")
    ]


class WatchDirectory(beam.DoFn):
    """Runs of blocks of every file that arrives, for ever; `max_delay` in milliseconds."""

    def __init__(self, max_delay: int, patience_ms: int = PATIENCE_MS) -> None:
        self.max_delay, self.patience_ms = max_delay, patience_ms
        self.logged: set[str] = set()

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: str,
        tracker: Any = beam.DoFn.RestrictionParam(Directory()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(Watermarks()),
    ) -> Iterator[Any]:
        listing_time = now()
        state = DirectoryState(*tracker.current_restriction())
        try:
            files = self._listed(element)
        except OSError as error:
            # Nothing is known of its files: none is forgotten, and the clock is not followed.
            self._log_once(f"{element!r}: cannot be listed, will be tried again: {error.strerror or error}")
            tracker.defer_remainder(Duration(REST_SECONDS))
            return
        state = replace(state, done=tuple(name for name in state.done if name in files))  # no need to remember the rest
        for name, start in state.gone(files):
            state = state.without(name)
            if not tracker.try_claim(state.restriction):
                return
            yield _letter(name, start, "the file was gone before it was read to its end", state.received)
        caught_up, claims = True, Claims(tracker)
        for name, start in state.waiting(files, listing_time).items():
            changed, path = files[name]
            state = replace(state, received=max(state.received, min(changed, listing_time)))
            claims.of(state.without(name), name, start)
            try:
                with open_file(path) as stream:
                    for read in read_file(name, stream, start, claims.block):
                        yield _at(state.received, replace(read, received=state.received))
            except OSError as error:
                state, letter = self._failed(state, name, claims.position, error)
                claims.refused = not tracker.try_claim(state.restriction)
                if claims.refused and claims.promised:
                    raise  # a block that the engine counts as read: it must take the call back
                if letter is not None and not claims.refused:
                    yield letter
            else:
                if not claims.refused:
                    state = state.ended(name)
                    claims.refused = not tracker.try_claim(state.restriction)
            if claims.refused or claims.time_is_up():
                caught_up = False
                break
        if caught_up:
            state = replace(state.at_rest(), received=max(state.received, listing_time - CLOCK_MARGIN))
            if not tracker.try_claim(state.restriction):
                return
        advance(watermark, DirectoryState(*tracker.current_restriction()).received, self.max_delay)
        tracker.defer_remainder(Duration(REST_SECONDS if caught_up else 0))

    def _listed(self, directory: str) -> dict[str, tuple[int, str]]:
        files, passed_over = listing(directory)
        for name, kind in passed_over.items():
            self._log_once(f"{name!r}: passed over: {kind}, allowed: regular files")
        return files

    def _failed(self, state: DirectoryState, name: str, start: int, error: OSError) -> tuple[DirectoryState, Any]:
        """What is left when a file could not be read: another attempt, or a dead letter."""
        why = error.strerror or str(error)
        again = state.failed(name, start, now(), self.patience_ms)
        if again is not None:
            self._log_once(
                f"{name!r}: cannot be read, will be tried again for {format_duration(self.patience_ms)}: {why}"
            )
            return again, None
        detail = f"could not be read for {format_duration(self.patience_ms)}: {why}"
        LOG.warning("%r: given up: %s", name, detail)
        return state.ended(name), _letter(name, start, detail, state.received)

    def _log_once(self, line: str) -> None:
        """A directory is looked at every few seconds."""
        if line not in self.logged:
            self.logged.add(line)
            LOG.warning("%s", line)


class Claims:
    """The claims of one call, for as long as it lasts. The first block is always granted, if the tracker does: where it
    takes long to list a directory or to find the place in a file, calls must still get on."""

    def __init__(self, tracker: Any) -> None:
        self.tracker, self.deadline, self.granted = tracker, time.monotonic() + CALL_SECONDS, 0

    def time_is_up(self) -> bool:
        return time.monotonic() >= self.deadline

    def of(self, state: DirectoryState, name: str, start: int) -> None:
        """Claims are of this file now, which is to be read from `start` on."""
        self.state, self.name, self.position = state, name, start
        self.refused = self.promised = False

    def block(self, position: int) -> bool:
        # Behind the block at a position comes whatever begins behind that position.
        rest = replace(self.state, begun=self.name, start=position + 1)
        self.refused = (self.granted > 0 and self.time_is_up()) or not self.tracker.try_claim(rest.restriction)
        self.granted += not self.refused
        if not self.refused:
            self.position, self.promised = position, True
        return not self.refused


def _at(received: int, read: BlockRun | Damage) -> Any:
    return TimestampedValue(read, Timestamp(micros=1000 * received))


def _letter(name: str, start: int, detail: str, received: int) -> Any:
    """If nothing was received before the file, its dead letter is of 1970."""
    received = max(0, received)
    return _at(received, Damage(name, start, detail, received, "unreadable"))


@dataclass
class WatchReports(beam.PTransform[PBegin, PCollection[BlockRun | Damage]]):
    """The report files that are in a directory, or come to be there, for ever; each counts once, when it arrives.

    Files must appear whole: written under a name that begins with a dot, and renamed.

    Args:
        directory: A directory, on any file system that Beam knows.
        max_delay_ms: How long after its event a report usually arrives, at most; the watermark waits for it.
        patience_ms: A file that cannot be read for this long becomes a dead letter.

    >>> watch = WatchReports("inbox", max_delay_ms=60_000)
    >>> reports = pipeline | watch  # doctest: +SKIP
    """

    directory: AnyPath
    max_delay_ms: int = 120_000
    patience_ms: int = PATIENCE_MS

    def __post_init__(self) -> None:
        super().__init__()
        self.directory = check_path("directory", self.directory)

    def expand(self, pipeline: PBegin) -> PCollection[BlockRun | Damage]:
        watch = WatchDirectory(self.max_delay_ms, self.patience_ms)
        return (
            pipeline
            | "Directory" >> beam.Create([os.fspath(self.directory)])
            | "Spread" >> beam.Reshuffle()
            | "Watch" >> beam.ParDo(watch).with_output_types(BlockRun | Damage)
        )
