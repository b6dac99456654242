"""Patience with sinks that are away: attempts until they are back, one line at the beginning and one at the end."""

import logging
import threading

import psycopg
import pytest

from hushgram.transforms.sinks import patience
from hushgram.transforms.sinks.patience import OutOfPatienceError, patiently
from hushgram.transforms.sinks.postgresql import is_transient


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now, self.pauses = 0.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    stub = Clock()
    monkeypatch.setattr(patience, "time", stub)
    return stub


AWAY = psycopg.OperationalError("away\nfor a while")


def make_failing_attempt(times, error=AWAY):
    """An attempt that fails a number of times."""
    errors = [error] * times

    def attempt():
        if errors:
            raise errors.pop()
        return "done"

    return attempt


def logged_lines(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_attempts_go_on_until_the_server_is_back_and_pauses_grow_to_a_bound(clock, caplog):
    assert patiently("--sink db", make_failing_attempt(12), is_transient, 600) == "done"
    assert clock.pauses == [0.25, 0.5, 1, 2, 4, 8, 10, 10, 10, 10, 10, 10]
    assert logged_lines(caplog) == ["--sink db: waiting, for at most 10m: away", "--sink db: back after 76 seconds"]


def test_a_connection_that_is_restored_at_once_logs_nothing(clock, caplog):
    assert patiently("--sink db", make_failing_attempt(1), is_transient, 600) == "done"
    assert logged_lines(caplog) == []


def test_patience_ends_to_the_second(clock, caplog):
    with pytest.raises(OutOfPatienceError, match=r"not there after 1m \(--sink-patience\): away$"):
        patiently("--sink db", make_failing_attempt(1000), is_transient, 60)
    assert clock.now == 60
    assert logged_lines(caplog) == ["--sink db: waiting, for at most 1m: away"]
    patience.OUTAGES.end("--sink db")


def test_no_patience_is_one_attempt(clock):
    with pytest.raises(OutOfPatienceError):
        patiently("--sink db", make_failing_attempt(1), is_transient, 0)
    assert clock.pauses == []


def test_many_writers_that_wait_at_once_log_one_line(caplog):
    outages, barrier = patience.Outages(), threading.Barrier(8)

    def wait_and_return():
        barrier.wait()
        outages.begin("--sink db", 60, "away")
        barrier.wait()
        outages.end("--sink db")

    threads = [threading.Thread(target=wait_and_return) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert logged_lines(caplog) == ["--sink db: waiting, for at most 1m: away", "--sink db: back after 0 seconds"]


WAITED_FOR = [
    "AdminShutdown",
    "CannotConnectNow",
    "ConnectionException",
    "CrashShutdown",
    "DeadlockDetected",
    "DiskFull",
    "InvalidSchemaName",
    "IoError",
    "LockNotAvailable",
    "OutOfMemory",
    "QueryCanceled",
    "ReadOnlySqlTransaction",
    "SerializationFailure",
    "TooManyConnections",
    "UndefinedTable",
]
FINAL = [
    "CheckViolation",
    "DatatypeMismatch",
    "InsufficientPrivilege",
    "InvalidColumnReference",
    "NotNullViolation",
    "NumericValueOutOfRange",
    "SyntaxError",
    "UndefinedColumn",
]


@pytest.mark.parametrize("name", WAITED_FOR)
def test_transient_postgresql_errors_are_waited_for(name):
    assert is_transient(getattr(psycopg.errors, name)("message"))


@pytest.mark.parametrize("name", FINAL)
def test_postgresql_errors_that_only_a_person_can_fix_are_final(name, clock):
    error = getattr(psycopg.errors, name)("message")
    with pytest.raises(type(error)):
        patiently("--sink db", make_failing_attempt(5, error), is_transient, 600)
    assert clock.pauses == []


def test_connection_errors_are_transient_and_programming_errors_are_not():
    assert is_transient(psycopg.OperationalError("refused"))
    assert is_transient(psycopg.InterfaceError("the connection is closed"))
    assert not is_transient(psycopg.ProgrammingError("no such placeholder"))
    assert not is_transient(ValueError("message"))
