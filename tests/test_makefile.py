"""The Makefile: the demo installs what it needs and no more, and two ways to set up do not undo one another."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEMO, ALL = "'.[beam,view]'", "'.[all,dev,docs]'"


@pytest.fixture
def clone(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("schemas/decoder.c", "schemas/mix.h", "transforms/ids.c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def list_commands(clone, target):
    """The commands that a target would run."""
    # Also where `make test` is what runs this: a make below another one prints more.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-n", target]
    return subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=True).stdout


def mark_installed(clone, *markers):
    """Marks these as installed."""
    (clone / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("bin/python", *markers):
        (clone / ".venv" / name).touch()


def test_a_fresh_clone_installs_what_each_target_needs(clone):
    demo, setup = list_commands(clone, "demo"), list_commands(clone, "setup")
    assert "-m venv .venv" in demo
    assert (DEMO in demo, ALL in demo) == (True, False)
    assert (DEMO in setup, ALL in setup) == (False, True)
    assert "--quiet" not in demo + setup, "minutes without a word"


def test_after_the_demo_everything_is_still_to_be_installed(clone):
    mark_installed(clone, "demo-ready")
    demo, setup = list_commands(clone, "demo"), list_commands(clone, "setup")
    assert "pip install" not in demo
    assert ALL in setup
    assert "-m venv" not in demo + setup


def test_after_setup_the_demo_installs_nothing(clone):
    assert "touch .venv/ready .venv/demo-ready" in list_commands(clone, "setup")
    mark_installed(clone, "ready", "demo-ready")
    assert "pip install" not in list_commands(clone, "demo") + list_commands(clone, "setup")


def test_the_demo_ends_with_the_page_and_the_next_step(clone):
    *_, page, next_step = list_commands(clone, "demo").strip().splitlines()
    assert f"file://{clone}/build/demo/page.html" in page
    assert "hushgram try" in next_step


@pytest.mark.parametrize("name", ["schemas/decoder.c", "schemas/mix.h", "transforms/ids.c", "pyproject.toml"])
def test_what_was_changed_is_built_again(clone, name):
    mark_installed(clone, "ready", "demo-ready")
    assert "pip install" not in list_commands(clone, "setup")
    later = (clone / ".venv" / "ready").stat().st_mtime + 10
    os.utime(clone / name, (later, later))
    assert "pip install" in list_commands(clone, "setup")
