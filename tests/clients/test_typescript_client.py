"""The TypeScript client: its own tests in Node.js, its size, and its bundle in a page of a browser."""

import json
import os
import subprocess

import pytest

from devtools.browser import chromium
from devtools.processes import PATIENCE_SECONDS
from devtools.typescript_client import SOURCES, build_typescript
from hushgram import Collection, Device
from hushgram.schemas.messages import decode_reports
from tests.helpers.clients import WEEK
from tests.helpers.scripted_server import run_scripted_server
from tests.helpers.small_disk import on_small_disk
from tests.helpers.tools import run_or_skip

POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'"


@pytest.fixture(scope="module")
def built():
    return run_or_skip(build_typescript)


def manifest(**changes):
    options = {"name": "commute", "low": 0, "high": 1, "buckets": 4, "epsilon": 0.75}
    return Collection(**{**options, **changes}).manifest()


def test_its_own_tests_pass(built, tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest()))
    tests = sorted(map(str, (built / "tests").glob("*.test.js")))
    assert len(tests) == 3
    completed = subprocess.run(
        ["node", "--test", *tests],
        env={**os.environ, "MANIFEST": str(tmp_path / "manifest.json"), "TMPDIR": str(tmp_path)},
        **{"capture_output": True, "text": True},
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


FULL_DISK = """
import * as fs from "node:fs";
import { fileStorage } from "../dist/node.js";
import { device, manifest } from "./support.js";
const one = device(manifest({ budget: 2.3 }), undefined, fileStorage(process.env.DISK + "/store"));
const attempt = () => one.submit(0.5).then(() => "granted", (error) => error.code ?? error.constructor.name);
const filler = process.env.DISK + "/filler";
const told = [await attempt()];
try { for (;;) fs.appendFileSync(filler, "x".repeat(512)); } catch (error) { told.push(error.code); }
told.push(await attempt(), await attempt());
fs.rmSync(filler);
for (let i = 0; i < 3; i++) told.push(await attempt());
console.log(JSON.stringify([told, await one.store.waiting()]));
"""


def test_a_full_disk_means_no_report_and_room_again_means_what_is_left_of_the_budget(built, tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest()))
    (tmp_path / "disk").mkdir()
    completed = subprocess.run(
        on_small_disk(["node", "--input-type=module", "--eval", FULL_DISK], tmp_path / "disk"),
        cwd=built / "tests",
        env={**os.environ, "MANIFEST": str(tmp_path / "manifest.json"), "DISK": str(tmp_path / "disk")},
        **{"capture_output": True, "text": True},
    )
    assert completed.returncode == 0, completed.stderr
    told, waiting = json.loads(completed.stdout)
    assert told == ["granted", "ENOSPC", "ENOSPC", "ENOSPC", "granted", "granted", "OverBudgetError"]
    assert waiting == 3


def test_the_bundle_is_no_larger_than_recorded(built):
    """Gzipped at most 4,096 bytes, and at most what `size.txt` says: who makes it larger says so there."""
    completed = subprocess.run(["node", str(built / "size.mjs")], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert int((SOURCES / "size.txt").read_text()) <= 4096


def test_a_larger_bundle_is_noticed(built, tmp_path):
    (tmp_path / "dist").mkdir()
    (tmp_path / "size.mjs").write_bytes((built / "size.mjs").read_bytes())
    (tmp_path / "dist" / "hushgram.min.js").write_bytes((built / "dist" / "hushgram.min.js").read_bytes())
    for recorded, code in ((4096, 0), (1000, 1)):
        (tmp_path / "size.txt").write_text(f"{recorded}\n")
        assert subprocess.run(["node", str(tmp_path / "size.mjs")], capture_output=True).returncode == code


def test_it_needs_nothing_at_run_time_and_the_lock_file_names_no_host():
    package, lock = (json.loads((SOURCES / name).read_text()) for name in ("package.json", "package-lock.json"))
    assert "dependencies" not in package
    assert all(entry.get("dev") or not name for name, entry in lock["packages"].items())
    assert "://" not in json.dumps({name: entry.get("resolved") for name, entry in lock["packages"].items()})


# In a page ------------------------------------------------------------------------------------------------------------

APP = """
import { Device, OverBudgetError, Store, browserStorage, load } from "./hushgram.min.js";
const manifest = load(await (await fetch("/manifest.json")).json(), { mostEpsilon: 0.75 });
window.device = new Device(manifest, new Store(browserStorage()));
// How many of the attempts are granted; any other refusal is an error.
window.attempt = async (times, act = (value) => device.report(value)) => {
  let granted = 0;
  for (let i = 0; i < times; i++) {
    try { await act(0.5); granted++; } catch (error) { if (!(error instanceof OverBudgetError)) throw error; }
  }
  return granted;
};
document.documentElement.dataset.ready = "";
"""


@pytest.fixture(scope="module")
def browser():
    """A browser; its start is what may be missing."""
    running = chromium()
    yield run_or_skip(running.__enter__)
    running.__exit__(None, None, None)


@pytest.fixture
def site(built):
    """A page with a strict policy, and a collector beside it."""
    with run_scripted_server(Content_Security_Policy=POLICY, Set_Cookie="who=me") as server:
        server.files = {
            "/": ("text/html", b"<!doctype html><title>t</title><script type=module src=app.js></script>"),
            "/app.js": ("text/javascript", APP.encode()),
            "/hushgram.min.js": ("text/javascript", (built / "dist" / "hushgram.min.js").read_bytes()),
        }
        yield server


def requests_to(site):
    """All but that for an icon, which is the browser's own."""
    seen = [f"{request.method} {request.path}" for request in site.received]
    return [request for request in seen if request != "GET /favicon.ico"]


@pytest.fixture
def open_tab(browser, site):
    """Opens a tab of one browser profile; at the end none may have reported an error, or asked any other site."""
    context, errors, elsewhere = browser.new_context(), [], []
    context.set_default_timeout(1000 * PATIENCE_SECONDS)

    def open_one(**changes):
        site.files["/manifest.json"] = ("application/json", json.dumps(manifest(**changes)).encode())
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if "Policy" in message.text else None)
        page.on(
            "request",
            lambda request: elsewhere.append(request.url) if not request.url.startswith(f"{site.origin}/") else None,
        )
        page.goto(site.origin)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_one
    context.close()
    assert not errors
    assert not elsewhere


LOADED = ["GET /", "GET /app.js", "GET /hushgram.min.js", "GET /manifest.json"]


@pytest.mark.slow
def test_in_a_page_with_a_strict_policy_it_makes_no_request_but_its_own(open_tab, site):
    page = open_tab(groups=["DE"])
    page.evaluate("async () => { for (const v of [0, 0.5, 1]) await device.submit(v, 'DE') }")
    assert requests_to(site) == LOADED
    assert page.evaluate("device.store.send('/v1/reports')") == 3
    assert requests_to(site) == [*LOADED, *["POST /v1/reports"] * 3]
    assert not any({"Cookie", "Referer"} & set(request.headers) for request in site.received[-3:])
    [(_, columns)], refused = decode_reports(site.bodies)
    assert (len(columns), refused) == (3, [])


@pytest.mark.slow
def test_ledger_and_queue_outlast_a_reload_and_a_tab(open_tab, site):
    page = open_tab(device=Device(2.3, WEEK))
    assert page.evaluate("attempt(1, (value) => device.submit(value))") == 1
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate("device.store.waiting()") == 1
    assert page.evaluate("attempt(1)") == 1
    page.close()
    page = open_tab(device=Device(2.3, WEEK))
    assert page.evaluate("attempt(5)") == 1
    site.answers = [(503, {})]
    assert page.evaluate("device.store.send('/v1/reports')") == 0
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate("device.store.send('/v1/reports')") == 0
    assert len(site.bodies) == 1
    assert page.evaluate("device.store.waiting()") == 1


@pytest.mark.slow
def test_two_tabs_at_once_never_spend_more_than_the_budget_together(open_tab):
    tabs = [open_tab(device=Device(7.5, WEEK)) for _ in range(2)]
    for tab in tabs:  # both begin at once, and are asked afterwards
        tab.evaluate("() => { window.result = attempt(12) }")
    assert sum(tab.evaluate("result") for tab in tabs) == 10


@pytest.mark.slow
def test_storage_that_fails_or_is_damaged_means_no_report_in_a_page(open_tab):
    page = open_tab(device=Device(2.3, WEEK))
    assert page.evaluate("attempt(1)") == 1
    refused = "() => device.report(0.5).then(() => '', String)"
    page.evaluate("() => { window.put = IDBObjectStore.prototype.put }")
    page.evaluate("() => { IDBObjectStore.prototype.put = () => { throw new DOMException('', 'QuotaExceededError') } }")
    assert "QuotaExceeded" in page.evaluate(refused)
    page.evaluate(
        "() => { IDBObjectStore.prototype.put = function (...all) { put.apply(this, all); this.transaction.abort() } }"
    )
    assert page.evaluate(refused)
    page.evaluate("() => { IDBObjectStore.prototype.put = put }")
    assert page.evaluate("attempt(5)") == 2
    page.evaluate(
        """async () => {
            const open = indexedDB.open("hushgram");
            await new Promise((resolve) => { open.onsuccess = resolve });
            const change = open.result.transaction("hushgram", "readwrite");
            change.objectStore("hushgram").put("[{},{},[],0]", "hushgram");
            await new Promise((resolve) => { change.oncomplete = resolve });
            open.result.close();
        }"""
    )
    assert "storage" in page.evaluate(refused)
