"""Commands on a disk that is too small, in a mount namespace that ends with them.

As a script it runs inside the namespace: it mounts the disk, and runs each command in a fork of itself, so that
slow imports happen once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIZE = 16 * 1024


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: its exit code, its output, and the files that it left on the disk."""

    code: int
    out: str
    errors: str
    remaining: dict[str, int]
    """Sizes by path below the disk."""


def run_on_small_disk(folder: Path, disk: Path, commands: Sequence[Sequence[str]]) -> list[CommandResult]:
    """Runs `hushgram` once for each command. Before each the disk, at the empty directory `disk`, is empty."""
    command = [*enter_namespace(), sys.executable, __file__, folder, disk, json.dumps(list(map(list, commands)))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(list(map(str, command)), check=True, timeout=300, env=environment, cwd=ROOT)
    return [CommandResult(**result) for result in json.loads((folder / "ended.json").read_text())]


def enter_namespace() -> list[str]:
    """What a command begins with that may mount disks of its own."""
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], capture_output=True).returncode != 0:
        pytest.skip("mount namespaces are not allowed here")
    return namespace


def on_small_disk(command: Sequence[str | Path], disk: Path, kibibytes: int = 64) -> list[str]:
    """The command, with a disk of its own mounted at the empty directory `disk`."""
    mount = f'mount -t tmpfs -o size={kibibytes}k tmpfs "$0" && exec "$@"'
    return [*enter_namespace(), "sh", "-c", mount, str(disk), *map(str, command)]


def main(folder: str, disk: str, commands: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", disk], check=True)
    import hushgram.pipelines.aggregate  # noqa: F401 - once for all

    results = []
    for number, command in enumerate(json.loads(commands)):
        out, errors = (Path(folder) / f"{number}.{stream}" for stream in ("out", "err"))
        child = os.fork()
        if child == 0:
            _run(command, out, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        files = [path for path in Path(disk).rglob("*") if path.is_file()]
        remaining = {str(path.relative_to(disk)): path.stat().st_size for path in files}
        results.append({"code": code, "out": out.read_text(), "errors": errors.read_text(), "remaining": remaining})
        for path in Path(disk).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (Path(folder) / "ended.json").write_text(json.dumps(results))


def _run(command: list[str], out: Path, errors: Path) -> None:
    code = 1
    try:
        for descriptor, path in ((1, out), (2, errors)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
        from hushgram.pipelines.cli.command import main

        code = main(command)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
