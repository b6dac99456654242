"""The guides' commands, run as they stand there: every block of a shell is run, or says that it is not run here."""

import signal
import subprocess
import sys

import pytest

from devtools.processes import Process, eventually, stop
from devtools.tools import need, tools_folder
from tests.helpers.deployments import GUIDES, ROOT, read_blocks
from tests.helpers.tools import run_or_skip

MARKS = {"", "keep-running", "not-run-here"}
READY = ("Ctrl-C stops everything", "results go to")
"""Printed by commands that run until they are interrupted."""

LEFT_OUT = (".git", "build", ".pytest_tmp", ".pytest_cache")
"""Entries of the project's folder that are not its files, or that are written to."""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_of_a_guide_has_a_known_mark(guide):
    assert {mark for mark, _ in read_blocks(guide)} <= MARKS
    assert "```bash" not in guide.read_text()
    assert "```shell" not in guide.read_text()


@pytest.mark.slow
@pytest.mark.xdist_group("guides")  # whose commands name their ports
@pytest.mark.parametrize(
    "guide",
    [guide for guide in GUIDES if {"", "keep-running"} & {mark for mark, _ in read_blocks(guide)}],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_commands_of_a_guide_run(guide, tmp_path):
    """One after the other, in a folder with the project's files only; commands that go on are stopped at the end."""
    run_or_skip(need, "java", "mvn", "go", "curl")
    # On a fresh machine this takes minutes, which do not count towards the waiting for a command below.
    subprocess.run([sys.executable, "-m", "devtools", "install"], cwd=ROOT, check=True)
    home, temporary = tmp_path / "project", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    for path in ROOT.iterdir():
        if path.name not in LEFT_OUT:
            (home / path.name).symlink_to(path)
    environment = {"TMPDIR": str(temporary), "PYTHONPATH": str(home), "HUSHGRAM_TOOLS": str(tools_folder())}
    processes = []
    try:
        for number, (mark, commands) in enumerate(read_blocks(guide)):
            if mark == "not-run-here":
                continue
            script = f"cd {home}\nset -euo pipefail\n{commands}"
            process = Process(["bash", "-c", script], tmp_path / f"block-{number}.log", environment)
            processes.append(process)
            if mark == "keep-running":
                process.wait(lambda log=process.log: any(word in log.read_text() for word in READY))
            else:
                eventually(f"the end of block {number}", lambda finished=process: not finished.alive)
                assert process.returncode == 0, f"{commands}\n{process.tail()}"
            for other in processes:
                assert other.returncode in (None, 0), other.tail()
    finally:
        for process in reversed(processes):
            process.signal(signal.SIGINT)
        stop(processes, grace=30)
