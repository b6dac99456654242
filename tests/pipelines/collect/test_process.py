"""The collector as a person runs it: real clients, what it leaves behind of them, strangers, full disks, its end."""

import argparse
import gzip
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from devtools.processes import eventually
from hushgram.pipelines.cli import command
from hushgram.pipelines.collect import command as collect
from hushgram.pipelines.collect import server
from hushgram.pipelines.collect.bodies import MOST_BLOCKS
from hushgram.pipelines.collect.limits import LARGEST_HEAD, LARGEST_JSON, MOST_PIPELINED, Limits
from hushgram.transforms.sources.directory import listing
from tests.helpers.clients import load_reference
from tests.helpers.collectors import (
    FILE,
    JSON,
    MESSAGE,
    YAML,
    Collector,
    Serving,
    as_json,
    as_kept,
    count_reports,
    make_message,
    make_row,
    read_batches,
    read_to_end,
)
from tests.helpers.reports import encode_avro_file
from tests.helpers.senders import Sender

pytestmark = pytest.mark.slow

MIB = 1 << 20
ADDRESS = "127.77.66.55"
MARK = "zaphod-beeblebrox"


@pytest.fixture
def collector(tmp_path):
    running = Collector(tmp_path, "--wait", "20ms")
    yield running
    if running.process.poll() is None:
        running.kill()


def test_the_reference_client_is_served_and_the_pipeline_counts_its_reports(collector, tmp_path, capsys):
    """Manifest, queue and retries are the client's own; nothing but the collector lies between device and pipeline."""
    status, manifest = collector.ask("GET", "/v1/manifest/commute")
    assert status == 200
    client = load_reference()
    store = client.Store(tmp_path / "device.db")
    device = client.Device(client.load(json.loads(manifest)), store)
    for number in range(20):
        device.submit(9.0 * number, group=["DE", "FR", None][number % 3])
    url = f"http://127.0.0.1:{collector.port}/v1/reports"
    assert (store.send(url), store.waiting()) == (20, 0)
    store.close()
    assert collector.post(device.batch([1, 2, 3])) == 202
    code, out, errors = collector.stop()
    assert (code, errors) == (0, "")
    assert out.splitlines()[-1] == "23 reports read = 23 accepted + 0 refused + 0 given back"
    arguments = ["--collections", str(tmp_path / "collections.yaml"), "--input", str(collector.output / "*.avro")]
    assert command.main(["check", *arguments]) == 0
    assert "23 " in capsys.readouterr().out.splitlines()[0]
    # What `stream --watch` finds in the folder: the reports, and nothing else to wonder about.
    files, passed_over = listing(str(collector.output))
    assert set(files) == set(map(str, collector.output.glob("reports-*.avro")))
    assert passed_over == {}


def test_nothing_of_a_client_is_written_anywhere(tmp_path):
    """Not its address, not a header, not what it asked for, not what it sent and should not have sent."""
    collector = Collector(tmp_path, "--wait", "1ms", "--allow-origin", "https://app.example")
    headers = {
        "User-Agent": MARK,
        "Cookie": f"who={MARK}",
        "Referer": f"https://{MARK}.example/",
        "X-Forwarded-For": MARK,
        "Forwarded": f"for={MARK}",
        "Origin": f"https://{MARK}.example",
        "Authorization": f"Bearer {MARK}",
        MARK: MARK,
    }
    row = make_row(1)
    bodies = [
        (make_message(1), MESSAGE),
        (make_message(2, collection=MARK), MESSAGE),
        (make_message(3, group=MARK), MESSAGE),
        (MARK.encode(), MESSAGE),
        (encode_avro_file([row, {**row, "collection": MARK}]), FILE),
        (json.dumps({**as_json(row), "name": MARK}).encode(), JSON),
        (json.dumps({MARK: MARK}).encode(), JSON),
        (MARK.encode(), MARK),
    ]
    for body, kind in bodies:
        connection = http.client.HTTPConnection("127.0.0.1", collector.port, source_address=(ADDRESS, 0))
        connection.request("POST", f"/v1/reports?who={MARK}", body, {**headers, "Content-Type": kind})
        connection.getresponse().read()
        connection.close()
    strangers = [
        b"GET /" + MARK.encode() + b" HTTP/1.1\r\n\r\n",
        MARK.encode() * 9000,
        b"POST /v1/reports HTTP/1.1\r\n",
    ]
    for sent in strangers:
        with socket.create_connection(("127.0.0.1", collector.port), source_address=(ADDRESS, 0)) as connection:
            connection.sendall(sent)
            connection.settimeout(0.5)
            with suppress(TimeoutError, ConnectionResetError):
                connection.recv(1000)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    metrics = collector.ask("GET", "/metrics")[1]
    code, out, errors = collector.stop()
    assert code == 0
    written = {"out": (collector.first_line + out).encode(), "errors": errors.encode(), "metrics": metrics}
    written |= {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(list(collector.output.glob("*.avro"))) >= 1
    [letters] = (collector.output / "dead_letters").glob("*.avro")
    assert letters.stat().st_size
    packed = socket.inet_aton(ADDRESS)
    for place, content in written.items():
        assert MARK.encode() not in content.lower(), place
        assert MARK not in place
        assert ADDRESS.encode() not in content, place
        assert packed not in content, place
    for batch in read_batches(collector.output):
        assert batch["event_time"] % 3_600_000 == 0


def test_a_signal_ends_it_once_all_that_waits_is_kept(tmp_path):
    collector = Collector(tmp_path, "--wait", "30s")
    senders = [Sender([(make_message(number), MESSAGE)], [collector.port], number) for number in range(20)]
    eventually("all to wait", lambda: collector.metrics()["hushgram_collect_waiting"] == 20)
    code, out, _ = collector.stop()
    for sender in senders:
        sender.join()
    assert code == 0
    assert [sender.answers for sender in senders] == [[202]] * 20
    assert "20 accepted" in out
    assert set(count_reports(read_batches(collector.output))) == {as_kept(make_row(number)) for number in range(20)}


def test_a_second_signal_ends_it_at_once(tmp_path):
    """A client that is in the middle of its body would hold it up for as long as bodies may take."""
    collector = Collector(tmp_path)
    with socket.create_connection(("127.0.0.1", collector.port)) as slow:
        slow.sendall(b"POST /v1/reports HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[")
        eventually("the request to be read", lambda: collector.metrics()["hushgram_collect_queue_bytes"] == 1)
        collector.send(signal.SIGTERM, to_group=False)

        def is_closed():
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", collector.port)):
                return False
            return True

        eventually("the door to be closed", is_closed)
        assert collector.process.poll() is None
        code, _, errors = collector.stop()
    assert (code, errors) == (128 + signal.SIGTERM, "hushgram: stopped\n")


def test_strangers_do_not_make_it_grow_and_others_are_served(tmp_path):
    collector = Collector(tmp_path, "--wait", "5ms", "--connections", 300)
    assert collector.post(make_message(0)) == 202
    assert collector.post(encode_avro_file([make_row(0)] * 100), FILE) == 202  # what is loaded late is loaded
    before = collector.resident_bytes()
    bomb, rng = gzip.compress(bytes(300 * MIB)), random.Random(5)
    assert len(bomb) < MIB

    def bother(seed):
        own = random.Random(seed)
        for _ in range(8):
            kind = own.choice((MESSAGE, FILE, JSON))
            with suppress(OSError, http.client.HTTPException):
                match own.randrange(4):
                    case 0:
                        assert collector.post(bomb, kind, content_encoding="gzip") in (413, 429)
                    case 1:
                        assert collector.post(own.randbytes(own.randrange(200_000)), kind) == 400
                    case 2:
                        assert collector.post(b"[" * MIB, JSON) == 400
                    case _:
                        assert collector.post(bytes(5 * MIB), kind) == 413

    idle = [socket.create_connection(("127.0.0.1", collector.port)) for _ in range(1000)]
    threads = [threading.Thread(target=bother, args=(rng.random(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    served = [collector.post(make_message(number)) for number in range(1, 31)]
    for thread in threads:
        thread.join()
    grown = collector.resident_bytes() - before
    for connection in idle:
        connection.close()
    code, out, errors = collector.stop()
    assert (code, errors) == (0, "")
    assert served == [202] * 30
    assert "131 accepted" in out
    assert grown < 200 * MIB


@pytest.fixture
def small_disk(tmp_path):
    """A collector on a disk of 400 KB, in a mount namespace that ends with it, and where its files are seen."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode
    ):
        pytest.skip("mount namespaces are not allowed here")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=400k tmpfs {disk} && exec "$@"'

    class OnSmallDisk(Collector):
        prefix = ("unshare", "--mount", "sh", "-c", mount, "sh")

    collector = OnSmallDisk(tmp_path, "--wait", "5ms", output=disk)
    yield collector, Path(f"/proc/{collector.process.pid}/root{disk}")
    if collector.process.poll() is None:
        collector.kill()


def test_a_full_disk_answers_503_and_loses_nothing_that_was_acknowledged(small_disk):
    collector, disk = small_disk
    acknowledged, answers = [], []
    for number in range(200):
        rows = [make_row(100 * number + place) for place in range(100)]
        answers.append(collector.post(encode_avro_file(rows), FILE))
        if answers[-1] == 202:
            acknowledged += rows
        elif answers.count(503) > 3:
            break
    assert set(answers) == {202, 503}
    assert collector.ask("GET", "/readyz")[0] == 503
    kept = count_reports(read_batches(disk))
    assert set(kept) == {as_kept(row) for row in acknowledged}
    assert not [path for path in disk.iterdir() if path.name.startswith(".reports")]
    for path in disk.glob("*.avro"):
        path.unlink()
    eventually("the disk to be found again", lambda: collector.ask("GET", "/readyz")[0] == 200)
    assert collector.post(make_message(1)) == 202
    code, out, errors = collector.stop()
    assert code == 0
    assert [line.split(": ")[2].split(",")[0] for line in errors.splitlines()] == ["away", "back"]
    assert "No space left on device" in errors
    assert f"{len(acknowledged) + 1:,} accepted" in out


def make_certificate(folder):
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        key,
        "-out",
        certificate,
    ]
    subprocess.run([*map(str, make), *subject], check=True, capture_output=True)
    return certificate, key


def test_strangers_that_do_not_shake_hands_are_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.5)
    serving = Serving()
    serving.certificate = server.Certificate(*map(str, make_certificate(tmp_path)))
    with serving, serving.connect() as silent:  # which waits for 30 seconds
        assert read_to_end(silent) == b""


def test_tls_by_a_certificate(tmp_path):
    certificate, key = make_certificate(tmp_path)
    collector = Collector(tmp_path, "--certificate", certificate, "--key", key, "--wait", "5ms")
    assert collector.first_line.startswith("https://")
    context = ssl.create_default_context(cafile=str(certificate))
    connection = http.client.HTTPSConnection("127.0.0.1", collector.port, context=context, timeout=30)
    connection.request("POST", "/v1/reports", make_message(1), {"Content-Type": MESSAGE})
    assert connection.getresponse().status == 202
    connection.close()
    with socket.create_connection(("127.0.0.1", collector.port)) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"200" not in plain.recv(100)
    assert collector.stop()[0] == 0


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--output", "out", "--kafka", "localhost:1"], "not allowed with"),
        ([], "one of the arguments --output --kafka is required"),
        (["--kafka", "localhost:1"], "--topic: missing"),
        (["--output", "out", "--topic", "t"], "--topic: only with --kafka"),
        (["--output", "gs://bucket/x"], "allowed: a folder of this machine"),
        (["--output", "collections.yaml"], "cannot be written"),
        (["--output", "out", "--port", "99999"], "--port: got 99999, allowed: 0 to 65535"),
        (["--output", "out", "--host", "256.1.1.1"], "--host 256.1.1.1"),
        (["--output", "out", "--wait", "soon"], "--wait: got 'soon'"),
        (["--output", "out", "--wait", "2h"], "--wait: got 7200.0, allowed: 0.0 to 60.0"),
        (["--output", "out", "--largest-body", "7"], "--largest-body: got '7', allowed: a size such as"),
        (["--output", "out", "--queue", "1MiB"], "--queue: got 1048576, allowed: at least one body: 4194304"),
        (["--output", "out", "--connections", "900000000"], "--connections: got"),
        (["--output", "out", "--allow-origin", "example.org/x"], "--allow-origin: got 'example.org/x'"),
        (["--output", "out", "--token-file", "nowhere"], "--token-file nowhere: "),
        (["--output", "out", "--token-file", "short"], "one token to a line"),
        (["--output", "out", "--certificate", "short"], "--certificate and --key: allowed: both or neither"),
        (["--output", "out", "--certificate", "short", "--key", "short"], "--certificate short --key short: "),
        (["--output", "out", "--collections", "short"], "--collections short: "),
    ],
)
def test_options_that_cannot_be_end_at_once_with_a_line(tmp_path, monkeypatch, capsys, options, line):
    monkeypatch.chdir(tmp_path)
    Path("collections.yaml").write_text(YAML)
    Path("short").write_text("short")
    try:
        code = command.main(["collect", "--collections", "collections.yaml", *options])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert line in capsys.readouterr().err.splitlines()[-1]


def test_a_port_that_is_taken_ends_at_once_with_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("collections.yaml").write_text(YAML)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert command.main(["collect", "--collections", "collections.yaml", "--output", "out", "--port", port]) == 2
    assert "Address already in use; --port 0 takes a free one" in capsys.readouterr().err


def test_the_collector_needs_no_beam():
    """Its extra does not bring it, and its memory need not hold it."""
    absent = ("apache_beam", "pyarrow", "rich", "pandas", "grpc")
    code = f"import hushgram.pipelines.collect.command, sys; print([name for name in {absent} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout == "[]\n"


def test_the_page_of_the_collector_names_options_and_defaults_that_there_are():
    parser = argparse.ArgumentParser()
    collect.add_arguments(parser)
    page = (Path(__file__).parents[3] / "docs" / "collect.md").read_text(encoding="utf-8")
    others = {"--watch", "--input", "--help"}  # of stream and aggregate
    assert set(re.findall(r"--[a-z][a-z-]+", page)) - others <= set(parser._option_string_actions)
    limits = collect.limits_of(parser.parse_args(["--collections", "c", "--output", "o"]))
    assert limits == Limits()
    figures = {
        "blocks of an Avro file.*4096": MOST_BLOCKS == 4096,
        "`--largest-body`.*4MiB": limits.largest_body == 4 * MIB,
        "JSON 1 MiB": LARGEST_JSON == MIB,
        "`--queue`.*256MiB": limits.largest_queue == 256 * MIB,
        r"`--connections` \| 4096": limits.connections == 4096,
        "headers.*16 KiB": LARGEST_HEAD == 16 * 1024,
        "time for a body.*60 s": limits.body_seconds == 60,
        "without a whole request.*20 s": limits.idle_seconds == 20,
        r"ahead on one connection \| 8": MOST_PIPELINED == 8,
        r"`--wait` \(1 s\)": limits.wait_seconds == 1,
        r"`--reports` \(100 000\)": limits.reports == 100_000,
    }
    for pattern, holds in figures.items():
        assert holds, pattern
        assert re.search(pattern, page), pattern
