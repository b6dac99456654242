"""A message that was refused, as it is put on a topic of dead letters: whole, with the reason and where it came from.

The headers have the names of Kafka Connect's dead letter queue, so that tools which read those read these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hushgram.schemas.records import REASONS, Reason
from hushgram.transforms.sources.message_batch import MessageBatch

CONNECT, OWN = "__connect.errors.", "hushgram."
TOPIC, PARTITION, OFFSET = f"{CONNECT}topic", f"{CONNECT}partition", f"{CONNECT}offset"
STAGE, MESSAGE = f"{CONNECT}stage", f"{CONNECT}exception.message"
REASON, RECEIVED, TOPIC_ID = f"{OWN}reason", f"{OWN}received_at", f"{OWN}topic_id"
LEFT_OUT, PASSED = f"{OWN}left_out_bytes", f"{OWN}passed"
"""Bytes that were left out since the topic does not take them, and how often a replay has passed the letter over."""
DECODING, JUDGING = "VALUE_CONVERTER", "TRANSFORMATION"
"""Connect's words for where it went wrong."""
REASONS_OF_MESSAGES = tuple(reason for reason in REASONS if reason not in ("unreadable", "duplicate", "deleted_unread"))
"""A file is unreadable, duplicates are found when messages are columns already, and what was deleted nobody has."""
LONGEST_DETAIL = 500

Header = tuple[str, bytes | None]


class DeadMessage(NamedTuple):
    """What is sent to a topic of dead letters."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


def dead_message(batch: MessageBatch, index: int, reason: Reason, detail: str, decoded: bool) -> DeadMessage:
    """One message of a batch, with its key and its headers, and why it was refused."""
    topic, bracket, partition = batch.source.rpartition("[")
    own = {
        TOPIC: topic if bracket else None,
        PARTITION: partition.removesuffix("]") if bracket else None,
        OFFSET: batch.position(index),
        STAGE: JUDGING if decoded else DECODING,
        MESSAGE: detail[:LONGEST_DETAIL],
        REASON: reason,
        RECEIVED: None if batch.received is None else int(batch.received[index]),
        TOPIC_ID: batch.topic_id or None,
    }
    headers = [] if batch.headers is None else original_headers(batch.headers[index])
    key = None if batch.keys is None else batch.keys[index]
    return DeadMessage(key, batch.messages[index], [*headers, *_encoded(own)])


def original_headers(headers: object) -> list[Header]:
    """The headers of a message without those that a dead letter gained, now or in an earlier round.

    >>> original_headers([("trace", b"7"), (REASON, b"too_old"), (TOPIC, b"reports")])
    [('trace', b'7')]
    """
    known = headers if isinstance(headers, list) else []
    return [(name, value) for name, value in known if not name.startswith((CONNECT, OWN))]


def without_value(message: DeadMessage) -> DeadMessage:
    """The same without its value, for a topic that takes no message of its size."""
    size = len(message.value or b"")
    return DeadMessage(message.key, None, [*message.headers, *_encoded({LEFT_OUT: size})])


def without_content(message: DeadMessage) -> DeadMessage:
    """The same with nothing that its sender chose, for a topic that does not take its key and headers either.

    >>> without_content(DeadMessage(b"key", b"value", [("trace", b"7"), (REASON, b"too_old")])).headers
    [('hushgram.reason', b'too_old'), ('hushgram.left_out_bytes', b'14')]
    """
    theirs = original_headers(message.headers)
    ours = [header for header in message.headers if header[0].startswith((CONNECT, OWN))]
    size = len(message.value or b"") + len(message.key or b"")
    size += sum(len(name.encode()) + len(value or b"") for name, value in theirs)
    return DeadMessage(None, None, [*ours, *_encoded({LEFT_OUT: size})])


def _encoded(headers: Mapping[str, object]) -> list[Header]:
    """As Connect has it, numbers are texts."""
    return [(name, str(value).encode()) for name, value in headers.items() if value is not None]
