"""A directory of results as it is, as it grows, and as it is damaged."""

import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.results import best, read_results
from hushgram.pipelines.view import result_index
from hushgram.pipelines.view.result_index import GoneError, ResultIndex
from hushgram.schemas.records import Pane, Snapshot
from tests.helpers.pages import (
    COMMUTE,
    LOAD,
    PANES,
    make_estimate,
    make_letter,
    unpack,
    write_letters,
    write_pane,
    write_window,
)

GROUPS = (None, "DE", "FR")


@pytest.fixture(scope="module")
def panes():
    """Of one window and three groups, four panes each."""
    return [make_estimate(COMMUTE, group, 0, n // 4, pane) for group in GROUPS for n, pane in PANES]


def outline_of(directory):
    index = ResultIndex(str(directory))
    assert index.refresh()
    return index, index.outline()


def chunk(index, outline, part):
    found, _ = unpack(index.chunk(outline["run"], part["id"]))
    return found


def same(found, snapshot):
    """Every number of a picture is the snapshot's, bit for bit."""
    for name in ("probabilities", "cdf_points", "cdf_low", "cdf_high"):
        expected = getattr(snapshot, name)
        assert (found[name] is None) == (expected is None)
        assert expected is None or found[name].tobytes() == expected.tobytes()
    for name in ("reports", "status", "mean", "mean_low", "mean_high", "variance", "fit", "iterations", "converged"):
        assert found[name] == getattr(snapshot, name), name
    assert found["quantiles"] == [[q.share, q.value, q.low, q.high] for q in snapshot.quantiles or ()]


@pytest.mark.parametrize("kind", ["avro", "parquet", "jsonl"])
def test_both_layouts_and_all_formats_say_the_same(tmp_path, panes, kind):
    last = best(panes)
    for snapshot in panes:
        write_pane(tmp_path / "stream", snapshot, kind)
    write_window(tmp_path / "batch", last, kind)
    for layout in ("stream", "batch"):
        index, outline = outline_of(tmp_path / layout)
        [collection] = outline["collections"]
        assert [group["name"] for group in collection["groups"]] == list(GROUPS)
        [window] = collection["windows"]
        assert window["label"] == "2026-01-01 00:00 – 01:00"
        found = chunk(index, outline, window)["groups"]
        assert [group["id"] for group in found] == [group["id"] for group in collection["groups"]]
        for picture, snapshot in zip(found, last, strict=True):
            same(picture, snapshot)
            assert len(picture["movement"]["panes"]) == (4 if layout == "stream" else 1)
        for group, snapshot in zip(collection["groups"], last, strict=True):
            numbers = chunk(index, outline, group)
            assert numbers["reports"] == [snapshot.reports]
            assert numbers["mean"].tolist() == [snapshot.mean]
            assert [each["id"] for each in numbers["windows"]] == [window["id"]]


def test_the_page_prefers_what_every_reader_prefers(tmp_path, panes):
    corrected = replace(panes[0], pane=Pane(1, 0, "late"))
    for snapshot in [corrected, *panes]:
        write_pane(tmp_path, snapshot)
    index, outline = outline_of(tmp_path)
    found = chunk(index, outline, outline["collections"][0]["windows"][0])["groups"]
    expected = read_results(str(tmp_path), "snapshots", Snapshot.from_avro)
    assert [picture["reports"] for picture in found] == [snapshot.reports for snapshot in expected]
    assert found[0]["movement"]["panes"][-1] == {"generation": 1, "index": 0, "timing": "late"}


def test_a_mean_alone_has_a_picture_too(tmp_path):
    snapshot = make_estimate(LOAD, reports=2000)
    write_pane(tmp_path, snapshot)
    index, outline = outline_of(tmp_path)
    [found] = chunk(index, outline, outline["collections"][0]["windows"][0])["groups"]
    same(found, snapshot)
    assert found["edges"] is None


def test_the_folder_of_snapshots_itself_can_be_given(tmp_path, panes):
    write_pane(tmp_path, panes[0])
    assert len(outline_of(tmp_path / "snapshots")[1]["collections"]) == 1


def test_a_directory_without_snapshots_is_empty_and_letters_are_no_snapshots(tmp_path):
    write_letters(tmp_path, [make_letter("too_old", 3)])
    _, outline = outline_of(tmp_path)
    assert outline["collections"] == outline["problems"] == []
    assert outline["refused"][0]["reports"] == 3


def test_new_changed_and_removed_files_are_noticed_and_nothing_else_makes_a_version(tmp_path, panes):
    first = write_pane(tmp_path, panes[0])
    index, outline = outline_of(tmp_path)
    assert index.refresh()
    assert index.version == outline["version"]
    write_pane(tmp_path, panes[1])
    assert index.refresh()
    grown = index.outline()
    assert grown["version"] != outline["version"]
    before, after = (each["collections"][0]["windows"][0] for each in (outline, grown))
    assert before["id"] == after["id"]
    assert before["stamp"] != after["stamp"]
    assert [each["reports"] for each in chunk(index, grown, after)["groups"]] == [panes[1].reports]
    first.unlink()
    index.refresh()
    shrunk = index.outline()["collections"][0]["windows"][0]
    assert shrunk["stamp"] != after["stamp"]
    assert len(chunk(index, grown, shrunk)["groups"][0]["movement"]["panes"]) == 1


def test_a_rewritten_file_is_read_again(tmp_path, panes):
    path = write_window(tmp_path, [panes[0]])
    index, _ = outline_of(tmp_path)
    write_window(tmp_path, [replace(panes[0], mean=panes[0].mean + 1)])
    os.utime(path, (1, 1))
    index.refresh()
    outline = index.outline()
    assert chunk(index, outline, outline["collections"][0]["groups"][0])["mean"][0] == panes[0].mean + 1


def test_ids_stay_when_windows_come_before_others_and_are_those_of_one_run(tmp_path, panes):
    write_pane(tmp_path, panes[1])
    index, outline = outline_of(tmp_path)
    known = outline["collections"][0]["windows"][0]
    earlier = replace(panes[1], key=replace(panes[1].key, window_start=0, window_end=1))
    write_pane(tmp_path, replace(earlier, key=replace(earlier.key, collection="a")))
    write_pane(tmp_path, earlier)
    index.refresh()
    assert len(chunk(index, outline, known)["groups"]) == 1
    assert chunk(index, outline, known)["groups"][0]["reports"] == panes[1].reports
    assert index.outline()["collections"][1]["windows"][1]["id"] == known["id"]
    assert index.chunk("another", known["id"]) is None
    for never in (-1, 10**6):
        assert index.chunk(outline["run"], never) is None


GARBAGE = {
    "empty.avro": b"",
    "text.avro": b"hello, world",
    "header.avro": b"Obj\x01" + b"\xff" * 40,
    "text.parquet": b"PAR1 not really",
    "text.jsonl": b"{",
    "other.jsonl": b'{"a": 1}\n',
    "list.jsonl": b"[1, 2]\n",
    "deep.jsonl": b"[" * 100_000,
    "nan.jsonl": b"NaN\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_file_that_is_no_snapshot_is_told_and_costs_itself_alone(tmp_path, panes, name):
    path = write_pane(tmp_path, panes[0])
    (path.parent / name).write_bytes(GARBAGE[name])
    _, outline = outline_of(tmp_path)
    assert len(outline["collections"]) == 1
    if name == "empty.avro" or GARBAGE[name]:
        [problem] = outline["problems"]
        assert problem["file"] == f"snapshots/commute/{name}"
        assert problem["what"].isprintable()
        assert str(tmp_path) not in problem["what"]


def test_every_cut_of_a_file_is_told_or_read_whole(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    whole = path.read_bytes()
    for size in np.random.default_rng(1).integers(0, len(whole), 60):
        path.write_bytes(whole[:size])
        _, outline = outline_of(tmp_path)
        assert bool(outline["problems"]) != bool(outline["collections"])


def test_every_flipped_byte_is_told_or_still_a_snapshot(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    for place in rng.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        index, outline = outline_of(tmp_path)
        assert bool(outline["problems"]) != bool(outline["collections"])
        for collection in outline["collections"]:
            for part in (*collection["groups"], *collection["windows"]):
                chunk(index, outline, part)


def test_a_file_on_its_way_is_not_seen(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    path.rename(path.with_name(f".{path.name}.0123456789abcdef"))
    assert outline_of(tmp_path)[1]["collections"] == []


def test_a_file_too_large_to_be_one_is_not_opened(tmp_path, panes, monkeypatch):
    write_pane(tmp_path, panes[0])
    monkeypatch.setattr(result_index, "LARGEST_FILE", 100)
    assert "larger than" in outline_of(tmp_path)[1]["problems"][0]["what"]


def test_what_is_gone_when_it_is_asked_for_is_said_to_be_gone(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    index, outline = outline_of(tmp_path)
    window = outline["collections"][0]["windows"][0]
    write_window(tmp_path, [panes[5]]).rename(path)
    with pytest.raises(GoneError, match="changed"):
        index.chunk(outline["run"], window["id"])
    path.unlink()
    with pytest.raises(GoneError):
        index.chunk(outline["run"], window["id"])


@pytest.mark.parametrize("kind", ["avro", "parquet", "jsonl"])
def test_refused_reports_are_counted_by_reason(tmp_path, kind):
    letters = [
        make_letter("duplicate", 25),
        make_letter("duplicate", 4),
        make_letter("undecodable", None),
        make_letter("undecodable", 3),
    ]
    for reason in ("duplicate", "undecodable"):
        write_letters(tmp_path, [one for one in letters if one.reason == reason], kind)
    _, outline = outline_of(tmp_path)
    counted = Counter()
    for one in letters:
        counted[one.reason] += one.reports or 0
    assert {row["reason"]: row["reports"] for row in outline["refused"]} == counted
    assert {row["reason"]: row["unknown"] for row in outline["refused"]} == {"duplicate": 0, "undecodable": 1}
    assert outline["refused"][0]["example"] == "reports[0] at 7: why"
    assert outline["refused"][0]["words"]


def test_a_large_directory_is_shown_while_it_is_read(tmp_path, panes):
    for snapshot in panes:
        write_pane(tmp_path, snapshot)
    index = ResultIndex(str(tmp_path))
    left = []
    while not index.refresh(patience=0):
        left.append(index.outline()["unread"])
    assert left == list(range(len(panes) - 1, 0, -1))
    assert index.outline()["unread"] == 0
    assert len(index.outline()["collections"][0]["groups"]) == 3


def test_windows_outside_the_calendar_are_numbers(tmp_path, panes):
    odd = replace(panes[0], key=replace(panes[0].key, window_start=-(10**15), window_end=-(10**15) + 1))
    write_pane(tmp_path, odd)
    [collection] = outline_of(tmp_path)[1]["collections"]
    assert collection["windows"][0]["label"] == "-1000000000000000 ms – -999999999999999 ms"


def test_a_directory_whose_name_is_a_pattern_is_read_here_and_refused_elsewhere(tmp_path, panes):
    write_pane(tmp_path / "results[1]*", panes[0])
    assert outline_of(tmp_path / "results[1]*")[1]["collections"]
    with pytest.raises(UsageError, match=r"none of \* \? \["):
        ResultIndex("gs://bucket/results[1]")
