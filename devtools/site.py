"""The hook of `mkdocs build`: guides beside what they describe become pages of the site, and links follow them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
GUIDES = (
    *("deploy/README.md", "deploy/flink/README.md", "deploy/dataflow/README.md"),
    *("deploy/compose.yaml", "deploy/prometheus/rules.yaml"),
)
LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for guide in GUIDES:
        files.append(File.generated(config, guide, abs_src_path=str(ROOT / guide)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    path = page.file.src_uri
    return relocate_links(markdown, path if path in GUIDES else f"docs/{path}")


def relocate_links(markdown: str, path: str) -> str:
    """Relative links of a file of the repository, as they are on the site, whose root is `docs`.

    >>> relocate_links("[a](../deploy/README.md#security), [b](tour.md), [c](#d)", "docs/index.md")
    '[a](deploy/README.md#security), [b](tour.md), [c](#d)'
    >>> relocate_links("[a](../docs/sizing.md), [b](flink/README.md)", "deploy/README.md")
    '[a](../sizing.md), [b](flink/README.md)'
    """
    start = posixpath.dirname(path).removeprefix("docs") or "."

    def relocate(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[2])).removeprefix("docs/")
        return match[1] + posixpath.relpath(target, start)

    return LINK.sub(relocate, markdown)
