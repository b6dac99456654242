"""Debian's Chromium, for tests and measurements of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from deploy.local.tools import need

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
