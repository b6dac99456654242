"""Names come from strangers, and are shown as text whatever they contain."""

import re
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from hushgram.pipelines.cli import command
from hushgram.schemas.avro_schemas import DEAD_LETTER, SNAPSHOT
from hushgram.schemas.records import Pane
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.files import as_avro
from tests.helpers.browsing import act_and_redraw
from tests.helpers.pages import COMMUTE, LOAD, make_estimate, make_letter

HOSTILE = [
    "<img src=x onerror=\"window.hacked='img'\">",
    "</script><script>window.hacked='script'</script>",
    "<a href=\"javascript:window.hacked='link'\" onclick=\"window.hacked='click'\">press</a>",
    "<svg onload=\"window.hacked='svg'\"><b>bold</b>",
    "\"'`;window.hacked='quotes';//",
    "%{x}%{customdata} $\\alpha$ <br> &lt;i&gt; {{7*7}} ${window.hacked='template'}",
    "\u202egnp.exe\u2066 \u200b\x00\x1b[31m\r\n\ttab",
    "__proto__",
    "constructor",
    "all groups",
    "",
    "𝔤 e\u0301 日本 العربية " + "long " * 60,
]


def write_records(path, definition, records):
    write_atomically(str(path), as_avro(definition, records))


@pytest.fixture(scope="module")
def hostile_results(tmp_path_factory):
    """Whatever carries a name carries a hostile one."""
    directory = tmp_path_factory.mktemp("hostile")
    snapshot = make_estimate(COMMUTE, reports=1500)
    mean_only = make_estimate(LOAD, reports=1500)
    odd_key = replace(snapshot.key, window_start=-(10**15), window_end=-(10**15) + 1)
    for index, name in enumerate(HOSTILE):
        texts = {"unit": name, "estimator": name, "software": name, "revisions": (name,), "status": "too_few"}
        texts |= {"mechanism": name, "intervals": name}
        for number, snapshot_of_kind in enumerate((snapshot, mean_only)):
            panes = [
                replace(
                    snapshot_of_kind,
                    key=replace(key, collection=f"{name}{number}", group=group),
                    pane=pane,
                    reports=reports,
                    **texts,
                )
                for key in (odd_key, snapshot_of_kind.key)
                for group in (None, *HOSTILE)
                for reports, pane in ((1500, Pane(0, 0, "early")), (1600, Pane(0, 1, name)))
            ]
            panes = [replace(pane, converged=False, fit=0.0) for pane in panes]
            write_records(directory / "snapshots" / f"{number}" / f"{index}.avro", SNAPSHOT, panes)
        write_records(directory / "dead_letters" / f"{index}.avro", DEAD_LETTER, [make_letter(name, 5, name, name)])
    (directory / "snapshots" / "x").mkdir()
    (directory / "snapshots" / "x" / "<img src=x onerror=alert(1)>.avro").write_bytes(b"<img src=x onerror=alert(1)>")
    return directory


@pytest.mark.parametrize("source", ["served", "written"])
def test_no_name_is_ever_more_than_text(open_page, serve, hostile_results, source, tmp_path):
    url = serve(hostile_results).address
    if source == "written":
        assert (
            command.main(["view", str(hostile_results), "--output", str(tmp_path / "p.html"), "--title", HOSTILE[1]])
            == 0
        )
        url = (tmp_path / "p.html").as_uri()
    page = open_page(url)
    expect(page.locator("#problems tbody tr")).to_have_count(1)
    page.evaluate("window.sameDocument = true")
    requested_urls = []
    page.on("request", lambda request: requested_urls.append(request.url))
    for details in page.locator("details[data-table]").all():
        details.evaluate("element => (element.open = true)")
    links = page.locator("nav a")
    assert links.count() == 2 * len(HOSTILE)
    for index in (1, 0, 14, 19):
        act_and_redraw(page, links.nth(index).click)
        groups = page.evaluate("resolve().collection.groups.map(({ name }) => name)")
        assert set(groups) == {None, *HOSTILE}
        for side_by_side in (False, True) if index == 0 else (False,):
            sides = [{"kind": "group", "group": group, "window": None} for group in groups[-2:]]
            change = {"groups": groups, "apart": side_by_side, "sides": sides}
            act_and_redraw(page, lambda change=change: page.evaluate("change => choose(change)", change))
            for plot in ("#density .plot", "#cdf .plot", "#mean", "#time", "#panes", "#both", "#differences"):
                for element in page.locator(plot).all()[:3]:
                    if element.is_visible():
                        element.hover()
            assert find_harm(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1366
    texts = page.evaluate("document.body.innerText + [...document.querySelectorAll('text')].map((t) => t.textContent)")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00\x1b]", texts)
    assert "<img src=x onerror=" in texts
    assert page.evaluate("window.sameDocument") is True
    assert all(url.startswith((page.url.partition("#")[0], "data:")) for url in requested_urls)


def find_harm(page):
    """Effects of a name beyond text: anything that ran, loads, leads away or is written in bold."""
    return page.evaluate(
        """[window.hacked, ...document.querySelectorAll(
            "img, iframe, object, embed, main script, nav script, svg a, .main-svg [onclick], bdi *")]
            .filter((each) => each !== undefined).map((each) => each.outerHTML ?? each)"""
    )


def test_a_hostile_link_can_only_choose(open_page, page_address):
    page = open_page(page_address)
    for name in HOSTILE:
        named = ("collection", "group", "window", "over", "threshold", "zoom", "one", "other", "one-window")
        link = urlencode({**dict.fromkeys(named, name), "one": f"group {name}", "other": f"others {name}"})
        page.evaluate("link => (location.hash = link)", link)
        expect(page.locator("#notice")).to_contain_text("The link names a collection")
        assert find_harm(page) == []
        assert page.inner_text("h2") == "age"
        page.evaluate("location.hash = 'collection=age'")
        expect(page.locator("#notice")).to_be_hidden()
