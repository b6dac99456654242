"""The terminal: lines that are printed, times that are typed, and mistakes that end a command."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import argparse

    from hushgram import Collection


class UsageError(Exception):
    """A command that cannot be carried out as typed: one line, exit code 2."""


class OutputError(Exception):
    """A line that could not be printed; `closed` if its reader has left, as `head` does."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot print: {error.strerror or error}")
        self.closed = isinstance(error, BrokenPipeError)


def command_parser(name: str, documentation: str | None, example: str) -> argparse.ArgumentParser:
    """The parser of a command, described by the docstring of its module."""
    import argparse  # only here, as below: the command answers to signals before anything slow is loaded

    description = (documentation or "").partition(": ")[2]
    return argparse.ArgumentParser(
        prog=f"hushgram {name}",
        description=description[:1].upper() + description[1:],
        epilog=f"example: {example}",
        allow_abbrev=False,  # an abbreviation may become ambiguous when an option is added
    )


def say(line: str) -> None:
    _print(line, sys.stdout)


def complain(line: str) -> None:
    _print(f"hushgram: {line}", sys.stderr)


def _print(line: str, stream: TextIO) -> None:
    try:
        print(line, file=stream, flush=True)
    except OSError as error:
        raise OutputError(error) from None


def collections_in(path: str) -> dict[str, Collection]:
    """The collections of a file, on any file system that Beam knows, or the line that says what is wrong with it."""
    from hushgram import CollectionError
    from hushgram.config import parse_collections
    from hushgram.transforms.filesystem import read_text

    try:
        return parse_collections(read_text(path))
    except (CollectionError, OSError) as error:
        reason = str(error) if isinstance(error, CollectionError) else f"cannot be read: {error}"
        raise UsageError(f"--collections {path}: {reason}") from None


def pick_collection(collections: Mapping[str, Collection], name: str) -> Collection:
    """The collection that `--collection` names."""
    if name not in collections:
        names = ", ".join(collections)
        from hushgram import _validation

        raise UsageError(f"--collection: got {name!r}, allowed: {names}{_validation.suggest(name, collections)}")
    return collections[name]


def chosen_collection(path: str, name: str | None) -> Collection:
    """The collection of a file that `--collection` names, or the only one."""
    collections = collections_in(path)
    if name is None and len(collections) > 1:
        raise UsageError(f"--collection: missing, allowed: {', '.join(collections)}")
    return pick_collection(collections, next(iter(collections)) if name is None else name)


def check_generation(generation: int) -> None:
    if not 0 <= generation < 2**31:
        raise UsageError(f"--generation: got {generation}, allowed: zero or more, below 2**31")


def offsets_in(
    topic: str,
    properties: Mapping[str, str],
    properties_file: str | None,
    latest: bool,
    option: str = "--kafka",
) -> dict[int, int]:
    """Where the partitions of a topic begin or end, or the line that says what is wrong with Kafka, or with the topic
    that the option names."""
    from hushgram.transforms.kafka_client import (  # only here: not every command has use for it
        KafkaError,
        first_offsets,
    )

    try:
        return first_offsets(topic, properties, properties_file, latest)
    except KafkaError as error:
        raise UsageError(f"{option}: {error}") from None
    except ImportError:
        raise UsageError("--kafka: confluent-kafka is not installed; pip install 'hushgram[kafka]'") from None


def check_target(
    topic: str, properties: Mapping[str, str], properties_file: str | None, option: str = "--kafka"
) -> None:
    """That a topic is there, and may be written to, or the line that says what is wrong with it."""
    offsets_in(topic, properties, properties_file, latest=True, option=option)  # which explains best what is wrong
    from hushgram.transforms.kafka_client import KafkaError, check_writable

    try:
        check_writable(topic, properties, properties_file)
    except KafkaError as error:
        raise UsageError(f"{option}: {error}") from None


def check_letters_target(topic: str, properties: Mapping[str, str], properties_file: str | None, option: str) -> None:
    """The same of a topic of dead letters, which must keep all of them."""
    check_target(topic, properties, properties_file, option)
    from hushgram.transforms.kafka_client import KafkaError, check_keeps_all

    try:
        check_keeps_all(topic, properties, properties_file)
    except KafkaError as error:
        raise UsageError(f"{option}: {error}") from None


def start_in(
    topic: str, properties: Mapping[str, str], properties_file: str | None, latest: bool
) -> tuple[str, dict[int, int]]:
    """The id of a topic, and where its partitions begin or end, or the line that says what is wrong with Kafka."""
    from hushgram.transforms.kafka_client import KafkaError, topic_id

    offsets_in(topic, properties, properties_file, latest)  # which explains best what is wrong
    try:
        found = topic_id(topic, properties, properties_file)
    except KafkaError as error:
        raise UsageError(f"--kafka: {error}") from None
    # After the id: were the topic created again in between, the source would find another id than this one.
    return found, offsets_in(topic, properties, properties_file, latest)


def dead_letter_topic(text: str) -> str:
    """The topic that `--dead-letters` names.

    >>> dead_letter_topic("kafka:refused")
    'refused'
    """
    scheme, _, topic = text.partition(":")
    if scheme != "kafka" or not topic:
        raise UsageError(f"--dead-letters: got {text!r}, allowed: kafka:TOPIC")
    return topic


def parse_time(option: str, text: str) -> int:
    """Milliseconds since 1970 from a time such as 2026-01-01T00:00Z; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: got {text!r}, allowed: a time such as 2026-01-01T00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_share(option: str, text: str) -> float:
    """A share from a text such as 1% or 0.01.

    >>> parse_share("--max-refused", "1%")
    0.01
    """
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1 or rest:
        raise UsageError(f"{option}: got {text!r}, allowed: a share such as 1% or 0.01, from 0 to 100%")
    return share


ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""Nothing in it can end a header, or a directive of a policy."""


def parse_origin(option: str, text: str) -> str:
    """Where a page comes from: scheme, host and port.

    >>> parse_origin("--embed-in", "http://localhost:8080")
    'http://localhost:8080'
    """
    if not ORIGIN.fullmatch(text):
        raise UsageError(f"{option}: got {text!r}, allowed: such as https://example.org, without a path")
    return text
