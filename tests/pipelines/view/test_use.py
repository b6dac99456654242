"""How the page is used: by keyboard, by link, in light and dark, on any width."""

import itertools

import pytest
from playwright.sync_api import expect

from tests.helpers.browsing import act_and_redraw, count_lines, read_traces, wait_until_drawn
from tests.helpers.colours import SIGHTS, compute_contrast, compute_difference
from tests.helpers.reports import HOUR, START

DE_AND_ALL = "#collection=commute&all=&group=DE"


def focus_by_tab(page, condition):
    """Presses Tab until the focused element is the one that is wanted."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(f"(({condition})(document.activeElement))"):
            return
    pytest.fail(f"never reached by the keyboard: {condition}")


def test_every_choice_can_be_made_by_the_keyboard_alone(open_page, page_address):
    page = open_page(page_address)
    focus_by_tab(page, "element => element.textContent.startsWith('commute')")
    act_and_redraw(page, lambda: page.keyboard.press("Enter"))
    assert page.inner_text("h2") == "commute"
    assert page.evaluate("document.activeElement.textContent").startswith("commute")
    focus_by_tab(page, "element => element.id === 'window'")
    act_and_redraw(page, lambda: page.keyboard.press("Home"))
    assert "(1 of 5)" in page.inner_text("#window-label")
    act_and_redraw(page, lambda: page.keyboard.press("ArrowRight"))
    assert "(2 of 5)" in page.inner_text("#window-label")
    focus_by_tab(page, "element => element.closest('.chip')?.textContent.startsWith('FR')")
    act_and_redraw(page, lambda: page.keyboard.press("Space"))
    assert page.evaluate("document.activeElement.closest('.chip').textContent").startswith("FR")
    names = [trace["name"] for trace in read_traces(page, "#cdf .plot")]
    assert [name for name in names if "95 %" not in name] == ["all groups", "FR"]
    focus_by_tab(page, "element => element.name === 'arrangement'")
    act_and_redraw(page, lambda: page.keyboard.press("ArrowRight"))
    assert page.locator("#density .plot").count() == 2
    focus_by_tab(page, "element => element.closest('details')?.dataset.table === 'density'")
    page.keyboard.press("Enter")
    expect(page.locator("details[data-table=density] table")).to_be_visible()
    focus_by_tab(page, "element => element.id === 'quantity'")
    act_and_redraw(page, lambda: page.keyboard.press("ArrowUp"))
    assert page.evaluate("document.activeElement.id") == "quantity"
    page.keyboard.press("Home")


def test_the_keyboard_skips_the_list_and_every_control_shows_its_focus(open_page, page_address):
    page = open_page(f"{page_address}{DE_AND_ALL}")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name, style, width = page.evaluate(
            """() => {
              const element = document.activeElement;
              const { outlineStyle, outlineWidth } = getComputedStyle(element.closest(".chip") ?? element);
              return [element.id || element.tagName, outlineStyle, parseFloat(outlineWidth)];
            }"""
        )
        if name == "BODY":  # behind the last control
            break
        names.append(name)
        assert (style != "none", width >= 1) == (True, True), name
    assert {"window", "earlier", "newest", "quantity", "SUMMARY", "INPUT"} <= set(names)


def test_a_link_restores_the_choices(open_page, page_address):
    page = open_page(f"{page_address}#collection=commute")
    for act in (
        lambda: page.fill("#window", "1"),
        lambda: page.check("#groups >> text=DE"),
        lambda: page.uncheck("#groups >> text=all groups"),
        lambda: page.check("#groups >> text=FR"),
        lambda: page.check("text=Side by side"),
        lambda: page.select_option("#quantity", "0.9"),
    ):
        act_and_redraw(page, act)
    link = page.url
    assert f"window={START + HOUR}-{START + 2 * HOUR}" in link
    other = open_page(link)
    for tab in (page, other):
        assert "(2 of 5)" in tab.inner_text("#window-label")
        assert tab.locator(".chip:has(:checked) bdi").all_inner_texts() == ["DE", "FR"]
        assert tab.locator("#density .plot").count() == 2
        assert tab.input_value("#quantity") == "0.9"
    assert read_traces(page, "#time") == read_traces(other, "#time")
    assert read_traces(page, "#density .plot") == read_traces(other, "#density .plot")


def test_the_back_button_restores_the_last_choice(open_page, page_address):
    page = open_page(f"{page_address}#collection=age")
    act_and_redraw(page, lambda: page.click("nav >> text=latency"))
    assert page.inner_text("h2") == "latency"
    act_and_redraw(page, page.go_back)
    assert page.inner_text("h2") == "age"


@pytest.mark.parametrize(
    ("link", "missing"),
    [
        ("#collection=nobody", "a collection"),
        ("#collection=age&window=1-2", "a window"),
        ("#collection=age&all=&group=XX", "a group"),
        ("#collection=age&over=0.123", None),
        ("#&&==%%%&collection", "a collection"),
    ],
)
def test_a_link_to_something_missing_shows_the_first_collection(open_page, page_address, link, missing):
    page = open_page(f"{page_address}{link}")
    assert page.inner_text("h2") == "age"
    assert count_lines(page, "#density") == 1
    if missing:
        assert f"The link names {missing} that is not here" in page.inner_text("#notice")
    else:
        assert page.is_hidden("#notice")


TEXTS = [
    *("h1", ".brand", "h2", "h3", "h4", "#about", "#window-label", "#window-label span", "#answer", "#numbers th"),
    *("#numbers td", "nav strong", "nav span", "summary", "#warnings strong", "#warnings p", "#refused td", "button"),
    *(".mark", "#density-about", "#above", "#threshold-value", "#verdict", "#caveats", "#trust-of dt", "#trust-of dd"),
    *(".exports button", "#sides select", "#changes"),
]
BACKGROUND = """selector => {
  const element = document.querySelector(selector);
  for (let each = element; each; each = each.parentElement) {
    const { backgroundColor } = getComputedStyle(each);
    if (backgroundColor !== "rgba(0, 0, 0, 0)") return [getComputedStyle(element).color, backgroundColor];
  }
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast_and_colours_of_groups_are_distinct_for_everyone(open_page, page_address, theme):
    choice = f"{DE_AND_ALL}&group=FR&window={START}-{START + HOUR}&one=group DE&other=group FR"
    page = open_page(f"{page_address}{choice}", color_scheme=theme)
    for selector in TEXTS:
        ink, background = page.evaluate(BACKGROUND, selector)
        assert compute_contrast(ink, background) >= 4.5, selector
    labels = page.evaluate(
        "[...document.querySelectorAll('.main-svg text')].map((text) => getComputedStyle(text).fill)"
    )
    for ink in {label for label in labels if label.startswith("rgb(")}:
        assert compute_contrast(ink, page.evaluate("colour('page')")) >= 4.5
    colours = page.evaluate("[0, 1, 2, 3, 4, 5].map((index) => groupColour(index))")
    for background in page.evaluate("['page', 'card'].map((name) => colour(name))"):
        assert min(compute_contrast(colour, background) for colour in colours) >= 3
    for sight in SIGHTS:
        assert min(compute_difference(*pair, sight) for pair in itertools.combinations(colours, 2)) >= 20, sight
    styles = page.evaluate("[...Array(24).keys()].map((index) => `${groupColour(index)} ${groupDash(index)}`)")
    assert len(set(styles)) == 24


def test_the_theme_follows_the_system_or_the_button_and_is_remembered(open_page, serve, stream):
    page = open_page(serve(stream[0]).address, color_scheme="dark")

    def read_colours():
        return page.evaluate("[getComputedStyle(document.documentElement).backgroundColor, colour('page')]")

    dark = read_colours()
    assert dark[0] == dark[1]
    act_and_redraw(page, lambda: page.emulate_media(color_scheme="light"))
    light = read_colours()
    assert light != dark
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: light"
    assert read_colours() == light
    act_and_redraw(page, lambda: page.click("#theme"))
    assert page.inner_text("#theme") == "Theme: dark"
    assert read_colours() == dark
    page.reload()
    wait_until_drawn(page)
    assert page.inner_text("#theme") == "Theme: dark"
    assert read_colours() == dark


@pytest.mark.parametrize("width", [360, 768, 1366, 2560])
def test_the_page_does_not_overflow_at_any_width(open_page, page_address, width):
    choice = f"{DE_AND_ALL}&group=FR&apart=&one=group DE&other=group FR"
    page = open_page(f"{page_address}{choice}", viewport={"width": width, "height": 800})
    assert page.locator("#differences .main-svg").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate("[...document.querySelectorAll('.main-svg')].map((svg) => svg.getBoundingClientRect().right)")
    assert max(sizes) <= width
