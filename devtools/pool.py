"""Python workers for several TaskManagers on one host: `python -m devtools.pool PORT`.

Each TaskManager numbers its workers from 1-1. Beam's own pool keeps them by that number, so the StopWorker of one
TaskManager can end the worker of another. Here StopWorker ends nothing: a worker ends by itself when its TaskManager
closes the connection, or dies. Beam's pool also starts whichever `python` is first on PATH, and never reads what a
worker prints; here it is this interpreter, and the output goes where the pool's goes.

A runner that was promised a worker waits for it without end. So the promise is made when the worker has connected to
the runner; one that ends before is started again, as the boot program of Beam's images does it, and if it ends every
time, the runner gets an error, and fails the job.

As from Beam's pool, workers get no pipeline options: their state cache is off, and their log level is the pool's.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.portability.api import beam_fn_api_pb2_grpc as services
from apache_beam.runners.worker.sdk_worker import SdkHarness
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from devtools.processes import HOST

LOG = logging.getLogger(__name__)
# A worker may stay silent for long while it computes.
PATIENT = [("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)]


ATTEMPTS = 4
"""How often a worker is started that ends before it has connected."""
CONTROL = f"/{api.DESCRIPTOR.services_by_name['BeamFnControl'].full_name}/Control"


class Pool(services.BeamFnExternalWorkerPoolServicer):
    """Starts a process for each worker that a runner requests."""

    def __init__(self, log_level: str) -> None:
        self.log_level = log_level
        self.workers: list[subprocess.Popen[bytes]] = []

    def StartWorker(self, request: Any, context: Any) -> Any:
        self._forget_ended()
        for _ in range(ATTEMPTS):
            worker, connected = self._start(request.control_endpoint.url, request.worker_id)
            if connected:
                self.workers.append(worker)
                return api.StartWorkerResponse()
            failure = f"worker {request.worker_id} ended with {worker.wait()} before it had connected"
            LOG.warning("%s to %s", failure, request.control_endpoint.url)
            if not context.is_active():  # the caller is gone
                break
        return api.StartWorkerResponse(error=f"{failure}, {ATTEMPTS} times: the output of the pool tells why")

    def _start(self, control: str, worker_id: str) -> tuple[subprocess.Popen[bytes], bool]:
        """A worker, and whether it has connected to its runner; if not, it has ended."""
        reading, writing = os.pipe()  # a byte when it has connected; the end of the pipe when it has ended
        with os.fdopen(reading, "rb") as pipe:
            command = [sys.executable, "-m", "devtools.pool", "--log-level", self.log_level]
            command += ["--worker", control, worker_id, "--connected", str(writing)]
            try:
                worker = subprocess.Popen(command, pass_fds=[writing])
            finally:
                os.close(writing)
            LOG.info("worker %s for %s is process %d", worker_id, control, worker.pid)
            return worker, bool(pipe.read(1))

    def StopWorker(self, request: Any, context: Any) -> Any:
        self._forget_ended()
        return api.StopWorkerResponse()

    def _forget_ended(self) -> None:
        self.workers = [worker for worker in self.workers if worker.poll() is None]


def serve(port: int, log_level: str) -> None:
    """Runs until the process group is ended, and the workers with it."""
    server = grpc.server(shared_unbounded_instance(), options=PATIENT)
    services.add_BeamFnExternalWorkerPoolServicer_to_server(Pool(log_level), server)
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    server.wait_for_termination()


class Announce(grpc.StreamStreamClientInterceptor):
    """Calls `on_open` when the stream over which a worker receives its work has been opened."""

    def __init__(self, on_open: Callable[[], None]) -> None:
        self.on_open = on_open

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        call = continuation(details, requests)
        if details.method == CONTROL:
            self.on_open()
        return call


def work(control: str, worker: str, connected: int) -> None:
    """One worker, made as Beam's pool makes it; it says over a pipe that it has connected."""

    def announce() -> None:
        with os.fdopen(connected, "wb") as pipe:
            pipe.write(b"1")

    harness = SdkHarness(control, worker_id=worker, state_cache_size=0, data_buffer_time_limit_ms=-1)
    harness._control_channel = grpc.intercept_channel(harness._control_channel, Announce(announce))
    harness.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int, nargs="?", help="where runners ask for workers")
    parser.add_argument("--worker", nargs=2, metavar=("CONTROL", "ID"), help="be a worker of the runner at CONTROL")
    parser.add_argument("--connected", type=int, metavar="FD", help="the pipe that the pool waits at")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args()
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    if options.worker:
        control, worker = options.worker
        work(control, worker, options.connected)
    else:
        serve(options.port, options.log_level)


if __name__ == "__main__":
    main()
