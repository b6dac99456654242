"""Python workers for several TaskManagers on one host: `python -m deploy.local.pool PORT`.

Each TaskManager numbers its workers from 1-1. Beam's own pool keeps them by that number, so the StopWorker of one
TaskManager can end the worker of another. Here StopWorker ends nothing: a worker ends by itself when its TaskManager
closes the connection, or dies. Beam's pool also starts whichever `python` is first on PATH, and never reads what a
worker prints; here it is this interpreter, and the output goes where the pool's goes.

As from Beam's pool, workers get no pipeline options: their state cache is off, and their log level is the pool's.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.portability.api import beam_fn_api_pb2_grpc as services
from apache_beam.runners.worker.sdk_worker import SdkHarness
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from deploy.local.processes import HOST

LOG = logging.getLogger(__name__)
# A worker may stay silent for long while it computes.
PATIENT = [("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)]


class Pool(services.BeamFnExternalWorkerPoolServicer):
    """Starts a process for each worker that is asked for."""

    def __init__(self, log_level: str) -> None:
        self.log_level = log_level
        self.workers: list[subprocess.Popen[bytes]] = []

    def StartWorker(self, request: Any, context: Any) -> Any:
        self._forget_ended()
        worker = [request.control_endpoint.url, request.worker_id]
        command = [sys.executable, "-m", "deploy.local.pool", "--log-level", self.log_level, "--worker", *worker]
        self.workers.append(subprocess.Popen(command))
        LOG.info("worker %s for %s is process %d", request.worker_id, *worker[:1], self.workers[-1].pid)
        return api.StartWorkerResponse()

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


def work(control: str, worker: str) -> None:
    """One worker, made as Beam's pool makes it."""
    SdkHarness(control, worker_id=worker, state_cache_size=0, data_buffer_time_limit_ms=-1).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int, nargs="?", help="where runners ask for workers")
    parser.add_argument("--worker", nargs=2, metavar=("CONTROL", "ID"), help="be a worker of the runner at CONTROL")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args()
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    if options.worker:
        work(*options.worker)
    else:
        serve(options.port, options.log_level)


if __name__ == "__main__":
    main()
