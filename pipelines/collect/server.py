"""The server that the application runs on: uvicorn, within limits, silent, stopped by this command's own signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from hushgram.pipelines.collect.app import App
from hushgram.pipelines.collect.connections import Guard, GuardedProtocol
from hushgram.pipelines.collect.counts import Counts
from hushgram.pipelines.collect.limits import Limits
from hushgram.pipelines.collect.log import log_line

OTHER_FILES = 256
"""Open files beside connections."""
BACKLOG = 1024
"""Connections that wait to be accepted."""
HANDSHAKE_SECONDS = 5.0
"""Of TLS: connections count as such, and may be closed to make room, once they have shaken hands."""
STOP_SECONDS = 30
"""Requests that are not answered by then, when the server stops, are not answered."""


@dataclass(frozen=True)
class Certificate:
    """The files of TLS."""

    file: str
    key: str


class Server(uvicorn.Server):
    """One that hears of signals from elsewhere, and logs nothing."""

    def __init__(self, app: App, limits: Limits, counts: Counts, certificate: Certificate | None = None) -> None:
        self.app, self.guard = app, Guard(limits, counts)
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)  # every bad request would be a line
        super().__init__(
            uvicorn.Config(
                app,
                http=GuardedProtocol,
                ws="none",
                loop="uvloop",
                lifespan="on",
                interface="asgi3",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=int(limits.idle_seconds) + 1,
                timeout_graceful_shutdown=STOP_SECONDS,
                ssl_certfile=None if certificate is None else certificate.file,
                ssl_keyfile=None if certificate is None else certificate.key,
            )
        )

    def stop(self) -> None:
        """From any thread: no new requests, answers to those that are there, and the end."""
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if self.should_exit:
            self.app.stop()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_complain)
        self.sweeping = loop.create_task(self.guard.run())
        await super().startup([])  # the application only: uvicorn's own connections may shake hands for a minute
        patience = None if self.config.ssl is None else HANDSHAKE_SECONDS
        for listener in sockets or []:
            server = await loop.create_server(
                self._connection, sock=listener, ssl=self.config.ssl, ssl_handshake_timeout=patience, backlog=BACKLOG
            )
            self.servers.append(server)

    def _connection(self) -> GuardedProtocol:
        return GuardedProtocol(
            self.guard, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _complain(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Only the kind of an error: what surrounds it may hold an address."""
    error = context.get("exception")
    if not isinstance(error, ConnectionError | TimeoutError | ssl.SSLError):
        log_line(f"an error of the server: {type(error).__name__}")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or an OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def allow_files(connections: int) -> int:
    """Raises this process's own limit of open files as far as needed; how many connections it allows."""
    wanted = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft - OTHER_FILES)
