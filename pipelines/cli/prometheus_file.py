"""The file of gauges that an option names, checked before any work begins."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from hushgram.pipelines.cli.console import UsageError


def prometheus_file(option: str, given: str, path: str, form: str, here: bool = True) -> str:
    """The absolute path, or the line that says what is wrong with the option; `here` if this machine will write it."""
    if find_spec("prometheus_client") is None:
        raise UsageError(f"{option} {given}: prometheus-client is not installed; pip install 'hushgram[prometheus]'")
    file = Path(path).absolute()
    if file.suffix != ".prom" or not file.stem or "://" in path or file.is_dir():
        why = "the node exporter collects no other names, from a directory of its machine"
        raise UsageError(f"{option}: got {given!r}, allowed: {form}: {why}")
    if here and not os.access(file.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {given}: no directory {file.parent} that can be written")
    return str(file)
