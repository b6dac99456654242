"""A Prometheus server that scrapes one file, as it would scrape the node exporter that collects it."""

from __future__ import annotations

import functools
import http.server
import json
import threading
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from devtools.processes import HOST, Service, free_port
from devtools.tools import need

SCRAPE_SECONDS = 1


class Prometheus(Service):
    """One server on loopback; data, log, and what it scrapes stay in `directory`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.exposed = self.directory / "exposed"
        self.files: http.server.ThreadingHTTPServer | None = None

    def expose(self, text: str) -> None:
        """What is scraped from now on."""
        self.exposed.mkdir(parents=True, exist_ok=True)
        partial = self.exposed / "partial"
        partial.write_text(text)
        partial.rename(self.exposed / "metrics")

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the HTTP API, as in `ask("query", query="up")`."""
        url = f"http://{HOST}:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def _start(self) -> None:
        need("prometheus")
        self.exposed.mkdir(parents=True, exist_ok=True)
        quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
        handler = functools.partial(quiet, directory=str(self.exposed))
        self.files = http.server.ThreadingHTTPServer((HOST, 0), handler)
        threading.Thread(target=self.files.serve_forever, daemon=True).start()
        target = {"targets": [f"{HOST}:{self.files.server_port}"]}
        job = {"job_name": "hushgram", "scrape_interval": f"{SCRAPE_SECONDS}s", "static_configs": [target]}
        settings = self.directory / "prometheus.json"
        settings.write_text(json.dumps({"scrape_configs": [job]}))
        places = [f"--config.file={settings}", f"--storage.tsdb.path={self.directory / 'data'}"]
        process = self.run("prometheus", ["prometheus", *places, f"--web.listen-address={HOST}:{self.port}"])
        process.wait(lambda: self.ask("query", query="1"))

    def stop(self) -> None:
        super().stop()
        if self.files is not None:
            self.files.shutdown()
            self.files.server_close()
            self.files = None
