"""The project as a Beam user ships it: `--setup_file ./setup.py` stages its source, and Beam's own boot program
installs that into a worker's environment, which had Beam and nothing of ours, and runs it there."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.helpers.pools import run_beam_pool
from tests.helpers.reports import compute_tallies, encode_avro_file, make_report_rows
from tests.helpers.streams import read_tallies

ROOT = Path(__file__).parents[2]
ATTEMPTS, TOO_LATE = 3, "didn't get control connection"
"""Prism gives a worker a minute, and a busy machine may take longer to install it; the next attempt goes on there."""
OURS = ("hushgram", "polars", "confluent_kafka")


@pytest.fixture
def bare_python(tmp_path):
    """An environment with Beam and what Beam's images have for building packages."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    beam = f"apache-beam=={metadata.version('apache-beam')}"
    options = ["--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([python, "-m", "pip", "install", *options, beam, "setuptools", "wheel"], check=True)
    return python


@pytest.fixture
def pool(bare_python, boot, tmp_path):
    """Beam's worker pool in that environment, which starts every worker by Beam's boot program."""
    # By default a worker's pip asks the index for the newest version of everything.
    environment = {"PYTHONPATH": "", "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    with run_beam_pool(bare_python, boot, tmp_path, environment) as address:
        yield address


def test_a_staged_source_package_installs_and_runs_where_only_beam_is(
    bare_python, pool, prism, collections, folder, tmp_path
):
    assert _find_packages(bare_python, tmp_path) == [None] * len(OURS)
    rows = [
        row
        for seed, collection in enumerate(collections.values())
        for row in make_report_rows(collection, 2000, seed, ids=True)
    ]
    (tmp_path / "reports.avro").write_bytes(encode_avro_file(rows))
    command = [sys.executable, "-m", "hushgram", "aggregate", "--output", tmp_path / "results"]
    command += ["--collections", folder / "collections.yaml", "--input", tmp_path / "reports.avro"]
    command += ["--runner=PrismRunner", f"--prism_location={prism}"]
    command += ["--environment_type=EXTERNAL", f"--environment_config={pool}", "--setup_file=./setup.py"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    for _ in range(ATTEMPTS):
        completed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if TOO_LATE not in completed.stderr:
            break
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert all(origin.startswith(str(tmp_path)) for origin in _find_packages(bare_python, tmp_path))
    assert read_tallies(tmp_path / "results") == compute_tallies(list(collections.values()), rows)


def _find_packages(python, folder):
    """Where an interpreter finds our packages."""
    code = f"from importlib.util import find_spec as f; print(*((s := f(name)) and s.origin for name in {OURS!r}))"
    completed = subprocess.run(
        [python, "-c", code], cwd=folder, env={"PYTHONPATH": ""}, capture_output=True, check=True
    )
    return [None if origin == "None" else origin for origin in completed.stdout.decode().split()]
