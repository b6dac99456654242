"""The rooms of the house: imports point one way, and the mathematics needs nothing but numpy and scipy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("hushgram", "schemas", "transforms", "pipelines", "deploy")
MATHEMATICS_NEEDS = {"hushgram", "numpy", "scipy", "yaml"}


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("room", [room for room in ROOMS if (ROOT / room).is_dir()])
def test_a_room_imports_only_from_the_rooms_above_it(room):
    below = set(ROOMS[ROOMS.index(room) + 1 :])
    for path in (ROOT / room).rglob("*.py"):
        assert not _imports(path) & below, path


def test_the_mathematics_imports_numpy_and_scipy_only():
    for path in (ROOT / "hushgram").rglob("*.py"):
        foreign = _imports(path) - set(sys.stdlib_module_names) - MATHEMATICS_NEEDS
        assert not foreign, path


def test_importing_hushgram_loads_neither_beam_nor_avro_nor_yaml():
    code = "import hushgram, sys; print([m for m in ('apache_beam', 'fastavro', 'polars', 'yaml') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
