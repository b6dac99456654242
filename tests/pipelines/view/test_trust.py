"""What the page says about trust: the numbers of the snapshot in plain sentences, and changes over time."""

import json
import math
from dataclasses import replace

from playwright.sync_api import expect

from hushgram.pipelines.cli import command
from hushgram.pipelines.formatting import number, span
from hushgram.schemas.records import ARRAY_FIELDS, Key
from tests.helpers.browsing import act_and_redraw, find_newest, follow_link
from tests.helpers.pages import COMMUTE, make_estimate, write_window
from tests.helpers.reports import HOUR, START


def read_sentences(page):
    """What stands in the panel, by heading."""
    return dict(
        page.locator("#trust-of dt").evaluate_all(
            "terms => terms.map((term) => [term.textContent, term.nextElementSibling.textContent])"
        )
    )


def test_the_panel_has_the_numbers_of_the_snapshot_in_sentences(stream_page, stream):
    page = stream_page
    follow_link(page, "collection=commute")
    snapshot = find_newest(stream[1], "commute")
    told = read_sentences(page)
    assert page.inner_text("#trust-heading") == "How far can I trust this?"
    assert f"{snapshot.reports:,} reports" in told["Reports"]
    assert "assume that the distribution is smooth" in told["Intervals"]
    assert f"up to {number(100 * snapshot.lying_bound, 2)} percentage points" in told["Lying devices"]
    assert (
        f"ε = 2: no value of a device makes any report of it more than {number(math.exp(2), 2)}"
        in (told["Privacy of a report"])
    )
    assert f"ε = {number(snapshot.central_epsilon, 2)} (δ = 10⁻⁸)" in told["Privacy of this result"]
    assert "Whoever receives the reports themselves cannot rely on it" in told["Privacy of this result"]
    assert f"p = {number(snapshot.fit, 2)}" in told["Fit"]
    assert told["Method"].startswith("Mechanism square wave, estimator ems")
    assert "ε = 2, mechanism square wave, estimator ems" in page.inner_text("#method")
    act_and_redraw(page, lambda: page.click("nav >> text=load"))
    told = read_sentences(page)
    assert "Lying devices" not in told
    assert "assumes nothing about the shape" in told["Intervals"]
    act_and_redraw(page, lambda: page.check("#groups >> text=eu"))
    assert page.locator("#trust-of tbody td:first-child").all_inner_texts() == ["all groups", "eu"]


def test_snapshots_that_do_not_tell_are_shown_without_a_claim(open_page, tmp_path):
    good = make_estimate(COMMUTE, reports=2000)
    unknown = dict.fromkeys(("intervals", "central_epsilon", "lying_bound", "epsilon", "mechanism"))
    unknown |= dict.fromkeys(name for name in ARRAY_FIELDS if name.startswith("density"))
    any_shape = replace(good, key=replace(good.key, group="DE"), intervals="any_shape")
    write_window(tmp_path, [replace(good, **unknown), any_shape])
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    told = read_sentences(page)
    assert "does not say what its intervals assume" in told["Intervals"]
    assert "not known how far" in told["Lying devices"]
    assert "does not say with which ε" in told["Privacy of a report"]
    assert "no smaller ε is claimed" in told["Privacy of this result"]
    assert page.inner_text("#method") == "estimator ems."
    act_and_redraw(page, lambda: page.evaluate("choose({ groups: ['DE'] })"))
    assert "assume nothing about the shape" in read_sentences(page)["Intervals"]


def test_changes_are_those_of_the_command(open_page, serve, tallied, tallied_page, capsys):
    directory = tallied[0]
    capsys.readouterr()
    assert command.main(["changes", str(directory), "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)["collections"]
    found = {change["group"]: change for change in told["changes"]}
    assert set(found) == {None, "B"}
    assert {change["window_start"] for change in found.values()} == {START + 3 * HOUR}
    window = span(Key("trip", "B", START + 3 * HOUR, START + 4 * HOUR))
    link = "#collection=trip&group=B&group=C"
    follow_link(tallied_page, link)
    for page in (tallied_page, open_page(f"{serve(directory).address}{link}")):
        expect(page.locator("#changes li")).to_have_count(1)
        assert page.inner_text("#changes li") == f"{window}: {found['B']['sentence']}"
        assert "1 change found, and 1 in groups that are not shown" in page.inner_text("#changes")
        [mark] = page.evaluate("document.querySelector('#time').layout.annotations.filter(({ text }) => text === '▼')")
        assert mark["x"] == START + 3.5 * HOUR
        act_and_redraw(page, lambda page=page: page.evaluate("choose({ groups: ['C'] })"))
        expect(page.locator("#changes")).to_contain_text("No change found, and 2 in groups that are not shown")


def test_where_no_tallies_are_no_change_is_claimed(stream_page):
    follow_link(stream_page, "collection=latency")
    expect(stream_page.locator("#changes")).to_have_text(
        "Whether windows differ from those before them cannot be told: there are no tallies beside the snapshots."
    )
