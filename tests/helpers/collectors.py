"""Collectors for tests: in this process over ASGI, or as a process of their own over HTTP; and what they have kept."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from devtools.processes import eventually
from hushgram.config import parse_collections
from hushgram.pipelines.collect.app import AccessPolicy, App
from hushgram.pipelines.collect.bodies import StricterIndex
from hushgram.pipelines.collect.counts import Counts
from hushgram.pipelines.collect.intake import Intake
from hushgram.pipelines.collect.limits import Limits
from hushgram.pipelines.collect.manifests import manifests
from hushgram.pipelines.collect.server import Certificate, Server, listen
from hushgram.pipelines.collect.sink import AwayError
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.collection_index import cell_width
from tests.helpers.stopping import COMMAND, Program

HOUR = 3_600_000
YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [DE, FR]
    previous: [{epsilon: 2.0}]
    windows: {size: 1h, max_age: 1d}
  age:
    domain: {low: 0, high: 999, integer: true}
    buckets: 1000
    epsilon: 2.0
    windows: {size: 15m, max_age: 1d}
"""
COLLECTIONS = parse_collections(YAML)
MESSAGE, FILE, JSON = "application/vnd.hushgram.report", "application/vnd.apache.avro", "application/json"


def make_row(number: int, name: str = "commute", **changes: Any) -> dict[str, Any]:
    """A report that is accepted now, with an id of its own; the same for the same number."""
    collection, rng = COLLECTIONS[name], np.random.default_rng(number)
    row = {
        "collection": name,
        "revision": bytes.fromhex(collection.revision),
        "cell": int(rng.integers(0, collection.mechanism.cells)),
        "event_time": time.time_ns() // 1_000_000 - int(rng.integers(0, 6 * HOUR)),
        "group": None,
        "id": rng.bytes(16),
    }
    return {**row, **changes}


def make_message(number: int, name: str = "commute", **changes: Any) -> bytes:
    return encode_message(REPORT, make_row(number, name, **changes))


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.hex() if isinstance(value, bytes) else value for key, value in row.items()}


class MemorySink:
    """Keeps batches in a list, while it is not away."""

    name = "memory"

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.letters: list[DeadLetter] = []
        self.away: str | None = None
        self.hold: Callable[[], None] = lambda: None

    def keep(self, batches: Sequence[dict[str, Any]]) -> None:
        self.hold()
        self.probe()
        self.batches += batches

    def write_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        self.probe()
        self.letters += letters

    def probe(self) -> None:
        if self.away is not None:
            raise AwayError(self.away)

    def close(self) -> None:
        self.away = "closed"


class InProcess:
    """A collector in this process: `ask` is what a client sees of it."""

    def __init__(self, limits: Limits | None = None, access: AccessPolicy | None = None, yaml: str = YAML) -> None:
        self.sink, self.counts = MemorySink(), Counts()
        self.limits = limits or Limits(wait_seconds=0.01)
        index = StricterIndex.of(parse_collections(yaml).values())
        self.intake = Intake(index, self.sink, self.limits, self.counts)
        self.app = App(
            index, self.intake, self.limits, self.counts, manifests(index.collections), access or AccessPolicy()
        )

    def run(self, work: Callable[[], Any]) -> Any:
        """Runs work between start and stop."""

        async def all_of_it() -> Any:
            self.intake.start()
            self.app.deadlines.start()
            try:
                return await work()
            finally:
                self.app.deadlines.stop()
                await self.intake.stop()

        return asyncio.run(all_of_it())

    def once(self, *request: Any, **options: Any) -> tuple[int, dict[str, str], bytes]:
        return self.run(lambda: self.ask(*request, **options))

    async def ask(
        self, method: str, path: str, body: bytes | Sequence[bytes] = b"", kind: str = MESSAGE, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        parts = [body] if isinstance(body, bytes) else list(body)
        given = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if isinstance(body, bytes):
            given.setdefault("content-length", str(len(body)))
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(event: dict[str, Any]) -> None:
            sent.append(event)

        encoded = [(name.encode(), value.encode()) for name, value in given.items()]
        scope = {"type": "http", "method": method, "path": path, "headers": encoded}
        await self.app(scope, receive, send)  # type: ignore[arg-type]
        start, content = sent
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        assert answered.get("content-length", "0") == str(len(content["body"]))
        return start["status"], answered, content["body"]

    async def post(self, body: bytes | Sequence[bytes], kind: str = MESSAGE, **headers: str) -> tuple[int, Any]:
        status, _, answer = await self.ask("POST", "/v1/reports", body, kind, **headers)
        return status, json.loads(answer)

    @property
    def kept(self) -> Counter[tuple[Any, ...]]:
        return count_reports(self.sink.batches)


class Serving(InProcess):
    """The same behind its real server, in a thread: for limits that no option sets so low."""

    certificate: Certificate | None = None

    def __enter__(self) -> Serving:
        self.server = Server(self.app, self.limits, self.counts, self.certificate)
        listener = listen("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        self.thread = threading.Thread(target=self.server.run, args=([listener],))
        self.thread.start()
        eventually("the server to answer", lambda: self.server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self.thread.join()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def exchange(self, request: bytes) -> bytes:
        """All that is answered to some bytes, until the server closes the connection."""
        with self.connect() as connection:
            with suppress(ConnectionError):  # closed before all of it was sent
                connection.sendall(request)
            return read_to_end(connection)


def read_to_end(connection: socket.socket) -> bytes:
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:  # closed without ceremony
        pass
    return b"".join(parts)


class Collector(Program):
    """`hushgram collect` as a person starts it, keeping reports in a folder."""

    prefix: tuple[str, ...] = ()
    """What runs the command."""

    def __init__(self, folder: Path, *options: object, output: Path | None = None, yaml: str = YAML) -> None:
        (folder / "collections.yaml").write_text(yaml)
        self.output = output or folder / "kept"
        where = () if "--kafka" in options else ("--output", self.output)
        arguments = ["collect", "--collections", folder / "collections.yaml", *where, *options]
        super().__init__([*self.prefix, *COMMAND, *arguments, *([] if "--port" in options else ["--port", 0])], folder)
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        found = re.match(r"https?://127\.0\.0\.1:(\d+)/", self.first_line)
        if found is None:
            raise AssertionError(f"the collector did not start: {self.end()}")
        self.port = int(found[1])

    def connect(self, timeout_seconds: float = 30) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_seconds)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, body: bytes, kind: str = MESSAGE, **headers: str) -> int:
        return self.ask("POST", "/v1/reports", body, content_type=kind, **headers)[0]

    def metrics(self) -> dict[str, float]:
        lines = self.ask("GET", "/metrics")[1].decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0])

    def stop(self) -> tuple[int, str, str]:
        self.send(signal.SIGTERM, to_group=False)
        return self.end(60)

    def kill(self) -> None:
        """kill -9."""
        self.send(signal.SIGKILL, to_group=False)
        self.end(60)


def read_batches(folder: Path) -> list[dict[str, Any]]:
    """The records of all files of a folder, read by another Avro library's rules than the collector's own."""
    batches: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as file:
            batches += [{**batch, "event_time": _ms(batch["event_time"])} for batch in fastavro.reader(file)]
    return batches


def _ms(moment: Any) -> int:
    return moment if isinstance(moment, int) else round(moment.timestamp() * 1000)


def count_reports(batches: Sequence[Mapping[str, Any]]) -> Counter[Any]:
    """By (collection, revision, group, time, cell, id) how often a report is there."""
    found: Counter[Any] = Counter()
    for batch in batches:
        law = COLLECTIONS[batch["collection"]].revisions[batch["revision"].hex()]
        cells = np.frombuffer(batch["cells"], f"<u{cell_width(law.mechanism.cells)}").tolist()
        ids = [batch["id"]] * len(cells)
        if batch["ids"] is not None:
            assert batch["id"] is None
            ids = [batch["ids"][start : start + 16] for start in range(0, len(batch["ids"]), 16)]
        for cell, own in zip(cells, ids, strict=True):
            found[batch["collection"], batch["revision"], batch["group"], batch["event_time"], cell, own] += 1
    return found


SLICES = {"commute": HOUR, "age": HOUR // 4}


def as_kept(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A report as `count_reports` names it once it is kept."""
    length = SLICES[row["collection"]]
    return (
        *(row["collection"], row["revision"], row["group"]),
        *(row["event_time"] // length * length, row["cell"], row["id"]),
    )
