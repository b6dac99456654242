"""The Iceberg sink's laws of conflicts and schemas, on a real REST catalogue."""

import pytest

from tests.helpers.lake_laws import *  # noqa: F403


@pytest.fixture(autouse=True)
def on_rest(lake):
    """Every law is about this catalogue."""
