"""`hushgram collect`: takes reports over HTTP, keeps them in files or a topic, packed, and only then says so."""

from __future__ import annotations

import argparse
import re
import ssl
from collections.abc import Sequence
from dataclasses import fields

from hushgram import CollectionError
from hushgram.pipelines.cli import signals
from hushgram.pipelines.cli.console import (
    UsageError,
    check_letters_target,
    check_target,
    collections_in,
    command_parser,
    complain,
    parse_origin,
    say,
)
from hushgram.pipelines.cli.outputs import check_directory, writing
from hushgram.pipelines.collect.app import AccessPolicy, App
from hushgram.pipelines.collect.bodies import StricterIndex
from hushgram.pipelines.collect.counts import Counts
from hushgram.pipelines.collect.file_sink import DEAD_LETTERS, FileSink
from hushgram.pipelines.collect.intake import Intake
from hushgram.pipelines.collect.kafka_sink import KafkaSink
from hushgram.pipelines.collect.limits import MIB, Limits
from hushgram.pipelines.collect.manifests import manifests
from hushgram.pipelines.collect.server import Certificate, Server, allow_files, listen
from hushgram.pipelines.collect.sink import Sink
from hushgram.pipelines.collect.tokens import Tokens
from hushgram.windows import parse_duration

EXAMPLE = "hushgram collect --collections collections.yaml --output reports --host 0.0.0.0 --port 8080"
PORT = 8080
DEFAULTS = Limits()
UNITS = {"KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--output", metavar="DIR", help="a folder of this machine, for files that stream --watch and aggregate read"
    )
    where.add_argument("--kafka", metavar="ADDRESS", help="brokers to send to, such as localhost:9092")
    parser.add_argument("--topic", metavar="NAME", help="with --kafka: the topic of reports")
    parser.add_argument(
        "--letters-topic", metavar="NAME", help="with --kafka: the topic of dead letters (default: counted only)"
    )
    parser.add_argument(
        "--kafka-properties",
        metavar="FILE",
        help="with --kafka: properties of librdkafka, one name=value a line, for TLS, SASL and the like",
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1, this machine alone)")
    parser.add_argument("--port", type=int, default=PORT, help=f"the port (default: {PORT}; 0 takes a free one)")
    parser.add_argument("--certificate", metavar="FILE", help="for TLS: the certificate, and those that vouch for it")
    parser.add_argument("--key", metavar="FILE", help="for TLS: the key of the certificate, without a password")
    parser.add_argument(
        "--token-file", metavar="FILE", help="bearer tokens, one to a line, of which a request must have one"
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="pages that may send from a browser, such as https://example.org; * for all; may be repeated",
    )
    parser.add_argument(
        "--wait",
        default="1s",
        metavar="TIME",
        help="how long a report may wait for others, to be kept with them (default: 1s)",
    )
    parser.add_argument(
        "--reports",
        type=int,
        default=DEFAULTS.reports,
        help=f"that many wait for no more (default: {DEFAULTS.reports:,})",
    )
    parser.add_argument(
        "--largest-body", default="4MiB", metavar="SIZE", help="of a request, also when decompressed (default: 4MiB)"
    )
    parser.add_argument(
        "--queue", default="256MiB", metavar="SIZE", help="of all requests that are not answered yet (default: 256MiB)"
    )
    parser.add_argument(
        "--connections",
        type=int,
        default=DEFAULTS.connections,
        help=f"open at once (default: {DEFAULTS.connections:,})",
    )


def run(argv: Sequence[str]) -> int:
    parser = command_parser("collect", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    limits = limits_of(options)
    index = StricterIndex.of(collections_in(options.collections).values())
    certificate, access = _certificate(options), _access_policy(options)
    if not 0 <= options.port < 65536:
        raise UsageError(f"--port: got {options.port}, allowed: 0 to 65535")
    sink = _sink(options)
    try:
        listener = listen(options.host, options.port)
    except OSError as error:
        where = f"--host {options.host} --port {options.port}"
        raise UsageError(f"{where}: {error.strerror or error}; --port 0 takes a free one") from None
    counts = Counts()
    app = App(index, Intake(index, sink, limits, counts), limits, counts, manifests(index.collections), access)
    server = Server(app, limits, counts, certificate)
    signals.stop_gently(server.stop)
    host, port = listener.getsockname()[:2]
    address = f"{'https' if certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    say(f"{address}/v1/reports keeps reports in {sink.name}, until Ctrl-C")
    server.run([listener])
    say(counts.summary)
    return 0


def limits_of(options: argparse.Namespace) -> Limits:
    """The limits that were asked for, or the line that says which cannot be."""
    try:
        limits = Limits(
            largest_body=_size("--largest-body", options.largest_body),
            largest_queue=_size("--queue", options.queue),
            connections=options.connections,
            wait_seconds=parse_duration("--wait", options.wait) / 1000,
            reports=options.reports,
        )
    except CollectionError as error:
        raise UsageError(_with_option(str(error))) from None
    allowed = allow_files(limits.connections)
    if allowed < limits.connections:
        raise UsageError(
            f"--connections: got {limits.connections}, allowed: {allowed}, by the open files of `ulimit -Hn`"
        )
    return limits


OPTIONS = {"largest_queue": "--queue", "wait_seconds": "--wait"}


def _with_option(message: str) -> str:
    """With the option in place of the name of the limit."""
    name, colon, rest = message.partition(":")
    known = {field.name for field in fields(Limits)}
    return f"{OPTIONS.get(name, '--' + name.replace('_', '-'))}{colon}{rest}" if name in known else message


def _size(option: str, text: str) -> int:
    """
    >>> _size("--queue", "2KiB")
    2048
    """
    found = re.fullmatch(r"([0-9]{1,9})\s*(KiB|MiB|GiB)", text)
    if found is None:
        raise UsageError(f"{option}: got {text!r}, allowed: a size such as 512KiB, 4MiB or 1GiB")
    return int(found[1]) * UNITS[found[2]]


def _sink(options: argparse.Namespace) -> Sink:
    if options.output:
        for name in ("topic", "letters_topic", "kafka_properties"):
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')}: only with --kafka")
        if "://" in options.output:
            raise UsageError(f"--output {options.output}: allowed: a folder of this machine")
        check_directory("--output", options.output, (DEAD_LETTERS,))
        with writing("--output", options.output):
            return FileSink(options.output)
    if not options.topic:
        raise UsageError("--topic: missing; --kafka needs it")
    properties = {"bootstrap.servers": options.kafka, "group.id": "hushgram"}
    check_target(options.topic, properties, options.kafka_properties)
    if options.letters_topic:
        option = f"--letters-topic {options.letters_topic}"
        check_letters_target(options.letters_topic, properties, options.kafka_properties, option)
    return KafkaSink(options.topic, properties, options.kafka_properties, options.letters_topic)


def _access_policy(options: argparse.Namespace) -> AccessPolicy:
    for origin in options.allow_origin:
        if origin != "*":
            parse_origin("--allow-origin", origin)
    if not options.token_file:
        return AccessPolicy(None, frozenset(options.allow_origin))
    try:
        return AccessPolicy(Tokens(options.token_file), frozenset(options.allow_origin))
    except (OSError, ValueError) as error:
        reason = error.strerror or error if isinstance(error, OSError) else error
        raise UsageError(f"--token-file {options.token_file}: {reason}") from None


def _certificate(options: argparse.Namespace) -> Certificate | None:
    if bool(options.certificate) != bool(options.key):
        raise UsageError("--certificate and --key: allowed: both or neither")
    if not options.certificate:
        if not options.host.startswith(("127.", "::1", "localhost")):
            complain("without --certificate whoever is on the way can read reports; put TLS in front of it")
        return None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error.args[0]
        raise UsageError(f"--certificate {options.certificate} --key {options.key}: {reason}") from None
    return Certificate(options.certificate, options.key)
