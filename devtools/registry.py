"""A schema registry: Apicurio, through its interface that is compatible with Confluent's."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path

from devtools.processes import HOST, Service, free_port
from devtools.tools import install, need, run, version

POM = Path(__file__).parent / "registry" / "pom.xml"
ANSWER_SECONDS = 5.0


def apicurio(folder: Path | None = None) -> Path:
    """The folder of the registry's program."""

    def build(target: Path) -> None:
        need("java", "mvn")
        run(["mvn", "--quiet", "--batch-mode", "-f", POM, "dependency:get", "antrun:run", f"-Doutput={target}"])

    return install(f"apicurio-{version(POM, 'apicurio.version')}", build, folder)


class Registry(Service):
    """One registry on loopback; its database and its log stay in `directory`."""

    def __init__(self, directory: Path, *, port: int = 0, heap: str = "384m", tools: Path | None = None) -> None:
        super().__init__(directory)
        self.port, self._heap, self._tools = port or free_port(), heap, tools

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"

    def kill(self) -> None:
        """kill -9. What was registered stays, and start() brings the registry back on the same port."""
        while self.processes:
            self.processes.pop().kill()

    def pause(self) -> None:
        """It takes connections, and does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            process.signal(number)

    def _start(self) -> None:
        need("java")
        [program] = apicurio(self._tools).glob("*-runner.jar")
        settings = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": self.port,
            "quarkus.http.access-log.enabled": "false",
            # What was registered is on disk at once, also for a registry that is killed.
            "apicurio.datasource.url": f"jdbc:h2:file:{self.directory / 'data' / 'registry'};WRITE_DELAY=0",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        # Compiled once and lightly: it is started for some seconds of tests.
        java = ["java", f"-Xmx{self._heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self.run("registry", [*java, *options, "-jar", program]).wait(self._answers)

    def _answers(self) -> bool:
        with urllib.request.urlopen(f"{self.url}/schemas/types", timeout=ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
