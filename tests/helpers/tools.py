"""Programs that a machine may lack: a test then says so and is skipped, or fails where `CI=true` wants all tested."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from devtools.tools import ToolMissingError

Result = TypeVar("Found")


def run_or_skip(start: Callable[..., Result], *arguments: object) -> Result:
    try:
        return start(*arguments)
    except ToolMissingError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
