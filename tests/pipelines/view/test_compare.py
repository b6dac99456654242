"""Comparisons on the page: numbers and words of the library, never of reports with themselves."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from hushgram.pipelines.cli import command
from hushgram.pipelines.formatting import span
from hushgram.schemas.records import Pane
from tests.helpers.browsing import (
    act_and_redraw,
    find_key,
    find_newest,
    follow_link,
    read_table,
    read_traces,
    wait_until_drawn,
)
from tests.helpers.pages import COMMUTE, TRIP, make_estimate, write_pane
from tests.helpers.reports import HOUR, START


def find_group(made, group, hour=3):
    """The snapshot of a group, by itself."""
    return next(s for s, _ in made if (s.key.group, s.key.window_start) == (group, START + hour * HOUR))


def make_panel_link(one, other):
    return f"#collection=trip&one={one}&other={other}"


def test_intervals_of_differences_are_those_of_the_library(stream_page, stream):
    page = stream_page
    compare = """([one, other, stretched]) => {
      const most = measured.collection.high - measured.collection.low;
      const stretch = stretched ? stretchOfMany(one, other) : 1;
      const band = bandOfDifferences(one, other, measured.collection, stretch);
      return [comparable(one, other).map((of) => difference(partOf(one, of), partOf(other, of), most, stretch)), band];
    }"""
    pictures = """async () => {
      const parts = resolve().collection.windows.slice(0, 2).map((part) => fetchChunk(contents.run, part));
      const plain = ([key, value]) => [key, value instanceof Float64Array ? [...value] : value];
      return (await Promise.all(parts)).map(({ groups }) => Object.fromEntries(Object.entries(groups[0]).map(plain)));
    }"""
    for name in ("commute", "latency", "age"):
        follow_link(page, f"collection={name}")
        windows = [s for s in stream[1] if (s.key.collection, s.key.group) == (name, None)]
        first, second = (
            max((s for s in windows if s.key.window_start == START + hour * HOUR), key=lambda s: s.rank)
            for hour in (0, 1)
        )
        [one, other] = page.evaluate(pictures)
        for growing in (False, True):
            numbers, band = page.evaluate(compare, [one, other, growing])
            comparison = first.compare(second, growing=growing)
            shares = [quantile.share for quantile in first.quantiles]
            expected = [comparison.mean, *map(comparison.quantile, shares)]
            told = [[each["value"], each["low"], each["high"]] for each in numbers]
            assert np.array(told) == pytest.approx(np.array([list(each) for each in expected]), abs=1e-9)
            curve = comparison.curve()
            for part in ("points", "value", "low", "high"):
                assert band[part] == pytest.approx(getattr(curve, part).tolist(), abs=1e-9)


def test_the_panel_says_what_the_library_says(tallied_page, tallied):
    _, made, _ = tallied
    page = tallied_page
    for first, second in (("A", "C"), ("B", "C")):
        for hour in (3, 0):
            act_and_redraw(
                page,
                lambda first=first, second=second, hour=hour: page.evaluate(
                    """([first, second, window]) => choose({
                      window, sides: [first, second].map((group) => ({ kind: "group", group, window: null })) })""",
                    [first, second, f"{START + hour * HOUR}-{START + (hour + 1) * HOUR}"],
                ),
            )
            comparison = find_group(made, first, hour).compare(find_group(made, second, hour))
            text = page.inner_text("#verdict").replace("\n", " ")
            assert text.startswith(comparison.sentence(first, second))
            found = any(low > 0 or high < 0 for low, high in zip(*comparison.curve()[2:], strict=True))
            assert ("The curves differ" in text) == found
    assert page.locator("#both-names bdi").all_inner_texts() == ["B", "C"]
    band, curve = read_traces(page, "#differences")
    expected = comparison.curve()
    assert curve["y"] == pytest.approx((100 * expected.value).tolist())
    assert band["y"] == pytest.approx([*(100 * expected.high), *(100 * expected.low)[::-1]])
    rows = read_table(page, "differences")
    assert [float(cell) for cell in rows[0][7:]] == pytest.approx(list(comparison.mean))
    assert len(read_traces(page, "#both")) == 4


def test_two_windows_can_be_compared_and_a_link_restores_it(tallied_page, tallied):
    _, made, _ = tallied
    page = tallied_page
    follow_link(page, "collection=trip")
    assert page.is_hidden("#comparison")
    act_and_redraw(page, lambda: page.select_option("#one-group", label="B"))
    assert page.locator("#other-group option:checked").inner_text() == "groups other than B"
    first, last = find_group(made, "B", 0), find_group(made, "B", 3)
    act_and_redraw(page, lambda: page.select_option("#other-group", label="B"))
    assert page.inner_text("#verdict") == "This is one and the same: choose another group or window."
    act_and_redraw(page, lambda: page.select_option("#other-window", label=span(first.key)))
    sentence = last.compare(first).sentence(span(last.key), span(first.key))
    assert sentence in page.inner_text("#verdict")
    assert "higher" in sentence
    before = page.inner_text("#verdict"), read_traces(page, "#differences")
    page.reload()
    wait_until_drawn(page)
    assert (page.inner_text("#verdict"), read_traces(page, "#differences")) == before
    act_and_redraw(page, lambda: page.click("#no-sides"))
    assert page.is_hidden("#comparison")
    assert "one=" not in page.url


def test_the_other_groups_are_estimated_from_the_sum_of_their_tallies(open_page, serve, tallied, tallied_page):
    directory, made, _ = tallied
    counted = {h.key.group: h.tallies[TRIP.revision][1] for _, h in made if h.key.window_start == START + 3 * HOUR}
    estimate = TRIP.estimate(counted["B"] + counted["C"])
    verdicts = []
    follow_link(tallied_page, make_panel_link("group A", "others A"))
    for page in (tallied_page, open_page(f"{serve(directory).address}{make_panel_link('group A', 'others A')}")):
        verdicts.append(page.inner_text("#verdict"))
        mean = read_table(page, "differences")[0]
        assert float(mean[4]) == pytest.approx(estimate.mean)
        assert [float(cell) for cell in mean[5:7]] == pytest.approx(list(estimate.interval("mean")))
        assert page.locator("#both-names bdi").all_inner_texts() == ["A", "the other groups"]
    assert verdicts[0] == verdicts[1]


def test_sides_with_reports_in_common_are_refused_and_no_others(stream_page):
    """Against a model: a side is the set of its reports, each of a group and an hour; z is the group of no label."""
    groups, spans = ("a", "b", "c"), ((0, 2), (1, 3), (2, 4))
    sides = [
        {"kind": kind, "group": group, "window": {"start": start, "end": end}}
        for kind, group in [("group", None), *itertools.product(("group", "others"), groups)]
        for start, end in spans
    ]

    def reports_of(side):
        labels = {"group": {side["group"]}, "others": set(groups) - {side["group"]}}[side["kind"]]
        hours = range(side["window"]["start"], side["window"]["end"])
        return set(itertools.product({*groups, "z"} if side["group"] is None else labels, hours))

    pairs = list(itertools.product(sides, sides))
    told = stream_page.evaluate("pairs => pairs.map(([one, other]) => shareReports(one, other))", pairs)
    wrong = [
        pair
        for pair, shared in zip(pairs, told, strict=True)
        if shared != bool(set.intersection(*map(reports_of, pair)))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("all", "group A", "Compare A with the other groups instead"),
        ("group A", "group A", "one and the same"),
        ("group A", "group Z", "a group or a window that is not here"),
        ("group A", f"group B&other-window=0-{HOUR}", "a group or a window that is not here"),
        ("others A", "others B", "the same reports in part"),
    ],
)
def test_what_cannot_be_compared_is_said_in_words(tallied_page, one, other, words):
    follow_link(tallied_page, make_panel_link(one, other))
    assert words in tallied_page.inner_text("#verdict")
    assert tallied_page.is_hidden("#compared")


def test_open_windows_have_intervals_for_many_looks_and_means_alone_are_compared(stream_page, stream):
    early = f"{START + 4 * HOUR}-{START + 5 * HOUR}"
    page = stream_page
    follow_link(page, f"collection=commute&window={early}&one=group DE&other=group FR")
    first, second = (
        max(
            (s for s in stream[1] if s.key == find_key(stream[1], "commute", g, START + 4 * HOUR)), key=lambda s: s.rank
        )
        for g in ("DE", "FR")
    )
    assert first.pane.timing == "early"
    sentence = first.compare(second, growing=True).sentence("DE", "FR")
    assert page.inner_text("#verdict").startswith(sentence.partition(" Reports still arrive")[0])
    assert "Reports still arrive" in page.inner_text("#caveats")
    assert "FR: too few reports to trust" in page.inner_text("#caveats")
    follow_link(page, "collection=load&one=group eu&other=group us")
    eu, us = (find_newest(stream[1], "load", group) for group in ("eu", "us"))
    assert page.inner_text("#verdict") == eu.compare(us).sentence("eu", "us")
    assert page.is_hidden("#compared-curves")


def test_without_tallies_the_other_groups_are_missed_in_words(open_page, serve, tmp_path):
    groups = [make_estimate(COMMUTE, group, 0, 2000) for group in (None, "DE", "FR", "UK")]
    for snapshot in groups:
        write_pane(tmp_path, snapshot)
    page = open_page(f"{serve(tmp_path).address}#collection=commute&one=group DE&other=others DE")
    assert page.inner_text("#verdict") == "They cannot be had: there are no tallies beside the snapshots."


def test_a_group_with_too_few_reports_is_marked_before_it_is_chosen_and_drawn_in_grey(open_page, tmp_path):
    good = make_estimate(COMMUTE, None, 0, 3000)
    thin = replace(make_estimate(COMMUTE, "FR", 0, 300), status="too_few")
    for snapshot in (good, make_estimate(COMMUTE, "DE", 0, 2000), thin):
        write_pane(tmp_path, replace(snapshot, pane=Pane()))
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    assert page.is_hidden("#warnings")
    chips = page.locator(".chip").all_inner_texts()
    assert [re.sub(r"\s+", " ", chip).strip() for chip in chips] == ["all groups", "DE", "FR too few reports"]
    act_and_redraw(page, lambda: page.check("#groups >> text=FR"))
    colours = page.evaluate(
        """["#density .plot", "#cdf .plot"].map((plot) => Object.fromEntries(
             document.querySelector(plot).data.map(({ name, line }) => [name, line?.color])))"""
    )
    quiet, blue = page.evaluate("[colour('quiet'), groupColour(0)]")
    assert [(each["FR"], each["all groups"]) for each in colours] == [(quiet, blue)] * 2
