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


def read_outline(directory):
    index = ResultIndex(str(directory))
    assert index.refresh()
    return index, index.outline()


def read_chunk(index, outline, part):
    content, _ = unpack(index.chunk(outline["run"], part["id"]))
    return content


def check_picture(picture, snapshot):
    """Every number of a picture is the snapshot's, bit for bit."""
    for name in ("probabilities", "cdf_points", "cdf_low", "cdf_high"):
        expected = getattr(snapshot, name)
        assert (picture[name] is None) == (expected is None)
        assert expected is None or picture[name].tobytes() == expected.tobytes()
    for name in ("reports", "status", "mean", "mean_low", "mean_high", "variance", "fit", "iterations", "converged"):
        assert picture[name] == getattr(snapshot, name), name
    assert picture["quantiles"] == [[q.share, q.value, q.low, q.high] for q in snapshot.quantiles or ()]


@pytest.mark.parametrize("kind", ["avro", "parquet", "jsonl"])
def test_both_layouts_and_all_formats_have_the_same_content(tmp_path, panes, kind):
    best_panes = best(panes)
    for snapshot in panes:
        write_pane(tmp_path / "stream", snapshot, kind)
    write_window(tmp_path / "batch", best_panes, kind)
    for layout in ("stream", "batch"):
        index, outline = read_outline(tmp_path / layout)
        [collection] = outline["collections"]
        assert [group["name"] for group in collection["groups"]] == list(GROUPS)
        [window] = collection["windows"]
        assert window["label"] == "2026-01-01 00:00 – 01:00"
        pictures = read_chunk(index, outline, window)["groups"]
        assert [group["id"] for group in pictures] == [group["id"] for group in collection["groups"]]
        for picture, snapshot in zip(pictures, best_panes, strict=True):
            check_picture(picture, snapshot)
            assert len(picture["movement"]["panes"]) == (4 if layout == "stream" else 1)
        for group, snapshot in zip(collection["groups"], best_panes, strict=True):
            numbers = read_chunk(index, outline, group)
            assert numbers["reports"] == [snapshot.reports]
            assert numbers["mean"].tolist() == [snapshot.mean]
            assert [listed["id"] for listed in numbers["windows"]] == [window["id"]]


def test_the_page_prefers_the_same_pane_as_every_reader(tmp_path, panes):
    corrected = replace(panes[0], pane=Pane(1, 0, "late"))
    for snapshot in [corrected, *panes]:
        write_pane(tmp_path, snapshot)
    index, outline = read_outline(tmp_path)
    pictures = read_chunk(index, outline, outline["collections"][0]["windows"][0])["groups"]
    expected = read_results(str(tmp_path), "snapshots", Snapshot.from_avro)
    assert [picture["reports"] for picture in pictures] == [snapshot.reports for snapshot in expected]
    assert pictures[0]["movement"]["panes"][-1] == {"generation": 1, "index": 0, "timing": "late"}


def test_a_mean_only_snapshot_has_a_picture_too(tmp_path):
    snapshot = make_estimate(LOAD, reports=2000)
    write_pane(tmp_path, snapshot)
    index, outline = read_outline(tmp_path)
    [picture] = read_chunk(index, outline, outline["collections"][0]["windows"][0])["groups"]
    check_picture(picture, snapshot)
    assert picture["edges"] is None


def test_the_folder_of_snapshots_itself_can_be_viewed(tmp_path, panes):
    write_pane(tmp_path, panes[0])
    assert len(read_outline(tmp_path / "snapshots")[1]["collections"]) == 1


def test_a_directory_with_letters_only_has_no_snapshots(tmp_path):
    write_letters(tmp_path, [make_letter("too_old", 3)])
    _, outline = read_outline(tmp_path)
    assert outline["collections"] == outline["problems"] == []
    assert outline["refused"][0]["reports"] == 3


def test_new_changed_and_removed_files_are_noticed_and_nothing_else_makes_a_version(tmp_path, panes):
    first = write_pane(tmp_path, panes[0])
    index, outline = read_outline(tmp_path)
    assert index.refresh()
    assert index.version == outline["version"]
    write_pane(tmp_path, panes[1])
    assert index.refresh()
    extended = index.outline()
    assert extended["version"] != outline["version"]
    before, after = (item["collections"][0]["windows"][0] for item in (outline, extended))
    assert before["id"] == after["id"]
    assert before["stamp"] != after["stamp"]
    assert [item["reports"] for item in read_chunk(index, extended, after)["groups"]] == [panes[1].reports]
    first.unlink()
    index.refresh()
    reduced = index.outline()["collections"][0]["windows"][0]
    assert reduced["stamp"] != after["stamp"]
    assert len(read_chunk(index, extended, reduced)["groups"][0]["movement"]["panes"]) == 1


def test_a_rewritten_file_is_read_again(tmp_path, panes):
    path = write_window(tmp_path, [panes[0]])
    index, _ = read_outline(tmp_path)
    write_window(tmp_path, [replace(panes[0], mean=panes[0].mean + 1)])
    os.utime(path, (1, 1))
    index.refresh()
    outline = index.outline()
    assert read_chunk(index, outline, outline["collections"][0]["groups"][0])["mean"][0] == panes[0].mean + 1


def test_ids_stay_when_windows_come_before_others_and_are_those_of_one_run(tmp_path, panes):
    write_pane(tmp_path, panes[1])
    index, outline = read_outline(tmp_path)
    first_window = outline["collections"][0]["windows"][0]
    earlier = replace(panes[1], key=replace(panes[1].key, window_start=0, window_end=1))
    write_pane(tmp_path, replace(earlier, key=replace(earlier.key, collection="a")))
    write_pane(tmp_path, earlier)
    index.refresh()
    assert len(read_chunk(index, outline, first_window)["groups"]) == 1
    assert read_chunk(index, outline, first_window)["groups"][0]["reports"] == panes[1].reports
    assert index.outline()["collections"][1]["windows"][1]["id"] == first_window["id"]
    assert index.chunk("another", first_window["id"]) is None
    for unknown_id in (-1, 10**6):
        assert index.chunk(outline["run"], unknown_id) is None


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
def test_a_file_that_is_not_a_snapshot_is_reported_and_costs_itself_alone(tmp_path, panes, name):
    path = write_pane(tmp_path, panes[0])
    (path.parent / name).write_bytes(GARBAGE[name])
    _, outline = read_outline(tmp_path)
    assert len(outline["collections"]) == 1
    if name == "empty.avro" or GARBAGE[name]:
        [problem] = outline["problems"]
        assert problem["file"] == f"snapshots/commute/{name}"
        assert problem["what"].isprintable()
        assert str(tmp_path) not in problem["what"]


def test_every_truncation_of_a_file_is_reported_or_read_completely(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    whole = path.read_bytes()
    for size in np.random.default_rng(1).integers(0, len(whole), 60):
        path.write_bytes(whole[:size])
        _, outline = read_outline(tmp_path)
        assert bool(outline["problems"]) != bool(outline["collections"])


def test_every_flipped_byte_is_reported_or_still_a_snapshot(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    whole = path.read_bytes()
    rng = np.random.default_rng(2)
    for position in rng.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        index, outline = read_outline(tmp_path)
        assert bool(outline["problems"]) != bool(outline["collections"])
        for collection in outline["collections"]:
            for part in (*collection["groups"], *collection["windows"]):
                read_chunk(index, outline, part)


def test_a_file_that_is_being_written_is_not_read(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    path.rename(path.with_name(f".{path.name}.0123456789abcdef"))
    assert read_outline(tmp_path)[1]["collections"] == []


def test_a_file_that_is_too_large_is_not_opened(tmp_path, panes, monkeypatch):
    write_pane(tmp_path, panes[0])
    monkeypatch.setattr(result_index, "LARGEST_FILE", 100)
    assert "larger than" in read_outline(tmp_path)[1]["problems"][0]["what"]


def test_a_request_for_a_removed_or_changed_file_raises_gone(tmp_path, panes):
    path = write_pane(tmp_path, panes[0])
    index, outline = read_outline(tmp_path)
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
        write_letters(tmp_path, [refusal for refusal in letters if refusal.reason == reason], kind)
    _, outline = read_outline(tmp_path)
    counts = Counter()
    for refusal in letters:
        counts[refusal.reason] += refusal.reports or 0
    assert {row["reason"]: row["reports"] for row in outline["refused"]} == counts
    assert {row["reason"]: row["unknown"] for row in outline["refused"]} == {"duplicate": 0, "undecodable": 1}
    assert outline["refused"][0]["example"] == "reports[0] at 7: why"
    assert outline["refused"][0]["words"]


def test_a_large_directory_is_shown_while_it_is_read(tmp_path, panes):
    for snapshot in panes:
        write_pane(tmp_path, snapshot)
    index = ResultIndex(str(tmp_path))
    unread_counts = []
    while not index.refresh(patience=0):
        unread_counts.append(index.outline()["unread"])
    assert unread_counts == list(range(len(panes) - 1, 0, -1))
    assert index.outline()["unread"] == 0
    assert len(index.outline()["collections"][0]["groups"]) == 3


def test_windows_outside_the_calendar_are_numbers(tmp_path, panes):
    snapshot = replace(panes[0], key=replace(panes[0].key, window_start=-(10**15), window_end=-(10**15) + 1))
    write_pane(tmp_path, snapshot)
    [collection] = read_outline(tmp_path)[1]["collections"]
    assert collection["windows"][0]["label"] == "-1000000000000000 ms – -999999999999999 ms"


def test_a_directory_whose_name_is_a_pattern_is_read_locally_and_refused_remotely(tmp_path, panes):
    write_pane(tmp_path / "results[1]*", panes[0])
    assert read_outline(tmp_path / "results[1]*")[1]["collections"]
    with pytest.raises(UsageError, match=r"none of \* \? \["):
        ResultIndex("gs://bucket/results[1]")
