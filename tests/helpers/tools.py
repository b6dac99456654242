"""Programs that a machine may lack: a test then says so and is skipped, or fails where `CI=true` wants all tested."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from devtools.tools import ToolMissingError

Found = TypeVar("Found")


def or_skip(start: Callable[..., Found], *arguments: object) -> Found:
    try:
        return start(*arguments)
    except ToolMissingError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
