"""Beam's programs that are written in Go, of the same version as the Beam that is installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from devtools.tools import install, need, run

MODULE = "github.com/apache/beam/sdks/v2"


def prism(folder: Path | None = None) -> Path:
    """Beam's runner for one machine, for `--prism_location`."""
    return _build_program("prism", "go/cmd/prism", folder)


def boot(folder: Path | None = None) -> Path:
    """What starts a Python worker in Beam's images: it installs what the job has staged, then runs Python."""
    return _build_program("boot", "python/container", folder)


def _build_program(name: str, package: str, folder: Path | None) -> Path:
    version = metadata.version("apache-beam")

    def build(target: Path) -> None:
        need("go")
        run(["go", "install", f"{MODULE}/{package}@v{version}"], {"GOBIN": str(target)})

    return install(f"{name}-{version}", build, folder) / package.rpartition("/")[2]
