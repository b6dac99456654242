"""A TCP proxy on loopback whose connections can be stalled, reset or refused."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from devtools.processes import HOST, free_port

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with no time to linger: closing sends RST, and what was under way is lost."""
CHUNK_BYTES = 1 << 16


class Proxy:
    """Passes connections on to a port of this machine, in a thread of its own."""

    def __init__(self, upstream_port: int, port: int = 0) -> None:
        self.port, self._upstream_port = port or free_port(), upstream_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{self.port}", daemon=True)
        self._server: asyncio.Server | None = None
        self._sockets: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._resets = False

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._flowing.set()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def stall(self) -> None:
        """Connections stay, new ones are accepted, and nothing comes through."""
        self._do(self._stall())

    def reset(self) -> None:
        """Every connection is reset, and so is every new one."""
        self._do(self._reset())

    def refuse(self) -> None:
        """Every connection is closed, and nobody listens."""
        self._do(self._refuse())

    def heal(self) -> None:
        """Everything comes through again."""
        self._do(self._heal())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self.port, limit=CHUNK_BYTES)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _stall(self) -> None:
        self._flowing.clear()

    async def _reset(self) -> None:
        self._resets = True
        self._abort(reset=True)

    async def _refuse(self) -> None:
        await self._stop_listening()
        self._abort(reset=False)

    async def _heal(self) -> None:
        self._resets = False
        self._flowing.set()
        await self._listen()

    async def _close(self) -> None:
        await self._stop_listening()
        self._flowing.set()
        self._resets = True
        # Not cancelled: a connection that is just being accepted would never be closed.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            self._abort(reset=True)
            await asyncio.wait(others, timeout=0.1)
        for _ in range(3):  # sockets are closed by callbacks of the loop
            await asyncio.sleep(0)

    def _abort(self, reset: bool) -> None:
        for writer in list(self._sockets):
            _close(writer, reset)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._resets:
            _close(writer, reset=True)
            return
        self._sockets.add(writer)
        try:
            await self._flowing.wait()
            with suppress(OSError):
                upstream_reader, upstream = await asyncio.open_connection(HOST, self._upstream_port)
                self._sockets.add(upstream)
                try:
                    await asyncio.gather(self._pump(reader, upstream), self._pump(upstream_reader, writer))
                finally:
                    self._sockets.discard(upstream)
                    _close(upstream, reset=False)
        finally:
            self._sockets.discard(writer)
            _close(writer, reset=False)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """When one side ends, so does the other: half a connection is of no use to Kafka or PostgreSQL."""
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        _close(writer, reset=False)


def _close(writer: asyncio.StreamWriter, reset: bool) -> None:
    if reset:
        with suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        writer.transport.abort()
    else:
        writer.close()
