"""Results read back from a folder that others write into, too: what cannot be read is named, and why."""

import json
import shutil
from pathlib import Path

import fastavro
import pytest

import hushgram.beam as hg
from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.show import Follower
from hushgram.schemas.avro_schemas import DEAD_LETTER, HISTOGRAM
from hushgram.transforms.sinks.files import as_json_lines
from hushgram.transforms.sources.result_files import read_records

GOLDEN = Path(__file__).parents[1] / "schemas" / "golden" / "1"


@pytest.fixture
def folder(tmp_path):
    """Of one collection, with one good file."""
    folder = tmp_path / "snapshots" / "commute"
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN / "snapshot.avro", folder / "good.avro")
    return folder


@pytest.fixture
def as_json(folder):
    """The good snapshot, as an entry of JSON lines."""
    [snapshot] = hg.read_snapshots(folder.parent)
    return json.loads(as_json_lines(None, [snapshot]))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("[1, 2]", "got a value of type list, allowed: snapshots"),
        ("7", "got a value of type int, allowed: snapshots"),
        ("null", "got a value of type NoneType, allowed: snapshots"),
        ("{}", "a record without status, allowed: snapshots"),
        ('{"status": "ok"}', "a record without reports, allowed: snapshots"),
        ("{", "cannot be read: "),
    ],
)
def test_a_file_of_something_else_is_named_with_what_it_holds(folder, capsys, line, what):
    (folder / "foreign.jsonl").write_text(f"{line}\n")
    with pytest.raises(hg.ResultsError) as raised:
        hg.read_snapshots(folder.parents[1])
    assert str(raised.value).startswith(f"{folder}/foreign.jsonl: {what}")
    assert command.main(["show", str(folder.parents[1])]) == 2
    assert capsys.readouterr().err == f"hushgram: {raised.value}\n"
    with pytest.raises(UsageError, match=r"/foreign\.jsonl: "):
        list(Follower(str(folder.parents[1])).lines())


@pytest.mark.parametrize(
    ("name", "value"),
    [("reports", "5"), ("window_start", "today"), ("collection", ["a"]), ("group", 7), ("quantiles", [{"share": 1}])],
)
def test_a_value_of_a_wrong_type_is_refused_with_the_name_of_its_file(folder, as_json, name, value):
    (folder / "foreign.jsonl").write_text(json.dumps({**as_json, name: value}) + "\n")
    with pytest.raises(hg.ResultsError, match=rf"^{folder}/foreign\.jsonl: a value of a wrong type, allowed: snap"):
        hg.read_snapshots(folder.parents[1])


def test_records_of_another_schema_are_refused_with_the_name_of_their_file(tmp_path):
    folder = tmp_path / "histograms" / "commute"
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN / "snapshot.avro", folder / "wrong.avro")
    with pytest.raises(hg.ResultsError, match=rf"^{folder}/wrong\.avro: a record without tallies, allowed: histograms"):
        hg.read_histograms(tmp_path)


def test_an_empty_file_holds_no_results(folder):
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "blank.jsonl").write_bytes(b"\n  \n")
    assert len(hg.read_snapshots(folder.parents[1])) == 1
    (folder / "good.avro").unlink()
    with pytest.raises(hg.ResultsError, match=rf"^{folder.parents[1]}: no snapshots there"):
        hg.read_snapshots(folder.parents[1])
    with (folder / "empty.avro").open("wb") as file:
        fastavro.writer(file, HISTOGRAM.parsed, [])
    with pytest.raises(hg.ResultsError, match=rf"^{folder.parents[1]}: no snapshots there"):
        hg.read_snapshots(folder.parents[1])


def test_dead_letters_beside_are_not_taken_for_results(tmp_path):
    (tmp_path / "dead_letters").mkdir()
    with (tmp_path / "dead_letters" / "too_old.avro").open("wb") as file:
        fastavro.writer(file, DEAD_LETTER.parsed, read_records(str(GOLDEN / "dead_letter.avro")))
    with pytest.raises(hg.ResultsError, match=rf"^{tmp_path}: no snapshots there"):
        hg.read_snapshots(tmp_path)


def test_paths_of_pathlib_are_paths(tmp_path):
    for kind, read in (("snapshot", hg.read_snapshots), ("histogram", hg.read_histograms)):
        folder = tmp_path / f"{kind}s" / "commute"
        folder.mkdir(parents=True)
        shutil.copy(GOLDEN / f"{kind}.avro", folder)
        assert len(read(tmp_path)) == len(read(str(tmp_path))) == len(read(folder.parent)) == 1
    with pytest.raises(ValueError, match=r"path: got PosixPath\('gs:/bucket'\), allowed: an address with :// as text"):
        hg.read_snapshots(Path("gs://bucket"))
