"""For tools that ask for a setup.py, Beam's `--setup_file` among them; everything it says is in pyproject.toml."""

from setuptools import setup

setup()
