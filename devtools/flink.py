"""A Flink cluster, Beam's job server in front of it, and a pool of Python workers behind it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devtools.jobs import Jobs
from devtools.processes import HOST, Process, Service, free_port, listening
from devtools.tools import ROOT, install, need, run, version

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
}

METRICS_PORT = "metrics.internal.query-service.port"
TASK_MANAGER_PORTS = "taskmanager.rpc.port", "taskmanager.data.port", METRICS_PORT

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


def port(what: str) -> int:
    """A field of `Ports`; `what` describes it in the command's help."""
    return field(default=0, metadata={"what": what})


@dataclass(frozen=True)
class Ports:
    """Where the parts of a cluster listen; 0 is any free port."""

    flink: int = port("Flink's pages and REST interface are on")
    rpc: int = port("TaskManagers find the JobManager on")
    blob: int = port("TaskManagers fetch jars from the JobManager on")
    metrics: int = port("the JobManager tells its metrics on")
    job: int = port("pipelines are submitted to")
    artifact: int = port("pipelines send their files to")
    expansion: int = port("the job server expands Java's transforms on")
    pool: int = port("Python workers are asked for on")
    keeper: int = port("ZooKeeper is on, with --high-availability")

    def with_free_ports(self) -> Ports:
        """The same, with a free port for every 0."""
        return Ports(**{name: number or free_port() for name, number in vars(self).items()})


class Cluster(Service, Jobs):
    """A JobManager, TaskManagers, a job server and a worker pool, all on loopback; logs and state are in `directory`.

    `settings` are added to Flink's. Each TaskManager has more slots than a job needs of it, so that the job still has
    room when a TaskManager is gone. `task_manager_ports` is the first of the ports of TaskManagers, three for each.
    With `high_availability` there is a ZooKeeper too, from which a JobManager that is started anew learns of its jobs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        task_managers: int = 2,
        slots: int = 2,
        ports: Ports | None = None,
        task_manager_ports: int = 0,
        high_availability: bool = False,
        state: Path | None = None,
        settings: Mapping[str, object] | None = None,
        log_level: str = "INFO",
        tools: Path | None = None,
    ) -> None:
        Service.__init__(self, directory)
        self.ports = (ports or Ports()).with_free_ports()
        Jobs.__init__(self, f"{HOST}:{self.ports.flink}")
        self.job_endpoint, self.pool = f"{HOST}:{self.ports.job}", f"{HOST}:{self.ports.pool}"
        self.task_managers: list[Process] = []
        self._task_manager_count, self._slots, self._settings = task_managers, slots, settings or {}
        self._task_manager_ports, self._high_availability = task_manager_ports, high_availability
        self._state, self._log_level, self._tools = (state or self.directory).absolute(), log_level, tools
        self._task_managers_started = 0

    def options(self, parallelism: int | None = None) -> list[str]:
        """Beam options of a pipeline that is to run here; without a number, one subtask for each TaskManager."""
        return [
            "--runner=PortableRunner",
            f"--job_endpoint={self.job_endpoint}",
            "--environment_type=EXTERNAL",
            f"--environment_config={self.pool}",
            f"--parallelism={parallelism or self._task_manager_count}",
        ]

    def workers(self) -> list[int]:
        """The process ids of the Python workers."""
        pool = self.find_process("pool")
        return [pid for pid in pool.members() if pid != pool.pid]

    def kill_job_manager(self) -> None:
        """kill -9 of the JobManager. Without `high_availability` its jobs are lost with it."""
        self._kill("jobmanager")

    def start_job_manager(self) -> None:
        """Returns when the JobManager answers, and has heard of every TaskManager."""
        manager = self._run_job_manager()
        manager.wait(lambda: self.rest("/overview"))
        for process in self.task_managers:
            self._wait_for_task_manager(process)

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

    def kill_pool(self) -> None:
        """kill -9 of the worker pool and of all Python workers."""
        self._kill("pool")

    def start_pool(self) -> None:
        """Returns when workers can be asked for."""
        self._run_pool().wait(lambda: listening(self.pool))

    def find_process(self, name: str) -> Process:
        """The process of a part, by the name of its log: `jobmanager`, `pool`, `jobserver`, `zookeeper`."""
        return next(process for process in self.processes if process.name == name)

    def stop(self) -> None:
        super().stop()
        self.task_managers.clear()

    def _start(self) -> None:
        need("java")
        jar = job_server(self._tools)
        self._configure()
        if self._high_availability:
            keeper = self.run("zookeeper", [*self._script("zookeeper.sh"), "1"], self._environment)
            keeper.wait(lambda: listening(f"{HOST}:{self.ports.keeper}"))
        manager = self._run_job_manager()
        for _ in range(self._task_manager_count):
            self._run_task_manager()
        server = self._run_job_server(jar)
        pool = self._run_pool()
        manager.wait(lambda: self.rest("/overview"))
        for process in self.task_managers:
            self._wait_for_task_manager(process)
        server.wait(lambda: listening(self.job_endpoint))
        pool.wait(lambda: listening(self.pool))

    def _kill(self, name: str) -> None:
        process = self.find_process(name)
        self.processes.remove(process)
        process.kill()

    def _run_job_manager(self) -> Process:
        metrics = ["-D", f"{METRICS_PORT}={self.ports.metrics}"]
        return self.run("jobmanager", [*self._script("jobmanager.sh"), *metrics], self._environment)

    def _run_task_manager(self) -> Process:
        self._task_managers_started += 1
        name = f"taskmanager-{self._task_managers_started}"
        command = [*self._script("taskmanager.sh"), f"-Dtaskmanager.resource-id={name}"]
        if first := self._task_manager_ports:
            for number, setting in enumerate(
                TASK_MANAGER_PORTS, first + len(TASK_MANAGER_PORTS) * (self._task_managers_started - 1)
            ):
                command.append(f"-D{setting}={number}")
        self.task_managers.append(self.run(name, command, self._environment))
        return self.task_managers[-1]

    def _wait_for_task_manager(self, process: Process) -> None:
        """Its own name, not a number of them: a dead one is counted until its heartbeat is missed."""
        process.wait(lambda: process.name in [manager["id"] for manager in self.rest("/taskmanagers")["taskmanagers"]])

    def _run_job_server(self, jar: Path) -> Process:
        flags = {
            "flink-master": self.address,
            "job-host": HOST,
            "job-port": self.ports.job,
            "artifact-port": self.ports.artifact,
            "expansion-port": self.ports.expansion,
            "artifacts-dir": self.directory / "artifacts",
        }
        return self.run("jobserver", ["java", "-Xmx512m", "-jar", jar, *(f"--{k}={v}" for k, v in flags.items())])

    def _run_pool(self) -> Process:
        # The project's modules are importable by workers from wherever the cluster was started.
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "devtools.pool", str(self.ports.pool), "--log-level", self._log_level]
        return self.run("pool", command, {**ONE_THREAD, "PYTHONPATH": path})

    def _script(self, name: str) -> list[str | Path]:
        return [flink(self._tools) / "bin" / name, "start-foreground"]

    @property
    def _environment(self) -> dict[str, str]:
        folders = {"FLINK_CONF_DIR": "conf", "FLINK_LOG_DIR": "log", "FLINK_PID_DIR": "tmp"}
        return {name: str(self.directory / folder) for name, folder in folders.items()}

    def _configure(self) -> None:
        shipped_conf, conf = flink(self._tools) / "conf", self.directory / "conf"
        for name in ("conf", "log", "tmp"):
            (self.directory / name).mkdir(exist_ok=True)
        for file in shipped_conf.glob("log4j*"):
            shutil.copy(file, conf)
        # From Java 17 on, Flink needs packages of Java opened to it. The configuration it ships with lists them.
        java_options = re.search(r"^\s*all: (.*)$", (shipped_conf / "config.yaml").read_text(), re.MULTILINE)
        settings = {
            **SETTINGS,
            "env.java.opts.all": java_options[1] if java_options else "",
            "jobmanager.rpc.port": self.ports.rpc,
            "blob.server.port": self.ports.blob,
            "rest.port": self.ports.flink,
            "taskmanager.numberOfTaskSlots": self._slots,
            "io.tmp.dirs": self.directory / "tmp",
            "web.tmpdir": self.directory / "tmp",
            "state.checkpoints.dir": (self._state / "checkpoints").as_uri(),
            "state.savepoints.dir": (self._state / "savepoints").as_uri(),
            **(self._keeper_settings() if self._high_availability else {}),
            **self._settings,
        }
        (conf / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))

    def _keeper_settings(self) -> dict[str, object]:
        """Flink's settings for the ZooKeeper, whose own configuration file this writes."""
        zookeeper = {
            "clientPortAddress": HOST,
            "clientPort": self.ports.keeper,
            "dataDir": self.directory / "zookeeper",
        }
        zookeeper |= {"tickTime": 500, "admin.enableServer": "false"}
        (self.directory / "conf" / "zoo.cfg").write_text(
            "".join(f"{name}={value}\n" for name, value in zookeeper.items())
        )
        return {
            "high-availability.type": "zookeeper",
            "high-availability.jobmanager.port": self.ports.rpc,
            "high-availability.zookeeper.quorum": f"{HOST}:{self.ports.keeper}",
            "high-availability.storageDir": (self._state / "high-availability").as_uri(),
        }
