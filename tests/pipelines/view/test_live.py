"""The page while its directory grows, is damaged, or is served by somebody else."""

from urllib.parse import unquote

from playwright.sync_api import expect

from hushgram.pipelines.formatting import span
from tests.helpers.browsing import act_and_redraw, read_curve, read_traces, wait_until_drawn
from tests.helpers.pages import (
    AGE,
    COMMUTE,
    LATENCY,
    LOAD,
    PANES,
    make_estimate,
    make_letter,
    write_letters,
    write_pane,
)
from tests.helpers.reports import HOUR, START


def test_a_pane_that_is_written_while_the_page_is_open_appears_without_a_reload(open_page, serve, tmp_path):
    page = open_page(serve(tmp_path).address, drawn=False)
    expect(page.locator("#empty")).to_contain_text("No snapshots here yet")
    page.evaluate("window.sameDocument = true")
    panes = [make_estimate(COMMUTE, None, 0, reports, pane) for reports, pane in PANES]
    write_pane(tmp_path, panes[0])
    wait_until_drawn(page)
    for count, pane in enumerate(panes[1:], 2):
        act_and_redraw(page, lambda pane=pane: write_pane(tmp_path, pane))
        assert page.locator("#numbers td").nth(1).inner_text() == f"{pane.reports:,}"
        assert len(read_traces(page, "#panes")[0]["y"]) == count
    later = make_estimate(COMMUTE, None, 1, 2000)
    act_and_redraw(page, lambda: write_pane(tmp_path, later))
    assert page.inner_text("#window-label") == f"{span(later.key)} UTC (2 of 2)"
    assert read_curve(page, "#density .plot", "all")["x"][-1] == 180
    write_pane(tmp_path, make_estimate(LATENCY, reports=1500))
    expect(page.locator("nav strong")).to_have_text(["commute", "latency"])
    write_letters(tmp_path, [make_letter("too_old", 12)])
    expect(page.locator("#refused")).to_contain_text("too old")
    assert page.evaluate("window.sameDocument") is True
    assert page.inner_text("#status") == "Live"


def test_a_chosen_window_stays_when_newer_ones_come(open_page, serve, tmp_path):
    for hour in range(2):
        write_pane(tmp_path, make_estimate(COMMUTE, None, hour, 1500))
    page = open_page(serve(tmp_path).address)
    assert page.get_attribute("#newest", "aria-pressed") == "true"
    act_and_redraw(page, lambda: page.click("#earlier"))
    assert page.get_attribute("#newest", "aria-pressed") == "false"
    act_and_redraw(page, lambda: write_pane(tmp_path, make_estimate(COMMUTE, None, 2, 1500)))
    assert "(1 of 3)" in page.inner_text("#window-label")
    act_and_redraw(page, lambda: page.click("#newest"))
    assert "(3 of 3)" in page.inner_text("#window-label")


def test_a_damaged_file_is_reported_and_the_page_goes_on(open_page, serve, tmp_path):
    path = write_pane(tmp_path, make_estimate(COMMUTE, reports=1500))
    page = open_page(serve(tmp_path).address)
    assert page.is_hidden("#problems")
    (path.parent / "damaged.avro").write_bytes(path.read_bytes()[:-200])
    (path.parent / "<b>foreign<b>.parquet").write_bytes(b"nothing of the kind")
    expect(page.locator("#problems tbody tr")).to_have_count(2)
    text = page.inner_text("#problems")
    assert "snapshots/commute/damaged.avro" in text
    assert "snapshots/commute/<b>foreign<b>.parquet" in text
    assert page.locator("#problems b").count() == 0
    act_and_redraw(page, lambda: write_pane(tmp_path, make_estimate(COMMUTE, reports=1600)))
    assert page.locator("#numbers td").nth(1).inner_text() == "1,600"


def test_the_page_survives_its_server_and_another_one_in_its_place(open_page, serve, tmp_path):
    write_pane(tmp_path / "one", make_estimate(COMMUTE, reports=1500))
    for collection in (AGE, LATENCY):
        write_pane(tmp_path / "two", make_estimate(collection, reports=1500))
    server = serve(tmp_path / "one")
    page = open_page(server.address)
    port = server.server_address[1]
    server.shutdown()
    server.server_close()
    expect(page.locator("#status")).to_have_text("The server does not answer; trying again")
    act_and_redraw(page, lambda: serve(tmp_path / "two", port))
    assert page.locator("nav strong").all_inner_texts() == ["age", "latency"]
    assert page.inner_text("h2") == "age"
    expect(page.locator("#status")).to_have_text("Live")
    assert all("ERR_CONNECTION_REFUSED" in error for error in page.errors)
    page.errors.clear()


def test_a_link_is_kept_while_a_large_directory_is_still_read(open_page, serve, tmp_path, monkeypatch):
    monkeypatch.setattr("hushgram.pipelines.view.server.READING_SECONDS", 0)
    for hour in range(6):
        write_pane(tmp_path, make_estimate(LOAD, None, hour, 1500))
    server = serve(tmp_path)
    window = f"{START + 5 * HOUR}-{START + 6 * HOUR}"
    page = open_page(f"{server.address}#collection=load&window={window}", drawn=False)
    expect(page.locator("#window-label")).to_contain_text("(6 of 6)")
    assert f"window={window}" in unquote(page.url)
    assert page.is_hidden("#notice")


def test_choosing_another_window_and_back_before_it_is_drawn_shows_the_chosen_one(open_page, serve, tmp_path):
    for hour in range(2):
        write_pane(tmp_path, make_estimate(COMMUTE, None, hour, 1500 + hour))
    page = open_page(serve(tmp_path).address)
    delayed = []
    page.route(
        "**/data/*/*", lambda route: route.continue_() if "outline" in route.request.url else delayed.append(route)
    )
    page.click("#earlier")
    page.wait_for_selector("#collection.stale")
    page.click("#newest")
    expect(page.locator("#collection")).not_to_have_class("stale")
    for route in delayed:
        route.continue_()
    page.unroute("**/data/*/*")
    # And once more, now going back when some of its pictures are drawn.
    page.evaluate(
        """() => {
          const original = drawCdf;
          drawCdf = (...parameters) => {
            drawCdf = original;
            original(...parameters);
            choose({ window: null });
          };
        }"""
    )
    page.click("#earlier")
    expect(page.locator("#window-label")).to_contain_text("(2 of 2)")
    expect(page.locator("#numbers td").nth(1)).to_have_text("1,501")
    expect(page.locator("#collection")).not_to_have_class("stale")


def test_a_link_to_a_missing_window_shows_a_notice_until_something_is_chosen(open_page, serve, tmp_path):
    for hour in range(2):
        write_pane(tmp_path, make_estimate(COMMUTE, None, hour, 1500))
    page = open_page(f"{serve(tmp_path).address}#collection=commute&window=1-2")
    expect(page.locator("#notice")).to_contain_text("names a window that is not here")
    act_and_redraw(page, lambda: write_pane(tmp_path, make_estimate(COMMUTE, None, 2, 1500)))
    expect(page.locator("#notice")).to_contain_text("names a window that is not here")
    act_and_redraw(page, lambda: page.click("#earlier"))
    expect(page.locator("#notice")).to_be_hidden()
