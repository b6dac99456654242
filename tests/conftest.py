"""For every test: no deadline for the examples of a property, and no process that outlives it."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.leftovers import NoLeftovers

pytest.register_assert_rewrite("tests.helpers.lake_laws")  # tests that several files import

HERE = Path(__file__).parent
SLOW_FOLDERS = {HERE / name for name in ("benchmarks", "clients", "devtools", "engines")}
"""Servers, and what stands beside the product: `make test-fast` leaves them out."""

# No test asserts a time, and so neither do the examples of a property.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


def pytest_configure(config):
    # As a plugin of its own: hooks in this file are not called for fixtures of the session.
    config.pluginmanager.register(NoLeftovers(config), "no leftovers")


def pytest_collection_modifyitems(items):
    for item in items:
        if SLOW_FOLDERS & set(item.path.parents):
            item.add_marker(pytest.mark.slow)
