"""The share above a threshold: its numbers are those of the snapshot, and it can be moved by keys, mouse and link."""

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.helpers.browsing import act_and_redraw, find_newest, follow_link, wait_until_drawn

MARKS = "[...document.querySelectorAll('#density .plot, #cdf .plot')].map(({ layout }) => layout.shapes[0].x0)"


def test_the_share_above_is_that_of_the_snapshot_with_its_interval(stream_page, stream):
    page = stream_page
    for name in ("commute", "latency", "age"):
        follow_link(page, f"collection={name}")
        snapshot = find_newest(stream[1], name)
        inside = np.random.default_rng(7).uniform(snapshot.low, snapshot.high, 40)
        values = [snapshot.low, snapshot.high, *snapshot.cdf_points[[1, 5]].tolist(), *inside.tolist()]
        values = [value for value in values if snapshot.low <= value <= snapshot.high]
        told = page.evaluate(
            "values => values.map((value) => shareAbove(measured.groups[0].picture, measured.collection, value))",
            values,
        )
        low, high = snapshot.interval("cdf", np.array(values))
        assert [each["share"] for each in told] == pytest.approx(
            (1 - snapshot.cdf(np.array(values))).tolist(), abs=1e-9
        )
        assert [each["low"] for each in told] == pytest.approx((1 - high).tolist(), abs=1e-9)
        assert [each["high"] for each in told] == pytest.approx((1 - low).tolist(), abs=1e-9)


def test_the_threshold_is_moved_by_keys_by_mouse_and_by_a_number_and_a_link_keeps_it(stream_page):
    page = stream_page
    follow_link(page, "collection=commute&all=&group=DE&threshold=45")
    assert page.evaluate(MARKS) == [45, 45]
    first, second = page.locator("#above li").all_inner_texts()
    assert "above 45 minutes (95 % interval" in first
    assert first.startswith("all groups")
    assert second.startswith("DE")
    page.focus("#threshold")
    page.keyboard.press("ArrowRight")
    [moved] = set(page.evaluate(MARKS))
    assert 45 < moved < 47
    assert page.get_attribute("#threshold", "aria-valuetext") == f"{moved:g} minutes"
    page.fill("#threshold-value", "90.25")
    page.keyboard.press("Enter")
    assert page.evaluate(MARKS) == [90.25, 90.25]
    assert "threshold=90.25" in page.url
    page.fill("#threshold-value", "5000")  # outside of the domain
    page.keyboard.press("Enter")
    assert page.evaluate(MARKS) == [180, 180]
    page.evaluate("setThreshold(90)")
    page.locator("#cdf .plot").scroll_into_view_if_needed()
    (x, y), (to, _) = page.evaluate(
        """(() => {
          const plot = document.querySelector("#cdf .plot");
          const { left, top } = plot.getBoundingClientRect();
          const { xaxis, yaxis } = plot._fullLayout;
          const height = top + yaxis._offset + yaxis._length / 2;
          return [90, 120].map((value) => [left + xaxis._offset + xaxis.d2p(value), height]);
        })()"""
    )
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(to, y + 5, steps=4)
    page.mouse.up()
    expect(page.locator("#threshold-value")).not_to_have_value("90")
    dragged = float(page.input_value("#threshold-value"))
    assert dragged == pytest.approx(120, abs=2)
    assert page.evaluate(MARKS) == [dragged, dragged]
    link = page.url
    page.evaluate("location.hash = location.hash.replace(/threshold=[^&]*/, 'threshold=33')")
    expect(page.locator("#threshold-value")).to_have_value("33")
    assert page.evaluate(MARKS) == [33, 33]
    page.goto(link)
    page.reload()
    wait_until_drawn(page)
    assert page.evaluate(MARKS) == [dragged, dragged]


def test_a_zoom_is_that_of_both_pictures_and_of_the_link(stream_page):
    page = stream_page
    follow_link(page, "collection=latency&zoom=10~1000")
    ranges = "[...document.querySelectorAll('#density .plot, #cdf .plot')].map(({ layout }) => layout.xaxis.range)"
    assert page.evaluate(ranges) == [[1, 3], [1, 3]]
    act_and_redraw(page, lambda: page.evaluate("zoomTo(1.5, 2)"))
    assert page.evaluate(ranges) == [pytest.approx([1.5, 2])] * 2
    page.reload()
    wait_until_drawn(page)
    assert page.evaluate(ranges) == [pytest.approx([1.5, 2])] * 2
    act_and_redraw(page, lambda: page.click("#unzoom"))
    assert page.evaluate(ranges) == [pytest.approx([0, 4])] * 2
    assert "zoom" not in page.url
    assert page.is_hidden("#unzoom")
