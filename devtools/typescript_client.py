"""The TypeScript client, built once for each state of its sources, without leaving anything in its folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from devtools.tools import ROOT, digest, install, need, run

SOURCES = ROOT / "clients" / "typescript"
PACKAGES = ("package.json", "package-lock.json", ".npmrc")


def build_typescript() -> Path:
    """A copy of the client with its `dist`; its compilers come from npm, as the lock file pins them."""
    need("node", "npm")
    packages = install(f"typescript-packages-{digest([SOURCES / name for name in PACKAGES])}", _fetch)
    sources = [path for path in SOURCES.rglob("*") if path.is_file() and not {"node_modules", "dist"} & set(path.parts)]

    def build(folder: Path) -> None:
        for path in sources:
            target = folder / path.relative_to(SOURCES)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        (folder / "node_modules").symlink_to(packages / "node_modules")
        run(["npm", "--prefix", folder, "run", "build"])

    return install(f"typescript-client-{digest(sources)}", build)


def _fetch(folder: Path) -> None:
    for name in PACKAGES:
        shutil.copy(SOURCES / name, folder)
    run(["npm", "--prefix", folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund"])


if __name__ == "__main__":  # as in `node $(python -m devtools.typescript_client)/dist/conform.js`
    print(build_typescript())
