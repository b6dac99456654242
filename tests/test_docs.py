"""The documents: the site builds without a warning, links hold, examples are possible, generated pages are current."""

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import hushgram.beam
from devtools import collection_keys
from hushgram import config, windows
from hushgram.config import DOMAIN_KEYS, parse_collections
from hushgram.mechanisms import MECHANISMS, options_of
from hushgram.pipelines.cli import command, tables
from hushgram.pipelines.staging import MODULES

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").rglob("*.md")]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def list_page_names(pages):
    return [str(page.relative_to(ROOT)) for page in pages]


def find_blocks(page: Path, language: str) -> list[str]:
    return [
        body for block_language, body in FENCE.findall(page.read_text(encoding="utf-8")) if block_language == language
    ]


def find_anchors(page: Path) -> set[str]:
    """As GitHub and the site make them of headings."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=list_page_names(PAGES))
def test_relative_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_file(), target
        assert not anchor or anchor in find_anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=list_page_names(PAGES))
def test_code_files_named_in_the_documents_exist(page):
    for name in re.findall(r"`([\w./-]+\.py)`", page.read_text(encoding="utf-8")):
        assert any(f"/{path}".endswith(f"/{name}") for path in list_code_files()), name


@pytest.mark.parametrize("page", PAGES, ids=list_page_names(PAGES))
def test_tests_named_in_the_documents_exist(page):
    for file, name in re.findall(r"`([\w./-]+\.py)::(\w+)`", page.read_text(encoding="utf-8")):
        path = ROOT / file
        assert path.is_relative_to(ROOT / "tests"), file
        assert path.match("test_*.py"), f"{file} is no file of tests: pytest would not run what it is asked for"
        assert name in find_functions(path), name


def find_functions(path: Path) -> set[str]:
    """Those that a file defines or imports; of what is imported with a star, all."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = ROOT / f"{(node.module or '').replace('.', '/')}.py"
                names |= find_functions(module) if alias.name == "*" else {alias.asname or alias.name}
    return names


def test_functions_are_found_where_they_are_defined_and_where_they_are_imported():
    law = "test_concurrent_starts_make_the_table_and_its_columns_once"
    for name in ("tests/helpers/lake_laws.py", "tests/engines/test_iceberg_rest.py"):
        assert law in find_functions(ROOT / name)
    assert "no_such_test" not in find_functions(ROOT / "tests/engines/test_iceberg_rest.py")


@cache
def list_code_files() -> list[str]:
    files = [path for path in ROOT.rglob("*.py") if not {".venv", "build", ".tools"} & set(path.parts)]
    return [str(path.relative_to(ROOT)) for path in files]


def test_the_readme_is_read_in_one_sitting():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_collections_in_the_documents_are_valid():
    definitions = [text for page in PAGES for text in find_blocks(page, "yaml") if text.startswith("collections:")]
    assert definitions
    for text in definitions:
        assert parse_collections(text)


@pytest.mark.slow
def test_the_pipeline_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    [pipeline] = [text for text in find_blocks(ROOT / "README.md", "python") if "hushgram.beam" in text]
    [collections] = [text for text in find_blocks(ROOT / "docs" / "collections.md", "yaml") if "commute" in text]
    monkeypatch.chdir(tmp_path)
    Path("collections.yaml").write_text(collections, encoding="utf-8")
    arguments = ["--collections", "collections.yaml", "--reports", "3000", "--hours", "1", "--output", "reports"]
    assert command.main(["simulate", *arguments]) == 0
    capsys.readouterr()
    exec(compile(pipeline, "README.md", "exec"), {})  # as a person would paste it
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5  # age, commute, and commute of each of its three groups
    assert sum(int(line.split()[1]) for line in lines) == 3 * 3000  # groups add up to the whole


def test_the_page_of_keys_is_current():
    assert collection_keys.PAGE.read_text(encoding="utf-8") == collection_keys.render_page(), (
        "write it again: python -m devtools.collection_keys"
    )


def test_the_page_of_keys_has_every_key_with_its_meaning():
    rows = [
        line.strip("| \n").split(" | ") for line in collection_keys.render_page().splitlines() if line.startswith("| `")
    ]
    keys = {row[0].strip("`") for row in rows}
    own = {name for name in config.collection_keys() if name != "domain"}
    inner = {"domain": DOMAIN_KEYS, "windows": windows.NAMES, "device": collection_keys.DEVICE_KEYS}
    assert keys == own | {f"{part}.{name}" for part, names in inner.items() for name in names}
    assert len(rows) == len(keys)
    for row in rows:
        assert all(row[column].strip() for column in (0, 1, 3, 4)), row


def read_reference_names() -> set[str]:
    return set(re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE))


def test_the_reference_has_every_public_name():
    mechanisms = {f"hushgram.mechanisms.{kind.__name__}" for kind in MECHANISMS.values()}
    transforms = {f"hushgram.beam.{name}" for name in {*hushgram.beam.__all__, *hushgram.beam._EXTRAS}}
    library = {f"hushgram.{name}" for name in hushgram.__all__ if name[0] != "_"}
    assert read_reference_names() == library | transforms | mechanisms


def test_the_reference_has_every_option_of_a_mechanism():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for kind in MECHANISMS.values():
        members = re.escape(f"[{', '.join(options_of(kind))}]" if options_of(kind) else "false")
        [options] = re.findall(rf"^::: hushgram\.mechanisms\.{kind.__name__}\n    options: (.*)$", page, re.MULTILINE)
        assert re.search(rf"\bmembers: {members}[,}}]", options), kind.name


def test_the_documents_name_every_dependency_and_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/index.md", "docs/faq.md")}
    for page, text in pages.items():
        [line] = [line for line in text.splitlines() if "pip install hushgram" in line and "numpy" in line]
        for dependency in project["dependencies"]:
            assert dependency.partition(">")[0] in line, page
    installing = pages["README.md"].partition("## Install\n")[2].partition("\n## ")[0]
    for extra in set(project["optional-dependencies"]) - {"docs", "dev"}:
        assert re.search(rf"\b{extra}\b", installing), extra
    shipping = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8").partition("## Shipping the code\n")[2]
    for extra in MODULES:
        assert f"`{extra}`" in shipping, extra


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    before = {path: path.stat().st_mtime_ns for path in ROOT.glob("docs/**/*")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    build = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert (build.returncode, build.stderr) == (0, "")
    assert before == {path: path.stat().st_mtime_ns for path in ROOT.glob("docs/**/*")}
    index, api = ((tmp_path / "site" / f"{name}.html").read_text(encoding="utf-8") for name in ("index", "api"))
    assert "Start here" in index
    for name in (*hushgram.__all__, "Collection.report", "Estimate.quantile", "Estimate.interval"):
        assert f'id="hushgram.{name}"' in api, name
    assert not {name for name in read_reference_names() if f'id="{name}"' not in api}
    assert (tmp_path / "site" / "deploy" / "flink" / "index.html").is_file()


@pytest.mark.slow
def test_the_readme_shows_the_output_of_the_demo(tmp_path, monkeypatch, capsys):
    """The reports of a collection depend on its own command alone, so that one of the demo's three is enough."""
    [example] = [text for text in find_blocks(ROOT / "README.md", "text") if text.startswith("pickup")]
    demo = re.sub(r"\s*\\\n\s*", " ", (ROOT / "Makefile").read_text(encoding="utf-8"))
    [prefix] = re.findall(r"^SIMULATE := \$\(BIN\)/hushgram (.*)$", demo, re.MULTILINE)
    [rest] = re.findall(r"\$\(SIMULATE\) (--collection pickup .*) --output", demo)
    monkeypatch.chdir(ROOT)
    assert command.main([*shlex.split(f"{prefix} {rest}"), "--output", f"{tmp_path}/reports"]) == 0
    files = ["--input", f"{tmp_path}/reports/*.avro", "--output", f"{tmp_path}/results"]
    assert command.main(["aggregate", "--collections", "examples/demo.yaml", *files]) == 0
    capsys.readouterr()
    monkeypatch.setattr(tables, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    assert command.main(["show", f"{tmp_path}/results", "--truth", f"{tmp_path}/reports/truth.jsonl"]) == 0
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:7] == example.splitlines()
