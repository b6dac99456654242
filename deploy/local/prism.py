"""Prism, Beam's runner for one machine, of the same version as the Beam that is installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from deploy.local.tools import install, need, run


def prism(folder: Path | None = None) -> Path:
    """The program, for `--prism_location`."""
    version = metadata.version("apache-beam")

    def build(target: Path) -> None:
        need("go")
        run(["go", "install", f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{version}"], {"GOBIN": str(target)})

    return install(f"prism-{version}", build, folder) / "prism"
