"""The page in a real browser: pictures, numbers and warnings are those of the snapshots."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hushgram import Collection
from hushgram.pipelines.cli import command
from hushgram.pipelines.formatting import NOTES, number, span
from hushgram.pipelines.results import best, read_records
from hushgram.schemas.records import Snapshot
from tests.helpers.browsing import (
    act_and_redraw,
    count_lines,
    find_key,
    find_newest,
    format_js,
    read_curve,
    read_table,
    read_traces,
)
from tests.helpers.pages import COMMUTE, make_estimate, write_window
from tests.helpers.reports import HOUR, START

DE_AND_ALL = "#collection=commute&all=&group=DE"


@pytest.mark.parametrize("name", ["commute", "latency", "age"])
def test_the_drawn_density_is_that_of_the_snapshot_and_its_area_is_one(open_page, page_address, stream, name):
    page = open_page(f"{page_address}#collection={name}")
    snapshot = find_newest(stream[1], name)
    trace = read_curve(page, "#density .plot", page.evaluate("resolve().collection.groups[0].label"))
    x, y = np.array(trace["x"]), np.array(trace["y"])
    assert x[0] == snapshot.low - (0.5 if snapshot.integer else 0)
    assert x[-1] == pytest.approx(snapshot.high + (0.5 if snapshot.integer else 0))
    text = page.inner_text("#density-heading")
    unit_text = {"latency": "within a factor of 2", "age": "per 10 years", "commute": "per 10 minutes"}[name]
    assert unit_text in text
    length = {"latency": np.log10(2), "age": 10, "commute": 10}[name]
    transform = np.log10 if name == "latency" else np.asarray
    shares = y[:-1] / 100 / length * np.diff(transform(x))
    curve = np.interp(transform(x), transform(snapshot.edges), [0, *np.cumsum(snapshot.probabilities)])
    assert shares == pytest.approx(np.diff(curve), abs=1e-12)
    assert shares.sum() == pytest.approx(1)
    assert y.max() < 60
    assert set(snapshot.density_edges.tolist()) <= set(x.tolist())  # a step is a bin, or lies in one
    assert count_lines(page, "#density") >= 1
    axis = page.evaluate("document.querySelector('#density .plot').layout.xaxis.type")
    assert axis == ("log" if name == "latency" else "linear")


@pytest.mark.parametrize("name", ["commute", "latency", "age"])
def test_the_drawn_curve_rises_within_the_band_of_the_snapshot(open_page, page_address, stream, name):
    page = open_page(f"{page_address}#collection={name}")
    snapshot = find_newest(stream[1], name)
    band, curve = read_traces(page, "#cdf .plot")
    points = snapshot.cdf_points.size
    assert band["x"][:points] == snapshot.cdf_points.tolist()
    assert band["y"][:points] == (100 * snapshot.cdf_high).tolist()
    assert band["y"][points:] == (100 * snapshot.cdf_low)[::-1].tolist()
    y = np.array(curve["y"])
    assert y[1:] == pytest.approx(100 * np.cumsum(snapshot.probabilities))
    assert (np.diff(y) >= 0).all()
    curve_at_points = np.interp(snapshot.cdf_points, curve["x"], y)
    assert (curve_at_points >= 100 * snapshot.cdf_low - 1e-7).all()
    assert (curve_at_points <= 100 * snapshot.cdf_high + 1e-7).all()
    assert count_lines(page, "#cdf") >= 1


@pytest.mark.parametrize("name", ["latency", "age"])
def test_the_table_behind_the_curve_has_the_curve_itself(open_page, page_address, stream, name):
    page = open_page(f"{page_address}#collection={name}")
    _, trace = read_traces(page, "#cdf .plot")
    points, curve = np.array([[float(cell) for cell in row[:2]] for row in read_table(page, "cdf")]).T
    assert points.tolist() == find_newest(stream[1], name).cdf_points.tolist()
    transform = np.log if name == "latency" else np.asarray
    assert 100 * curve == pytest.approx(np.interp(transform(points), transform(trace["x"]), trace["y"]), abs=1e-9)


def test_a_mean_only_snapshot_is_drawn_with_its_interval_over_the_domain(open_page, page_address, stream):
    page = open_page(f"{page_address}#collection=load&all=&group=eu")
    assert page.is_hidden("#distribution")
    intervals = page.evaluate(
        """document.querySelector("#mean").data
            .map(({ x, error_x }) => [x[0], error_x.arrayminus[0], error_x.array[0]])"""
    )
    for (mean, below, above), group in zip(intervals, (None, "eu"), strict=True):
        snapshot = find_newest(stream[1], "load", group)
        assert mean == snapshot.mean
        assert mean - below == pytest.approx(snapshot.mean_low)
        assert mean + above == pytest.approx(snapshot.mean_high)
    assert page.evaluate("document.querySelector('#mean').layout.xaxis.range") == [0, 1]
    assert "The mean of all groups is" in page.inner_text("#answer")
    assert [row[1:] for row in read_table(page, "mean")] == [
        [format_js(s.mean), format_js(s.mean_low), format_js(s.mean_high)]
        for s in (find_newest(stream[1], "load", g) for g in (None, "eu"))
    ]
    assert page.locator("#quantity option").all_inner_texts() == ["mean"]


def test_shares_below_zero_are_explained_and_drawn_as_they_are(open_page, page_address, tmp_path):
    assert open_page(f"{page_address}#collection=commute").is_hidden("#below-zero")
    haar = Collection(name="haar", low=-50, high=50, unit="°C", buckets=64, epsilon=1.0, mechanism="haar")
    snapshot = make_estimate(haar, reports=3000)
    assert snapshot.probabilities.min() < 0
    write_window(tmp_path, [snapshot])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    assert page.is_hidden("#below-zero")  # of bins that the reports support, none is below
    older = replace(snapshot, density_edges=None, density_low=None, density_high=None)
    write_window(tmp_path, [older])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    assert "Shares below zero are noise." in page.inner_text("#below-zero")
    [trace] = read_traces(page, "#density .plot")
    assert min(trace["y"]) < 0
    assert "small peaks and dips may be noise" in page.inner_text("#density-about")


def test_numbers_on_an_axis_are_written_as_in_the_text(open_page, tmp_path):
    huge = Collection(name="huge", low=0, high=1e12, unit="bytes", buckets=16, epsilon=2.0)
    snapshots = [make_estimate(huge, None, hour, 3000) for hour in range(3)]
    for hour, snapshot in enumerate(snapshots):  # windows of two hours, one for each hour
        key = replace(snapshot.key, window_end=START + (hour + 2) * HOUR)
        write_window(tmp_path, [replace(snapshot, key=key, reports=hour)])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    ticks = "plot => [...document.querySelectorAll(`${plot} .xtick text`)].map((text) => text.textContent)"
    assert "0.2e+12" in page.evaluate(ticks, "#density")
    counts = page.evaluate(ticks.replace("xtick", "ytick"), "#reports")
    assert counts
    assert all(count.isdecimal() for count in counts)  # no half of a report
    axis_range = page.evaluate("document.querySelector('#time').layout.xaxis.range")
    assert axis_range == [START, START + 4 * HOUR]  # an hour beside the middles of the first and the last


def test_the_end_of_the_domain_is_labelled_on_its_axis(open_page, page_address):
    page = open_page(f"{page_address}#collection=latency")
    assert page.locator("#density .xtick text", has_text="10,000").is_visible()


def test_numbers_between_powers_of_ten_are_written_in_full(open_page, tmp_path):
    narrow = Collection(name="narrow", low=20, high=900, scale="log", unit="ms", buckets=64, epsilon=2.0)
    for hour in range(3):
        write_window(tmp_path, [make_estimate(narrow, None, hour, 3000)])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    ticks = "plot => [...document.querySelectorAll(plot)].map((text) => text.textContent)"
    for axis in ("#density .xtick text", "#cdf .xtick text", "#time .ytick text"):
        values = [float(text.replace(",", "")) for text in page.evaluate(ticks, axis)]
        assert len(values) >= 3
        assert all(20 <= value <= 1000 for value in values), values
    assert "within a factor of" in page.inner_text("#density-heading")


def test_the_density_is_drawn_no_finer_than_the_reports_support(open_page, page_address, stream):
    """Bands where bins are finest, bars where they are wider: both are the bounds of the snapshot."""
    page = open_page(f"{page_address}#collection=commute")
    snapshot = find_newest(stream[1], "commute")
    edges, low, high = snapshot.density_edges, snapshot.density_low, snapshot.density_high
    wide = np.diff(edges) > 1.5 * (snapshot.high - snapshot.low) / 64
    assert 0 < wide.sum() < wide.size
    traces = page.evaluate(
        """document.querySelector("#density .plot").data.map(({ name, x, y, error_y }) => ({
             name, x: [...x], y: [...y], up: error_y?.array, down: error_y?.arrayminus }))"""
    )
    bars, band = ([trace for trace in traces if trace["name"].endswith(end)] for end in ("95 % intervals", "95 % band"))
    y, up, down = (np.array(bars[0][name]) for name in ("y", "up", "down"))
    assert y + up == pytest.approx(1000 * high[wide])  # in percent, per 10 minutes
    assert y - down == pytest.approx(1000 * low[wide])
    assert bars[0]["x"] == pytest.approx((edges[1:] + edges[:-1])[wide] / 2)
    corners = [(x, y) for x, y in zip(band[0]["x"], band[0]["y"], strict=True) if x is not None]
    expected = [
        (edge, 1000 * bound)
        for place, bounds in enumerate(zip(low, high, strict=True))
        if not wide[place]
        for edge in edges[[place, place + 1]]
        for bound in bounds
    ]
    assert np.array(sorted(corners)) == pytest.approx(np.array(sorted(expected)))
    assert "as fine as the reports can tell" in page.inner_text("#density-about")


def test_five_groups_stand_side_by_side_unless_a_person_wants_them_together(open_page, page_address):
    page = open_page(f"{page_address}#collection=commute&all=&group=DE&group=FR")
    assert page.locator("#density .plot").count() == 3
    act_and_redraw(page, lambda: page.check("text=Together"))
    assert page.locator("#density .plot").count() == 1
    assert "together" in page.url


def test_marks_of_many_groups_lie_within_their_window(open_page, tmp_path):
    good = make_estimate(COMMUTE, reports=2000)
    groups = [None, *(f"{number:02}" for number in range(30))]
    for start in (START, START + HOUR):
        times = {"window_start": start, "window_end": start + HOUR}
        write_window(tmp_path, [replace(good, key=replace(good.key, group=group, **times)) for group in groups])
    assert command.main(["view", str(tmp_path)]) == 0
    group_options = "".join(f"&group={group}" for group in groups[1:])
    page = open_page(f"{(tmp_path / 'page.html').as_uri()}#collection=commute&all={group_options}")
    positions = [trace["x"][0] for trace in read_traces(page, "#time")]
    assert len(set(positions)) == len(groups)
    assert START < min(positions) < max(positions) < START + HOUR


def test_groups_are_drawn_together_and_side_by_side(open_page, page_address):
    page = open_page(f"{page_address}{DE_AND_ALL}")
    names = [trace["name"] for trace in read_traces(page, "#density .plot")]
    assert [name for name in names if "95 %" not in name] == ["all groups", "DE"]
    assert page.locator("#density .plot").count() == 1
    act_and_redraw(page, lambda: page.check("text=Side by side"))
    assert page.locator("#density .plot").count() == page.locator("#cdf .plot").count() == 2
    for picture in ("density", "cdf"):  # each keeps to its own place, the one that was there before included
        places = page.locator(f"#{picture} figure").evaluate_all(
            """figures => figures.map((figure) => [figure, figure.querySelector(".main-svg")].map(
                (each) => { const { left, right } = each.getBoundingClientRect(); return [left, right]; }))"""
        )
        (first, first_drawn), (second, second_drawn) = places
        assert first[0] <= first_drawn[0] < first_drawn[1] <= first[1] + 1
        assert first_drawn[1] <= second_drawn[0]
        assert second_drawn[1] <= second[1] + 1
    assert page.locator("#density figcaption bdi").all_inner_texts() == ["all groups", "DE"]
    ranges = page.evaluate("[...document.querySelectorAll('#density .plot')].map(({ layout }) => layout.yaxis.range)")
    assert ranges[0] == ranges[1]
    act_and_redraw(page, lambda: page.check("text=Together"))
    assert page.locator("#density .plot").count() == 1


def test_quantiles_over_time_are_those_of_the_snapshots_with_their_intervals(open_page, page_address, stream):
    page = open_page(f"{page_address}#collection=commute&group=FR")
    best_snapshots = [s for s in best(stream[1]) if (s.key.collection, s.key.group) == ("commute", "FR")]
    traces_by_name = {trace["name"]: trace for trace in read_traces(page, "#time")}
    assert set(traces_by_name) == {"FR, 95 %", "FR, median", "FR, 5 %"}
    for share, name in ((0.05, "5 %"), (0.5, "median"), (0.95, "95 %")):
        values = [next(q for q in s.quantiles if q.share == share) for s in best_snapshots]
        assert [y for y in traces_by_name[f"FR, {name}"]["y"] if y is not None] == [q.value for q in values]
        rows = [row for row in read_table(page, "time") if row[2] == name]
        assert rows == [
            [span(s.key), "FR", name, format_js(q.value), format_js(q.low), format_js(q.high), str(s.reports)]
            for s, q in zip(best_snapshots, values, strict=True)
        ]
    act_and_redraw(page, lambda: page.select_option("#quantity", "0.25"))
    assert [trace["name"] for trace in read_traces(page, "#time")] == ["FR, 25 %"]
    act_and_redraw(page, lambda: page.select_option("#quantity", "mean"))
    assert [row[3] for row in read_table(page, "time")] == [format_js(s.mean) for s in best_snapshots]


def test_many_windows_have_lines_in_ribbons_that_break_where_windows_are_missing(open_page, tmp_path):
    snapshot = make_estimate(COMMUTE, reports=1500)
    hours = [hour for hour in range(200) if hour not in (50, 51)]
    for hour in hours:
        key = replace(snapshot.key, window_start=START + hour * HOUR, window_end=START + (hour + 1) * HOUR)
        write_window(tmp_path, [replace(snapshot, key=key, reports=1500 + hour)])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    ribbon, line = read_traces(page, "#time")[:2]
    assert line["y"].index(None) == 50
    assert len([y for y in line["y"] if y is not None]) == len(hours)
    assert ribbon["y"].index(None) == 100
    assert read_traces(page, "#reports")[0]["type"] == "scatter"
    assert read_traces(page, "#reports")[0]["y"] == [1500 + hour for hour in hours]
    assert count_lines(page, "#time") >= 1


def test_reports_of_every_window_are_drawn_and_a_click_chooses(open_page, page_address, stream):
    page = open_page(f"{page_address}#collection=commute")
    best_snapshots = [s for s in best(stream[1]) if (s.key.collection, s.key.group) == ("commute", None)]
    assert read_traces(page, "#reports")[0]["y"] == [s.reports for s in best_snapshots]
    assert [row[2] for row in read_table(page, "reports")] == [str(s.reports) for s in best_snapshots]
    first = page.locator("#reports .points .point path").first
    act_and_redraw(page, lambda: first.click(force=True))
    assert page.inner_text("#window-label") == f"{span(best_snapshots[0].key)} UTC (1 of {len(best_snapshots)})"


def test_windows_are_shown_by_the_clocks_of_their_time_zone(open_page, tmp_path):
    """Three days of Auckland, the second of 25 hours: each is drawn over its own date."""
    good, zone = make_estimate(COMMUTE, reports=2000), "Pacific/Auckland"
    edges = [int(datetime(2026, 4, day, tzinfo=ZoneInfo(zone)).timestamp() * 1000) for day in (4, 5, 6, 7)]
    for start, end in pairwise(edges):
        key = replace(good.key, window_start=start, window_end=end)
        write_window(tmp_path, [replace(good, key=key, time_zone=zone)])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page(f"{(tmp_path / 'page.html').as_uri()}#window={edges[1]}-{edges[2]}")
    label = "2026-04-05 00:00 – 04-06 00:00"
    assert page.inner_text("#window-label") == f"{label} Pacific/Auckland (2 of 3)"
    times = [datetime.fromtimestamp(x / 1000, UTC) for x in read_traces(page, "#reports")[0]["x"]]
    assert [(x.day, 11 <= x.hour <= 13) for x in times] == [(4, True), (5, True), (6, True)]
    [line] = {trace["x"].index(None) for trace in read_traces(page, "#time") if None in trace["x"]}
    assert line == 3  # nothing is missing between them
    assert page.evaluate("document.querySelector('#time').layout.xaxis.title.text") == f"window ({zone})"
    assert [row[0] for row in read_table(page, "reports")][1] == label


def test_panes_show_how_the_estimate_moved(open_page, page_address, stream):
    page = open_page(f"{page_address}#collection=commute&window={START}-{START + HOUR}&group=DE")
    panes = [s for s in stream[1] if s.key == find_key(stream[1], "commute", "DE", START)]
    [trace] = read_traces(page, "#panes")
    assert trace["y"] == [next(q.value for q in s.quantiles if q.share == 0.5) for s in panes]
    symbols = page.evaluate("document.querySelector('#panes').data[0].marker.symbol")
    assert symbols == ["circle-open", "circle-open", "circle", "diamond"]
    rows = read_table(page, "panes")
    assert [row[1] for row in rows] == ["early", "early", "on time", "late"]
    assert [row[4:6] for row in rows] == [[str(s.reports), format_js(s.mean)] for s in panes]
    act_and_redraw(page, lambda: page.click("nav >> text=age"))
    assert page.is_hidden("#panes")
    assert page.inner_text("#panes-about") == "This window was estimated once."


def test_numbers_on_the_page_are_those_of_the_file(open_page, page_address, stream):
    page = open_page(f"{page_address}#collection=commute&window={START}-{START + HOUR}")
    directory, snapshots = stream
    key = find_key(snapshots, "commute", None, START)
    files = [Snapshot.from_avro(r) for p in Path(directory, "snapshots").rglob("*.avro") for r in read_records(str(p))]
    [snapshot] = best(s for s in files if s.key == key)
    quantiles = {q.share: q for q in snapshot.quantiles}
    median = quantiles[0.5]
    row = page.locator("#numbers tbody tr td").all_inner_texts()
    assert row[:5] == [
        "all groups",
        f"{snapshot.reports:,}",
        f"{number(snapshot.mean)} ± {number((snapshot.mean_high - snapshot.mean_low) / 2, 2)}",
        f"{number(median.value)} [{number(median.low)}, {number(median.high)}]",
        f"{number(quantiles[0.05].value)} … {number(quantiles[0.95].value)}",
    ]
    titles = page.locator("#numbers tbody span[title]").evaluate_all("all => all.map(({ title }) => title)")
    assert titles[1] == ", ".join(map(format_js, [snapshot.mean, snapshot.mean_low, snapshot.mean_high]))
    assert titles[2] == ", ".join(map(format_js, [median.value, median.low, median.high]))
    text = page.inner_text("#answer")
    assert f"at or below {number(median.value)} minutes" in text
    assert f"from {snapshot.reports:,} reports" in text
    everything = dict(read_table(page, "everything"))
    assert everything["variance, 95 % from, to"] == ", ".join(
        map(format_js, [snapshot.variance, snapshot.variance_low, snapshot.variance_high])
    )
    assert everything["p-value of the test of fit"] == format_js(snapshot.fit)
    assert everything["steps of the estimator"] == str(snapshot.iterations)
    assert everything["revisions of the collection"] == COMMUTE.revision
    for q in snapshot.quantiles:
        name = "median" if q.share == 0.5 else f"{round(100 * q.share)} %"
        assert everything[f"{name}, 95 % from, to"] == ", ".join(map(format_js, [q.value, q.low, q.high]))
    shares = [float(row[2]) for row in read_table(page, "density")]
    assert shares == snapshot.probabilities.tolist()
    points, curve, *band = np.array([[float(cell) for cell in row] for row in read_table(page, "cdf")]).T
    assert points.tolist() == snapshot.cdf_points.tolist()
    assert [end.tolist() for end in band] == [snapshot.cdf_low.tolist(), snapshot.cdf_high.tolist()]
    edges = np.linspace(snapshot.low, snapshot.high, snapshot.probabilities.size + 1)
    assert curve == pytest.approx(np.interp(points, edges, [0, *np.cumsum(snapshot.probabilities)]), abs=1e-12)


def test_numbers_are_rounded_as_in_the_terminal(open_page, page_address):
    rng = np.random.default_rng(5)
    values = (rng.normal(size=1500) * 10.0 ** rng.integers(-12, 16, 1500)).tolist()
    halves = [sign * (n + 0.5) * 10.0**e for n in range(990, 1060) for e in (-2, 0, 1, 2, 9) for sign in (1, -1)]
    edges = [float(np.nextafter(10.0**e, direction)) for e in range(-6, 12) for direction in (0, np.inf)]
    values += [*halves, *edges, *(10.0**e for e in range(-6, 12)), 0.0, -0.0, 99995.0, 9.9995e-5, 1e300, 5e-324]
    page = open_page(page_address)
    for digits in (4, 2):
        texts = page.evaluate("([values, digits]) => values.map((value) => number(value, digits))", [values, digits])
        assert texts == [number(value, digits) for value in values]


def test_warnings_are_shown_with_the_groups_they_are_about(open_page, tmp_path):
    good = replace(make_estimate(COMMUTE, reports=2000), fit=0.5)
    key = good.key
    write_window(
        tmp_path,
        [
            good,
            replace(good, key=replace(key, group="few"), status="too_few"),
            replace(good, key=replace(key, group="odd"), fit=1e-7),
            replace(good, key=replace(key, group="rash"), converged=False),
        ],
    )
    later = replace(key, group="gone", window_start=key.window_start - HOUR, window_end=key.window_start)
    write_window(tmp_path, [replace(good, key=later), replace(good, key=replace(later, group=None))])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    assert page.is_hidden("#warnings")
    group_options = "".join(f"&group={group}" for group in ("few", "odd", "rash", "gone"))
    page = open_page(f"{(tmp_path / 'page.html').as_uri()}#collection=commute&all={group_options}")
    boxes = page.locator("#warnings > div").all_inner_texts()
    for warning, group in (("too_few", "few"), ("misfit", "odd"), ("unsettled", "rash")):
        note = NOTES[warning]
        [box] = [text for text in boxes if note.long in text]
        assert box.lower().startswith(f"{note.short} ({group})")
    assert "Nothing of gone in this window." in boxes


def test_refused_reports_are_shown_by_reason(open_page, page_address):
    page = open_page(page_address)
    rows = page.locator("#refused tbody tr").all_inner_texts()
    assert [row.split("\t")[0].splitlines()[0] for row in rows] == ["duplicate", "undecodable"]
    assert "an upload that had been counted already" in rows[0]
    assert rows[0].split("\t")[1:] == ["29", "–", "reports[0] at 7: why"]
    assert rows[1].split("\t")[1:3] == ["3", "1"]
