"""Messages in batches, so that many are decoded and counted at once; and what else sources hand on to be parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from hushgram._arrays import IntArray
from hushgram.schemas.container import DamagedError
from hushgram.schemas.framing import Headers
from hushgram.schemas.messages import encode_report
from hushgram.transforms.sources.avro_files import BlockRun, Damage

MAX_BATCH_BYTES = 1 << 22
LETTER_MINUTE = 60_000
"""Dead letters of a stream are grouped by the minute of receipt, and no batch spans two minutes; so a replay, which may
batch messages otherwise, still puts every refused report in the same minute."""
UNKNOWN = -(2**62)
"""The received time before anything was received."""


@dataclass(frozen=True, eq=False)
class MessageBatch:
    """Messages of one partition in order of receipt, within one minute; None is a message without a value."""

    source: str
    offsets: IntArray | None
    """Where in the partition they are, if the source has such numbers."""
    received: IntArray | None
    """When each was received, rising; None in batch, where all count as received at one time."""
    messages: tuple[bytes | None, ...]
    keys: tuple[bytes | None, ...] | None = None
    headers: tuple[Headers | None, ...] | None = None
    """Keys and headers of messages, if the source was asked for them; headers only if any message has some."""
    topic_id: str = ""
    """Offsets begin again in a topic that was deleted and created again, whose id is another; empty if unknown."""

    @property
    def first_received(self) -> int:
        assert self.received is not None
        return int(self.received[0])

    @property
    def size(self) -> int:
        """Bytes of values, keys and headers."""
        parts = (header for headers in filter(None, self.headers or ()) for header in headers)
        others = sum(len(name) + len(value or b"") for name, value in parts)
        return others + sum(len(text or b"") for text in (*self.messages, *(self.keys or ())))

    def position(self, index: int) -> int | None:
        return None if self.offsets is None else int(self.offsets[index])


@dataclass(frozen=True)
class Gap:
    """Messages of a partition, from `position` on, that were deleted before they were read."""

    source: str
    position: int
    detail: str
    received: int
    """When the messages before it were received: nothing is known of its own."""


Read = BlockRun | Damage | MessageBatch | Gap
"""What sources hand on to be parsed."""


def received_times(stamps: IntArray, floor: int, now: int) -> IntArray:
    """When messages count as received: as they are stamped, but not ahead of the clock, and never running backwards.

    Whoever sends a message may have stamped it; what lies before 1970 counts as 1970, since no engine takes all of it.

    >>> received_times(np.array([5, 3, 99, 8]), floor=4, now=10).tolist()
    [5, 5, 10, 10]
    """
    return np.maximum(np.maximum.accumulate(np.minimum(stamps, now)), max(0, floor))


def batch_by_minute(
    source: str,
    offsets: IntArray | None,
    received: IntArray,
    messages: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers | None] | None = None,
    topic_id: str = "",
) -> Iterator[MessageBatch]:
    """Messages of one partition in batches that each lie within one minute."""
    ends = np.flatnonzero(np.diff(received // LETTER_MINUTE)) + 1
    for start, end in zip([0, *ends.tolist()], [*ends.tolist(), len(messages)], strict=True):
        if end > start:
            part = None if offsets is None else offsets[start:end]
            own_keys = None if keys is None else tuple(keys[start:end])
            own_headers = None if headers is None else tuple(headers[start:end])
            own = tuple(messages[start:end])
            yield MessageBatch(source, part, received[start:end], own, own_keys, own_headers, topic_id)


@dataclass
class BatchMessages(beam.PTransform[PCollection[Any], PCollection[Read]]):
    """Messages (bytes) and records (dicts) in batches; what a source has batched already passes through.

    A record that is no report is handed on as damage, and so is anything else. In a stream the timestamp of a message
    is the time of its receipt; `source` is what dead letters name as the place that it came from.

    Windows of the input have no effect, but that an element counts once for each window that it lies in. So sliding
    ones are refused; how many windows a WindowFn that is not Beam's own gives to an element, cannot be known.
    """

    source: str = "messages"

    def expand(self, messages: PCollection[Any]) -> PCollection[Read]:
        check_windows(messages.windowing.windowfn)
        if not isinstance(messages.windowing.windowfn, GlobalWindows):
            messages |= "Global" >> beam.WindowInto(GlobalWindows())
        gather = GatherMessages(self.source, streaming=not messages.is_bounded)
        return messages | "Gather" >> beam.ParDo(gather).with_output_types(Read)


def check_windows(windows: WindowFn) -> None:
    """Refuses windows that overlap."""
    if isinstance(windows, SlidingWindows) and windows.size > windows.period:
        raise ValueError(
            f"windows of the input: got SlidingWindows of {windows.size.micros / 1e6:g} seconds every"
            f" {windows.period.micros / 1e6:g}, in which a report would count several times, allowed: windows that do"
            " not overlap; leave out the step that makes them: the windows of results are those of the collection"
        )


class GatherMessages(beam.DoFn):
    """The messages of a bundle in as few batches as memory allows."""

    def __init__(self, source: str, streaming: bool) -> None:
        self.source, self.streaming = source, streaming

    def start_bundle(self) -> None:
        self.messages: list[tuple[int, bytes]] = []
        self.bytes = 0

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if isinstance(element, Read):
            yield element
            return
        received = max(0, timestamp.micros // 1000)
        try:
            message = _message(element)
        except DamagedError as error:
            reports = None if isinstance(element, Mapping) and "cells" in element else 1
            yield Damage(self.source, None, str(error), received if self.streaming else None, reports=reports)
            return
        self.messages.append((received, message))
        self.bytes += len(message)
        if self.bytes > MAX_BATCH_BYTES:
            for batch, when in self._take():
                yield TimestampedValue(batch, when)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for batch, when in self._take():
            yield WindowedValue(batch, when, (GlobalWindow(),))

    def _take(self) -> Iterator[tuple[MessageBatch, Timestamp]]:
        messages = sorted(self.messages, key=lambda message: message[0])
        self.start_bundle()
        payloads = [payload for _, payload in messages]
        if not self.streaming:
            if payloads:
                yield MessageBatch(self.source, None, None, tuple(payloads)), MIN_TIMESTAMP
            return
        received = np.array([when for when, _ in messages], dtype=np.int64)
        for batch in batch_by_minute(self.source, None, received, payloads):
            yield batch, Timestamp(micros=1000 * batch.first_received)


def _message(element: Any) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, Mapping):
        return encode_report(element)
    allowed = "bytes of a message, or a dict with the fields of a report"
    raise DamagedError(f"got an element of type {type(element).__name__}, allowed: {allowed}")
