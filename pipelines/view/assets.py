"""What the browser gets beside data: the page's own files, and the plotting library from its Python package."""

from __future__ import annotations

import base64
import hashlib
import html
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hushgram.pipelines.cli.console import UsageError

SCRIPTS = (
    "words.js",
    "data.js",
    "shapes.js",
    "bands.js",
    "differences.js",
    "style.js",
    "distribution.js",
    "density.js",
    "changes.js",
    "time.js",
    "tables.js",
    "sides.js",
    "choice.js",
    "sections.js",
    "threshold.js",
    "compare.js",
    "trust.js",
    "export.js",
    "theme.js",
    "page.js",
)
"""In this order; the last one begins."""
PLOTLY = "plotly.js"
STATIC = Path(__file__).with_name("static")


@cache
def asset(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


@cache
def plotly() -> str:
    """The plotting library's one file. It is found without importing its package, which would take a second."""
    package = find_spec("plotly")
    if package is None or package.origin is None:
        raise UsageError("the page is drawn by plotly, which is not installed; pip install 'hushgram[view]'")
    path = Path(package.origin).with_name("package_data") / "plotly.min.js"
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"this plotly does not carry its library: {error}; pip install 'plotly>=6.3'") from None


def fill(title: str, head: str, data: str, scripts: str) -> tuple[str, str]:
    """The page around its parts, as what stands before and after the data that is asked for later.

    Without a title the page calls itself after what is on it.
    """
    text = asset("page.html")
    parts = {"title": html.escape(title), "given": " data-given" if title else ""}
    for name, part in {**parts, "head": head, "data": data, "scripts": scripts}.items():
        text = text.replace(f"<!--{name}-->", part)
    before, _, after = text.partition("<!--more-->")
    return before, after


def script_hash(text: str) -> str:
    """How a content security policy names a script that it lets run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
