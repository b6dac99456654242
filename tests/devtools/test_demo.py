"""Demos show each estimator, and empty the folders of earlier demos, and no others."""

from pathlib import Path

import pytest

from devtools.demo import FolderError, clear_folder, main
from hushgram import load_collections

ROOT = Path(__file__).parents[2]


def test_the_demo_shows_the_log_spline_ems_and_hh_admm_once_each():
    collections = load_collections(ROOT / "examples" / "demo.yaml")
    assert sorted(collection.estimator for collection in collections.values()) == ["ems", "hh_admm", "log_spline"]
    lines = (ROOT / "Makefile").read_text().split("\ndemo:", 1)[1].split("\n\n", 1)[0]
    for name in collections:
        assert f"--collection {name} " in lines
    assert "aggregate --collections examples/demo.yaml" in lines


def test_a_folder_of_a_demo_is_emptied_again_and_again(tmp_path):
    for _ in range(2):
        clear_folder(tmp_path / "new" / "demo")
        assert [path.name for path in (tmp_path / "new" / "demo").iterdir()] == [".hushgram-demo"]
        (tmp_path / "new" / "demo" / "results").write_text("old")


def test_a_folder_with_anything_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(FolderError, match="is not empty, and not from a demo"):
        clear_folder(tmp_path)
    assert main(["--dir", str(tmp_path)]) == 1
    assert f"{tmp_path}: is not empty, and not from a demo; --dir takes another" in capsys.readouterr().err
    assert (tmp_path / "letter.txt").read_text() == "dear"
