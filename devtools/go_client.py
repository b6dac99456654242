"""The client in Go, built from `clients/go`; a change of its sources is another build."""

from __future__ import annotations

from pathlib import Path

from devtools.tools import ROOT, digest, install, need, run

SOURCES = ROOT / "clients" / "go"
ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
"""Neither a C compiler nor another version of Go is fetched or needed."""


def conform_program(folder: Path | None = None) -> Path:
    """The program that answers `hushgram conform`."""

    def build(target: Path) -> None:
        need("go")
        run(["go", "build", "-C", SOURCES, "-o", target / "conform", "./cmd/conform"], ENVIRONMENT)

    sources = [SOURCES / "go.mod", *SOURCES.rglob("*.go")]
    return install(f"go-client-{digest(sources)}", build, folder) / "conform"
