"""A registry on loopback that answers as it is told, also as no registry does."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

JSON = "application/vnd.schemaregistry.v1+json"
Answer = tuple[int, str, bytes]
UNKNOWN: Answer = 404, JSON, b'{"error_code": 40403, "message": "Schema not found"}'


def schema_answer(text: Any, **more: Any) -> Answer:
    return 200, JSON, json.dumps({"schema": text, **more}).encode()


class ScriptedRegistry(http.server.ThreadingHTTPServer):
    """Answers by path, or by method and path if something is written; `asked` are these, and `authorizations` the
    credentials that came with them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, Answer | Callable[[], Answer]] = {"/schemas/types": (200, JSON, b'["AVRO"]')}
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ScriptedRegistry

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(f"{self.command} {self.path}")

    def do_PUT(self) -> None:
        self.do_POST()

    def do_GET(self) -> None:
        self._answer(self.path)

    def _answer(self, whole: str) -> None:
        question = whole.partition("?")[0]
        self.server.asked.append(question)
        self.server.authorizations.append(self.headers.get("Authorization"))
        found = self.server.answers.get(question, UNKNOWN)
        status, kind, body = found() if callable(found) else found
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def run_registry() -> Iterator[ScriptedRegistry]:
    with ScriptedRegistry() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
