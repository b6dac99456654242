"""Windows that are cut by the ends of the log, and values at the ends of the domain: marked, and not opened on."""

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from hushgram.pipelines.cli import command
from hushgram.pipelines.formatting import NOTES, span
from hushgram.schemas.records import Events
from tests.helpers.browsing import act_and_redraw, read_table
from tests.helpers.pages import COMMUTE, PANES, make_estimate, write_pane
from tests.helpers.reports import HOUR, START

MINUTE = 60_000


def make_hour(hour, begin=0, end=60, **options):
    """An hour with reports of some of its minutes."""
    snapshot = make_estimate(COMMUTE, None, hour, **{"reports": 2000, **options})
    start = snapshot.key.window_start
    return replace(snapshot, events=Events(start + begin * MINUTE, start + end * MINUTE - 1, snapshot.reports))


@pytest.fixture(scope="module")
def cut_log(tmp_path_factory):
    """Four hours of a log from 00:12 to 03:30, and the page of it."""
    directory = tmp_path_factory.mktemp("cut")
    snapshots = [make_hour(0, begin=12), make_hour(1), make_hour(2), make_hour(3, end=30)]
    for snapshot in snapshots:
        write_pane(directory, snapshot)
    assert command.main(["view", str(directory)]) == 0
    return (directory / "page.html").as_uri(), snapshots


def test_the_page_opens_on_the_latest_whole_window_and_marks_those_that_are_cut(open_page, cut_log):
    address, snapshots = cut_log
    page = open_page(address)
    assert page.inner_text("#window-label") == f"{span(snapshots[2].key)} UTC (3 of 4)"
    assert page.get_attribute("#newest", "aria-pressed") == "true"
    assert page.inner_text("#newest") == "Newest whole window"
    assert page.is_hidden("#warnings")
    assert "2 windows with warnings" in page.inner_text("nav")
    warnings = [NOTES["begins_inside"].short, "", "", NOTES["ends_inside"].short]
    assert [row[-1] for row in read_table(page, "reports")] == warnings
    act_and_redraw(page, lambda: page.click("#later"))
    assert "(4 of 4)" in page.inner_text("#window-label")
    assert "The log ends at 03:30, inside this window" in page.inner_text("#warnings")
    assert NOTES["ends_inside"].long in page.inner_text("#warnings")
    act_and_redraw(page, lambda: page.click("#newest"))
    assert "(3 of 4)" in page.inner_text("#window-label")
    page = open_page(f"{address}#collection=commute&window={START}-{START + HOUR}")
    assert "The log begins at 00:12, inside this window" in page.inner_text("#warnings")


def test_a_window_is_no_longer_cut_when_the_log_goes_on(open_page, serve, tmp_path):
    for snapshot in (make_hour(0), make_hour(1, end=30)):
        write_pane(tmp_path, snapshot)
    page = open_page(serve(tmp_path).address)
    assert "(1 of 2)" in page.inner_text("#window-label")
    assert page.inner_text("#newest") == "Follow the newest whole window"
    act_and_redraw(page, lambda: page.click("#later"))
    expect(page.locator("#warnings")).to_contain_text("The log ends at 01:30, inside this window")
    # Reports of the next hour: the second half of this one was quiet, and is not missing.
    act_and_redraw(page, lambda: write_pane(tmp_path, make_hour(2)))
    expect(page.locator("#warnings")).to_be_hidden()
    assert "(2 of 3)" in page.inner_text("#window-label")
    act_and_redraw(page, lambda: page.click("#newest"))
    assert "(3 of 3)" in page.inner_text("#window-label")
    assert page.inner_text("#newest") == "Follow the newest"


def test_a_window_that_is_still_open_is_not_opened_on(open_page, serve, tmp_path):
    write_pane(tmp_path, make_hour(0))
    (_, early), (_, on_time) = PANES[1], PANES[2]
    write_pane(tmp_path, make_hour(1, end=20, reports=1200, pane=early))
    page = open_page(serve(tmp_path).address)
    assert "(1 of 2)" in page.inner_text("#window-label")
    act_and_redraw(page, lambda: write_pane(tmp_path, make_hour(1, reports=2600, pane=on_time)))
    assert "(2 of 2)" in page.inner_text("#window-label")


def test_a_heavy_end_is_shown_with_its_share_of_each_group(open_page, tmp_path):
    heavy = replace(make_estimate(COMMUTE), heavy_high_end=0.974)
    others = {"DE": replace(heavy, heavy_high_end=1.0), "FR": replace(heavy, heavy_high_end=None)}
    for group, snapshot in {None: heavy, **others}.items():
        write_pane(tmp_path, replace(snapshot, key=replace(snapshot.key, group=group)))
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page(f"{(tmp_path / 'page.html').as_uri()}#collection=commute&all=&group=DE&group=FR")
    text = page.inner_text("#warnings")
    assert "Very many values at the high end: check the unit (all groups, DE)" in text
    assert "all groups: 97 % of values seem to lie at the high end of the domain or beyond it" in text
    assert "DE: 100 % of values seem to lie at the high end of the domain or beyond it" in text
    assert NOTES["heavy_high"].long in text
    rows = {row[0]: row[1:] for row in read_table(page, "everything")}
    assert rows["share at a heavy low end, high end"] == ["–, 0.974", "–, 1", "–, –"]
