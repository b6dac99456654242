"""For every test: no deadline for the examples of a property, and no process that outlives it."""

from hypothesis import settings

from tests.helpers.leftovers import NoLeftovers

# No test asserts a time, and so neither do the examples of a property.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


def pytest_configure(config):
    # As a plugin of its own: hooks in this file are not called for fixtures of the session.
    config.pluginmanager.register(NoLeftovers(config), "no leftovers")
