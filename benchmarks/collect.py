"""How fast the collector takes reports on loopback, beside a bare server: `python -m benchmarks.collect`.

The bare server is the same uvicorn with an application that reads the body and answers 202 to everything: it keeps
nothing. `wrk` sends; every answer must be 202. `--minutes` watches the memory for that long; `--idle` is how many
connections are opened that never ask for anything.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import asyncio
import io
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from devtools.processes import HOST, Process, eventually, free_port, listening, stop
from devtools.tools import need
from hushgram import Collection
from hushgram.config import parse_collections
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.columns import Labels
from hushgram.schemas.writer import encode_report_messages, encode_reports, write_container

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    epsilon: 1.0
    groups: [DE, FR, US]
    windows: {size: 1h, max_age: 1d}
"""
BARE = """
START = {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"2")]}

async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send({"type": "http.response.body", "body": b"{}"})
"""
SCRIPT = """
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
file:close()
wrk.method = "POST"
wrk.headers["Content-Type"] = "{kind}"
"""
MESSAGE, FILE = "application/vnd.hushgram.report", "application/vnd.apache.avro"
IN_A_FILE = 10_000
CONNECTIONS, UPLOADERS = 2000, 8
"""Senders of single reports wait for their batch: there must be more of them than the server can serve meanwhile."""
WAIT = "50ms"
ROUNDS = 3


def make_bodies(collection: Collection, folder: Path) -> tuple[Path, Path]:
    """One report as a message, and many as a file, all with ids and groups."""
    rng, count = np.random.default_rng(1), IN_A_FILE
    cells = collection.simulate(rng.uniform(0, 180, count), seed=1).astype(np.int64)
    times = time.time_ns() // 1_000_000 - rng.integers(0, 3 * 3_600_000, count)
    group = Labels((None, *collection.groups), rng.integers(0, 4, count))
    ids = rng.integers(0, 256, (count, 16), dtype=np.uint8)
    columns = (collection.name, collection.revision, cells, times, group, ids)
    message, file = folder / "report", folder / "reports.avro"
    message.write_bytes(encode_report_messages(*columns)[0])
    stream = io.BytesIO()
    write_container(stream, REPORT, [(count, encode_reports(*columns))], compressed=False)
    file.write_bytes(stream.getvalue())
    return message, file


@contextmanager
def running(command: Sequence[str | Path], folder: Path, name: str, port: int) -> Iterator[Process]:
    process = Process(command, folder / f"{name}.log", {"PYTHONPATH": f"{folder}:{Path.cwd()}"})
    try:
        process.wait(lambda: listening(f"{HOST}:{port}"))
        yield process
    finally:
        stop([process])


def wrk(port: int, body: Path, kind: str, connections: int, seconds: float) -> float:
    """Requests a second."""
    script = body.with_suffix(".lua")
    script.write_text(SCRIPT.format(body=body, kind=kind))
    address = f"http://{HOST}:{port}/v1/reports"
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "-s", str(script), "--timeout", "10s", address]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if re.search("Non-2xx|Socket errors", out):
        raise RuntimeError(f"not everything was answered 202:\n{out}")
    return float(re.findall(r"Requests/sec:\s+([\d.]+)", out)[0])


async def paced(port: int, message: bytes, rate: float, seconds: float) -> list[float]:
    """The seconds that each acknowledgement took, of requests sent at a steady rate whatever the answers do.

    A connection waits for its answer, for `WAIT` at least, so fewer connections could not keep up with the rate.
    """
    request = b"POST /v1/reports HTTP/1.1\r\nHost: a\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
    request %= (MESSAGE.encode(), len(message), message)
    took: list[float] = []
    start = time.perf_counter() + 0.5

    async def send(number: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        due = start + number / rate
        while due < start + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.findall(rb"content-length: (\d+)", head)[0]))
            if b" 202 " not in head:
                raise RuntimeError(head.decode())
            took.append(time.perf_counter() - due)  # from when it was due: a late one counts as slow
            due += CONNECTIONS / rate
        writer.close()

    await asyncio.gather(*(send(number) for number in range(CONNECTIONS)))
    return took


def resident_mb(pid: int) -> float:
    return int(re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0]) / 1024


def watch_memory(pid: int, port: int, message: Path, minutes: float) -> None:
    """Under full load, in tenths of the time."""
    seconds = 60 * minutes
    load = threading.Thread(target=wrk, args=(port, message, MESSAGE, CONNECTIONS, seconds))
    load.start()
    samples = []
    while load.is_alive():
        samples.append(resident_mb(pid))
        load.join(seconds / 100)
    tenths = [max(part) for part in np.array_split(samples, 10) if len(part)]
    print(f"memory, MB, in tenths of {minutes:g} minutes: {' '.join(f'{part:.0f}' for part in tenths)}")


def bear_idle(pid: int, port: int, message: bytes, number: int) -> None:
    """Posts beside connections that never ask for anything."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (number + 2 * CONNECTIONS, max(number + 2 * CONNECTIONS, _hard_limit())))
    before, idle = resident_mb(pid), []
    for _ in range(number):
        with suppress(OSError):
            idle.append(socket.create_connection((HOST, port), timeout=10))
    took = asyncio.run(paced(port, message, 200, 5))
    print(
        f"beside {len(idle):,} idle connections: {len(took):,} of 1,000 posts kept, 99th percentile "
        f"{1000 * np.percentile(took, 99):.0f} ms, memory {before:.0f} → {resident_mb(pid):.0f} MB"
    )
    for connection in idle:
        connection.close()


def _hard_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def measure(folder: Path, seconds: float, minutes: float, idle: int) -> None:
    (folder / "collections.yaml").write_text(YAML)
    (folder / "bare.py").write_text(BARE)
    message, file = make_bodies(parse_collections(YAML)["commute"], folder)
    bare_port, port = free_port(), free_port()
    server = [sys.executable, "-m", "uvicorn", "bare:app", "--port", str(bare_port), "--http", "httptools"]
    bare = [*server, "--loop", "uvloop", "--no-access-log", "--log-level", "critical", "--lifespan", "off"]
    where = ["--collections", f"{folder}/collections.yaml", "--output", f"{folder}/kept", "--port", str(port)]
    ours = [sys.executable, "-m", "hushgram", "collect", *where, "--wait", WAIT]
    with running(bare, folder, "bare", bare_port), running(ours, folder, "collect", port) as collector:
        eventually("the collector", lambda: listening(f"{HOST}:{port}"))
        rates: dict[int, list[float]] = {bare_port: [], port: []}
        for _ in range(ROUNDS):
            for each, found in rates.items():
                found.append(wrk(each, message, MESSAGE, CONNECTIONS, seconds))
        plain, single = (statistics.median(found) for found in rates.values())
        print(f"single reports: bare server {plain:,.0f} a second, collector {single:,.0f}: {single / plain:.2f}×")
        packed = statistics.median(wrk(port, file, FILE, UPLOADERS, seconds) for _ in range(ROUNDS))
        print(f"files of {IN_A_FILE:,} reports: {IN_A_FILE * packed:,.0f} reports a second")
        took = asyncio.run(paced(port, message.read_bytes(), single / 2, seconds))
        middle, high = (1000 * np.percentile(took, share) for share in (50, 99))
        print(f"acknowledgement at half load: median {middle:.0f} ms, 99th percentile {high:.0f} ms (--wait {WAIT})")
        if idle:
            bear_idle(collector.pid, port, message.read_bytes(), idle)
        if minutes:
            watch_memory(collector.pid, port, message, minutes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default: 10)")
    parser.add_argument("--minutes", type=float, default=0.0, help="for which memory is watched (default: not at all)")
    parser.add_argument(
        "--idle", type=int, default=0, help="connections that are opened and never used (default: none)"
    )
    options = parser.parse_args()
    need("wrk")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options.seconds, options.minutes, options.idle)


if __name__ == "__main__":
    main()
