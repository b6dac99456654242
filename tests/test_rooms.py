"""The rooms of the house: imports point one way, and the mathematics needs nothing but numpy and scipy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("hushgram", "hushgram.schemas", "hushgram.transforms", "hushgram.pipelines", "deploy")
"""From the mathematics down; a room may import from those before it."""
FOLDERS = {room: ROOT / room.rpartition(".")[2] for room in ROOMS}
LINKS = ("schemas", "transforms", "pipelines")
DOORS = {"__main__.py", "beam.py"}
"""Files of `hushgram/` that only re-export names of the other rooms."""
MATHEMATICS_NEEDS = {"hushgram", "numpy", "scipy", "yaml"}


def _files(room: str) -> list[Path]:
    paths = FOLDERS[room].rglob("*.py")  # does not follow links
    return [path for path in paths if room != "hushgram" or path.name not in DOORS]


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _room(module: str) -> str:
    """The innermost room that a module lies in; elsewhere, its package."""
    inner = [room for room in ROOMS if f"{module}.".startswith(f"{room}.")]
    return max(inner, key=len, default=module.partition(".")[0])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_the_rooms_above_it(room):
    assert _files(room)
    below = {*ROOMS[ROOMS.index(room) + 1 :], *LINKS, "devtools", "benchmarks", "tests"}
    for path in _files(room):
        assert not {_room(module) for module in _imports(path)} & below, path


def test_the_mathematics_imports_numpy_and_scipy_only():
    for path in _files("hushgram"):
        packages = {module.partition(".")[0] for module in _imports(path)}
        assert not packages - set(sys.stdlib_module_names) - MATHEMATICS_NEEDS, path


def test_importing_hushgram_loads_nothing_until_it_is_used():
    """The command lies in this package, and answers to signals before anything slow is loaded."""
    code = "import hushgram, sys; print([m for m in ('numpy', 'scipy', 'apache_beam', 'yaml') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_using_hushgram_loads_neither_beam_nor_avro_nor_yaml():
    code = (
        "import hushgram, sys; hushgram.Collection(name='c', low=0, high=1, epsilon=1).report(0.5);"
        "print([m for m in ('apache_beam', 'fastavro', 'polars', 'yaml') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_hushgram_lists_its_public_names():
    import hushgram

    assert {name for name in dir(hushgram) if name in hushgram.__all__} == set(hushgram.__all__)
    assert all(getattr(hushgram, name).__module__.startswith("hushgram.") for name in hushgram.__all__)
    with pytest.raises(AttributeError, match="module 'hushgram' has no attribute 'colection'"):
        hushgram.colection  # noqa: B018
