"""The page live: a small server that gives out its own files and data by number, and nothing else.

No path of a URL reaches the file system: static files are looked up in a table, data by ids that the index gave.
"""

from __future__ import annotations

import io
import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hushgram.pipelines.cli.console import complain
from hushgram.pipelines.view.assets import PLOTLY, SCRIPTS, asset, fill, plotly
from hushgram.pipelines.view.result_index import GoneError, ResultIndex

MOST_CONNECTIONS = 32
CLIENT_SECONDS = 10.0
"""A client may keep the server waiting this long in all, for its request and for taking the answer."""
PAUSE_SECONDS = 0.5
READING_SECONDS = 0.5
"""So often the page shows more of a large directory while it is read for the first time."""

POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",  # the plotting library styles what it draws
    "img-src data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

HTML, STYLE, SCRIPT = "text/html; charset=utf-8", "text/css; charset=utf-8", "text/javascript; charset=utf-8"
DATA, TEXT = "application/octet-stream", "text/plain; charset=utf-8"


def make_headers(embedders: Sequence[str] = ()) -> dict[str, str]:
    """The headers of every answer; pages of the given origins may show the page within themselves, and no others."""
    ancestors = " ".join(embedders) or "'none'"
    return {**HEADERS, "Content-Security-Policy": "; ".join((*POLICY, f"frame-ancestors {ancestors}"))}


class Server(ThreadingHTTPServer):
    """Serves an index; bound when made, so that `address` is known."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, index: ResultIndex, title: str, host: str, port: int, embedders: Sequence[str] = ()) -> None:
        self.headers = make_headers(embedders)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.index = index
        self.loopback = is_loopback(host)
        self.static = static_files(title)
        self.free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.ended = threading.Event()
        super().__init__((host, port), Handler)

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if self.address_family == socket.AF_INET6 else str(host)
        return f"http://{name}:{port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each connection, up to a limit."""
        if not self.free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except Exception:  # no thread could be started: from its start on the thread keeps the place
            self.free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle is no news; anything else is a fault of ours."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            complain(f"a request failed: {type(error).__name__}: {error}")

    def server_close(self) -> None:
        self.ended.set()
        super().server_close()

    def watch(self) -> None:
        """Reads the directory until the server is closed, in a thread; rests longer where a listing takes longer."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        last = ""
        while not self.ended.is_set():
            started, version = time.monotonic(), self.index.version
            try:
                whole, problem = self.index.refresh(READING_SECONDS), ""
            except Exception as error:  # each file system has errors of its own, and some of them pass
                whole, problem = True, f"{self.index.directory}: cannot be listed: {error}"
            if problem and problem != last:
                complain(problem)
            last = problem
            if whole or self.index.version == version:  # nothing was read, and trying again at once would not help
                self.ended.wait(max(PAUSE_SECONDS, 4 * (time.monotonic() - started)))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def static_files(title: str) -> dict[str, tuple[str, bytes]]:
    """By path: content type and content."""
    scripts = "\n".join(f'<script src="{name}" defer></script>' for name in (PLOTLY, *SCRIPTS))
    page = "".join(fill(title, '<link rel="stylesheet" href="page.css">', "", scripts))
    return {
        "/": (HTML, page.encode()),
        "/page.css": (STYLE, asset("page.css").encode()),
        f"/{PLOTLY}": (SCRIPT, plotly().encode()),
        **{f"/{name}": (SCRIPT, asset(name).encode()) for name in SCRIPTS},
    }


class Client(io.RawIOBase):
    """A connection that may keep the server waiting for some seconds in all, however little comes or goes at a time."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self.connection, self.seconds_left = connection, seconds

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._waiting():
            return self.connection.recv_into(buffer)

    def write(self, data: Any) -> int:
        """All of it: the timeout of `sendall` is for the whole."""
        with self._waiting():
            self.connection.sendall(data)
        return memoryview(data).nbytes

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        if self.seconds_left <= 0:
            raise TimeoutError("the client took too long")
        self.connection.settimeout(self.seconds_left)
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds_left -= time.monotonic() - started


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of what there is; anything else is refused."""

    server: Server
    server_version, sys_version = "hushgram", ""
    client_seconds = CLIENT_SECONDS

    def setup(self) -> None:
        self.connection = self.request
        client = Client(self.connection, self.client_seconds)
        self.rfile, self.wfile = io.BufferedReader(client), client  # type: ignore[assignment]

    def do_GET(self) -> None:
        if not self._welcome():
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, TEXT, b"this page is for the machine it runs on\n")
            return
        path = self.path.partition("?")[0]
        if path in self.server.static:
            kind, content = self.server.static[path]
            self._answer(HTTPStatus.OK, kind, content)
            return
        try:
            self._answer(*self._data(path))
        except GoneError as error:
            self._answer(HTTPStatus.GONE, TEXT, str(error).encode(errors="backslashreplace"))

    def do_HEAD(self) -> None:
        self.do_GET()

    def __getattr__(self, name: str) -> Any:
        """Whatever other method is asked for."""
        if name.startswith("do_"):
            return self._not_allowed
        raise AttributeError(name)

    def _not_allowed(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, TEXT, b"GET and HEAD only\n", {"Allow": "GET, HEAD"})

    def _welcome(self) -> bool:
        """A page elsewhere may point a name of its own at this machine; it cannot make the browser say another Host."""
        if not self.server.loopback:
            return True
        name, colon, port = (self.headers.get("Host") or "").rpartition(":")
        if not colon or port.endswith("]"):  # a browser leaves out the port that is HTTP's own
            name, port = f"{name}{colon}{port}", "80"
        return is_loopback(name.strip("[]")) and port == str(self.server.server_address[1])

    def _data(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """`/data/outline/VERSION` is empty while that version is the one there is; `/data/RUN/ID` is a chunk.

        `/data/RUN/WINDOW/others/GROUP` is the estimate of all groups of a window but one, `/data/RUN/GROUP/changes` the
        changes over time in the collection of a group.
        """
        index = self.server.index
        match path.split("/")[1:]:
            case ["data", "outline", version]:
                if version == index.version:
                    return HTTPStatus.NO_CONTENT, DATA, b""
                return HTTPStatus.OK, DATA, index.packed_outline()
            case ["data", run, chunk_id] if _is_count(chunk_id):
                chunk = index.chunk(run, int(chunk_id))
                if chunk is not None:
                    return HTTPStatus.OK, DATA, chunk
            case ["data", run, window_id, "others", group_id] if _is_count(window_id) and _is_count(group_id):
                estimate = index.others(run, int(window_id), int(group_id))
                if estimate is not None:
                    return HTTPStatus.OK, DATA, estimate
            case ["data", run, group_id, "changes"] if _is_count(group_id):
                changes = index.changes(run, int(group_id))
                if changes is not None:
                    return HTTPStatus.OK, DATA, changes
        return HTTPStatus.NOT_FOUND, TEXT, b"no such thing here\n"

    def _answer(self, status: HTTPStatus, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        lasting = kind == SCRIPT and self.path == f"/{PLOTLY}"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=3600" if lasting else "no-store")
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def end_headers(self) -> None:
        """Also of what the standard library answers by itself, such as a request that is none."""
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the standard library
        """Nothing: a page that polls would fill the terminal."""


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16
