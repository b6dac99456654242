"""Debian's Chromium, for tests and measurements of the page."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from devtools.tools import need

OPTIONS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window, and without anything of its own on the network."""
    need("chromium")
    options = [*OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]  # its sandbox is not for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        yield browser
        browser.close()


def photograph(address: str, picture: str, section: str = "") -> None:
    """What a person sees of a page of `hushgram view` when it has opened, or one section of it."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 960}, color_scheme="light")
        page.goto(address)
        page.wait_for_selector("html[data-drawn]")
        if section:
            page.locator(f"#{section}").screenshot(path=picture)
        else:
            page.screenshot(path=picture)


if __name__ == "__main__":  # as in `python -m devtools.browser "file://$PWD/build/demo/page.html" docs/view.png`
    photograph(*sys.argv[1:])
