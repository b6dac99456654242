"""`hushgram manifest`: JSON that any client loads, of one collection of a file."""

import json

import pytest

from hushgram.pipelines.cli import command
from tests.helpers.clients import reference

YAML = """
device: {epsilon: 6, every: 30d}
collections:
  commute: {domain: {low: 0, high: 180}, epsilon: 1, groups: [Zürich], device: {epsilon: 2, every: 7d, slots: 7}}
  size: {domain: {low: 1, high: 1000000, scale: log}, buckets: 100, epsilon: 0.5, previous: [{epsilon: 2}]}
"""


@pytest.fixture
def collections(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text(YAML, encoding="utf-8")
    return ["--collections", str(path)]


def test_a_manifest_is_json_that_a_client_loads(collections, capsys):
    assert command.main(["manifest", *collections, "--collection", "commute"]) == 0
    text = capsys.readouterr().out
    assert "Zürich" in text
    manifest = reference.load(json.loads(text))
    assert manifest.collection == "commute"
    assert manifest.budgets == [("commute", 2 * 10**9, 7 * 86_400_000), ("", 6 * 10**9, 30 * 86_400_000)]
    assert manifest.slots == 7


def test_earlier_revisions_are_not_in_it(collections, capsys):
    assert command.main(["manifest", *collections, "--collection", "size"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["device"]["epsilon"] == "0.5"
    assert len(made["locate"]["edges"]) == 99
    assert "previous" not in made


def test_one_of_several_collections_must_be_named(collections, capsys):
    assert command.main(["manifest", *collections]) == 2
    assert "--collection: missing, allowed: commute, size" in capsys.readouterr().err
    assert command.main(["manifest", *collections, "--collection", "comute"]) == 2
    assert "did you mean commute?" in capsys.readouterr().err


def test_the_only_collection_needs_no_name(tmp_path, capsys):
    path = tmp_path / "one.yaml"
    path.write_text("collections: {one: {domain: {low: 0, high: 1}, epsilon: 1}}")
    assert command.main(["manifest", "--collections", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["collection"] == "one"
