"""`hushgram compare`: groups, windows and folders of results beside one another, in words and as JSON."""

import json
import re

import numpy as np
import pytest

from hushgram import load_collections
from hushgram.comparison import holm, same_distribution
from hushgram.pipelines.cli import command
from hushgram.schemas.avro_schemas import HISTOGRAM, SNAPSHOT
from hushgram.schemas.records import Key, Pane
from hushgram.transforms.estimation import histogram, snapshots
from hushgram.transforms.sinks.window_files import write_window
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR

YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 2.0
    minimum_reports: 3000
    groups: [north, south, west]
    windows: {size: 1h, time_zone: Europe/Berlin}
  pay:
    domain: {low: 0, high: 100}
    mechanism: piecewise
    epsilon: 2.0
    groups: [north, south]
"""
START = 1_767_225_600_000  # 2026-01-01T00:00 in UTC, an hour later in Berlin
SCALES = {"north": 8, "south": 14, "west": 8}
REPORTS = 4000


def write(folder, collection, windows):
    write_window(f"{folder}/snapshots", SNAPSHOT, "avro", snapshots(collection, windows))
    write_window(f"{folder}/histograms", HISTOGRAM, "avro", [histogram(*window) for window in windows])


def make_windows(collection, start, size, timing, seed, scales=SCALES, reports=REPORTS):
    """A window of each group, and of all together."""
    rng, total, made = np.random.default_rng(seed), Tallies(), []
    for group, scale in scales.items():
        tally = collection.tally(collection.simulate(rng.gamma(4, scale, reports), seed=int(rng.integers(1 << 30))))
        tallies = Tallies({collection.revision: (reports, tally)})
        made.append((Key(collection.name, group, start, start + size), Pane(timing=timing), tallies))
        total.add(tallies)
    return [*made, (Key(collection.name, None, start, start + size), Pane(timing=timing), total)]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Results of two hours, the second of which has not ended; and of the same hours elsewhere."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "collections.yaml").write_text(YAML)
    commute, pay = load_collections(folder / "collections.yaml").values()
    for number, timing in enumerate(("on_time", "early")):
        write(folder / "results", commute, make_windows(commute, START + number * HOUR, HOUR, timing, number))
    write(folder / "elsewhere", commute, make_windows(commute, START, HOUR, "on_time", 7, {"north": 8, "south": 16}))
    write(folder / "few", commute, make_windows(commute, START, HOUR, "on_time", 8, reports=500))
    write(folder / "sliding", commute, make_windows(commute, START, 2 * HOUR, "on_time", 1))
    write(folder / "sliding", commute, make_windows(commute, START + HOUR, 2 * HOUR, "on_time", 2))
    write(folder / "means", pay, make_windows(pay, START, HOUR, "on_time", 3, {"north": 8, "south": 14}))
    return folder


@pytest.fixture
def compare(base, monkeypatch, capsys):
    monkeypatch.chdir(base)

    def run(*arguments, code=0):
        assert command.main(["compare", *arguments]) == code
        out, err = capsys.readouterr()
        return err if code else out

    return run


FILE = ("--collections", "collections.yaml")
FIRST = ("--in-window", "2026-01-01T01")


def test_two_groups_are_compared_in_a_table_and_a_sentence(compare):
    text = compare("results", *FILE, "--groups", "north", "south", *FIRST)
    assert text.startswith("commute (minutes)\n")
    assert "95 % interval\n" in text
    for row in ("reports", "mean", "standard deviation", "10 % quantile", "median", "90 % quantile"):
        assert f"\n  {row}" in text
    assert "\nThe median of north is " in text
    assert " minutes lower than that of south, 95 % interval " in text
    assert re.search(
        r"up to .* minutes is \d+ percentage points higher in north than in south, band \d+ to \d+\.", text
    )
    assert "\nOne distribution? p < 0.0001.\n" in text


def test_json_has_the_same_and_the_curve(compare, base):
    answer = json.loads(compare("results", *FILE, "--groups", "north", "west", *FIRST, "--json"))
    assert (answer["collection"], answer["unit"], answer["correction"]) == ("commute", "minutes", None)
    [pair] = answer["comparisons"]
    assert pair["first"] == {
        "name": "north",
        "reports": REPORTS,
        "status": "ok",
        "windows": [{"window_start": START, "window_end": START + HOUR}],
    }
    assert pair["sentence"].startswith("No difference between north and west was detected; in 4 of 5 cases, one of ")
    assert pair["always_valid"] is False
    commute = load_collections(base / "collections.yaml")["commute"]
    windows = {key.group: tallies for key, _, tallies in make_windows(commute, START, HOUR, "on_time", 0)}
    one, other = (commute.estimate(windows[name].parts[commute.revision][1]) for name in ("north", "west"))
    assert pair["pvalue"] == pair["corrected_pvalue"] == same_distribution(one.tallies, other.tallies)
    comparison = one.compare(other)
    rows = {(row["of"], row["at"]): (row["difference"], row["low"], row["high"]) for row in pair["differences"]}
    assert rows["mean", None] == tuple(comparison.mean)
    assert rows["std", None] == tuple(comparison.std)
    assert rows["quantile", 0.9] == tuple(comparison.quantile(0.9))
    assert pair["curve"]["high"] == comparison.curve().high.tolist()
    assert pair["detectable"] == comparison.detectable


def test_one_group_is_compared_with_the_sum_of_the_others_and_never_with_the_total(compare):
    alone, said = (
        json.loads(compare("results", *FILE, "--groups", "north", *others, *FIRST, "--json"))
        for others in ((), ("--others",))
    )
    assert alone == said
    [pair] = alone["comparisons"]
    assert (pair["second"]["name"], pair["second"]["reports"]) == ("the other groups", 2 * REPORTS)
    several = json.loads(compare("results", *FILE, "--groups", "north", "south", "--others", *FIRST, "--json"))
    assert [pair["first"]["name"] for pair in several["comparisons"]] == ["north", "south"]


def test_several_comparisons_are_corrected_and_say_so(compare):
    answer = json.loads(compare("results", *FILE, "--groups", "north", "south", "west", *FIRST, "--json"))
    pairs = answer["comparisons"]
    names = [(pair["first"]["name"], pair["second"]["name"]) for pair in pairs]
    assert names == [("north", "south"), ("north", "west"), ("south", "west")]
    assert answer["correction"] == {"pvalues": "holm", "intervals": "bonferroni"}
    assert [pair["corrected_pvalue"] for pair in pairs] == holm([pair["pvalue"] for pair in pairs])
    assert {pair["level"] for pair in pairs} == {1 - 0.05 / 3}
    text = compare("results", *FILE, "--groups", "north", "south", "west", *FIRST)
    assert text.count("98.3 % interval\n") == 3
    assert text.count(", corrected for 3 comparisons (Holm).") == 3
    assert text.endswith("the intervals hold all together at 95 % (Bonferroni), p-values are Holm's.\n")


def test_windows_that_still_grow_have_intervals_for_all_times(compare):
    text = compare("results", *FILE, "--windows", "2026-01-01T01", "2026-01-01T02")
    assert "95 % interval, at any time\n" in text
    assert "Reports still arrive: this holds at any time." in text
    assert ", valid at any time while reports arrive.\n" in text
    [pair] = json.loads(
        compare("results", *FILE, "--windows", "2026-01-01T01:00", "2026-01-01T02", "--in-group", "west", "--json")
    )["comparisons"]
    assert pair["always_valid"] is True
    assert pair["first"]["reports"] == REPORTS


def test_without_a_window_all_are_added_up(compare):
    [pair] = json.loads(compare("results", *FILE, "--groups", "north", "south", "--json"))["comparisons"]
    assert pair["first"]["reports"] == 2 * REPORTS
    assert len(pair["first"]["windows"]) == 2


def test_two_folders_are_compared(compare):
    text = compare("results", *FILE, "--against", "elsewhere", "--in-group", "south", *FIRST)
    assert "\nThe median of results is " in text
    assert "lower than that of elsewhere" in text
    [pair] = json.loads(compare("results", *FILE, "--against", "elsewhere", *FIRST, "--json"))["comparisons"]
    assert (pair["first"]["reports"], pair["second"]["reports"]) == (3 * REPORTS, 2 * REPORTS)
    assert "\nThe median of results is " in compare("results", "--against", "elsewhere", "--in-group", "south", *FIRST)


def test_stored_intervals_serve_where_there_is_no_file_of_collections(compare):
    stored = compare("results", "--groups", "north", "south", *FIRST)
    estimated = compare("results", *FILE, "--groups", "north", "south", *FIRST)
    assert stored.endswith("There is no test that both are the same distribution without --collections.\n")
    assert stored.splitlines()[:-1] == estimated.splitlines()[:-1]


def test_means_alone_are_compared(compare):
    text = compare("means", *FILE, "--groups", "north", "south")
    assert "quantile" not in text
    assert "\nThe mean of north is " in text
    assert "\nOne mean? p < 0.0001.\n" in text
    assert (
        json.loads(compare("means", *FILE, "--groups", "north", "south", "--json"))["comparisons"][0]["curve"] is None
    )


def test_too_few_reports_are_told(compare):
    assert compare("few", *FILE, "--groups", "north", "west").endswith(
        "north: too few reports to trust.\nwest: too few reports to trust.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["results", *FILE, "--groups", "nort"],
            "--groups: got 'nort', allowed: north, south, west (did you mean north?)",
        ),
        (["results", *FILE, "--groups", "west", "west"], "--groups: named twice: west"),
        (["results", "--groups", "west", "north"], "west: 2 snapshots cannot be added up: choose one window, or give"),
        (["results", "--groups", "west", *FIRST], "the other groups: 2 snapshots cannot be added up"),
        (["results", "--groups", "west", "north", "south", *FIRST], "a snapshot holds intervals at 95% only"),
        (["results", *FILE, "--windows", "2026-01-01T01"], "--windows: got one, allowed: two or more"),
        (
            ["results", *FILE, "--windows", "2026-01-01", "2027"],
            "--windows: no window begins at '2027', there are: 2026",
        ),
        (["results", *FILE, "--windows", "2026-01-01", "2026-01-01T01"], "cannot be compared: both are one window"),
        (["results", *FILE, "--groups", "west", "--in-window", ""], "--in-window: no window begins at ''"),
        (["sliding", *FILE, "--windows", "2026-01-01T01", "2026-01-01T02"], "their windows overlap, and have reports"),
        (["sliding", *FILE, "--groups", "west"], "west: windows overlap, and cannot be added up: 2026-01-01 00:00"),
        (["results", *FILE, "--against", "results/"], "--against: results and results/ are the same folder"),
        (["results", *FILE, "--against", "means"], "--against means: no results of 'commute'"),
        (["results", *FILE, "--against", "nowhere"], "nowhere: no such directory"),
        (["results", *FILE, "--against", "elsewhere", "--others"], "--others: only with --groups"),
        (["results", *FILE, "--groups", "west", "--in-group", "west"], "--in-group: not with --groups"),
        (["results", *FILE, "--windows", "a", "b", "--in-window", "a"], "--in-window: not with --windows"),
        (["results", *FILE, "--groups", "west", "--collection", "pay"], "--collection: got 'pay', allowed: commute"),
    ],
)
def test_what_makes_no_sense_ends_with_a_line_that_says_why(compare, arguments, message):
    assert message in compare(*arguments, code=2)


def test_one_of_several_collections_has_to_be_named(compare, base, tmp_path):
    both = tmp_path / "both"
    commute, pay = load_collections(base / "collections.yaml").values()
    write(both, commute, make_windows(commute, START, HOUR, "on_time", 1))
    write(both, pay, make_windows(pay, START, HOUR, "on_time", 1, {"north": 8, "south": 14}))
    message = compare(str(both), *FILE, "--groups", "north", code=2)
    assert "--collection: there are several, name one of: commute, pay" in message
    assert compare(str(both), *FILE, "--groups", "north", "--collection", "pay").startswith("pay (no unit)\n")


def test_another_file_of_collections_is_refused(compare, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(YAML.replace("high: 180", "high: 240"))
    message = compare("results", "--collections", str(other), "--groups", "north", *FIRST, code=2)
    assert "commute: tally of an unknown revision" in message
