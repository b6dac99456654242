"""Examples in documents, to be run."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def read_examples(document: str, section: str, language: str) -> list[str]:
    """The fenced blocks of one language below one heading."""
    text = (DOCS / document).read_text(encoding="utf-8")
    [body] = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
