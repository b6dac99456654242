"""The clients: how each is started, and the reference as a module, since it is no part of the package."""

import importlib.util
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from devtools.go_client import conform_program
from devtools.java_client import java_command
from devtools.typescript_client import build_typescript
from hushgram import Collection
from hushgram.pipelines.conform.program import Program

WEEK = 7 * 86_400_000
MONDAY = 1_767_571_200_000 // WEEK * WEEK
"""The beginning of a period of a week."""
REFERENCE = Path(__file__).parents[2] / "clients" / "python" / "hushgram_client.py"


def load_reference(name="hushgram_client"):
    specification = importlib.util.spec_from_file_location(name, REFERENCE)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


reference = load_reference()

CLIENTS = {
    "python": lambda: [sys.executable, str(REFERENCE), "--conform"],
    "typescript": lambda: ["node", str(build_typescript() / "dist" / "conform.js")],
    "java": lambda: java_command("Conform"),
    "go": lambda: [str(conform_program())],
}
"""How each client is started to answer `hushgram conform`; it is built if it must be."""


def commute(**changes: Any) -> Collection:
    """The collection of most tests, with these changes."""
    return Collection(**{"name": "commute", "low": 0, "high": 180, "epsilon": 1.0, "buckets": 64, **changes})


def ask_for_messages(
    client: Program, collection: Collection, values: Sequence[float], group: str, time: int, together: int = 1
) -> Iterator[bytes]:
    """A client's reports of values, each a message of its own, or `together` of one value to a batch."""
    manifest = {"manifest": collection.manifest()}
    name, repeat = ("batch", {"repeat": together}) if together > 1 else ("report", {})
    for value in values:
        request = {"value": repr(float(value)), "group": group, "time": time, "id": secrets.token_hex(16)}
        yield bytes.fromhex(client.ask({**manifest, **request, **repeat})[name])
        manifest = {}
