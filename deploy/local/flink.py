"""A Flink cluster, Beam's job server in front of it, and a pool of Python workers behind it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.local.jobs import Jobs
from deploy.local.processes import HOST, Process, Service, free_port, listening
from deploy.local.tools import ROOT, install, need, run, version

POM = ROOT / "deploy" / "flink" / "jobserver" / "pom.xml"

SETTINGS = {
    "jobmanager.rpc.address": HOST,
    "jobmanager.bind-host": HOST,
    "jobmanager.memory.process.size": "1024m",
    "taskmanager.host": HOST,
    "taskmanager.bind-host": HOST,
    "taskmanager.memory.process.size": "1280m",
    "rest.address": HOST,
    "rest.bind-address": HOST,
    # A job of two subtasks is spread over both TaskManagers, so that the death of either is a real loss.
    "cluster.evenly-spread-out-slots": "true",
    "state.backend.type": "hashmap",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 20,
    "restart-strategy.fixed-delay.delay": "1 s",
    # A dead TaskManager is noticed in seconds; the default is almost a minute.
    "heartbeat.interval": 1000,
    "heartbeat.timeout": 6000,
    # Checkpoints fail while a TaskManager is away, and that must not end the job.
    "execution.checkpointing.tolerable-failed-checkpoints": 50,
}

# There is a worker for each slot: with more threads than cores they only wait for each other.
ONE_THREAD = dict.fromkeys(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"], "1")


def flink(folder: Path | None = None) -> Path:
    """Flink's home, from its Python package, which brings all of Flink; we need none of its Python."""
    release = version(POM, "flink.version")

    def build(target: Path) -> None:
        packages = [f"apache-flink=={release}", f"apache-flink-libraries=={release}"]
        run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, *packages])

    return install(f"flink-{release}", build, folder) / "pyflink"


def job_server(folder: Path | None = None) -> Path:
    """The jar of Beam's job server."""
    name = f"flink-{version(POM, 'flink.line')}-job-server-{version(POM, 'beam.version')}"

    def build(target: Path) -> None:
        need("java", "mvn")
        run(["mvn", "--quiet", "--batch-mode", "-f", POM, "package", f"-Doutput={target}"])

    return install(name, build, folder) / "flink-job-server.jar"


class Cluster(Service, Jobs):
    """A JobManager, TaskManagers, a job server and a worker pool, all on loopback; logs and state are in `directory`.

    `settings` are added to Flink's. Each TaskManager has more slots than a job needs of it, so that the job still has
    room when a TaskManager is gone.
    """

    def __init__(
        self,
        directory: Path,
        *,
        task_managers: int = 2,
        slots: int = 2,
        flink_port: int = 0,
        job_port: int = 0,
        pool_port: int = 0,
        settings: Mapping[str, object] | None = None,
        log_level: str = "INFO",
        tools: Path | None = None,
    ) -> None:
        Service.__init__(self, directory)
        Jobs.__init__(self, f"{HOST}:{flink_port or free_port()}")
        self.job_endpoint, self.pool = f"{HOST}:{job_port or free_port()}", f"{HOST}:{pool_port or free_port()}"
        self.task_managers: list[Process] = []
        self._wanted, self._slots, self._settings = task_managers, slots, settings or {}
        self._log_level, self._tools = log_level, tools
        self._numbered = 0

    def options(self, parallelism: int | None = None) -> list[str]:
        """Beam options of a pipeline that is to run here; without a number, one subtask for each TaskManager."""
        return [
            "--runner=PortableRunner",
            f"--job_endpoint={self.job_endpoint}",
            "--environment_type=EXTERNAL",
            f"--environment_config={self.pool}",
            f"--parallelism={parallelism or self._wanted}",
        ]

    def workers(self) -> list[int]:
        """The process ids of the Python workers."""
        pool = next(process for process in self.processes if process.name == "pool")
        return [pid for pid in pool.members() if pid != pool.pid]

    def kill_task_manager(self, index: int = 0) -> None:
        """kill -9 of a TaskManager; `index` is its place in `task_managers`. Its workers end by themselves."""
        process = self.task_managers.pop(index)
        self.processes.remove(process)
        process.kill()

    def start_task_manager(self) -> Process:
        """One more TaskManager; returns when the cluster has it."""
        process = self._run_task_manager()
        self._wait_for_task_manager(process)
        return process

    def stop(self) -> None:
        super().stop()
        self.task_managers.clear()

    def _start(self) -> None:
        need("java")
        jar = job_server(self._tools)
        self._configure()
        manager = self.run("jobmanager", self._script("jobmanager.sh"), self._environment)
        for _ in range(self._wanted):
            self._run_task_manager()
        server = self._run_job_server(jar)
        pool = self._run_pool()
        manager.wait(lambda: self.rest("/overview"))
        for process in self.task_managers:
            self._wait_for_task_manager(process)
        server.wait(lambda: listening(self.job_endpoint))
        pool.wait(lambda: listening(self.pool))

    def _run_task_manager(self) -> Process:
        self._numbered += 1
        name = f"taskmanager-{self._numbered}"
        command = [*self._script("taskmanager.sh"), f"-Dtaskmanager.resource-id={name}"]
        self.task_managers.append(self.run(name, command, self._environment))
        return self.task_managers[-1]

    def _wait_for_task_manager(self, process: Process) -> None:
        """Its own name, not a number of them: a dead one is counted until its heartbeat is missed."""
        process.wait(lambda: process.name in [each["id"] for each in self.rest("/taskmanagers")["taskmanagers"]])

    def _run_job_server(self, jar: Path) -> Process:
        port = self.job_endpoint.rpartition(":")[2]
        flags = {
            "flink-master": self.address,
            "job-host": HOST,
            "job-port": port,
            "artifact-port": free_port(),
            "expansion-port": free_port(),
            "artifacts-dir": self.directory / "artifacts",
        }
        return self.run("jobserver", ["java", "-Xmx512m", "-jar", jar, *(f"--{k}={v}" for k, v in flags.items())])

    def _run_pool(self) -> Process:
        port = self.pool.rpartition(":")[2]
        # The project's modules are importable by workers from wherever the cluster was started.
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "deploy.local.pool", port, "--log-level", self._log_level]
        return self.run("pool", command, {**ONE_THREAD, "PYTHONPATH": path})

    def _script(self, name: str) -> list[str | Path]:
        return [flink(self._tools) / "bin" / name, "start-foreground"]

    @property
    def _environment(self) -> dict[str, str]:
        folders = {"FLINK_CONF_DIR": "conf", "FLINK_LOG_DIR": "log", "FLINK_PID_DIR": "tmp"}
        return {name: str(self.directory / folder) for name, folder in folders.items()}

    def _configure(self) -> None:
        shipped, conf = flink(self._tools) / "conf", self.directory / "conf"
        for name in ("conf", "log", "tmp"):
            (self.directory / name).mkdir(exist_ok=True)
        for file in shipped.glob("log4j*"):
            shutil.copy(file, conf)
        # From Java 17 on, Flink needs packages of Java opened to it. The configuration it ships with lists them.
        opens = re.search(r"^\s*all: (.*)$", (shipped / "config.yaml").read_text(), re.MULTILINE)
        settings = {
            **SETTINGS,
            "env.java.opts.all": opens[1] if opens else "",
            "jobmanager.rpc.port": free_port(),
            "rest.port": self.address.rpartition(":")[2],
            "taskmanager.numberOfTaskSlots": self._slots,
            "io.tmp.dirs": self.directory / "tmp",
            "web.tmpdir": self.directory / "tmp",
            "state.checkpoints.dir": (self.directory / "checkpoints").as_uri(),
            "state.savepoints.dir": (self.directory / "savepoints").as_uri(),
            **self._settings,
        }
        (conf / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
