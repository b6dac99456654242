"""Pieces that wait in files come back as they were, and nothing of them stays."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram.transforms.spilling import SpillPieces, read_pieces, spill_folder

BUNDLES = st.lists(st.lists(st.tuples(st.integers(0, 31), st.binary(max_size=200)), min_size=1), max_size=5)


def spill(do_fn, bundle):
    do_fn.start_bundle()
    places = [place for element in bundle for place in do_fn.process(element)]
    do_fn.finish_bundle()
    return places


@given(BUNDLES)
def test_pieces_of_any_bundles_are_read_back(tmp_path_factory, bundles):
    folder = str(tmp_path_factory.mktemp("spilled"))
    do_fn = SpillPieces(folder)
    places = [spill(do_fn, bundle) for bundle in bundles]
    read = [read_pieces(folder, [place for _, place in bundle]) for bundle in places]
    assert read == [[piece for _, piece in bundle] for bundle in bundles]


def test_a_bundle_that_is_repeated_writes_to_another_file(tmp_path):
    """So that what a failed bundle has left, perhaps cut short, is read by nobody."""
    do_fn, bundle = SpillPieces(str(tmp_path)), [(1, b"first"), (2, b"second")]
    failed, repeated = spill(do_fn, bundle), spill(do_fn, bundle)
    assert len({name for _, (name, _, _) in failed}) == 1
    assert {name for _, (name, _, _) in failed}.isdisjoint(name for _, (name, _, _) in repeated)


def test_a_disk_that_fails_is_named(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(NotADirectoryError) as raised:
        spill(SpillPieces(f"{tmp_path}/file/spilled"), [(1, b"piece")])
    assert raised.value.filename == f"{tmp_path}/file/spilled"


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("run_folder", ["{}/runs/r/1", "gs://bucket/runs/r/1"], ids=["local", "remote"])
def test_the_folder_is_gone_when_the_run_has_ended(tmp_path, monkeypatch, run_folder, fails):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    try:
        with spill_folder(run_folder.format(tmp_path)) as folder:
            assert Path(folder).is_relative_to(tmp_path)
            spill(SpillPieces(folder), [(1, b"piece")])
            assert os.listdir(folder)
            if fails:
                raise ValueError
    except ValueError:
        assert fails
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_run_that_spills_nothing_leaves_no_folder(tmp_path):
    with spill_folder(f"{tmp_path}/runs/r/1"):
        pass
    assert not os.listdir(tmp_path)
