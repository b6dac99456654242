"""The project as a Beam user ships it: `--setup_file ./setup.py` stages its source, and Beam's own boot program
installs that into a worker's environment, which had Beam and nothing of ours, and runs it there."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.helpers.pools import beams_pool
from tests.helpers.reports import avro_file, exact_tallies, report_rows
from tests.helpers.streams import tallies_in

ROOT = Path(__file__).parents[2]
OURS = ("hushgram", "polars", "confluent_kafka")


@pytest.fixture
def bare(tmp_path):
    """An environment with Beam and what Beam's images have for building packages."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    beam = f"apache-beam=={metadata.version('apache-beam')}"
    quiet = ["--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([python, "-m", "pip", "install", *quiet, beam, "setuptools", "wheel"], check=True)
    return python


@pytest.fixture
def pool(bare, boot, tmp_path):
    """Beam's worker pool in that environment, which starts every worker by Beam's boot program."""
    # A worker's pip asks the index for the newest of everything, unless it is told otherwise.
    environment = {"PYTHONPATH": "", "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    with beams_pool(bare, boot, tmp_path, environment) as address:
        yield address


def test_a_staged_source_package_installs_and_runs_where_only_beam_is(bare, pool, prism, collections, folder, tmp_path):
    assert _found(bare, tmp_path) == [None] * len(OURS)
    rows = [row for seed, each in enumerate(collections.values()) for row in report_rows(each, 2000, seed, ids=True)]
    (tmp_path / "reports.avro").write_bytes(avro_file(rows))
    command = [sys.executable, "-m", "hushgram", "aggregate", "--output", tmp_path / "results"]
    command += ["--collections", folder / "collections.yaml", "--input", tmp_path / "reports.avro"]
    command += ["--runner=PrismRunner", f"--prism_location={prism}"]
    command += ["--environment_type=EXTERNAL", f"--environment_config={pool}", "--setup_file=./setup.py"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(place.startswith(str(tmp_path)) for place in _found(bare, tmp_path))
    assert tallies_in(tmp_path / "results") == exact_tallies(list(collections.values()), rows)


def _found(python, folder):
    """Where an interpreter finds our packages."""
    code = f"from importlib.util import find_spec as f; print(*((s := f(name)) and s.origin for name in {OURS!r}))"
    told = subprocess.run([python, "-c", code], cwd=folder, env={"PYTHONPATH": ""}, capture_output=True, check=True)
    return [None if place == "None" else place for place in told.stdout.decode().split()]
