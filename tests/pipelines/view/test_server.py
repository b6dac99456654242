"""The server sends its chunks by number, to this machine only, and nothing else."""

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from devtools.processes import HOST, eventually
from hushgram.pipelines.cli import command
from hushgram.pipelines.view.assets import SCRIPTS
from hushgram.pipelines.view.result_index import ResultIndex
from hushgram.pipelines.view.server import MOST_CONNECTIONS, PAUSE_SECONDS, Handler, Server, is_loopback, make_headers
from tests.helpers.pages import COMMUTE, make_estimate, unpack, write_pane


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    write_pane(path, make_estimate(COMMUTE, reports=1000))
    (path / "secret.txt").write_text("not for the network")
    return path


@pytest.fixture
def server(serve, directory):
    instance = serve(directory)
    instance.index.refresh()
    return instance


def send_request(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def test_every_response_has_the_security_headers(server):
    outline, _ = unpack(send_request(server, "/data/outline/none")[1])
    window = outline["collections"][0]["windows"][0]["id"]
    paths = ["/", "/page.css", "/plotly.js", f"/{SCRIPTS[0]}", "/data/outline/none", f"/data/{outline['run']}/{window}"]
    for path, status in [*((path, 200) for path in paths), ("/nowhere", 404)]:
        response, content = send_request(server, path)
        assert response.status == status, path
        assert int(response.headers["Content-Length"]) == len(content) > 0
        for name, value in make_headers().items():
            assert response.headers[name] == value
        assert "Python" not in response.headers["Server"]


def test_the_policy_lets_no_inline_script_run_and_no_data_count_as_one(server):
    policy = make_headers()["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; " in policy
    assert "unsafe-eval" not in policy
    page = send_request(server, "/")[1].decode()
    assert page.count("<script") == page.count("<script src=") == len(SCRIPTS) + 1
    for path in ("/data/outline/none", "/nowhere"):
        assert "javascript" not in send_request(server, path)[0].headers["Content-Type"]
    assert make_headers()["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("embedders", "allowed"),
    [((), "'none'"), (("https://a.example", "http://b.example:8080"), "https://a.example http://b.example:8080")],
)
def test_only_pages_that_are_named_may_embed_the_page(serve, directory, embedders, allowed):
    response, _ = send_request(serve(directory, embedders=embedders), "/")
    assert response.headers["Content-Security-Policy"].endswith(f"; frame-ancestors {allowed}")


@pytest.mark.parametrize("origin", ["example.org", "https://a.example/", "https://a.example; script-src *", "*", ""])
def test_an_embedder_that_is_no_origin_is_refused(origin, directory, capsys):
    assert command.main(["view", str(directory), "--serve", "--embed-in", origin]) == 2
    assert f"--embed-in: got {origin!r}, allowed: such as https://example.org" in capsys.readouterr().err


def test_an_outline_that_the_client_has_is_not_sent_again(server):
    version = unpack(send_request(server, "/data/outline/none")[1])[0]["version"]
    response, content = send_request(server, f"/data/outline/{version}")
    assert (response.status, content) == (204, b"")
    assert send_request(server, "/data/outline/of-another-server-1")[0].status == 200


def test_a_head_request_gets_no_content(server):
    response, content = send_request(server, "/plotly.js", "HEAD")
    assert response.status == 200
    assert int(response.headers["Content-Length"]) > 1_000_000
    assert content == b""


NOWHERE = [
    "/secret.txt",
    "/../secret.txt",
    "/%2e%2e/secret.txt",
    "/..%2fsecret.txt",
    "//etc/passwd",
    "/etc/passwd",
    "/static/page.js",
    "/page.html",
    "/page.js/",
    "/words.js%00",
    "/snapshots/commute",
    "/data",
    "/data/",
    "/data/outline",
    "/data/outline/none/1",
    "/data/0",
    "/data/RUN/",
    "/data/RUN/-1",
    "/data/RUN/99999",
    "/data/RUN/٣",
    "/data/RUN/0x0",
    "/data/RUN/1e0",
    f"/data/RUN/{'9' * 400}",
    "/data/RUN/../0",
    "/data/another/0",
    "/data/RUN/1/others/0",  # of all groups together there are no others
    "/data/RUN/1/others/-1",
    "/data/RUN/1/others/",
    "/data/another/1/others/0",
    "/data/RUN/1/changes",  # a window
    "/data/RUN/99999/changes",
    "/data/RUN/0/changes/1",
    "/data/another/0/changes",
    "*",
    "http://elsewhere/",
]


@pytest.mark.parametrize("path", NOWHERE)
def test_unknown_paths_are_not_found(server, path):
    run = unpack(send_request(server, "/data/outline/none")[1])[0]["run"]
    with socket.create_connection(server.server_address, timeout=10) as connection:
        host = f"127.0.0.1:{server.server_address[1]}"
        connection.sendall(f"GET {path.replace('RUN', run)} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b" 404 " in response.split(b"\r\n")[0]
    assert b"not for the network" not in response
    assert b"root:" not in response


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_methods_other_than_get_and_head_are_refused(server, method):
    response, _ = send_request(server, "/", method)
    assert response.status == 405
    assert response.headers["Allow"] == "GET, HEAD"
    assert response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:PORT"]
)
def test_a_request_for_a_foreign_host_name_is_refused(server, host):
    response, content = send_request(server, "/", Host=host and host.replace("PORT", str(server.server_address[1])))
    assert response.status == 421
    assert b"<html" not in content


@pytest.mark.parametrize("host", ["localhost:PORT", "127.0.0.1:PORT", "127.9.9.9:PORT", "[::1]:PORT"])
def test_a_request_for_any_loopback_host_name_is_answered(server, host):
    assert send_request(server, "/", Host=host.replace("PORT", str(server.server_address[1])))[0].status == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_host_header_without_a_port_means_port_80(server, host):
    assert send_request(server, "/", Host=host)[0].status == 421
    server.server_address = ("127.0.0.1", 80)
    connection = http.client.HTTPConnection(*server.socket.getsockname(), timeout=10)
    connection.request("GET", "/", headers={"Host": host})
    assert connection.getresponse().status == 200


def test_a_public_server_answers_requests_for_any_host_name(directory):
    with Server(ResultIndex(str(directory)), "results", "0.0.0.0", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert send_request(server, "/", Host="dashboards.example")[0].status == 200
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "", "example.com")),
    ],
)
def test_loopback_hosts_are_recognised(host, expected):
    assert is_loopback(host) == expected


def test_a_request_that_is_not_http_is_refused(server):
    with socket.create_connection(server.server_address, timeout=10) as connection:
        connection.sendall(b"GET / <b>and more</b> HTTP/1.0\r\n\r\n")
        response = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b" 400 " in response.split(b"\r\n")[0]
    assert b"<b>" not in response.partition(b"\r\n\r\n")[2]
    assert b"Content-Security-Policy" in response


def test_connections_are_bounded_and_the_next_is_served_when_one_closes(server):
    waiting = [socket.create_connection(server.server_address) for _ in range(MOST_CONNECTIONS)]
    deadline = time.monotonic() + 30
    while server.free._value and time.monotonic() < deadline:  # the server takes them one by one
        time.sleep(0.01)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        send_request(server, "/")
    for connection in waiting:
        connection.close()
    while not server.free._value and time.monotonic() < deadline:
        time.sleep(0.01)
    assert send_request(server, "/")[0].status == 200


def test_a_silent_client_is_disconnected(server, monkeypatch):
    monkeypatch.setattr(Handler, "client_seconds", 0.2)
    with socket.create_connection(server.server_address, timeout=10) as connection:
        assert connection.recv(100) == b""


def test_slow_clients_are_disconnected(server, monkeypatch):
    """Each sends a byte now and then, much sooner than the limit, which is for all of it together."""
    monkeypatch.setattr(Handler, "client_seconds", 1.0)
    slow = [socket.create_connection(server.server_address) for _ in range(MOST_CONNECTIONS)]

    def are_all_closed():
        for connection in list(slow):
            try:
                connection.sendall(b"G")
            except ConnectionError:
                connection.close()
                slow.remove(connection)
        return not slow

    eventually("the end of slow requests", are_all_closed, 30)
    monkeypatch.undo()
    assert eventually("a place", lambda: send_request(server, "/")[0].status) == 200


def test_a_client_that_reads_its_response_slowly_is_disconnected(server, monkeypatch):
    monkeypatch.setattr(Handler, "client_seconds", 0.5)
    large = bytes(64 << 20)  # more than sockets hold
    server.static["/large"] = ("text/plain", large)
    with socket.socket() as connection:
        connection.settimeout(10)
        connection.connect(server.server_address)
        connection.sendall(f"GET /large HTTP/1.0\r\nHost: {HOST}:{server.server_address[1]}\r\n\r\n".encode())
        first = connection.recv(1)  # the response is on its way
        eventually("the server to leave", lambda: server.free._value == MOST_CONNECTIONS, 30)
        response = first + b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, content = response.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0]
    assert len(content) < len(large)


def test_a_fault_of_the_server_is_reported_in_a_line(server, monkeypatch, capsys):
    def fail():
        raise KeyError("no such chunk")

    monkeypatch.setattr(server.index, "packed_outline", fail)
    with pytest.raises(http.client.RemoteDisconnected):
        send_request(server, "/data/outline/none")
    message = eventually("the line", lambda: capsys.readouterr().err)
    assert message == "hushgram: a request failed: KeyError: 'no such chunk'\n"


def test_a_request_for_a_removed_file_is_answered_with_gone(serve, tmp_path):
    path = write_pane(tmp_path, make_estimate(COMMUTE, reports=1000))
    index = ResultIndex(str(tmp_path))
    index.refresh()
    outline = index.outline()
    with Server(index, "results", "127.0.0.1", 0) as server:  # it does not watch, so it does not know
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        path.unlink()
        response, _ = send_request(server, f"/data/{outline['run']}/{outline['collections'][0]['windows'][0]['id']}")
        assert response.status == 410
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_directory_that_gives_nothing_to_read_is_looked_at_after_a_rest(serve, directory, monkeypatch):
    """A fault that lasts must not keep a processor busy."""
    index, rests = ResultIndex(str(directory)), []
    monkeypatch.setattr(index, "refresh", lambda _: False)
    with Server(index, "results", "127.0.0.1", 0) as server:

        def wait(seconds):
            rests.append(seconds)
            server.ended.set()

        monkeypatch.setattr(server.ended, "wait", wait)
        server._watch()
    assert [seconds >= PAUSE_SECONDS for seconds in rests] == [True]


def test_the_view_command_listens_on_loopback_only_until_it_is_stopped(directory):
    arguments = [sys.executable, "-m", "hushgram", "view", str(directory), "--serve", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("http://127.0.0.1:"), process.stderr.read()
            port = int(line.split("/")[2].partition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), timeout=10)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == "hushgram: stopped\n"


def test_a_wrong_option_of_view_ends_at_once_with_one_line(directory, server, capsys, tmp_path):
    for arguments, message in [
        (["--port", "70000", "--serve"], "--port: got 70000, allowed: 0 to 65535"),
        (["--serve", "--port", str(server.server_address[1])], "--port 0 takes a free one"),
        (["--serve", "--host", "256.1.1.1"], "--host 256.1.1.1"),
        (["--port", "8000"], "--host, --port and --embed-in: allowed: with --serve"),
        (["--output", "/proc/nowhere/page.html"], "--output /proc/nowhere/page.html: cannot be written"),
    ]:
        assert command.main(["view", str(directory), *arguments]) == 2
        errors = capsys.readouterr().err
        assert message in errors
        assert errors.count("\n") == 1
    assert command.main(["view", str(tmp_path)]) == 2
    assert "no snapshots there" in capsys.readouterr().err
