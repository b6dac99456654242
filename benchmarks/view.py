"""How fast the page opens, in a real Chromium: `python -m benchmarks.view [WINDOWS]`.

A thousand windows of eleven groups (ten and all together), 1024 buckets each, as `aggregate` writes them. The shapes
are drawn at random, not estimated: a browser cannot tell. Times count from the start of navigation; each is the median
of five loads without a cache. Most of the way to a first picture is the plotting library, as one row tells.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser

from devtools.browser import chromium
from hushgram import Collection
from hushgram.pipelines.view import command
from hushgram.pipelines.view.assets import plotly
from hushgram.pipelines.view.result_index import ResultIndex
from hushgram.pipelines.view.server import Server
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.records import Key, Pane, Quantile, Snapshot
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.filesystem import write_atomically
from hushgram.transforms.sinks.files import as_avro, file_name
from hushgram.transforms.tallies import Tallies

HOUR = 3_600_000
GROUPS = (None, *(f"group {number}" for number in range(10)))
LOADS = 5
AIM_SECONDS = 2.0
WHEN_DRAWN = """
const root = () => document.documentElement;
const painted = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
const note = async (name) => {
  await painted();
  root().dataset[name] = performance.now();
};
new MutationObserver((_, watch) => {
  if (!root()) return;
  if (!root().dataset.first && document.querySelector("#density .main-svg, #bare .main-svg")) {
    root().dataset.first = "";
    note("firstAt");
  }
  if (root().dataset.drawn) {
    watch.disconnect();
    note("allAt");
  }
}).observe(document, { childList: true, attributes: true, subtree: true, attributeFilter: ["data-drawn"] });
"""
BARE = """<!doctype html><title>bare</title><p>A plot:<div id="bare"></div><script>{library}</script><script>
Plotly.newPlot("bare", [{y: [1, 3, 2]}]).then(() => (document.documentElement.dataset.drawn = 1))</script>"""


def make_results(directory: Path, windows: int) -> None:
    commute = Collection(name="commute", low=0, high=180, unit="minutes", buckets=1024, epsilon=1.0)
    values = np.random.default_rng(1).gamma(4, 9, 50_000)
    tallies = Tallies({commute.revision: (values.size, commute.tally(commute.simulate(values, seed=1)))})
    [pattern] = snapshots(commute, [(Key("commute", None, 0, HOUR), Pane(), tallies)])
    rng = np.random.default_rng(2)
    for window in range(windows):
        records = [_vary(pattern, group, window * HOUR, rng) for group in GROUPS]
        path = directory / "snapshots" / f"{file_name(records[0])}.avro"
        write_atomically(str(path), as_avro(SNAPSHOT, records))


def _vary(pattern: Snapshot, group: str | None, start: int, rng: np.random.Generator) -> Snapshot:
    """The same distribution, bent a little."""
    assert pattern.probabilities is not None
    assert pattern.cdf_low is not None
    assert pattern.cdf_high is not None
    probabilities = pattern.probabilities * np.exp(np.cumsum(rng.normal(0, 0.02, pattern.probabilities.size)))
    probabilities /= probabilities.sum()
    shift = rng.normal()
    quantiles = tuple(
        Quantile(q.share, q.value + shift, q.low + shift, q.high + shift) for q in pattern.quantiles or ()
    )
    wider = rng.uniform(0, 0.01, pattern.cdf_low.size)
    return replace(
        pattern,
        key=Key("commute", group, start, start + HOUR),
        reports=int(rng.integers(10_000, 200_000)),
        probabilities=probabilities,
        mean=pattern.mean + shift,
        mean_low=pattern.mean_low + shift,
        mean_high=pattern.mean_high + shift,
        quantiles=quantiles,
        cdf_low=np.clip(pattern.cdf_low - wider, 0, 1),
        cdf_high=np.clip(pattern.cdf_high + wider, 0, 1),
    )


def measure_opening(browser: Browser, url: str) -> tuple[float, float, float]:
    """Seconds to the first contentful paint, to the first distribution drawn and to all pictures drawn, medians."""
    times = []
    for _ in range(LOADS):
        context = browser.new_context(viewport={"width": 1366, "height": 850})
        page = context.new_page()
        page.add_init_script(WHEN_DRAWN)
        page.goto(url, wait_until="commit")
        page.wait_for_selector("html[data-first-at][data-all-at]", timeout=120_000)
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        draw_times = [float(page.get_attribute("html", f"data-{name}-at") or "nan") for name in ("first", "all")]
        times.append([paint, *draw_times])
        context.close()
    first, picture, all_pictures = (statistics.median(column) / 1000 for column in zip(*times, strict=True))
    return first, picture, all_pictures


def measure_window_change(browser: Browser, url: str) -> float:
    """Seconds from a key on the slider to the pictures of another window, the median."""
    page = browser.new_page()
    page.goto(url)
    page.wait_for_selector("html[data-drawn]", timeout=120_000)
    page.focus("#window")
    durations = []
    for _ in range(LOADS):
        before = page.get_attribute("html", "data-drawn")
        selector = f"html[data-drawn]:not([data-drawn='{before}'])"
        start = time.perf_counter()
        page.keyboard.press("ArrowLeft")
        page.wait_for_selector(selector)
        durations.append(time.perf_counter() - start)
    page.close()
    return statistics.median(durations)


@contextmanager
def serve(directory: Path) -> Iterator[tuple[Server, float]]:
    """A server that has read everything, and the seconds that this took."""
    start = time.perf_counter()
    index = ResultIndex(str(directory))
    index.refresh()
    seconds = time.perf_counter() - start
    with Server(index, "benchmark", "127.0.0.1", 0) as server:
        server.watch()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server, seconds
        server.shutdown()


def print_row(label: str, measured: str, target: str = "") -> None:
    print(f"| {label} | {measured} | {target} |", flush=True)


def main(windows: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="hushgram-view-"))
    try:
        make_results(folder, windows)
        page = folder / "page.html"
        start = time.perf_counter()
        with redirect_stdout(StringIO()):
            command.run([str(folder), "--output", str(page)])
        writing = time.perf_counter() - start
        print(f"\n{windows:,} windows × {len(GROUPS)} groups × 1024 buckets\n")
        print("| what | measured | target |\n|---|---|---|")
        with chromium() as browser, serve(folder) as (server, reading):
            for name, url in (("served", server.address), ("written", page.as_uri())):
                paint, picture, all_pictures = measure_opening(browser, url)
                print_row(f"{name} page: first paint", f"{paint:.2f} s", f"≤ {AIM_SECONDS:g} s")
                print_row(f"{name} page: first distribution, all pictures", f"{picture:.2f} s, {all_pictures:.2f} s")
                print_row(f"{name} page: another window", f"{measure_window_change(browser, url):.2f} s")
            bare = folder / "bare.html"
            bare.write_text(BARE.replace("{library}", plotly()), encoding="utf-8")
            paint, picture, _ = measure_opening(browser, bare.as_uri())
            print_row("for comparison, three points drawn by the library alone", f"{paint:.2f} s, {picture:.2f} s")
        print_row("reading the directory, once", f"{reading:.1f} s")
        print_row("writing the page", f"{writing:.1f} s, {page.stat().st_size / 1e6:.0f} MB")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
