"""A gate that work passes through, and that can be closed for good: begun work finishes, no more begins."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Counts the work inside by name. A process that is about to end closes it, so that nothing is cut in two.

    >>> gate = Gate()
    >>> with gate.passing("a.avro"):
    ...     gate.close(timeout_seconds=0)
    ['a.avro']
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside: list[str] = []

    @contextmanager
    def passing(self, name: str) -> Iterator[None]:
        """Around the work. At a closed gate the thread waits for ever: the process is about to end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside.append(name)
        try:
            yield
        finally:
            with self._changed:
                self._inside.remove(name)
                self._changed.notify_all()

    def close(self, timeout_seconds: float) -> list[str]:
        """Waits until the work inside has finished; the names of what had not by then."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._inside, timeout_seconds)
            return list(self._inside)


WRITES = Gate()
"""Of results: each passes under the temporary name that it is written to before it is renamed."""
CHILDREN = Gate()
"""Of processes that this one is about to start."""
