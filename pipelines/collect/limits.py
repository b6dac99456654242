"""What the collector takes at most, of everything that a stranger could make it take."""

from __future__ import annotations

from dataclasses import dataclass

from hushgram._validation import refuse

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Sizes are in bytes, times in seconds; each limit holds before the memory is taken.

    >>> Limits(largest_body=0)
    Traceback (most recent call last):
    hushgram._validation.CollectionError: largest_body: got 0, allowed: 1024 to 1073741824
    """

    largest_body: int = 4 * MIB
    """Of one request, as it is sent and as it is when decompressed."""
    largest_queue: int = 256 * MIB
    """Of all requests that are not answered yet, and of what was decoded from them."""
    connections: int = 4096
    """Beyond it the connection that has been idle for the longest time is closed."""
    wait_seconds: float = 1.0
    """The longest that a report waits for others to be kept together with it."""
    reports: int = 100_000
    """That many reports wait for no more."""
    body_seconds: float = 60.0
    """A body must have arrived by then."""
    idle_seconds: float = 20.0
    """A connection must have made a request by then, and its next one."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("largest_body", 1024, 1024 * MIB),
            ("largest_queue", 1024, 1 << 40),
            ("connections", 1, 1_000_000),
            ("wait_seconds", 0.0, 60.0),
            ("reports", 1, 10_000_000),
            ("body_seconds", 0.1, 3600.0),
            ("idle_seconds", 0.1, 3600.0),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                refuse(name, value, f"{least} to {most}")
        if self.largest_queue < self.largest_body:
            refuse("largest_queue", self.largest_queue, f"at least one body: {self.largest_body}")


LARGEST_HEAD = 16 * 1024
"""Of the request line and headers of one request, and as much again of its trailers."""
LARGEST_JSON = MIB
"""JSON takes tens of times its size when it is parsed."""
MOST_PIPELINED = 8
"""Requests of a connection that wait for the one before them."""
LARGEST_PIPELINED = 64 * 1024
"""Of the bodies of these requests together, which no queue counts."""


class QueueBudget:
    """How many bytes of the queue are taken.

    >>> room = QueueBudget(10)
    >>> room.take(8), room.take(3), room.taken
    (True, False, 8)
    """

    def __init__(self, size: int) -> None:
        self.size, self.taken = size, 0

    def take(self, size: int) -> bool:
        """Whether that many bytes are free; if so, they are taken."""
        if self.taken + size > self.size:
            return False
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        self.taken -= size
