"""Histograms merged into days and weeks of a time zone: exactly the counts of such windows, or refused."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from hushgram import Collection, Windows
from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.results import read_results
from hushgram.pipelines.rollup import merge
from hushgram.quantile_shares import STANDARD_SHARES
from hushgram.schemas.records import Histogram, Key, Pane, Snapshot
from tests.helpers.reports import DAY, HOUR, compute_tallies, encode_avro_file, find_windows, make_report_rows

SPRING = 1_774_652_400_000  # 2026-03-28, 00:00 in Berlin, where the next day has 23 hours
BERLIN = {"time_zone": "Europe/Berlin"}
YAML = """
collections:
  commute:
    domain: {low: 0, high: 180}
    buckets: 16
    epsilon: 1.0
    minimum_reports: 1
    quantiles: [0.999, 0.5]
    windows: {size: 1h, max_age: 30d, time_zone: Europe/Berlin}
"""


def make_collection(**times):
    return Collection(name="c", low=0, high=1, buckets=4, epsilon=1, groups=["DE"], windows=Windows.parse(times))


def make_rows(source, count=200, days=12):
    rng = np.random.default_rng(7)
    return [
        {**row, "event_time": int(SPRING - 4 * DAY + rng.integers(0, days * DAY))}
        for row in make_report_rows(source, count, 1)
    ]


def make_histograms(source, rows):
    """The histograms that a run would have written."""
    windows = dict(window for row in rows for window in find_windows(source.windows, row["event_time"]))
    return [
        Histogram(Key(name, group, start, windows[start]), Pane(), {revision: (sum(counts), np.array(counts))})
        for (name, group, start, revision), counts in compute_tallies([source], rows).items()
    ]


def merge_histograms(source, stored, **times):
    """Histograms again, so that they can be merged again."""
    goal = Windows.parse(times)
    return [
        Histogram(key, pane, dict(tallies.parts)) for key, pane, tallies in merge(stored, {"c": source}, {"c": goal}, 0)
    ]


def extract_tallies(stored):
    return {
        (part.key.collection, part.key.group, part.key.window_start, revision): counts.tolist()
        for part in stored
        for revision, (_, counts) in part.tallies.items()
    }


@pytest.mark.parametrize(
    ("own", "goal"),
    [
        ({"size": "1h"}, {"size": "1d", **BERLIN}),
        ({"size": "1h", **BERLIN}, {"size": "1w", **BERLIN}),
        ({"size": "1d", **BERLIN}, {"size": "1w", "week_start": "sunday", **BERLIN}),
        ({"size": "1d", **BERLIN}, {"size": "3d", **BERLIN}),
        ({"size": "30m"}, {"size": "1d", "time_zone": "Asia/Kolkata"}),
        ({"size": "1d"}, {"size": "1w"}),
        ({"size": "3h", "every": "1h"}, {"size": "6h"}),
        ({"size": "2d", "every": "1d", **BERLIN}, {"size": "4d", **BERLIN}),
        ({"size": "7d", "every": "1d", **BERLIN}, {"size": "1w", **BERLIN}),
    ],
)
def test_merged_windows_have_the_tallies_of_longer_windows(own, goal):
    source = make_collection(**own)
    rows = make_rows(source)
    longer = merge_histograms(source, make_histograms(source, rows), **goal)
    expected = replace(source, windows=Windows.parse(goal))
    assert extract_tallies(longer) == compute_tallies([expected], rows)
    assert {part.key for part in longer} == {part.key for part in make_histograms(expected, rows)}


def test_hours_are_merged_into_days_and_days_into_weeks():
    hours = make_collection(size="1h", **BERLIN)
    rows = make_rows(hours)
    days = merge_histograms(hours, make_histograms(hours, rows), size="1d", **BERLIN)
    assert {(day.key.window_end - day.key.window_start) // HOUR for day in days} == {23, 24}
    weeks = merge_histograms(hours, days, size="1w", **BERLIN)
    assert extract_tallies(weeks) == extract_tallies(
        merge_histograms(hours, make_histograms(hours, rows), size="1w", **BERLIN)
    )
    assert {(week.key.window_end - week.key.window_start) // HOUR for week in weeks} == {167, 168}


@pytest.mark.parametrize(
    ("own", "goal", "message"),
    [
        ({"size": "1d"}, {"size": "1d", **BERLIN}, "UTC do not fit evenly into 1d in Europe/Berlin"),
        ({"size": "1d", **BERLIN}, {"size": "1w"}, "do not fit evenly into 1w; allowed: lengths that they divide"),
        ({"size": "1w", **BERLIN}, {"size": "1w", "week_start": "sunday", **BERLIN}, "do not fit evenly into 1w"),
        ({"size": "1d", **BERLIN}, {"size": "1h", **BERLIN}, "do not fit evenly into 1h in Europe/Berlin"),
        ({"size": "6h"}, {"size": "1d", **BERLIN}, "do not fit evenly into 1d"),
        ({"size": "1h"}, {"size": "1d", "time_zone": "Asia/Kolkata"}, "do not fit evenly into 1d in Asia/Kolkata"),
        ({"size": "3d", "every": "1d", **BERLIN}, {"size": "1w", **BERLIN}, "do not fit evenly into 1w"),
    ],
)
def test_windows_that_do_not_fit_evenly_are_refused(own, goal, message):
    source = make_collection(**own)
    with pytest.raises(UsageError, match=message) as error:
        merge_histograms(source, make_histograms(source, make_rows(source)), **goal)
    assert str(error.value).startswith("--window: windows of 'c' such as 2026-")


def test_windows_of_two_lengths_are_not_counted_twice():
    hours = make_collection(size="1h", **BERLIN)
    stored = make_histograms(hours, make_rows(hours))
    with pytest.raises(UsageError, match="--input: windows of 'c' overlap: 2026-"):
        merge_histograms(hours, [*stored, *merge_histograms(hours, stored, size="1d", **BERLIN)], size="1w", **BERLIN)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Hours of a batch run, and its reports."""
    folder = tmp_path_factory.mktemp("hours")
    (folder / "collections.yaml").write_text(YAML)
    commute = Collection(name="commute", low=0, high=180, buckets=16, epsilon=1.0)
    rows = [{**row, "group": None} for row in make_rows(commute, 300)]
    (folder / "reports.avro").write_bytes(encode_avro_file(rows))
    arguments = ["--collections", str(folder / "collections.yaml"), "--input", str(folder / "reports.avro")]
    options = ["--as-of", "2026-04-10", "--output", str(folder / "results")]
    assert command.main(["aggregate", *arguments, *options]) == 0
    return folder, commute, rows


def test_a_batch_and_its_rollup_have_the_quantiles_of_the_collection_or_others(results, tmp_path):
    folder, *_ = results
    arguments = ["rollup", "--collections", str(folder / "collections.yaml"), "--input", str(folder / "results")]
    assert command.main([*arguments, "--window", "1d", "--output", str(tmp_path / "own")]) == 0
    assert command.main([*arguments, "--output", str(tmp_path / "other"), "--quantiles", "0.9,0.25"]) == 0
    for where, shares in (
        (folder / "results", (*STANDARD_SHARES, 0.999)),
        (tmp_path / "own", (*STANDARD_SHARES, 0.999)),
        (tmp_path / "other", (0.25, 0.9)),
    ):
        snapshots = read_results(str(where), "snapshots", Snapshot.from_avro)
        assert {tuple(quantile.share for quantile in s.quantiles) for s in snapshots} == {shares}


def test_a_window_that_stays_in_either_folder_is_named_once(results, tmp_path, capsys):
    folder, *_ = results
    arguments = ["rollup", "--collections", str(folder / "collections.yaml"), "--window", "1d"]
    twice = ["--input", str(folder / "results"), "--input", str(tmp_path / "copy")]
    shutil.copytree(folder / "results" / "histograms", tmp_path / "copy" / "histograms")
    assert command.main([*arguments, *twice, "--output", str(tmp_path / "days")]) == 0
    days = len(read_results(str(tmp_path / "days"), "snapshots", Snapshot.from_avro))
    for emptied in (None, "histograms", "snapshots"):
        if emptied:
            shutil.rmtree(tmp_path / "days" / emptied)
        capsys.readouterr()
        assert command.main([*arguments, *twice[:2], "--output", str(tmp_path / "days")]) == (emptied != "snapshots")
        assert (f"{days} windows of {tmp_path / 'days'} stay" in capsys.readouterr().err) == (emptied != "snapshots")


def test_rollup_uses_the_time_zone_of_the_collection_or_another(results, tmp_path, capsys):
    folder, commute, rows = results
    arguments = ["rollup", "--collections", str(folder / "collections.yaml"), "--input", str(folder / "results")]
    for name, options, windows in (
        ("own", ["--window", "1d"], {"size": "1d", **BERLIN}),
        ("other", ["--window", "1w", "--time-zone", "America/New_York", "--week-start", "sunday"],
         {"size": "1w", "time_zone": "America/New_York", "week_start": "sunday"}),
        ("utc", ["--window", "6h", "--time-zone", "UTC"], {"size": "6h"}),
    ):  # fmt: skip
        assert command.main([*arguments, *options, "--output", str(tmp_path / name)]) == 0
        expected = compute_tallies([replace(commute, windows=Windows.parse(windows))], rows)
        assert extract_tallies(read_results(str(tmp_path / name), "histograms", Histogram.from_avro)) == expected
        assert len(read_results(str(tmp_path / name), "snapshots", Snapshot.from_avro)) == len(expected)
    capsys.readouterr()
    assert command.main(["show", str(tmp_path / "own")]) == 0
    output = capsys.readouterr().out
    assert "\n  window (Europe/Berlin) " in output
    assert "\n  2026-03-29 00:00 – 03-30 00:00 " in output
    assert command.main(["show", str(tmp_path / "utc")]) == 0
    assert "  window (UTC)  " in capsys.readouterr().out
    for options, message in (
        (["--window", "1d", "--time-zone", "Berlin"], "--time-zone: got 'Berlin', allowed: a name of the IANA"),
        (["--time-zone", "UTC"], "--time-zone: only with --window"),
        (["--week-start", "sunday"], "--week-start: only with --window"),
        (
            ["--window", "4h"],
            "--window: for 'commute': windows.every: got 4h, which does not divide the days of Europe/",
        ),
    ):
        assert command.main([*arguments, *options, "--output", str(tmp_path / "no")]) == 2
        output = capsys.readouterr().err
        assert message in output
        assert len(output.splitlines()) == 1
    assert not (tmp_path / "no").exists()
