"""The stream and all it stands on, on this machine: broker, cluster, database, disks, and proxies in between."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg.rows import dict_row

from benchmarks.chaos.disks import Disk
from benchmarks.chaos.fleet import YAML
from benchmarks.chaos.proxy import Proxy
from devtools import Broker, Cluster, Postgres
from devtools.postgres import PASSWORD
from devtools.processes import HOST, Process, eventually, free_port, stop
from devtools.tools import ROOT
from hushgram.schemas.records import Snapshot
from hushgram.transforms.sinks.postgresql_table import TABLE

TOPIC, PARTITIONS, JOB = "reports", 4, "chaos"
TASK_MANAGERS = 2
RENAMED_TABLE = f"{TABLE}_away"
DISK_MEGABYTES = {"output": 512, "state": 768, "broker": 256, "database": 384}
FLINK_SETTINGS = {
    # A run has more faults in an hour than a cluster in years: neither shall restarts run out, nor their delay grow.
    "restart-strategy.fixed-delay.attempts": 2**31 - 1,
    "restart-strategy.fixed-delay.delay": "1 s",
}

LEADER_SECONDS = 60.0
"""A JobManager that has no leader for this long is started again."""


class Site:
    """Starts with `with`, and ends with it. `revive` does what a supervisor does: it starts again what has ended."""

    def __init__(self, folder: Path, with_disks: bool) -> None:
        self.folder, self.collections_file = folder, folder / "collections.yaml"
        folder.mkdir(parents=True)
        self.collections_file.write_text(YAML)
        disks = {name: Disk(folder / "disks" / name, size, with_disks) for name, size in DISK_MEGABYTES.items()}
        self.disks, self.output = disks, disks["output"].path / "results"
        self.database = Postgres(disks["database"].path / "postgres")
        broker_port = free_port()
        self.broker_proxy, self.database_proxy = Proxy(broker_port), Proxy(self.database.port)
        self.broker = Broker(
            disks["broker"].path / "kafka",
            port=broker_port,
            properties={"advertised.listeners": f"CLIENTS://{self.broker_proxy.address}"},
        )
        state = disks["state"].path
        self.cluster = Cluster(folder / "flink", high_availability=True, state=state, settings=FLINK_SETTINGS)
        self.job = ""
        self._stream: Process | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        for part in (self.broker_proxy, self.database_proxy, self.broker, self.database, self.cluster):
            self._stack.enter_context(part)
        self.broker.create_topic(TOPIC, PARTITIONS, **{"message.timestamp.type": "LogAppendTime"})
        with self.database.connect() as connection:  # or old write-ahead logs would fill the disk by themselves
            connection.execute("ALTER SYSTEM SET max_wal_size = '64MB'")
            connection.execute("SELECT pg_reload_conf()")
        self._stream = Process(self._command(), self.folder / "stream.log", {"PYTHONPATH": str(ROOT)})
        self._stack.callback(stop, [self._stream])
        self.job = eventually("the job to run", self._running_job, 120)

    def _command(self) -> Sequence[str | Path]:
        passwords = self.folder / "pgpass"
        passwords.write_text(f"*:*:*:*:{PASSWORD.replace(':', chr(92) + ':')}\n")
        passwords.chmod(0o600)
        address = f"{HOST}:{self.database_proxy.port}"
        sink = f"postgresql://hushgram@{address}/results?passfile={quote(str(passwords))}"
        source: list[str | Path] = ["--kafka", self.broker_proxy.address, "--topic", TOPIC]
        source += ["--collections", self.collections_file]
        results: list[str | Path] = ["--output", self.output, "--sink", sink, f"--job_name={JOB}"]
        return [sys.executable, "-m", "hushgram", "stream", *source, *results, *self.cluster.options()]

    def _running_job(self) -> str | None:
        assert self._stream is not None
        self._stream.check()
        return next((job.id for job in self.cluster.jobs() if job.name == JOB and job.state == "RUNNING"), None)

    def revive(self) -> list[str]:
        """Starts again whatever has ended, and returns its names; raises a `ProcessError` if that fails."""
        ended_parts = [name for name, alive in self._parts() if not alive]
        if "broker" in ended_parts:
            self.broker.kill()
            self.broker.start()
        if "database" in ended_parts:
            self.database.kill()
            self.database.start()
        for process in [manager for manager in self.cluster.task_managers if not manager.alive]:
            self.cluster.kill_task_manager(self.cluster.task_managers.index(process))
        if "JobManager" in ended_parts:
            if self._job_manager():
                self.cluster.kill_job_manager()
            self.cluster.start_job_manager()
        while len(self.cluster.task_managers) < TASK_MANAGERS:
            self.cluster.start_task_manager()
        if "worker pool" in ended_parts:
            if self._pool():
                self.cluster.kill_pool()
            self.cluster.start_pool()
        return ended_parts

    def problems(self) -> list[str]:
        """Differences from a healthy site: parts that ended, a job that does not run, TaskManagers that are missing."""
        problems = [f"{name} has ended" for name, alive in self._parts() if not alive]
        states = {job.id: job.state for job in self.cluster.jobs()}
        if states.get(self.job) != "RUNNING":
            problems.append(f"job {self.job} is {states.get(self.job, 'unknown')}")
        registered = [manager["id"] for manager in self.cluster.rest("/taskmanagers")["taskmanagers"]]
        problems += [
            f"{manager.name} is not registered"
            for manager in self.cluster.task_managers
            if manager.name not in registered
        ]
        return problems

    def rows(self) -> list[Snapshot]:
        """The snapshots in the table."""
        with self.database.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
            return [Snapshot.from_avro(row) for row in cursor.execute(f"SELECT * FROM {TABLE}").fetchall()]

    def sql(self, statement: str) -> list[Any]:
        with self.database.connect() as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def evidence(self) -> dict[str, Any]:
        """Flink's view of the job."""
        answers: dict[str, Any] = {}
        for path in ("", "/exceptions", "/checkpoints"):
            try:
                answers[path] = self.cluster.rest(f"/jobs/{self.job}{path}")
            except OSError as error:
                answers[path] = str(error)
        return answers

    def _parts(self) -> list[tuple[str, bool]]:
        """Every part that must run, and whether its processes do."""
        task_managers = self.cluster.task_managers
        return [
            ("broker", _alive(self.broker.processes)),
            ("database", _alive(self.database.processes) and self._database_answers()),
            ("JobManager", _alive(self._job_manager()) and self._has_leader()),
            ("TaskManager", len(task_managers) == TASK_MANAGERS and _alive(task_managers)),
            ("worker pool", _alive(self._pool())),
        ]

    def _job_manager(self) -> list[Process]:
        return [process for process in self.cluster.processes if process.name == "jobmanager"]

    def _pool(self) -> list[Process]:
        return [process for process in self.cluster.processes if process.name == "pool"]

    def _has_leader(self) -> bool:
        """A JobManager that was frozen for longer than its ZooKeeper session may never be elected again (Flink 1.19): a
        process that waits for ever. A liveness probe would restart it, and so does this harness."""

        def is_leading() -> bool:
            return not _alive(self._job_manager()) or isinstance(self.cluster.jobs(), list)

        try:
            eventually("the JobManager to lead", is_leading, LEADER_SECONDS)
        except TimeoutError:
            return False
        return _alive(self._job_manager())

    def _database_answers(self) -> bool:
        """A server that recovers, or shuts down after a full disk, is a process but not yet a database."""

        def is_answering() -> bool:
            try:
                self.sql("SELECT 1")
            except psycopg.OperationalError:
                return not _alive(self.database.processes)
            return True

        try:
            eventually("the database to answer", is_answering, 30)
        except TimeoutError:
            return False
        return _alive(self.database.processes)


def _alive(processes: Sequence[Process]) -> bool:
    return bool(processes) and all(process.alive for process in processes)
