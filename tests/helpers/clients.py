"""The reference client, as a module: it is no part of the package."""

import importlib.util
import sys
from pathlib import Path

from devtools.java_client import java_command
from tests.helpers.tools import run_or_skip

REFERENCE = Path(__file__).parents[2] / "clients" / "python" / "hushgram_client.py"


def load_reference(name="hushgram_client"):
    specification = importlib.util.spec_from_file_location(name, REFERENCE)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


reference = load_reference()


class Commands(dict):
    """How clients are started; one that has to be built is, when it is first asked for."""

    def __getitem__(self, name):
        return run_or_skip(super().__getitem__(name))


CLIENTS = Commands(
    python=lambda: [sys.executable, str(REFERENCE), "--conform"],
    java=lambda: java_command("Conform"),
)
"""How each client is started to answer `hushgram conform`."""
