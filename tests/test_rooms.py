"""The rooms of the house: imports point one way, and the mathematics needs nothing but numpy and scipy."""

import ast
import subprocess
import sys
import tomllib
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


SHIPPED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_package_is_shipped():
    """What is not named would be found here, where the tests run, and missing on every worker."""
    rooms = [ROOT / room for room in ROOMS if room != "deploy"]
    packages = {path.parent.relative_to(ROOT) for room in rooms for path in room.rglob("*.py")}
    assert {".".join(package.parts) for package in packages} == set(SHIPPED["packages"])


def test_every_file_beside_the_code_is_shipped():
    shipped = {
        path
        for package, patterns in SHIPPED["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    tracked = subprocess.run(["git", "ls-files", *ROOMS[:-1]], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {ROOT / line for line in tracked.stdout.splitlines() if not line.endswith(".py")}
    assert found <= shipped, f"not in package-data: {found - shipped}"
