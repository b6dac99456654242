"""From a slider in a browser, through the TypeScript client, the collector, Kafka and the stream, to the live page."""

from collections import Counter
from urllib.parse import urlsplit

from devtools.browser import chromium
from devtools.live_demo import running
from devtools.processes import PATIENCE_SECONDS, eventually
from devtools.typescript_client import build_typescript
from hushgram.pipelines.results import read_results, result_files
from hushgram.schemas.records import Snapshot
from tests.helpers.tools import run_or_skip

A_DAY = 3
"""Reports that the budget of the collection allows in a day."""


def count_reports(results):
    if not result_files(str(results), "snapshots"):
        return 0
    return sum(snapshot.reports for snapshot in read_results(str(results), "snapshots", Snapshot.from_avro))


def test_every_number_that_a_person_sends_is_counted_until_the_budget_is_spent(tmp_path):
    run_or_skip(build_typescript)
    hosts = Counter()
    with running(tmp_path / "demo", "prism", visitors=0) as (addresses, _), chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE_SECONDS)
        page.on("request", lambda request: hosts.update([urlsplit(request.url).netloc]))
        page.goto(addresses.page)
        page.wait_for_selector("button:enabled")
        for sent in range(A_DAY):
            page.fill("#slider", str(6 + sent / 4))
            page.click("button")
            page.wait_for_selector("button:enabled")
            assert "bytes were sent. They say" in page.inner_text("#sent")
        page.click("button")
        page.wait_for_selector("button:enabled")
        assert page.inner_text("#sent") == "That was enough for today: more would tell too much."
        eventually("every report in the results", lambda: count_reports(tmp_path / "demo" / "results") == A_DAY)
        page.frames[1].wait_for_selector(f"text=newest: {A_DAY} reports")
    assert set(hosts) == {urlsplit(address).netloc for address in (addresses.page, addresses.collector, addresses.live)}
