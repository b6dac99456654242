"""`hushgram view`: shows snapshots as a page in the browser, as one file or live."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from apache_beam.io.filesystems import FileSystems

from hushgram.pipelines.cli.console import UsageError, collections_in, command_parser, complain, parse_origin, say
from hushgram.pipelines.cli.outputs import check_file, writing
from hushgram.pipelines.formatting import count
from hushgram.pipelines.results import none_there
from hushgram.pipelines.view.assets import plotly
from hushgram.pipelines.view.result_index import GoneError, ResultIndex
from hushgram.pipelines.view.server import Server, is_loopback
from hushgram.pipelines.view.standalone import standalone_page
from hushgram.transforms.filesystem import write_atomically

EXAMPLE = "hushgram view results --output page.html; or, live: hushgram view results --serve"
PAGE = "page.html"
PORT = 8765


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="a folder of results")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="FILE", help=f"the page to write (default: {PAGE} in DIR)")
    where.add_argument("--serve", action="store_true", help="show it live instead, until Ctrl-C")
    parser.add_argument("--host", help="with --serve: where to listen (default: 127.0.0.1, for this machine alone)")
    parser.add_argument("--port", type=int, help=f"with --serve: the port (default: {PORT}; 0 takes a free one)")
    parser.add_argument(
        "--embed-in",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="with --serve: pages that may show it in a frame, such as https://example.org; may be repeated",
    )
    parser.add_argument(
        "--collections",
        metavar="FILE",
        help="the YAML file of collections (default: what snapshots tell, if mechanism and ε are usual ones)",
    )
    parser.add_argument("--title", help="the title of the page (default: the names of its collections)")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("view", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    if not options.serve and (options.host is not None or options.port is not None or options.embed_in):
        raise UsageError("--host, --port and --embed-in: allowed: with --serve")
    embedders = [parse_origin("--embed-in", origin) for origin in options.embed_in]
    plotly()  # fails now if it is missing, not when all has been read
    definitions = collections_in(options.collections) if options.collections else None
    index = ResultIndex(options.directory, definitions)
    title = options.title or ""
    if options.serve:
        port = PORT if options.port is None else options.port
        return serve(index, title, options.host or "127.0.0.1", port, embedders)
    return write(index, title, options.output or FileSystems.join(options.directory, PAGE))


def write(index: ResultIndex, title: str, output: str) -> int:
    check_file("--output", output)
    try:
        index.refresh()
    except Exception as error:  # each file system has errors of its own
        raise UsageError(f"{index.directory}: cannot be read: {error}") from None
    catalogue = index.catalogue
    if not catalogue.collections and not catalogue.problems:
        raise UsageError(f"{index.directory}: {none_there(index.directory, 'snapshots')}")
    try:
        page = b"".join(standalone_page(index, title))
    except GoneError as error:
        raise UsageError(f"changed while it was read; run it again: {error}") from None
    with writing("--output", output):
        write_atomically(output, page)
    for problem in catalogue.problems:
        complain(f"{problem.file}: left out: {problem.what}")
    collections = catalogue.collections.values()
    windows = count(sum(len(results.windows) for results in collections), "window")
    say(f"wrote {windows} of {count(len(collections), 'collection')} to {output}, {len(page) / 1e6:,.1f} MB")
    return 0


def serve(index: ResultIndex, title: str, host: str, port: int, embedders: Sequence[str] = ()) -> int:
    if not 0 <= port < 65536:
        raise UsageError(f"--port: got {port}, allowed: 0 to 65535")
    try:
        server = Server(index, title, host, port, embedders)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: {error.strerror or error}; --port 0 takes a free one") from None
    with server:
        server.watch()
        say(f"{server.address} shows {index.directory}, until Ctrl-C")
        if not is_loopback(host):
            complain("whoever reaches this address can read the page; nothing here asks for a password")
        server.serve_forever()
    return 0
