"""The reference client, as a module: it is no part of the package."""

import importlib.util
import sys
from pathlib import Path

from devtools.go_client import conform_program
from devtools.java_client import java_command
from devtools.typescript_client import build_typescript

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
