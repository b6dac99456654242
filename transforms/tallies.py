"""The tallies of one window by revision: a value that merges, the bytes it travels as, and Beam's way to add it up."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

import apache_beam as beam
import numpy as np
from apache_beam import coders
from apache_beam.coders import typecoders

from hushgram._arrays import IntArray
from hushgram.schemas.records import Events

VERSION = 2
"""Version 1 has no events; it is read, and still written where events are not known."""
HEADER = struct.Struct("<BH")
EVENTS = struct.Struct("<qqq")
PART = struct.Struct("<8sqIBI")
DENSE = 0xFFFF_FFFF


@dataclass(eq=False)
class Tallies:
    """The number of reports and the counts of each revision; and the times of events, if every part has them."""

    parts: dict[str, tuple[int, IntArray]] = field(default_factory=dict)
    events: Events | None = None

    @property
    def reports(self) -> int:
        return sum(reports for reports, _ in self.parts.values())

    def add(self, other: Tallies) -> Tallies:
        """Take in another one, in place; the other stays as it is, and shares nothing with this one."""
        if not self.reports:
            self.events = other.events
        elif other.reports:
            self.events = None if self.events is None or other.events is None else self.events | other.events
        for revision, (reports, counts) in other.parts.items():
            if revision in self.parts:
                own_reports, own = self.parts[revision]
                own += counts
                self.parts[revision] = own_reports + reports, own
            else:
                self.parts[revision] = reports, counts.copy()
        return self

    @classmethod
    def merge(cls, many: Iterable[Tallies]) -> Tallies:
        total = cls()
        for one in many:
            total.add(one)
        return total


def encode(tallies: Tallies) -> bytes:
    """A fixed layout, the same for equal tallies: sparse while few cells are counted, dense after.

    Version and number of revisions; events, if they are known; for each revision, in order: fingerprint, reports,
    length, the bytes of a count, and how many cells are counted (or that all follow); then positions, if sparse, and
    counts.
    """
    encoded = [HEADER.pack(1 if tallies.events is None else VERSION, len(tallies.parts))]
    if tallies.events is not None:
        encoded.append(EVENTS.pack(tallies.events.first, tallies.events.last, tallies.events.uploads))
    for revision, (reports, counts) in sorted(tallies.parts.items()):
        width = np.min_scalar_type(int(counts.max(initial=0))).itemsize
        counted = np.flatnonzero(counts)
        sparse = counted.size * (4 + width) < counts.size * width
        listed = counted.size if sparse else DENSE
        encoded.append(PART.pack(bytes.fromhex(revision), reports, counts.size, width, listed))
        if sparse:
            encoded.append(counted.astype("<u4").tobytes())
        encoded.append((counts[counted] if sparse else counts).astype(f"<u{width}").tobytes())
    return b"".join(encoded)


def decode(data: bytes) -> Tallies:
    """The tallies that `encode` wrote, of this version or an earlier one."""
    version, revisions = HEADER.unpack_from(data)
    if not 1 <= version <= VERSION:
        raise ValueError(f"tallies of version {version}: this program reads versions 1 to {VERSION}")
    at, parts, events = HEADER.size, {}, None
    if version > 1:
        events = Events(*EVENTS.unpack_from(data, at))
        at += EVENTS.size
    for _ in range(revisions):
        revision, reports, length, width, listed = PART.unpack_from(data, at)
        at += PART.size
        if listed == DENSE:
            counts = np.frombuffer(data, f"<u{width}", length, at).astype(np.int64)
            at += width * length
        else:
            counts = np.zeros(length, dtype=np.int64)
            positions = np.frombuffer(data, "<u4", listed, at)
            at += 4 * listed
            counts[positions] = np.frombuffer(data, f"<u{width}", listed, at)
            at += width * listed
        parts[revision.hex()] = reports, counts
    return Tallies(parts, events)


class TalliesCoder(coders.Coder):
    """Tallies in their own fixed layout, never pickled: what a checkpoint holds, a later version must read."""

    def encode(self, value: Tallies) -> bytes:
        return encode(value)

    def decode(self, encoded: bytes) -> Tallies:
        return decode(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[Tallies]:
        return Tallies


typecoders.registry.register_coder(Tallies, TalliesCoder)


class CombineTallies(beam.CombineFn):
    """The sum of tallies, which is their merger."""

    def create_accumulator(self) -> Tallies:
        return Tallies()

    def add_input(self, accumulator: Tallies, element: Tallies) -> Tallies:
        return accumulator.add(element)

    def merge_accumulators(self, accumulators: Iterable[Tallies]) -> Tallies:
        # A fresh one: on Flink the given accumulators may be state.
        return Tallies.merge(accumulators)

    def extract_output(self, accumulator: Tallies) -> Tallies:
        return accumulator

    def get_accumulator_coder(self) -> coders.Coder:
        return TalliesCoder()
