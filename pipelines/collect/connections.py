"""Connections within limits: how many, how large the head of a request, how long without one.

uvicorn's protocol reads heads of any size, keeps connections that never ask for anything, and queues pipelined requests
without end; this one does not. What has no request in progress is idle, whatever it sends meanwhile: a connection that
dribbles is closed like one that is silent. So is one that does not read its answers, whatever it requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hushgram.pipelines.collect.counts import Counts
from hushgram.pipelines.collect.limits import LARGEST_HEAD, LARGEST_PIPELINED, MOST_PIPELINED, Limits

HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
PIECE = 4096
"""Bytes that are parsed at once, before the limits are looked at again."""
SWEEP_SECONDS = 1.0


class Guard:
    """All connections of a server, those that are idle in the order in which they became so."""

    def __init__(self, limits: Limits, counts: Counts) -> None:
        self.limits, self.counts = limits, counts
        self.idle: dict[GuardedProtocol, float] = {}

    def admit(self, connection: GuardedProtocol, now: float) -> bool:
        """Whether there is room; the one that has been idle for the longest time may have to make some."""
        if self.counts.connections >= self.limits.connections and not self._close_oldest():
            self.counts.closed_idle += 1
            return False
        self.counts.connections += 1
        self.idle[connection] = now
        return True

    def _close_oldest(self) -> bool:
        oldest = next(iter(self.idle), None)
        if oldest is not None:
            oldest.abort()
        return oldest is not None

    def forget(self, connection: GuardedProtocol) -> None:
        self.idle.pop(connection, None)
        self.counts.connections -= 1

    def sweep(self, now: float) -> None:
        """Closes what has been idle for too long."""
        while self.idle:
            oldest, since = next(iter(self.idle.items()))
            if now - since < self.limits.idle_seconds:
                return
            oldest.abort()

    async def run(self) -> None:
        """Sweeps now and then, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(asyncio.get_running_loop().time())


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's, with the limits of a guard."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(**options)
        self.guard, self.counted = guard, False
        self.head_bytes = 0
        """Of the head, or of the trailers, that have not ended."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.client = None  # the application must not know who asks
        self.counted = self.guard.admit(self, self.loop.time())
        if not self.counted:
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._forget()

    def abort(self) -> None:
        """At once: what a client has not taken by now it will not take."""
        self.guard.counts.closed_idle += 1
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        if self.counted:
            self.counted = False
            self.guard.forget(self)

    def _mark(self) -> None:
        """Idle, unless a request is in progress, and its client takes what it is answered."""
        requested = self.cycle is not None and not self.cycle.response_complete
        if requested and not self.flow.write_paused and not self.transport.is_closing():
            self.guard.idle.pop(self, None)
        elif self.counted:
            self.guard.idle.setdefault(self, self.loop.time())

    def data_received(self, data: bytes) -> None:
        """In pieces, since one read may be many times what a limit allows."""
        for start in range(0, len(data), PIECE):
            if self.transport.is_closing():
                return
            piece = data[start : start + PIECE]
            self.head_bytes += len(piece)
            super().data_received(piece)
            if self._too_much_ahead():
                self.transport.abort()
            elif self.head_bytes > LARGEST_HEAD and not self.transport.is_closing():
                self.transport.write(HEAD_TOO_LARGE)
                self.transport.close()

    def _too_much_ahead(self) -> bool:
        ahead = self.pipeline
        return len(ahead) > MOST_PIPELINED or sum(len(cycle.body) for cycle, _ in ahead) > LARGEST_PIPELINED

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_bytes = 0

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.head_bytes = 0
        self.headers = []  # trailers go there, and not among the headers that the application sees
        self._mark()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self.head_bytes = 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._mark()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._mark()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._mark()
