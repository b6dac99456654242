"""The drawings of a browser, and the tables beside them."""

import re


def wait_until_drawn(page, after=None):
    """Until the page has drawn, or has drawn again after the count `after` of its drawings."""
    page.wait_for_selector("html[data-drawn]" if after is None else f"html[data-drawn]:not([data-drawn='{after}'])")


def read_traces(page, plot):
    """The data of a plot's traces."""
    return page.evaluate(
        """plot => document.querySelector(plot).data.map(
            ({ name, x, y, type }) => ({ name, type, x: Array.from(x ?? []), y: Array.from(y ?? []) }))""",
        plot,
    )


def read_curve(page, plot, name):
    """The trace of a group's curve itself, without its band and its bars."""
    [curve] = [trace for trace in read_traces(page, plot) if trace["name"] == name]
    return curve


def count_lines(page, plot):
    """Lines and bars with an extent on the screen."""
    return page.evaluate(
        """plot => [...document.querySelectorAll(`${plot} .main-svg .js-line, ${plot} .main-svg .point path`)]
            .map((line) => line.getBoundingClientRect())
            .filter(({ width, height }) => width > 1 && height > 1).length""",
        plot,
    )


def read_table(page, name):
    """The cells of the table behind a picture, opened if it is not; of rounded numbers the exact ones."""
    details = page.locator(f"details[data-table={name}]")
    if details.get_attribute("open") is None:
        details.locator("summary").click()
    details.locator("table").first.wait_for()
    return details.locator("tbody tr").evaluate_all(
        "rows => rows.map(({ cells }) => [...cells].map((c) => c.querySelector('[title]')?.title ?? c.textContent))"
    )


def find_newest(snapshots, collection, group=None):
    """The best pane of the latest window that is no longer open, which the page shows first."""
    return max(
        (s for s in snapshots if s.key.collection == collection and s.key.group == group),
        key=lambda s: (s.pane.timing != "early", s.key.window_start, s.rank),
    )


def follow_link(page, link):
    """Goes to a choice on the same page, and waits until it is drawn, if it is not the one that is shown."""
    page.evaluate(
        """link => location.hash === `#${link}` || new Promise((heard) => {
            window.addEventListener("hashchange", heard, { once: true }); // after the page's own listener
            location.hash = link;
        }).then(() => null)""",
        link,
    )
    wait_until_drawn(page)


def act_and_redraw(page, act):
    before = page.get_attribute("html", "data-drawn")
    act()
    wait_until_drawn(page, before)


def format_js(value):
    """A number as JavaScript writes it; Python's is the same but for exponents and whole numbers."""
    text = repr(value)
    return re.sub(r"e([+-])0*", r"e\1", text).removesuffix(".0")


def find_key(snapshots, collection, group, start):
    return next(
        s.key for s in snapshots if (s.key.collection, s.key.group, s.key.window_start) == (collection, group, start)
    )
