"""The peers and their environment, build/peers/venv: made with pip, apart from ours, since pins would not agree."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "peers"
REQUIREMENTS = HERE / "requirements.txt"
PATIENCE = 1800
"""Seconds to wait for a peer: many times what it needs."""


class PeerError(Exception):
    """The reason, in one line, that a peer has no figures."""


@dataclass(frozen=True)
class Peer:
    """A library on PyPI: its distribution, its script here, and requirements that it does not declare itself."""

    distribution: str
    script: str
    extra_requirements: tuple[str, ...] = ()


PEERS = (
    Peer("pure-ldp", "pure_ldp", ("scikit-learn", "statsmodels")),
    Peer("multi-freq-ldpy", "multi_freq_ldpy", ("xxhash",)),
    Peer("opendp", "opendp", ("numpy",)),
)


def pinned(requirements: str) -> dict[str, str]:
    """Versions by distribution.

    >>> pinned("# pins\\npure-ldp==1.2.0\\nxxhash==3.8.2  # not 4\\n")
    {'pure-ldp': '1.2.0', 'xxhash': '3.8.2'}
    """
    lines = (line.partition("#")[0].strip() for line in requirements.splitlines())
    return dict(line.split("==") for line in lines if line)


def interpreter(folder: Path) -> Path:
    """The Python of the environment in `folder`, made if there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(folder)], "its environment cannot be made")
    return python


def install(peer: Peer, python: Path) -> None:
    """The peer at its pinned version; where it is installed already, pip sends no request."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    packages = [peer.distribution, *peer.extra_requirements]
    _run([*command, "--constraint", str(REQUIREMENTS), *packages], "it cannot be installed here")


def run(peer: Peer, python: Path, folder: Path, phase: str) -> str:
    """The answer of the peer's script to the task in `folder`."""
    answer = folder / f"{peer.distribution}-{phase}.json"
    answer.unlink(missing_ok=True)
    _run([str(python), "-m", f"benchmarks.peers.scripts.{peer.script}", str(folder), phase], "its script failed")
    try:
        return answer.read_text()
    except OSError:
        raise PeerError(f"its script left no {answer.name}") from None


def _run(command: list[str], failure: str) -> None:
    try:
        completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{failure}: no end after {PATIENCE} s") from None
    except OSError as error:
        raise PeerError(f"{failure}: {error.strerror}") from None
    if completed.returncode != 0:
        lines = [line.strip() for line in (completed.stderr or completed.stdout).splitlines() if line.strip()]
        raise PeerError(f"{failure}: {lines[-1] if lines else f'exit code {completed.returncode}'}")
