"""A directory that report files keep arriving in, as an unbounded source.

The directory is one element. Files are taken by modification time and name, each name once; a file counts as received
when it was last changed, or with the file before it, if that is later. Files must appear whole: written under a name
that begins with a dot or underscore, which is passed over, and renamed.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from transforms.sources.avro_files import Damage, Run, read_file
from transforms.sources.poll import UNKNOWN
from transforms.sources.unbounded import (
    CALL_SECONDS,
    CLOCK_MARGIN,
    REST_SECONDS,
    NeverDone,
    NeverSplit,
    Watermarks,
    advance,
    now,
)

Restriction = tuple[tuple[str, ...], str, int, int]
"""The names of files done; the file begun, if any, and the byte from which the rest of it counts; the received time."""
NOTHING: Restriction = ((), "", 0, UNKNOWN)


class Tracker(NeverDone):
    """A claim is the restriction that is left when it is granted."""

    def __init__(self, restriction: Restriction) -> None:
        self.rest = restriction

    def position(self) -> Restriction:
        return self.rest

    def try_claim(self, position: Restriction) -> bool:
        if not self.stopped:
            self.rest = position
        return not self.stopped


class Directory(NeverSplit):
    def initial_restriction(self, element: str) -> Restriction:
        return NOTHING

    def create_tracker(self, restriction: Restriction) -> Tracker:
        return Tracker(restriction)


def arrived(directory: str) -> dict[str, tuple[int, str]]:
    """The files of a directory in the order in which they are taken: by name, the time of the last change and the path.

    A path may hold bytes that are no text; a name is text, fit for a letter and for a checkpoint.
    """
    [match] = FileSystems.match([FileSystems.join(directory, "*")])
    found = [
        (int(1000 * (file.last_updated_in_seconds or 0)), file.path)
        for file in match.metadata_list
        if posixpath.basename(file.path)[:1] not in ("", ".", "_")
    ]
    return {path.encode(errors="backslashreplace").decode(): (changed, path) for changed, path in sorted(found)}


@beam.DoFn.unbounded_per_element()
class WatchDirectory(beam.DoFn):
    """Runs of blocks of every file that arrives, for ever; `max_delay` in milliseconds."""

    def __init__(self, max_delay: int) -> None:
        self.max_delay = max_delay

    def process(
        self,
        element: str,
        tracker: Any = beam.DoFn.RestrictionParam(Directory()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(Watermarks()),
    ) -> Iterator[Any]:
        asked = now()
        done, begun, start, received = tracker.current_restriction()
        files = arrived(element)
        done = tuple(name for name in done if name in files)  # what is gone need not be remembered
        if begun and begun not in files:
            if not tracker.try_claim((done, "", 0, received)):
                return
            yield _at(received, Damage(begun, start, "the file was gone before it was read to its end", received))
        known = set(done)
        waiting = sorted((name for name in files if name not in known), key=lambda name: name != begun)
        caught_up, claims = True, Claims(tracker)
        for name in waiting:
            changed, path = files[name]
            received = max(received, min(changed, asked))
            claims.of(done, name, received)
            with FileSystems.open(path) as stream:
                for read in read_file(name, stream, start if name == begun else 0, claims.block):
                    yield _at(received, replace(read, received=received))
            if not claims.refused:
                done = (*done, name)
                claims.refused = not tracker.try_claim((done, "", 0, received))
            if claims.refused or claims.time_is_up():
                caught_up = False
                break
        if caught_up:
            received = max(received, asked - CLOCK_MARGIN)
            if not tracker.try_claim((done, "", 0, received)):
                return
        advance(watermark, received, self.max_delay)
        tracker.defer_remainder(Duration(REST_SECONDS if caught_up else 0))


class Claims:
    """The claims of one call, for as long as it lasts. The first block is always granted, if the tracker does: where it
    takes long to list a directory or to find the place in a file, calls must still get on."""

    def __init__(self, tracker: Any) -> None:
        self.tracker, self.deadline, self.granted = tracker, time.monotonic() + CALL_SECONDS, 0

    def time_is_up(self) -> bool:
        return time.monotonic() >= self.deadline

    def of(self, done: tuple[str, ...], name: str, received: int) -> None:
        self.done, self.name, self.received, self.refused = done, name, received, False

    def block(self, position: int) -> bool:
        # Behind the block at a position comes whatever begins behind that position.
        rest = self.done, self.name, position + 1, self.received
        self.refused = (self.granted > 0 and self.time_is_up()) or not self.tracker.try_claim(rest)
        self.granted += not self.refused
        return not self.refused


def _at(received: int, read: Run | Damage) -> Any:
    return TimestampedValue(read, Timestamp(micros=1000 * received))


@dataclass
class WatchReports(beam.PTransform[Any, Any]):
    """Runs of blocks of the report files that are in a directory, or come to be there; `max_delay` in milliseconds."""

    directory: str
    max_delay: int

    def expand(self, pipeline: Any) -> PCollection[Any]:
        return (
            pipeline
            | "Directory" >> beam.Create([self.directory])
            | "Spread" >> beam.Reshuffle()
            | "Watch" >> beam.ParDo(WatchDirectory(self.max_delay))
        )
