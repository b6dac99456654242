"""Jobs of a Flink cluster, over its REST interface."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from devtools.processes import eventually

ENDED = ("CANCELED", "FAILED", "FINISHED")


@dataclass(frozen=True)
class Job:
    """A job as the cluster knows it."""

    id: str
    name: str
    state: str


class Jobs:
    """Requests to the cluster at `address`; a job is identified by its id."""

    def __init__(self, address: str) -> None:
        self.address = address

    def rest(self, path: str, method: str = "GET", body: Mapping[str, Any] | None = None) -> Any:
        """An answer of the REST interface. No proxy is asked, whatever the environment says: the cluster is local."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://{self.address}{path}", data, {"Content-Type": "application/json"}, method=method)
        with build_opener(ProxyHandler({})).open(request, timeout=10) as response:
            return json.loads(response.read() or b"{}")

    def jobs(self) -> list[Job]:
        return [Job(job["jid"], job["name"], job["state"]) for job in self.rest("/jobs/overview")["jobs"]]

    def cancel(self, job: str) -> None:
        """Returns when the job has ended."""
        self.rest(f"/jobs/{job}?mode=cancel", "PATCH")
        self._await_end(job)

    def stop_with_savepoint(self, job: str) -> str:
        """Ends the job, and returns the savepoint that holds its state, for `--savepoint_path`."""
        request = self.rest(f"/jobs/{job}/stop", "POST", {"drain": False})["request-id"]

        def operation() -> Any:
            answer = self.rest(f"/jobs/{job}/savepoints/{request}")
            return answer["operation"] if answer["status"]["id"] == "COMPLETED" else None

        outcome = eventually(f"a savepoint of job {job}", operation)
        if "location" not in outcome:
            raise RuntimeError(f"job {job} has no savepoint: {outcome}")
        self._await_end(job)
        return str(outcome["location"])

    def checkpoints(self, job: str) -> Any:
        """Counts, sizes and the latest checkpoints, as Flink reports them."""
        return self.rest(f"/jobs/{job}/checkpoints")

    def metric(self, job: str, name: str) -> float:
        """A metric of this name, summed over all operators that have it and all their subtasks."""
        total = 0.0
        for vertex in self.rest(f"/jobs/{job}")["vertices"]:
            path = f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"
            ids = [metric["id"] for metric in self.rest(path) if metric["id"].endswith(name)]
            # One at a time: commas separate ids, and an id may contain commas.
            total += sum(
                value["sum"] for metric_id in ids for value in self.rest(f"{path}?get={quote(metric_id)}&agg=sum")
            )
        return total

    def dropped_late(self, job: str) -> float:
        """Elements that came after their window had expired. Flink knows the metric once it is not zero."""
        return self.metric(job, "droppedDueToLateness")

    def _await_end(self, job: str) -> None:
        eventually(f"the end of job {job}", lambda: self.rest(f"/jobs/{job}")["state"] in ENDED)
