"""No test asserts a time, and so neither do the examples of a property."""

from hypothesis import settings

settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")
