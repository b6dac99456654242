"""The pool of Python workers, as a process: a worker that is promised to a runner comes, or it gets an error."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.portability.api import beam_fn_api_pb2_grpc as services
from apache_beam.portability.api import endpoints_pb2 as endpoints

from devtools.processes import HOST, Process, eventually, free_port, listening, stop

ROOT = Path(__file__).parents[2]


class Runner(services.BeamFnControlServicer):
    """A runner's half of the connection, which gives its workers nothing to do."""

    def __init__(self):
        self.connected, self.over = threading.Event(), threading.Event()

    def Control(self, responses, context):
        self.connected.set()
        self.over.wait()
        yield from ()


@pytest.fixture
def runner():
    servicer = Runner()
    server = grpc.server(ThreadPoolExecutor(8))
    services.add_BeamFnControlServicer_to_server(servicer, server)
    servicer.address = f"{HOST}:{server.add_insecure_port(f'{HOST}:0')}"
    server.start()
    yield servicer
    servicer.over.set()
    server.stop(5).wait()


@pytest.fixture
def pool(tmp_path):
    address = f"{HOST}:{free_port()}"
    command = [sys.executable, "-m", "devtools.pool", address.rpartition(":")[2]]
    process = Process(command, tmp_path / "pool.log", {"PYTHONPATH": str(ROOT)})
    try:
        process.wait(lambda: listening(address))
        process.address = address
        yield process
    finally:
        stop([process])


def request_worker(pool, runner):
    """The future of the pool's answer."""
    stub = services.BeamFnExternalWorkerPoolStub(grpc.insecure_channel(pool.address))
    endpoint = endpoints.ApiServiceDescriptor(url=runner.address)
    return stub.StartWorker.future(api.StartWorkerRequest(worker_id="1-1", control_endpoint=endpoint))


def kill_new_workers(pool, known):
    """Kills workers that are not among the known ones, and returns how many are known now."""
    for pid in set(pool.members()) - {pool.pid, *known}:
        known.add(pid)
        os.kill(pid, signal.SIGKILL)
    return len(known)


def test_a_worker_that_is_killed_while_it_starts_is_started_again(pool, runner):
    answer, killed = request_worker(pool, runner), set()
    eventually("a worker to kill", lambda: kill_new_workers(pool, killed))
    assert not runner.connected.is_set()
    assert answer.result(120).error == ""
    assert runner.connected.wait(60)
    assert f"worker 1-1 ended with -9 before it had connected to {runner.address}" in pool.tail()


def test_a_worker_that_never_comes_up_is_reported_to_the_runner(pool, runner):
    answer, killed = request_worker(pool, runner), set()
    eventually("the end of every attempt", lambda: kill_new_workers(pool, killed) and answer.done())
    assert answer.result().error == (
        "worker 1-1 ended with -9 before it had connected, 4 times: the output of the pool tells why"
    )
    assert not runner.connected.is_set()
    assert len(killed) == 4
