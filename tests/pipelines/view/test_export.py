"""What can be taken away from the page: CSV with every digit, PNG, and a link."""

import csv
import io
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np

from hushgram.pipelines.cli import command
from tests.helpers.browsing import act_and_redraw, find_newest, format_js
from tests.helpers.pages import COMMUTE, make_estimate, write_window


def download(page, table, kind):
    """The bytes and the name of a file that a button beside a table gives."""
    exports = page.locator(f"details[data-table={table}]").locator("xpath=preceding-sibling::*[1]")
    with page.expect_download() as started:
        exports.locator("button", has_text=kind).click()
    return Path(started.value.path()).read_bytes(), started.value.suggested_filename


def read_csv(content):
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def test_tables_are_rounded_for_people_and_exact_as_csv(open_page, page_address, stream):
    page = open_page(f"{page_address}#collection=commute&all=&group=DE")
    snapshots = [find_newest(stream[1], "commute", group) for group in (None, "DE")]
    content, name = download(page, "density", "CSV")
    head, *rows = read_csv(content)
    assert name.startswith("commute_2026-01-01")
    assert name.endswith("_density.csv")
    assert head == ["from (minutes)", "to (minutes)", "all groups, share", "DE, share"]
    numbers = np.array(rows, dtype=float)
    assert numbers[:, 0].tolist() == snapshots[0].edges[:-1].tolist()
    for column, snapshot in zip((2, 3), snapshots, strict=True):
        assert numbers[:, column].tolist() == snapshot.probabilities.tolist()
    everything = {row[0]: row[1] for row in read_csv(download(page, "everything", "CSV")[0])}
    assert everything["p-value of the test of fit"] == format_js(snapshots[0].fit)
    page.locator("details[data-table=density] summary").click()
    page.locator("details[data-table=everything] summary").click()
    shown = page.locator("details[open] td").all_inner_texts()
    assert len(shown) > 100
    digits = [sum(letter.isdigit() for letter in part) for cell in shown for part in cell.split(", ")]
    assert max(digits) <= 16  # a revision, in hexadecimal
    numeric = [part for cell in shown for part in cell.split(", ") if part.replace(",", "").replace(".", "").isdigit()]
    assert max(len(part.replace(",", "").replace(".", "").lstrip("0")) for part in numeric) <= 6


def test_pictures_are_png_alone_and_side_by_side(open_page, page_address):
    page = open_page(f"{page_address}#collection=commute&all=&group=DE")
    heights = []
    for side_by_side in (False, True):
        if side_by_side:
            act_and_redraw(page, lambda: page.evaluate("choose({ apart: true })"))
        content, name = download(page, "density", "PNG")
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert name.endswith(".png")
        heights.append(struct.unpack(">II", content[16:24])[1])
    assert heights[0] > 600  # twice as many pixels as on the screen
    assert heights[1] > 800  # one below the other


def test_a_name_is_no_formula_and_cannot_break_a_row(open_page, tmp_path):
    hostile = '=HYPERLINK("x","y")'
    good = make_estimate(COMMUTE, reports=2000)
    groups = [good, *(replace(good, key=replace(good.key, group=name)) for name in (hostile, "+1", 'a"b,\nc', "-2x"))]
    write_window(tmp_path, groups)
    assert command.main(["view", str(tmp_path)]) == 0
    page = open_page((tmp_path / "page.html").as_uri())
    act_and_redraw(
        page, lambda: page.evaluate("choose({ groups: resolve().collection.groups.map(({ name }) => name) })")
    )
    head, *rows = read_csv(download(page, "reports", "CSV")[0])
    assert head[1] == "group"
    assert sorted(row[1] for row in rows) == sorted(["all groups", f"'{hostile}", "+1", 'a"b,�c', "'-2x"])
    assert {len(row) for row in rows} == {len(head)}


def test_the_page_is_called_after_its_collections_not_after_a_folder(open_page, page_address, tmp_path, stream):
    page = open_page(page_address)
    assert page.inner_text("h1") == "age, commute, latency, 1 more"
    assert page.title() == "age, commute, latency, 1 more · hushgram"
    assert command.main(["view", str(stream[0]), "--output", str(tmp_path / "p.html"), "--title", "Trips & <b>"]) == 0
    page = open_page((tmp_path / "p.html").as_uri())
    assert page.inner_text("h1") == "Trips & <b>"
    assert page.title() == "Trips & <b> · hushgram"
