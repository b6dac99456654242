"""What a result depends on, in one number: results of an earlier run are taken only if it is still the same."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from benchmarks.datasets import BUNDLED

ROOT = Path(__file__).parents[2]
LIBRARIES = ("numpy", "scipy")

_LIST_MODULES = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*filter(None, (getattr(module, "__file__", None) for module in list(sys.modules.values()))), sep="\\n")
"""


@lru_cache
def code_fingerprint(module: str) -> str:
    """Changes with the program of every file that a module imports, the bundled data, and the libraries' versions."""
    digest = hashlib.sha256()
    for part in _parts(module):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _parts(module: str) -> Iterator[bytes]:
    for path in import_closure(module):
        yield str(path.relative_to(ROOT)).encode()
        yield essence(path.read_text(encoding="utf-8")).encode()
    for path in sorted(BUNDLED.glob("*.npz")):
        yield path.read_bytes()
    for library in LIBRARIES:
        yield f"{library} {version(library)}".encode()


def import_closure(module: str) -> list[Path]:
    """The files of this repository that are loaded when a module is imported, as a fresh interpreter tells."""
    listing = subprocess.run(
        [sys.executable, "-c", _LIST_MODULES, module], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = {Path(line).resolve() for line in listing.stdout.splitlines()}
    outside = (ROOT / ".venv").resolve()  # where libraries may live
    return sorted(path for path in paths if path.is_relative_to(ROOT.resolve()) and not path.is_relative_to(outside))


def essence(source: str) -> str:
    """A program without its comments, layout and docstrings, on which no result depends.

    >>> essence('x = 1  # one') == essence('"A number."\\nx = (1)')
    True
    """
    return ast.dump(_WithoutDocstrings().visit(ast.parse(source)))


class _WithoutDocstrings(ast.NodeTransformer):
    """Strings that are statements are there for people."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node
