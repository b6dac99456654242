"""A server on loopback, for clients to send to: it answers as it is told, and keeps what it was sent."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

SECONDS = 120.0


class Received(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedServer(http.server.ThreadingHTTPServer):
    """Takes reports at `url`, and hands out `files`, by path their type and content.

    Each POST takes the next of `answers`, a status and headers, or 202 when there is none. Nothing is answered while
    `open` is not set.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.url = f"{self.origin}/v1/reports"
        self.common_headers = headers
        self.received: list[Received] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.open = threading.Event()
        self.open.set()

    @property
    def bodies(self) -> list[bytes]:
        """What was posted."""
        return [request.body for request in self.received if request.method == "POST"]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ScriptedServer

    def do_GET(self) -> None:  # which a redirect that is followed would become
        self._keep(b"")
        kind, content = self.server.files.get(self.path, ("text/plain", b""))
        self._answer(200 if self.path in self.server.files else 404, {"Content-Type": kind}, content)

    def do_POST(self) -> None:
        self._keep(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.server.open.wait(SECONDS)
        self._answer(*(self.server.answers.pop(0) if self.server.answers else (202, {})))

    def _keep(self, body: bytes) -> None:
        self.server.received.append(Received(self.command, self.path, dict(self.headers), body))

    def _answer(self, status: int, headers: Mapping[str, str], content: bytes = b"") -> None:
        try:
            self.send_response(status)
            for name, value in {**self.server.common_headers, **headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # the client was killed
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def run_scripted_server(**headers: str) -> Iterator[ScriptedServer]:
    """A server that ends with the block; `headers` go with every answer."""
    with ScriptedServer({name.replace("_", "-"): value for name, value in headers.items()}) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.open.set()
            server.shutdown()
            thread.join()
