"""`hushgram view`: snapshots as a page, written as one file or served live."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from apache_beam.io.filesystems import FileSystems

from pipelines.console import UsageError, complain, say
from pipelines.outputs import check_file, writing
from pipelines.page.assets import plotly
from pipelines.page.library import GoneError, Library
from pipelines.page.server import Server, is_loopback
from pipelines.page.written import written_page
from pipelines.results import none_there
from transforms.sinks.files import write_atomically

EXAMPLE = "hushgram view results --output page.html; or, live: hushgram view results --serve"
PAGE = "page.html"
PORT = 8765


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="what `aggregate`, `stream` or `rollup` wrote")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="FILE", help=f"the page to write (default: {PAGE} in DIR)")
    where.add_argument("--serve", action="store_true", help="show it live instead, until Ctrl-C")
    parser.add_argument("--host", help="with --serve: where to listen (default: 127.0.0.1, for this machine alone)")
    parser.add_argument("--port", type=int, help=f"with --serve: (default: {PORT}; 0 takes a free one)")
    parser.add_argument("--title", help="what stands at the top (default: DIR)")


def run(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="hushgram view", description=__doc__, epilog=f"example: {EXAMPLE}")
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    if not options.serve and (options.host is not None or options.port is not None):
        raise UsageError("--host and --port: allowed: with --serve")
    plotly()  # told now if it is missing, not when all has been read
    library = Library(options.directory)
    title = options.title or options.directory
    if options.serve:
        return serve(library, title, options.host or "127.0.0.1", PORT if options.port is None else options.port)
    return write(library, title, options.output or FileSystems.join(options.directory, PAGE))


def write(library: Library, title: str, output: str) -> int:
    check_file("--output", output)
    try:
        library.refresh()
    except Exception as error:  # each file system has errors of its own
        raise UsageError(f"{library.directory}: cannot be read: {error}") from None
    catalogue = library.catalogue
    if not catalogue.shelves and not catalogue.problems:
        raise UsageError(f"{library.directory}: {none_there(library.directory, 'snapshots')}")
    try:
        page = b"".join(written_page(library, title))
    except GoneError as error:
        raise UsageError(f"changed while it was read; run it again: {error}") from None
    with writing("--output", output):
        write_atomically(output, page)
    for problem in catalogue.problems:
        complain(f"{problem.file}: left out: {problem.what}")
    windows = sum(len(shelf.windows) for shelf in catalogue.shelves.values())
    say(f"wrote {windows:,} windows of {len(catalogue.shelves):,} collections to {output}, {len(page) / 1e6:,.1f} MB")
    return 0


def serve(library: Library, title: str, host: str, port: int) -> int:
    if not 0 <= port < 65536:
        raise UsageError(f"--port: got {port}, allowed: 0 to 65535")
    try:
        server = Server(library, title, host, port)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: {error.strerror or error}; --port 0 takes a free one") from None
    with server:
        server.watch()
        say(f"{server.address} shows {library.directory}, until Ctrl-C")
        if not is_loopback(host):
            complain("whoever reaches this address can read the page; nothing here asks for a password")
        server.serve_forever()
    return 0
