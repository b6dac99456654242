"""The client in Go, built from `clients/go`; a change of its sources is another build."""

from __future__ import annotations

import hashlib
from pathlib import Path

from devtools.tools import ROOT, install, need, run

SOURCES = ROOT / "clients" / "go"
ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
"""Neither a C compiler nor another version of Go is fetched or needed."""


def conform_program(folder: Path | None = None) -> Path:
    """The program that answers `hushgram conform`."""

    def build(target: Path) -> None:
        need("go")
        run(["go", "build", "-C", SOURCES, "-o", target / "conform", "./cmd/conform"], ENVIRONMENT)

    return install(f"go-client-{_digest()}", build, folder) / "conform"


def _digest() -> str:
    digest = hashlib.sha256()
    for path in sorted([SOURCES / "go.mod", *SOURCES.rglob("*.go")]):
        digest.update(f"{path.relative_to(SOURCES)}\n{path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
