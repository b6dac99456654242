"""The installed package: a wheel with `hushgram` and nothing else, small without extras, complete with them."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest

from devtools.processes import HOST, Process, free_port, listening, stop
from tests.helpers.collectors import MESSAGE, YAML, make_message, read_batches

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packages")]

ROOT = Path(__file__).parents[1]
FOLDERS = ("hushgram", "schemas", "transforms", "pipelines")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def list_tracked_files(*folders):
    listing = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(line) for line in listing.splitlines()]


def installed_name(path):
    """Where a tracked file of the product lies in the package."""
    return str(path if path.parts[0] == "hushgram" else Path("hushgram", path))


PRODUCT = {installed_name(path) for path in list_tracked_files(*FOLDERS) if not (ROOT / path).is_symlink()}
BUILT = "hushgram/_compiled.abi3.so"
PRODUCT |= {f"hushgram/pipelines/conform/vectors/{path.name}" for path in list_tracked_files("clients/vectors")}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project as a clone has it: tracked files, and links as links."""
    folder = tmp_path_factory.mktemp("clone")
    for path in list_tracked_files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path, follow_symlinks=False)
    return folder


def build(copy, kind, output):
    command = [sys.executable, "-m", "build", f"--{kind}", "--outdir", output]
    completed = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    [package] = output.iterdir()
    return package


@pytest.fixture(scope="module")
def wheel(copy, tmp_path_factory):
    return build(copy, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(copy, tmp_path_factory):
    return build(copy, "sdist", tmp_path_factory.mktemp("sdist"))


def test_the_wheel_has_every_file_of_the_product_and_no_other_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"hushgram", f"hushgram-{PROJECT['version']}.dist-info"}
    assert {name for name in names if name.startswith("hushgram/")} == PRODUCT | {BUILT}
    assert wheel.name.startswith(f"hushgram-{PROJECT['version']}-cp311-abi3-"), "for this Python and all later ones"


def test_without_a_compiler_all_but_the_decoder_is_built(copy, tmp_path, monkeypatch):
    shutil.copytree(copy, tmp_path / "clean", symlinks=True, ignore=shutil.ignore_patterns("build", ".mypy_cache"))
    (tmp_path / "wheel").mkdir()
    monkeypatch.setenv("CC", "false")
    with zipfile.ZipFile(build(tmp_path / "clean", "wheel", tmp_path / "wheel")) as archive:
        assert {name for name in archive.namelist() if name.startswith("hushgram/")} == PRODUCT


def test_the_sdist_has_the_product_and_what_builds_it_and_no_tests(sdist):
    with tarfile.open(sdist) as archive:
        names = {Path(*Path(member.name).parts[1:]) for member in archive if member.isfile()}
    made = {"PKG-INFO", "setup.cfg"}
    kept = {"LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"}
    assert {str(name) for name in names if len(name.parts) == 1} == made | kept
    folders = {name.parts[0] for name in names if len(name.parts) > 1}
    assert folders == {"hushgram", "hushgram.egg-info"}


def test_the_sdist_has_files_in_place_of_links_and_builds_the_same_wheel(sdist, wheel, tmp_path):
    with tarfile.open(sdist) as archive:
        assert not [member.name for member in archive if member.issym() or member.islnk()]
        archive.extractall(tmp_path, filter="data")
    [folder] = tmp_path.iterdir()
    (tmp_path / "wheel").mkdir()
    with zipfile.ZipFile(build(folder, "wheel", tmp_path / "wheel")) as rebuilt, zipfile.ZipFile(wheel) as first:
        assert sorted(rebuilt.namelist()) == sorted(first.namelist())
        assert all(rebuilt.read(name) == first.read(name) for name in first.namelist() if name.startswith("hushgram/"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_type_error_is_found_in_every_folder(copy, folder):
    """Also in folders that are links in the package; a tool that passed them over would find nothing in them, ever."""
    if not (copy / ".mypy_cache").exists() and (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", copy / ".mypy_cache")
    bad_module = copy / folder / "planted.py"
    bad_module.write_text('wrong: int = "text"\n')
    command = [sys.executable, "-m", "mypy"]
    completed = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    bad_module.unlink()
    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert f"{installed_name(Path(folder, 'planted.py'))}:1: error: Incompatible types" in completed.stdout
    assert "Found 1 error in 1 file" in completed.stdout


class Environment:
    """An environment of its own, in a folder where nothing of the project lies."""

    def __init__(self, folder, wheel, extras):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        options = ["--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt"]
        self.run("python", "-m", "pip", "install", *options, f"hushgram{extras} @ {wheel.as_uri()}")

    def run(self, program, *arguments, code=0):
        """The output of a program of the environment."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        command = [self.folder / "venv" / "bin" / program, *arguments]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        completed = subprocess.run(command, cwd=self.folder, env=environment, **output)
        assert completed.returncode == code, completed.stdout
        return completed.stdout


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("core"), wheel, "")


@pytest.fixture(scope="module")
def with_beam(wheel, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("with_beam"), wheel, "[beam]")


def test_without_extras_the_package_is_small(core):
    listing = core.run("python", "-m", "pip", "list", "--format=freeze").split()
    assert {line.partition("==")[0].lower() for line in listing if "@" not in line} - {"pip", "setuptools"} == {
        *("hushgram", "numpy", "scipy", "pyyaml", "tzdata")
    }


def test_without_extras_the_library_does_what_the_readme_shows(core):
    core.run("python", "-m", "doctest", ROOT / "README.md")


def test_without_extras_the_command_says_what_is_missing(core):
    assert core.run("hushgram", "--version") == f"hushgram {PROJECT['version']}\n"
    line = "aggregate needs apache_beam: pip install 'hushgram[beam]'\n"
    assert core.run("hushgram", "aggregate", code=2).endswith(line)


def test_with_beam_the_demo_and_the_pipeline_of_the_readme_run_anywhere(with_beam):
    shutil.copy(ROOT / "examples" / "demo.yaml", with_beam.folder / "collections.yaml")
    collections = "--collections=collections.yaml"
    devices = ("--collection=pickup", "--values=taxi", "--reports=2000", "--output=reports")
    with_beam.run("hushgram", "simulate", collections, *devices)
    with_beam.run("hushgram", "aggregate", collections, "--input=reports/*.avro", "--output=by-command")
    assert "pickup" in with_beam.run("hushgram", "show", "by-command")
    assert with_beam.run("python", "-m", "hushgram", "--version") == f"hushgram {PROJECT['version']}\n"
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    [pipeline] = [block for block in blocks if "hushgram.beam" in block]
    with_beam.run("python", "-c", pipeline)
    assert "pickup" in with_beam.run("hushgram", "show", "results")


def test_with_its_extra_alone_the_collector_takes_reports(wheel, tmp_path):
    environment, port = Environment(tmp_path, wheel, "[collect]"), free_port()
    assert "apache" not in environment.run("python", "-m", "pip", "list")
    (tmp_path / "collections.yaml").write_text(YAML)
    options = ("--collections", tmp_path / "collections.yaml", "--output", tmp_path / "kept", "--port", str(port))
    collector = Process([tmp_path / "venv" / "bin" / "hushgram", "collect", *options], tmp_path / "log")
    try:
        collector.wait(lambda: listening(f"{HOST}:{port}"))
        url, body = f"http://{HOST}:{port}/v1/reports", make_message(1)
        with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": MESSAGE})) as answer:
            assert answer.status == 202
    finally:
        stop([collector])
    assert len(read_batches(tmp_path / "kept")) == 1
