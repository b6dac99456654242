"""What the page asks of tallies: by ids only, of files that may be anyone's, and once while nothing changes."""

import re
import shutil
from dataclasses import replace

import pytest

from hushgram.pipelines.results import read_records
from hushgram.pipelines.view import result_index, standalone, tallies
from hushgram.pipelines.view.result_index import ResultIndex
from hushgram.schemas.avro_schemas import HISTOGRAM
from hushgram.schemas.records import Histogram
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.files import FORMATS
from tests.helpers.pages import TRIP, unpack, write_tallied


@pytest.fixture
def results(tmp_path):
    """An index of a directory, its outline, and what is in it."""
    made = write_tallied(tmp_path, windows=2, reports=1500)
    index = ResultIndex(str(tmp_path))
    index.refresh()
    return index, index.outline(), made


def find_ids(outline):
    [collection] = outline["collections"]
    return {group["name"]: group["id"] for group in collection["groups"]}, [
        each["id"] for each in collection["windows"]
    ]


def test_others_are_estimated_from_the_sum_of_the_other_tallies(results):
    index, outline, made = results
    groups, windows = find_ids(outline)
    for group in ("A", "B", "C"):
        picture, _ = unpack(index.others(outline["run"], windows[0], groups[group]))
        first = made[0][0].key.window_start
        counts = [
            histogram.tallies[TRIP.revision][1]
            for snapshot, histogram in made
            if snapshot.key.window_start == first and snapshot.key.group not in (None, group)
        ]
        estimate = TRIP.estimate(sum(counts))
        assert picture["probabilities"].tolist() == estimate.probabilities.tolist()
        assert picture["reports"] == 3000
        assert (picture["mean_low"], picture["mean_high"]) == estimate.interval("mean")
        assert picture["early"] is False


def test_ids_of_something_else_lead_nowhere(results):
    index, outline, _ = results
    groups, windows = find_ids(outline)
    run = outline["run"]
    assert index.others("another run", windows[0], groups["A"]) is None
    assert index.others(run, windows[0], groups[None]) is None  # all together have no others
    assert index.others(run, groups["A"], windows[0]) is None
    assert index.others(run, windows[0], windows[1]) is None
    assert index.others(run, windows[0], 10**9) is None
    assert index.changes(run, windows[0]) is None
    assert index.changes("another run", groups["A"]) is None
    assert index.changes(run, -1) is None


def test_an_answer_is_made_once_while_nothing_changes(results, monkeypatch, tmp_path):
    index, outline, _ = results
    groups, windows = find_ids(outline)
    made, estimate_others = [], result_index.estimate_others

    def count_and_estimate(*arguments, **named):
        made.append(named["group"])
        return estimate_others(*arguments, **named)

    monkeypatch.setattr(result_index, "estimate_others", count_and_estimate)
    first = index.others(outline["run"], windows[0], groups["A"])
    assert index.others(outline["run"], windows[0], groups["A"]) == first
    assert made == ["A"]
    write_tallied(tmp_path, windows=2, reports=1600)
    index.refresh()
    assert index.others(outline["run"], windows[0], groups["A"]) != first
    assert made == ["A", "A"]


def change_histograms(directory, change):
    """Rewrites every file of histograms with others."""
    for path in (directory / "histograms").rglob("*.avro"):
        parts = [Histogram.from_avro(record) for record in read_records(str(path))]
        write_atomically(str(path), FORMATS["avro"](HISTOGRAM, [change(part) for part in parts]))


def shorten(part):
    return replace(part, tallies={name: (reports, counts[:-1]) for name, (reports, counts) in part.tallies.items()})


def rename(part):
    return replace(part, tallies={"0123456789abcdef": next(iter(part.tallies.values()))})


def reduce_reports(part):
    return replace(part, tallies={name: (reports - 1, counts) for name, (reports, counts) in part.tallies.items()})


FAULTS = {
    "missing": lambda directory: shutil.rmtree(directory / "histograms"),
    "damaged": lambda directory: [path.write_bytes(b"no") for path in (directory / "histograms").rglob("*.avro")],
    "too short": lambda directory: change_histograms(directory, shorten),
    "of another revision": lambda directory: change_histograms(directory, rename),
    "of another pane": lambda directory: change_histograms(directory, reduce_reports),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_tallies_that_are_not_those_of_the_snapshots_are_a_problem_in_words(results, fault, tmp_path):
    index, outline, _ = results
    groups, windows = find_ids(outline)
    fault(tmp_path)
    answer, _ = unpack(index.others(outline["run"], windows[0], groups["A"]))
    assert "tallies" in answer["problem"]
    assert str(tmp_path) not in answer["problem"]
    answer, _ = unpack(index.changes(outline["run"], groups[None]))
    assert "tallies" in answer.get("problem", "") or answer["comparisons"] == 0


def test_a_collection_that_snapshots_do_not_tell_can_be_given(tmp_path):
    unusual = replace(TRIP, bandwidth=0.2345)
    write_tallied(tmp_path, windows=1, reports=1500, collection=unusual)
    problems = []
    for definitions in (None, {"trip": unusual}):
        index = ResultIndex(str(tmp_path), definitions)
        index.refresh()
        outline = index.outline()
        groups, windows = find_ids(outline)
        answer, _ = unpack(index.others(outline["run"], windows[0], groups["A"]))
        problems.append(answer.get("problem"))
    assert problems == ["results do not tell mechanism and ε, as they are unusual; give --collections FILE", None]


def test_too_many_windows_are_left_to_the_command(results, monkeypatch):
    index, outline, _ = results
    monkeypatch.setattr(tallies, "MOST_TALLIES", 7)  # there are 8
    answer, _ = unpack(index.changes(outline["run"], find_ids(outline)[0]["A"]))
    assert answer["problem"] == "these are more than 7 windows and groups; hushgram changes judges them"


def test_a_written_page_holds_the_newest_of_the_other_groups(results, monkeypatch):
    index, outline, _ = results
    groups, windows = find_ids(outline)
    monkeypatch.setattr(standalone, "MOST_OTHERS", 4)
    page = b"".join(standalone.standalone_page(index, "")).decode()
    held = set(re.findall(r'id="data-(\d+/others/\d+)"', page))
    wanted = [f"{window}/others/{groups[group]}" for window in reversed(windows) for group in ("A", "B", "C")]
    assert held == set(wanted[:4])
    assert f'id="data-{groups[None]}/changes"' in page
