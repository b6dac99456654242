"""`hushgram replay`: sends dead letters of a topic again that are acceptable now, or all of some reasons.

Replay only what no stream will read again with the mended file, as one that is resumed from before, or a rerun with a
higher generation: a report without an id would count twice.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from hushgram.pipelines.cli.console import (
    UsageError,
    check_letters_target,
    check_target,
    collections_in,
    command_parser,
    dead_letter_topic,
    say,
)
from hushgram.pipelines.cli.registry import PROPERTIES, URL, registry_in
from hushgram.pipelines.cli.sinks import add_patience, patience_in
from hushgram.pipelines.formatting import count
from hushgram.pipelines.replay.topic import DeadLetterTopic
from hushgram.pipelines.replay.verdicts import Choice, Counts
from hushgram.schemas.records import REASONS
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.dead_messages import REASONS_OF_MESSAGES
from hushgram.transforms.kafka_client import KafkaError
from hushgram.transforms.parsing import Parser
from hushgram.transforms.schema_registry import RegistryError

EXAMPLE = (
    "hushgram replay --collections collections.yaml --kafka localhost:9092 --dead-letters kafka:refused --topic reports"
)
GROUP = "hushgram-replay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kafka", required=True, metavar="ADDRESS", help="the brokers, such as localhost:9092")
    parser.add_argument(
        "--dead-letters", required=True, metavar="kafka:TOPIC", help="the topic of `hushgram stream --dead-letters`"
    )
    parser.add_argument("--topic", required=True, metavar="NAME", help="the topic of reports that they came from")
    parser.add_argument(
        "--collections", metavar="FILE", help="the YAML file of collections, as it is now: what it accepts is sent"
    )
    parser.add_argument(
        "--reason",
        action="append",
        default=[],
        metavar="REASON",
        help=f"send all that were refused for this reason instead; may be repeated: {', '.join(REASONS_OF_MESSAGES)}",
    )
    parser.add_argument("--schema-registry", metavar="URL", help=URL)
    parser.add_argument("--kafka-properties", metavar="FILE", help=PROPERTIES)
    parser.add_argument(
        "--group", default=GROUP, metavar="ID", help=f"whose position says what was replayed before (default: {GROUP})"
    )
    add_patience(parser)
    parser.add_argument("--dry-run", action="store_true", help="count only: nothing is sent, and no position moved")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("replay", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    if bool(options.reason) == bool(options.collections):
        raise UsageError("--collections or --reason: one of them says which dead letters are sent again")
    for reason in options.reason:
        if reason not in REASONS_OF_MESSAGES:
            never = ", which no letter of a topic has" if reason in REASONS else ""
            raise UsageError(f"--reason: got {reason!r}{never}, allowed: {', '.join(REASONS_OF_MESSAGES)}")
    if options.reason and options.schema_registry:
        raise UsageError("--schema-registry: only with --collections; what --reason chooses is not decoded")
    if not options.group:
        raise UsageError("--group: got '', allowed: a name")
    name = dead_letter_topic(options.dead_letters)
    if name == options.topic:
        raise UsageError(f"--topic: got {name!r}, which is the topic of dead letters, allowed: that of reports")
    index = CollectionIndex.of(collections_in(options.collections).values()) if options.collections else None
    properties = {"bootstrap.servers": options.kafka, "group.id": options.group}
    check_target(options.topic, properties, options.kafka_properties)
    # What stays is written to its end.
    check_letters_target(name, properties, options.kafka_properties, f"--dead-letters {options.dead_letters}")
    url, file = options.schema_registry, options.kafka_properties
    registry = registry_in(url, file, patience_in(options)) if url else None
    choice = Choice(
        options.topic, None if index is None else Parser(index, registry=registry), frozenset(options.reason)
    )
    letters = DeadLetterTopic(name, options.group, properties, file)
    try:
        counts = letters.survey(choice) if options.dry_run else letters.replay(choice)
    except KafkaError as error:
        raise UsageError(f"--kafka: {error}") from None
    except RegistryError as error:
        raise UsageError(str(error)) from None
    for line in lines(counts, options.topic, options.dry_run):
        say(line)
    return 0


def lines(counts: Counts, topic: str, dry_run: bool) -> list[str]:
    """What was done, or what would be.

    >>> lines(Counts(Counter(unknown_group=2), Counter(too_old=1), repeated=3), "reports", dry_run=False)
    ['2 dead letters sent again to reports: unknown_group 2', '1 stays: too_old 1', '3 were there several times']
    """
    sent, stay = counts.sent.total(), counts.stay.total()
    verb = "would be sent" if dry_run else "sent"
    text = [f"{count(sent, 'dead letter')} {verb} again to {topic}{_by_reason(counts.sent)}"]
    text.append(f"{stay:,} {'stays' if stay == 1 else 'stay'}{_by_reason(counts.stay)}")
    if counts.repeated:
        text.append(f"{counts.repeated:,} were there several times")
    return text


def _by_reason(counts: Counter[str]) -> str:
    listed = ", ".join(f"{reason} {number:,}" for reason, number in sorted(counts.items()))
    return f": {listed}" if listed else ""
