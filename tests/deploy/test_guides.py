"""The guides' commands, run as they stand there: every block of a shell is run, or says that it is not run here."""

import signal
import subprocess
import sys

import pytest

from devtools.processes import Process, eventually, stop
from devtools.tools import need, tools_folder
from tests.helpers.deployments import GUIDES, ROOT, blocks
from tests.helpers.tools import or_skip

MARKS = {"", "keep-running", "not-run-here"}
READY = ("Ctrl-C stops everything", "results go to")
"""What commands say that go on until they are interrupted."""

NOT_OURS = (".git", "build", ".pytest_tmp", ".pytest_cache")
"""What is in the project's folder and not of its files, or is written to."""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_says_what_becomes_of_it(guide):
    assert {mark for mark, _ in blocks(guide)} <= MARKS
    assert "```bash" not in guide.read_text()
    assert "```shell" not in guide.read_text()


@pytest.mark.slow
@pytest.mark.xdist_group("guides")  # whose commands name their ports
@pytest.mark.parametrize(
    "guide",
    [guide for guide in GUIDES if {"", "keep-running"} & {mark for mark, _ in blocks(guide)}],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_commands_do_what_the_guide_says(guide, tmp_path):
    """One after the other, where the project's files are and nothing else is; what goes on is stopped at the end."""
    or_skip(need, "java", "mvn", "go", "curl")
    # On a fresh machine this takes minutes, which are not those that a command is waited for below.
    subprocess.run([sys.executable, "-m", "devtools", "install"], cwd=ROOT, check=True)
    home, temporary = tmp_path / "project", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    for path in ROOT.iterdir():
        if path.name not in NOT_OURS:
            (home / path.name).symlink_to(path)
    environment = {"TMPDIR": str(temporary), "PYTHONPATH": str(home), "HUSHGRAM_TOOLS": str(tools_folder())}
    running = []
    try:
        for number, (mark, commands) in enumerate(blocks(guide)):
            if mark == "not-run-here":
                continue
            script = f"cd {home}\nset -euo pipefail\n{commands}"
            process = Process(["bash", "-c", script], tmp_path / f"block-{number}.log", environment)
            running.append(process)
            if mark == "keep-running":
                process.wait(lambda log=process.log: any(word in log.read_text() for word in READY))
            else:
                eventually(f"the end of block {number}", lambda ended=process: not ended.alive)
                assert process.returncode == 0, f"{commands}\n{process.tail()}"
            for other in running:
                assert other.returncode in (None, 0), other.tail()
    finally:
        for process in reversed(running):
            process.signal(signal.SIGINT)
        stop(running, grace=30)
