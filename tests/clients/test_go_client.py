"""The client in Go by its own tests: faults of storage, clock and server, two processes at once, restarts."""

import os
import subprocess

from devtools.go_client import ENVIRONMENT, SOURCES
from devtools.tools import need
from tests.helpers.tools import run_or_skip


def go(*command):
    run_or_skip(need, "go")
    completed = subprocess.run(
        command, cwd=SOURCES, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=600
    )
    return completed.returncode, completed.stdout + completed.stderr


def test_its_own_tests_pass():
    code, output = go("go", "test", "-count=1", "./...")
    assert code == 0, output[-5000:]
    assert "ok  " in output


def test_it_is_vetted():
    assert go("go", "vet", "./...") == (0, "")


def test_it_is_formatted():
    assert go("gofmt", "-l", ".") == (0, "")


def test_it_depends_on_the_standard_library_alone():
    code, output = go("go", "list", "-m", "all")
    assert (code, output.split()) == (0, ["hushgram.dev/client"])
