"""The reference client, as a module: it is no part of the package."""

import importlib.util
import sys
from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "clients" / "python" / "hushgram_client.py"


def load_reference(name="hushgram_client"):
    specification = importlib.util.spec_from_file_location(name, REFERENCE)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


reference = load_reference()

CLIENTS = {"python": [sys.executable, str(REFERENCE), "--conform"]}
"""How each client is started to answer `hushgram conform`."""
