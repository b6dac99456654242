"""Strangers on the wire: smuggled, oversized, slow and idle requests are turned away, and others are still served."""

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from devtools.processes import eventually
from hushgram.pipelines.collect.limits import LARGEST_HEAD, LARGEST_PIPELINED, MOST_PIPELINED, Limits
from hushgram.pipelines.collect.manifests import Manifest
from tests.helpers.collectors import Serving, make_message, make_row, read_to_end

pytestmark = pytest.mark.slow

KIND = b"Content-Type: application/vnd.hushgram.report\r\n"


def post(message, *headers, close=True):
    lines = [b"POST /v1/reports HTTP/1.1", b"Host: a", *headers]
    if not headers:
        lines.append(b"Content-Length: %d" % len(message))
    if close:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n" + KIND + b"\r\n" + message


@pytest.fixture(scope="module")
def serving():
    with Serving(Limits(wait_seconds=0.0, idle_seconds=1.0, body_seconds=1.0)) as running:
        yield running


def smuggled(head, body):
    """A request whose length can be read in two ways, and that holds another one in its body."""
    return b"POST /v1/reports HTTP/1.1\r\nHost: a\r\n" + KIND + head + b"\r\n" + body


INNER = post(make_message(666))
CHUNKED = b"0\r\n\r\n" + INNER


@pytest.mark.parametrize(
    "request_bytes",
    [
        smuggled(b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(CHUNKED), CHUNKED),
        smuggled(b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % len(CHUNKED), CHUNKED),
        smuggled(b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(INNER), INNER),
        smuggled(b"Content-Length: 0, %d\r\n" % len(INNER), INNER),
        smuggled(b"Content-Length: +%d\r\n" % len(INNER), INNER),
        smuggled(b"Content-Length: -1\r\n", INNER),
        smuggled(b"Transfer-Encoding: identity, chunked, identity\r\n", CHUNKED),
        smuggled(b"Transfer-Encoding : chunked\r\n", CHUNKED),
        smuggled(b"Transfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\n" + INNER),
        smuggled(b"X: a\r\n Content-Length: 3\r\n", INNER),
        smuggled(b"X\0: a\r\n", INNER),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(100),  # TLS, to a port without
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00" * 1000,
        b"GET http://evil/%zz HTTP/1.1\r\n\r\n",
    ],
)
def test_requests_that_can_be_read_in_two_ways_are_refused_whole(serving, request_bytes):
    answer = serving.exchange(request_bytes)
    assert b" 202 " not in answer
    assert answer.count(b"HTTP/1.1 ") <= 1 or b" 400 " in answer
    assert make_row(666)["id"] not in {key[-1] for key in serving.kept}
    assert serving.counts.accepted.total() == serving.kept.total()
    assert b" 202 " in serving.exchange(post(make_message(1)))


def send_without_end(connection):
    """Sends a line that does not end, until the server has had enough; what it answers."""
    for _ in range(1000):  # far more than is taken
        try:
            connection.sendall(b"x" * 4096)
        except OSError:
            return b""
        connection.settimeout(0.01)
        try:
            return connection.recv(1000)
        except TimeoutError:
            continue
        except ConnectionResetError:
            return b""
    raise AssertionError("four megabytes of one line were taken")


def test_a_head_that_is_too_large_is_refused_before_it_ends(serving):
    with serving.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        answer = send_without_end(connection)
    assert answer == b"" or b" 431 " in answer
    in_limit = b"GET /healthz HTTP/1.1\r\nConnection: close\r\nX: " + b"x" * (LARGEST_HEAD // 2) + b"\r\n\r\n"
    assert b" 200 " in serving.exchange(in_limit)


@pytest.mark.parametrize("size", [30_000, 60_000, 200_000])
@pytest.mark.parametrize("field", [b"X: " + b"x" * 996 + b"\r\n", b"x" * 1000])
def test_a_head_that_is_too_large_is_refused_if_it_comes_at_once(serving, size, field):
    line = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + (b"" if b":" in field else b"X: ")
    answer = serving.exchange(line + field * (size // len(field)) + b"\r\n\r\n")
    assert answer == b"" or b" 431 " in answer


def chunked(message, trailers, *headers):
    lines = [b"POST /v1/reports HTTP/1.1", b"Transfer-Encoding: chunked", b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(message), message) + trailers


def test_trailers_are_read_over(serving):
    message, kind = make_message(1), KIND.strip()
    assert b" 202 " in serving.exchange(chunked(message, b"A: b\r\n\r\n", kind))
    assert b" 202 " in serving.exchange(chunked(message, b"Content-Type: text/plain\r\n\r\n", kind))
    assert b" 415 " in serving.exchange(chunked(message, KIND + b"\r\n"))


@pytest.mark.parametrize("trailers", [b"X: ", b"X: 1\r\n" * 2000 + b"X: "])
def test_trailers_without_end_are_refused(trailers):
    with Serving(Limits(wait_seconds=0.0)) as serving:
        with serving.connect() as connection:
            connection.sendall(chunked(make_message(1), trailers, KIND.strip()))
            answer = send_without_end(connection)
        assert answer == b"" or b" 431 " in answer
        eventually("the request to be given up", lambda: serving.app.room.taken == 0)
        assert serving.sink.batches == []


def test_idle_and_dribbling_connections_are_closed_and_no_others(serving):
    before = serving.counts.closed_idle
    with serving.connect() as silent, serving.connect() as dribbling, serving.connect() as busy:
        started, at_work = time.monotonic(), 0
        silent.setblocking(False)
        while True:
            try:
                dribbling.sendall(b"x" if at_work else b"GET / HTTP/1.1\r\nX: ")
            except OSError:
                break
            busy.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert b" 200 " in busy.recv(1000)
            at_work += 1
            time.sleep(0.1)
            assert time.monotonic() - started < 30
        assert at_work > 5
        busy.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert b" 200 " in busy.recv(1000)
        eventually("the silent one to be closed", lambda: _closed(silent))
    assert serving.counts.closed_idle >= before + 1


def _closed(connection):
    try:
        return connection.recv(10) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_slow_body_is_answered_408(serving):
    with serving.connect() as connection:
        connection.sendall(post(b"", b"Content-Length: 1000") + b"x")
        answer = read_to_end(connection)
    assert b" 408 " in answer
    assert serving.app.room.taken == 0


def test_bodies_that_are_announced_and_do_not_come_take_no_room():
    limits = Limits(largest_body=1 << 20, largest_queue=1 << 20, wait_seconds=0.0)
    with Serving(limits) as serving, ExitStack() as connections:
        for _ in range(3):
            connection = connections.enter_context(serving.connect())
            connection.sendall(post(b"", b"Content-Length: %d" % (1 << 20), b"Expect: 100-continue"))
            assert b" 100 " in connection.recv(1000)  # its body is waited for
        assert serving.app.room.taken == 0
        assert b" 202 " in serving.exchange(post(make_message(1)))


def test_a_client_that_asks_first_is_told_before_it_sends(serving):
    with serving.connect() as connection:
        connection.sendall(post(b"", b"Content-Length: 99999999", b"Expect: 100-continue"))
        assert b" 413 " in connection.recv(1000)
    message = make_message(5)
    with serving.connect() as connection:
        connection.sendall(post(b"", b"Content-Length: %d" % len(message), b"Expect: 100-continue"))
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(message)
        assert b" 202 " in connection.recv(1000)


def test_a_few_requests_may_be_sent_ahead_and_not_many(serving):
    few = b"".join(post(make_message(number), close=False) for number in range(3)) + post(make_message(3))
    assert serving.exchange(few).count(b" 202 ") == 4
    many = post(make_message(9), close=False) * (10 * MOST_PIPELINED)
    assert serving.exchange(many).count(b" 202 ") <= MOST_PIPELINED + 1


def test_requests_sent_ahead_may_be_small_and_not_large():
    allow = threading.Semaphore(0)
    with Serving(Limits(wait_seconds=0.0)) as serving:
        serving.sink.hold = lambda: allow.acquire(timeout=30)
        with serving.connect() as connection:
            connection.sendall(post(make_message(1), close=False))
            eventually("the first to wait", lambda: serving.counts.waiting == 1)
            # As one read, which the kernel need not make of it; after it, the server reads no more for a while anyway.
            [protocol] = serving.server.server_state.connections
            protocol.loop.call_soon_threadsafe(protocol.data_received, post(bytes(2 * LARGEST_PIPELINED)))
            closed = read_to_end(connection) == b""
        allow.release()
    assert closed


def test_the_last_request_that_was_sent_ahead_is_at_work_like_the_first():
    allow = threading.Semaphore(0)
    with Serving(Limits(wait_seconds=0.0, connections=1)) as serving, serving.connect() as connection:
        serving.sink.hold = lambda: allow.acquire(timeout=30)
        connection.sendall(post(make_message(1), close=False) + post(make_message(2)))
        allow.release()
        assert b" 202 " in connection.recv(1000)
        with serving.connect() as refused:
            assert read_to_end(refused) == b""
        allow.release()
        assert b" 202 " in read_to_end(connection)


LARGE = b"GET /v1/manifest/large HTTP/1.1\r\n\r\n"


def serve_large(limits):
    """With an answer that no buffer of the operating system holds."""
    serving = Serving(limits)
    serving.app._manifests["large"] = Manifest(bytes(16 << 20), '"1"')
    return serving


def ask_and_not_read(serving):
    """A connection whose second request waits until the answer to the first is read."""
    before, connection = serving.counts.answers[200], serving.connect()
    connection.sendall(LARGE)
    eventually("the first to be answered", lambda: serving.counts.answers[200] == before + 1)
    connection.sendall(LARGE)
    eventually("the second to wait", lambda: serving.counts.answers[200] == before + 2)
    return connection


def test_those_that_read_no_answers_make_room_for_others():
    limits = Limits(wait_seconds=0.0, connections=2)
    with serve_large(limits) as serving, ask_and_not_read(serving), ask_and_not_read(serving):
        for number in range(3):
            assert b" 202 " in serving.exchange(post(make_message(number)))


def test_those_that_read_no_answers_are_closed():
    with serve_large(Limits(wait_seconds=0.0, idle_seconds=0.5)) as serving, ask_and_not_read(serving):
        eventually("it to be closed", lambda: serving.counts.connections == 0)


def test_one_that_reads_its_answers_again_is_at_work():
    allow = threading.Semaphore(0)
    with serve_large(Limits(wait_seconds=0.0, connections=1)) as serving, serving.connect() as connection:
        serving.sink.hold = lambda: allow.acquire(timeout=30)
        connection.sendall(LARGE + post(make_message(1)))
        eventually("the report to wait", lambda: serving.counts.waiting == 1)
        unread = 16 << 20
        while unread > 0:
            unread -= len(connection.recv(min(unread, 1 << 20)))
        eventually("it to be at work", lambda: not serving.server.guard.idle)
        with serving.connect() as refused:
            assert read_to_end(refused) == b""
        allow.release()
        assert b" 202 " in read_to_end(connection)


def test_connections_beyond_the_limit_take_the_place_of_idle_ones():
    with Serving(Limits(wait_seconds=0.0, connections=20)) as serving:
        idle = [serving.connect() for _ in range(200)]
        try:
            eventually("most to be closed", lambda: serving.counts.closed_idle >= 180)
            for number in range(10):
                assert b" 202 " in serving.exchange(post(make_message(number)))
            assert serving.counts.connections <= 20
        finally:
            for connection in idle:
                connection.close()
        eventually("all to be forgotten", lambda: serving.counts.connections == 0)
        assert serving.server.guard.idle == {}


def test_connections_that_are_all_at_work_are_left_alone():
    with Serving(Limits(wait_seconds=1.5, connections=3)) as serving:
        busy = [serving.connect() for _ in range(3)]
        for number, connection in enumerate(busy):
            connection.sendall(post(make_message(number)))
        eventually("all to wait", lambda: serving.counts.waiting == 3)
        with serving.connect() as refused:
            assert read_to_end(refused) == b""
        for connection in busy:
            assert b" 202 " in read_to_end(connection)
            connection.close()


def test_a_reset_in_the_middle_leaves_nothing(serving):
    for part in (b"POST /v1", post(b"", b"Content-Length: 500") + b"abc"):
        with serving.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(part)
    eventually("room to be given back", lambda: serving.app.room.taken == 0)
    assert b" 202 " in serving.exchange(post(make_message(7)))
