"""A browser, and pages in it that must not report an error."""

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from devtools.browser import chromium
from devtools.processes import PATIENCE_SECONDS
from devtools.tools import ToolMissingError
from hushgram.pipelines.cli import command
from hushgram.pipelines.view.result_index import ResultIndex
from hushgram.pipelines.view.server import Server
from tests.helpers.browsing import wait_until_drawn
from tests.helpers.pages import write_stream, write_tallied

HERE = Path(__file__).parent
WATCH_FOR_VIOLATIONS = """
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
  console.error(`policy: ${violatedDirective} ${blockedURI}`));
"""


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def browser():
    try:
        with chromium() as instance:
            yield instance
    except ToolMissingError as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def stream(tmp_path_factory):
    """A directory of panes, and the snapshots in it."""
    directory = tmp_path_factory.mktemp("stream")
    return directory, write_stream(directory)


@pytest.fixture(scope="session")
def page_address(stream, tmp_path_factory):
    """The address of the page that `hushgram view` wrote for it."""
    page = tmp_path_factory.mktemp("written") / "page.html"
    assert command.main(["view", str(stream[0]), "--output", str(page)]) == 0
    return page.as_uri()


@pytest.fixture(scope="session")
def tallied(tmp_path_factory):
    """A directory of snapshots with their tallies, what is in it, and the address of the page of it."""
    directory = tmp_path_factory.mktemp("tallied")
    made = write_tallied(directory)
    assert command.main(["view", str(directory)]) == 0
    return directory, made, (directory / "page.html").as_uri()


@contextmanager
def watched_pages(browser):
    """Opens pages and waits until they are drawn; at the end there must have been no error in them."""
    contexts, errors = [], []

    def open_page(url, drawn=True, **options):
        context = browser.new_context(**{"viewport": {"width": 1366, "height": 850}, **options})
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(WATCH_FOR_VIOLATIONS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("dialog", lambda dialog: errors.append(f"dialog {dialog.message}") or dialog.dismiss())
        page.goto(url)
        if drawn:
            wait_until_drawn(page)
        page.errors = errors
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def open_page(browser, serve):
    """Pages of one test.

    They are closed before servers are: one that still sent requests would get no answer, and report an error.
    """
    with watched_pages(browser) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def stream_page(browser, page_address):
    """A page of the stream, for all tests of a file: to open one takes seconds."""
    with watched_pages(browser) as open_page:
        yield open_page(page_address)


@pytest.fixture(scope="module")
def tallied_page(browser, tallied):
    """The same of the directory with tallies."""
    with watched_pages(browser) as open_page:
        yield open_page(tallied[2])


@pytest.fixture
def serve():
    """Serves a directory; the server ends with the test."""
    servers = []

    def serve(directory, port=0, embedders=()):
        server = Server(ResultIndex(str(directory)), "results", "127.0.0.1", port, embedders)
        servers.append(server)
        server.watch()
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    yield serve
    for server in servers:
        if not server.ended.is_set():
            server.shutdown()
            server.server_close()
