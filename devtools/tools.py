"""Programs that are fetched or built once, into a folder of the project; a name there carries its version."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
LOG = logging.getLogger(__name__)

HOW_TO_GET = {
    "java": "Flink, Kafka, Iceberg and clients need Java 17 or later: on Debian `apt-get install default-jdk-headless`",
    "mvn": "Flink, Kafka, a registry, Iceberg and a client come by Maven: on Debian `apt-get install maven`",
    "go": "Prism, Beam's boot program and a client are built from source, with Go 1.25 or later: see https://go.dev/doc/install",
    "initdb": "the tables are tested on a PostgreSQL server: on Debian `apt-get install postgresql`",
    "setpriv": "PostgreSQL refuses to be run by root: on Debian `apt-get install util-linux`",
    "curl": "the guide asks Flink with curl: on Debian `apt-get install curl`",
    "chromium": "the page is tested and measured in a browser: on Debian `apt-get install chromium`",
    "promtool": "alert rules are tested by Prometheus' own program: on Debian `apt-get install prometheus`",
    "prometheus": "queries of dashboards are run by Prometheus: on Debian `apt-get install prometheus`",
    "node": "the TypeScript client is run by Node.js 20 or later: on Debian `apt-get install nodejs`",
    "npm": "the TypeScript client is built by packages of npm: on Debian `apt-get install npm`",
    "wrk": "the collector is measured with wrk: on Debian `apt-get install wrk`",
    "ps": "processes are watched with ps: on Debian `apt-get install procps`",
}


class ToolMissingError(RuntimeError):
    """A program that this machine does not have; the message says how to get it."""


class InstallError(RuntimeError):
    """The last lines that the failing command printed."""


def need(*programs: str) -> None:
    """All of them are on PATH, or one error names every missing one."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise ToolMissingError("; ".join(f"no {program} on PATH. {HOW_TO_GET[program]}" for program in missing))


def tools_folder() -> Path:
    return Path(os.environ.get("HUSHGRAM_TOOLS") or ROOT / ".tools").absolute()


def digest(paths: Iterable[Path]) -> str:
    """Of the names and contents of some files of the project: what is built from them is kept under it."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def version(pom: Path, name: str) -> str:
    """A property of a pom: the poms are the one source of versions."""
    value = ElementTree.parse(pom).findtext(
        f"m:properties/m:{name}", namespaces={"m": "http://maven.apache.org/POM/4.0.0"}
    )
    if value is None:
        raise KeyError(f"{pom} has no property {name}")
    return value


def install(name: str, build: Callable[[Path], None], folder: Path | None = None) -> Path:
    """The folder `name`, which `build` fills if it is not there yet.

    One process builds while others wait for it; one lock for all, since Maven's cache is not made for two. The name
    appears when all is done, so an interrupted build is not taken for a whole one; the next attempt starts over.
    """
    folder = (folder or tools_folder()).absolute()
    target, partial = folder / name, folder / f".{name}.partial"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        if not target.exists():
            LOG.info("installing %s", name)
            start = time.monotonic()
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            build(partial)
            partial.rename(target)
            LOG.info("installed %s in %.0f s", target, time.monotonic() - start)
    return target


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
    """A step of an installation, silent unless it fails."""
    completed = subprocess.run(
        list(map(str, command)),
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if completed.returncode:
        raise InstallError(
            f"{' '.join(map(str, command))} ended with {completed.returncode}:\n{completed.stdout[-3000:]}"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Between processes; the system gives the lock back when its holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
