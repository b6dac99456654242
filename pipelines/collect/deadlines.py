"""Work that may take only so long, looked at now and then: a timer for each request would cost as much as the rest."""

from __future__ import annotations

import asyncio
from types import TracebackType

CHECKS = 10
"""How often in the time that is allowed."""


class Deadlines:
    """`with deadlines.of_this_task():` raises TimeoutError in a task that is still inside too late."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.due: dict[asyncio.Task[object], float] = {}
        self.late: set[asyncio.Task[object]] = set()
        self._checking: asyncio.Task[None] | None = None

    def of_this_task(self) -> Deadline:
        return Deadline(self)

    def start(self) -> None:
        self._checking = asyncio.get_running_loop().create_task(self._check())

    def stop(self) -> None:
        if self._checking is not None:
            self._checking.cancel()

    async def _check(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.seconds / CHECKS)
            # In the order in which they began, so the first that has time left ends the search.
            for task, due in list(self.due.items()):
                if due > loop.time():
                    break
                self.late.add(task)
                task.cancel()
                del self.due[task]


class Deadline:
    """Of one task."""

    __slots__ = ("deadlines", "task")

    def __init__(self, deadlines: Deadlines) -> None:
        self.deadlines = deadlines

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.deadlines.due[task] = asyncio.get_running_loop().time() + self.deadlines.seconds

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.deadlines.due.pop(self.task, None)
        if self.task in self.deadlines.late:
            self.deadlines.late.discard(self.task)
            if kind is asyncio.CancelledError:
                self.task.uncancel()
                raise TimeoutError
