"""`make live-demo`: a page that asks for a number, a collector, an engine, and what all visitors answered, live."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from devtools.beam import prism
from devtools.broker import Broker
from devtools.demo import FolderError, clear_folder, run_command
from devtools.flink import Cluster
from devtools.processes import HOST, Process, ProcessError, eventually, free_port
from devtools.tools import ROOT, InstallError, ToolMissingError
from devtools.typescript_client import build_typescript
from hushgram import Collection
from hushgram.pipelines.cli.console import collections_in, complain, say

PAGE = ROOT / "examples" / "live"
COLLECTIONS = PAGE / "collections.yaml"
KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".json": "application/json"}
PORT = 8090
VISITS_SECONDS = 0.5
"""Simulated visitors come in groups, this far apart."""


@dataclass(frozen=True)
class Addresses:
    """What a person opens, and what it talks to."""

    page: str
    collector: str
    live: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.live_demo", description=__doc__)
    parser.add_argument("--dir", type=Path, default=ROOT / "build" / "live-demo", help="for results, logs and data")
    parser.add_argument("--engine", choices=("prism", "flink"), default="prism")
    parser.add_argument("--visitors", type=int, default=100, help="simulated ones, a second")
    parser.add_argument("--port", type=int, default=PORT, help=f"of the page (default: {PORT})")
    options = parser.parse_args(argv)
    try:
        say("starting Kafka, the engine, the collector and the pages")
        with running(options.dir, options.engine, options.visitors, options.port) as (addresses, processes):
            say(f"{addresses.page} asks for a number; {addresses.live} shows the distribution of all, until Ctrl-C")
            while True:
                time.sleep(1)
                for process in processes:
                    process.check()
    except (FolderError, ToolMissingError, InstallError, ProcessError) as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt:
        return 0


@contextmanager
def running(folder: Path, engine: str, visitors: int, port: int = 0) -> Iterator[tuple[Addresses, list[Process]]]:
    """The whole of it, until the end of the block."""
    clear_folder(folder)
    results = folder / "results"
    results.mkdir()
    client = build_typescript() / "dist" / "hushgram.min.js"
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(folder / "kafka"))
        topic = ["--collections", COLLECTIONS, "--kafka", broker.address, "--topic", broker.create_topic("reports", 4)]
        if engine == "flink":
            engine_options = stack.enter_context(Cluster(folder / "flink")).options()
        else:
            engine_options = [f"--prism_location={prism()}"]
        ports = [port or free_port(), free_port(), free_port()]
        addresses = Addresses(*(f"http://{HOST}:{each}" for each in ports))
        commands: list[tuple[str, list[object]]] = [
            ("stream", [*topic, "--output", results, *engine_options]),
            ("collect", [*topic, "--port", ports[1], "--allow-origin", addresses.page, "--wait", "200ms"]),
            ("view", [results, "--serve", "--port", ports[2], "--embed-in", addresses.page, "--title", "All visitors"]),
        ]
        processes = [stack.enter_context(run_command(folder, name, *arguments)) for name, arguments in commands]
        stack.enter_context(_serving(addresses, {**_page_files(addresses), "/hushgram.min.js": client.read_bytes()}))
        for address in (f"{addresses.collector}/readyz", addresses.live):
            eventually(f"an answer of {address}", partial(_answers, address, processes))
        stack.enter_context(_visiting(addresses.collector, visitors))
        yield addresses, processes


def _answers(address: str, processes: Sequence[Process]) -> bool:
    for process in processes:
        process.check()
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _page_files(addresses: Addresses) -> dict[str, bytes]:
    """By path."""
    settings = json.dumps({"collector": addresses.collector, "live": addresses.live})
    files = {f"/page{kind}": (PAGE / f"page{kind}").read_bytes() for kind in (".html", ".css", ".js")}
    return {**files, "/": files["/page.html"], "/settings.json": settings.encode()}


@contextmanager
def _serving(addresses: Addresses, files: Mapping[str, bytes]) -> Iterator[None]:
    """The page, with a policy that lets it talk to the collector alone."""
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {addresses.collector}; "
        f"frame-src {addresses.live}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path)
            self.send_response(HTTPStatus.NOT_FOUND if content is None else HTTPStatus.OK)
            self.send_header("Content-Type", KINDS.get(Path(self.path).suffix, KINDS[".html"]))
            self.send_header("Content-Length", str(len(content or b"")))
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the standard library
            """Nothing."""

    with ThreadingHTTPServer((HOST, int(addresses.page.rpartition(":")[2])), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


@contextmanager
def _visiting(collector: str, visitors: int) -> Iterator[None]:
    """Simulated visitors, in groups, until the end of the block."""
    ended = threading.Event()
    thread = threading.Thread(target=_visit, args=(collector, visitors, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _visit(collector: str, visitors: int, ended: threading.Event) -> None:
    """What the collector does not take is lost: these visitors do not come again."""
    [collection] = collections_in(str(COLLECTIONS)).values()
    rng = np.random.default_rng()
    while not ended.wait(VISITS_SECONDS):
        number = rng.poisson(visitors * VISITS_SECONDS)
        if not number:
            continue
        body = make_visits(collection, number, rng)
        request = urllib.request.Request(
            f"{collector}/v1/reports", body, {"Content-Type": "application/json"}, method="POST"
        )
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            continue


def make_visits(collection: Collection, number: int, rng: np.random.Generator) -> bytes:
    """Reports of people most of whom slept for about seven hours, and some for four."""
    slept = np.where(rng.random(number) < 0.85, rng.normal(7.3, 0.9, number), rng.normal(4.2, 0.7, number))
    cells = collection.simulate(slept, seed=int(rng.integers(2**63)))
    now = time.time_ns() // 1_000_000
    same = {"collection": collection.name, "revision": collection.revision, "event_time": now}
    return json.dumps([{**same, "cell": cell, "id": rng.bytes(16).hex()} for cell in cells.tolist()]).encode()


if __name__ == "__main__":
    sys.exit(main())
