"""An Iceberg REST catalogue."""

from __future__ import annotations

from pathlib import Path

from devtools.processes import HOST, Service, free_port, listening
from devtools.tools import install, need, run, version

SOURCE = Path(__file__).parent / "iceberg"
POM, PROGRAM = SOURCE / "pom.xml", SOURCE / "CatalogServer.java"
NAME, TOKEN = "lake", "not a secret: the server listens on loopback only"


def catalog_jars(folder: Path | None = None) -> Path:
    """The folder of the catalogue's jars."""

    def build(target: Path) -> None:
        need("java", "mvn")
        run(["mvn", "--quiet", "--batch-mode", "-f", POM, "dependency:copy-dependencies", f"-Doutput={target}"])

    return install(f"iceberg-{version(POM, 'iceberg.version')}", build, folder)


class IcebergCatalog(Service):
    """Iceberg's reference implementation on loopback; tables, the list of them and the log stay in `directory`."""

    def __init__(self, directory: Path, *, port: int = 0, tools: Path | None = None) -> None:
        super().__init__(directory)
        self.address, self._tools = f"{HOST}:{port or free_port()}", tools

    @property
    def environment(self) -> dict[str, str]:
        """The configuration of pyiceberg for a client of the catalogue, under the name `lake`."""
        prefix = f"PYICEBERG_CATALOG__{NAME.upper()}__"
        return {f"{prefix}TYPE": "rest", f"{prefix}URI": f"http://{self.address}", f"{prefix}TOKEN": TOKEN}

    def kill(self) -> None:
        """kill -9. The tables stay, and start() brings the catalogue back on the same port."""
        while self.processes:
            self.processes.pop().kill()

    def _start(self) -> None:
        need("java")
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        port = self.address.rpartition(":")[2]
        classes = f"{catalog_jars(self._tools)}/*"
        command: list[str | Path] = ["java", *options, "-cp", classes, PROGRAM, port, self.directory]
        self.run("catalog", command, {"TOKEN": TOKEN}).wait(lambda: listening(self.address))
