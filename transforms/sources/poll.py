"""Messages as a stream source hands them on: some at once, each with the time at which it was received; and gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hushgram.arrays import IntArray

LETTER_MINUTE = 60_000
"""Dead letters of a stream are kept together by the minute of receipt, and no poll spans two of them: so that a replay,
which may cut polls elsewhere, still puts every refused report in the same minute."""
UNKNOWN = -(2**62)
"""The received time before anything was received."""


@dataclass(frozen=True, eq=False)
class Poll:
    """Messages of one partition in order of receipt, within one minute; None is a message without a value."""

    source: str
    offsets: IntArray | None
    """Where in the partition they are, if the source has such numbers."""
    received: IntArray
    messages: tuple[bytes | None, ...]

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


def received_times(stamps: IntArray, floor: int, now: int) -> IntArray:
    """When messages count as received: as they are stamped, but not ahead of the clock, and never running backwards.

    Whoever sends a message may have stamped it; what lies before 1970 counts as 1970, since no engine takes all of it.

    >>> received_times(np.array([5, 3, 99, 8]), floor=4, now=10).tolist()
    [5, 5, 10, 10]
    """
    return np.maximum(np.maximum.accumulate(np.minimum(stamps, now)), max(0, floor))


def polls(
    source: str, offsets: IntArray | None, received: IntArray, messages: Sequence[bytes | None]
) -> Iterator[Poll]:
    """Messages of one partition as polls that each lie within one minute."""
    ends = np.flatnonzero(np.diff(received // LETTER_MINUTE)) + 1
    for start, end in zip([0, *ends.tolist()], [*ends.tolist(), len(messages)], strict=True):
        if end > start:
            part = None if offsets is None else offsets[start:end]
            yield Poll(source, part, received[start:end], tuple(messages[start:end]))
