"""The rules by which runs into one folder add up: no file counts twice, no window shrinks without a correction."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram.schemas.records import Key
from hushgram.transforms.run_store import commit, committed_runs, outcome, plan_attempt
from hushgram.transforms.runs import (
    Attempt,
    CountedFile,
    CountedIds,
    Manifest,
    RunError,
    check_files,
    default_name,
    objection,
    touched,
)

DAY = 86_400_000
MONDAY, TUESDAY = Key("commute", None, 0, DAY), Key("commute", None, DAY, 2 * DAY)


def make_manifest(name, windows, attempt="1", generation=0, files=(), ids=(), replaces=()):
    return Manifest(name, attempt, generation, 0, tuple(files), windows, CountedIds(tuple(ids), 10**15), replaces)


def make_attempt(name="a", number="2", **fields):
    return Attempt("folder", name, number, **{"files": (), "generation": 0, **fields})


keys = st.builds(
    Key,
    st.text(max_size=5),
    st.none() | st.text(max_size=3),
    st.integers(-(2**60), 2**60),
    st.integers(-(2**60), 2**60),
)
manifests = st.builds(
    Manifest,
    name=st.text(max_size=10),
    attempt=st.text(max_size=10),
    generation=st.integers(0, 9),
    committed_at_ms=st.integers(0, 2**50),
    files=st.lists(st.builds(CountedFile, st.text(), st.integers(0), st.none() | st.text()), max_size=3).map(tuple),
    windows=st.dictionaries(keys, st.integers(0), max_size=4),
    ids=st.builds(CountedIds, st.lists(st.integers(0, 31), max_size=4).map(tuple), st.integers(0)),
    replaces=st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=2).map(tuple),
)


@given(manifests)
def test_a_manifest_survives_a_round_trip(run):
    assert Manifest.from_json(run.to_json()) == run


@given(manifests, st.data())
def test_a_damaged_manifest_is_a_value_error_and_nothing_else(run, data):
    text = run.to_json()
    start = data.draw(st.integers(0, len(text)))
    damaged = text[:start] + data.draw(st.text(max_size=3)) + text[data.draw(st.integers(start, len(text))) :]
    with suppress(ValueError):
        Manifest.from_json(damaged)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"format": "hushgram-run/9"}', '{"format": "hushgram-run/1"}']
)
def test_a_text_that_is_not_a_manifest_is_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"."):
        Manifest.from_json(text)
    path = tmp_path / "runs" / "a" / "run.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(RunError, match=r"run\.json"):
        committed_runs(str(tmp_path))


def test_default_run_names_are_made_of_file_patterns(tmp_path, monkeypatch):
    assert default_name(["/logs/a/*.avro"]) != default_name(["/logs/b/*.avro"])
    assert default_name(["/x", "/y"]) == default_name(["/y", "/x"]).replace("y", "x", 1)
    monkeypatch.chdir(tmp_path)
    assert default_name(["*.avro"]) == default_name([str(tmp_path / "*.avro")]).replace(
        default_name([str(tmp_path / "*.avro")]).rpartition("-")[0], "avro"
    )


def test_a_file_that_another_run_counted_is_refused_by_path_and_by_content():
    other = make_manifest("day1", {}, files=[CountedFile("/logs/a.avro", 10, "f1")])
    with pytest.raises(RunError, match=r"/logs/a\.avro was counted by run 'day1'"):
        check_files([CountedFile("/logs/a.avro", 20, "f2")], [other])
    with pytest.raises(RunError, match=r"/old/a\.avro was counted by run 'day1', then named /logs/a\.avro"):
        check_files([CountedFile("/old/a.avro", 10, "f1")], [other])
    check_files([CountedFile("/logs/b.avro", 10, None), CountedFile("/logs/c.avro", 10, None)], [other])
    with pytest.raises(RunError, match="a file and its copy"):
        check_files([CountedFile("/a", 1, "f"), CountedFile("/b", 2, "f")], [])


def test_a_run_plans_around_others_and_over_itself(tmp_path):
    runs = [
        make_manifest("a", {}, files=[CountedFile("/a", 1)], generation=2),
        make_manifest("b", {}, files=[CountedFile("/b", 1)]),
    ]
    rerun = plan_attempt(str(tmp_path), "a", [CountedFile("/a", 1)], runs)
    assert (rerun.generation, rerun.is_correction, rerun.others) == (2, False, (("b", "1"),))
    assert plan_attempt(str(tmp_path), "a", [], runs, generation=3).is_correction
    replacing = plan_attempt(str(tmp_path), "c", [CountedFile("/b", 1)], runs, replace=["b"])
    assert replacing.replaces == (("b", "1"),)
    with pytest.raises(RunError, match="its runs: a, b"):
        plan_attempt(str(tmp_path), "c", [], runs, replace=["x"])


def test_a_window_never_shrinks_without_a_correction():
    before = [make_manifest("a", {MONDAY: 100, TUESDAY: 7})]
    assert objection(make_attempt(), before, {MONDAY: 100, TUESDAY: 8}, False) is None
    refusal = objection(make_attempt(), before, {MONDAY: 99, TUESDAY: 8}, False)
    assert (
        "counted 100 reports in the window of 'commute' from 1970-01-01 00:00 UTC before, and 99 now" in refusal.detail
    )
    assert "--generation 1" in refusal.detail
    assert not refusal.passing
    assert objection(make_attempt(), before, {MONDAY: 200}, False) is not None, "a window that vanishes shrinks, too"
    assert objection(make_attempt(generation=1, is_correction=True), before, {MONDAY: 99}, False) is None


def test_a_run_that_replaces_others_must_count_all_their_reports():
    runs = [
        make_manifest("h1", {MONDAY: 10}),
        make_manifest("h2", {MONDAY: 20, TUESDAY: 1}),
        make_manifest("other", {MONDAY: 1000}),
    ]
    plan = make_attempt("day", replaces=(("h1", "1"), ("h2", "1")))
    assert touched(plan, runs) == {MONDAY: 30, TUESDAY: 1}
    assert objection(plan, runs, {MONDAY: 30, TUESDAY: 1}, False) is None
    assert objection(plan, runs, {MONDAY: 29, TUESDAY: 1}, False) is not None


def test_a_commit_notices_what_other_runs_did_meanwhile():
    with_ids = make_manifest("b", {MONDAY: 1}, ids=[3])
    assert objection(make_attempt(), [with_ids], {}, has_ids=False) is None
    assert objection(make_attempt(), [with_ids], {}, has_ids=True).passing
    assert objection(make_attempt(others=(("b", "1"),)), [with_ids], {}, has_ids=True) is None
    assert objection(make_attempt(others=(("b", "0"),)), [with_ids], {}, has_ids=True).passing, (
        "it was repeated meanwhile"
    )
    assert objection(make_attempt(), [make_manifest("b", {}, generation=1)], {}, False).passing
    other = make_manifest("b", {}, files=[CountedFile("/a", 1)])
    assert not objection(make_attempt(files=(CountedFile("/a", 1),)), [other], {}, False).passing
    assert not objection(make_attempt(number="2"), [make_manifest("a", {}, attempt="3")], {}, False).passing


def test_a_run_is_committed_once_and_as_a_whole(tmp_path):
    plan = plan_attempt(str(tmp_path), "a", [CountedFile("/a", 1, "f")], [])
    committed = commit(plan, {MONDAY: 5}, CountedIds())
    assert committed_runs(str(tmp_path)) == [committed]
    assert commit(plan, {MONDAY: 5}, CountedIds()) == committed, "engines may repeat a step"
    assert outcome(plan) is None
    later = plan_attempt(str(tmp_path), "a", plan.files, [committed])
    assert commit(later, {TUESDAY: 5}, CountedIds()) is None
    assert "and 0 now" in outcome(later).detail
    assert committed_runs(str(tmp_path)) == [committed]
    corrected = replace(later, generation=1, is_correction=True)
    assert commit(corrected, {TUESDAY: 5}, CountedIds()).windows == {MONDAY: 0, TUESDAY: 5}
    assert commit(plan, {MONDAY: 5}, CountedIds()) is None, "an older attempt must not take the place of a newer one"


def test_a_replaced_run_does_not_count_from_the_moment_that_its_successor_does(tmp_path):
    first = commit(plan_attempt(str(tmp_path), "h", [], []), {MONDAY: 5}, CountedIds())
    plan = plan_attempt(str(tmp_path), "day", [], [first], replace=["h"])
    second = commit(plan, {MONDAY: 5}, CountedIds())
    assert (tmp_path / "runs" / "h" / "run.json").exists(), "its files may go later"
    assert committed_runs(str(tmp_path)) == [second]
    assert json.loads((tmp_path / "runs" / "day" / "run.json").read_text())["replaces"] == [["h", first.attempt]]
