"""Kafka clients as this project needs them: properties from a file, and mistakes reported in one line."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hushgram.schemas.messages import LARGEST_MESSAGE
from hushgram.transforms.filesystem import read_text

FETCH_WAIT = "100"
"""Milliseconds that a broker holds an answer back until there is more to send. Whoever asks for the end of a partition
waits behind it: at the client's own half second, sources that have caught up would keep their slot from the others."""
SETTLED = {
    "enable.auto.commit": "false",  # offsets are the engine's, in its checkpoints
    "auto.offset.reset": "error",  # reports that were deleted unread must not be skipped in silence
    "enable.partition.eof": "true",  # the end of a partition need not be behind its last message
    "isolation.level": "read_committed",  # messages of an aborted transaction were never sent
}
OUT_OF_RANGE = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE", "_LOG_TRUNCATION")
"""Errors of a consumer whose position the broker does not have, since messages were deleted or lost."""
ABSENT = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
"""Errors for a topic that does not exist, such as one that is being deleted and created again."""
DENIED = ("_AUTHENTICATION", "TOPIC_AUTHORIZATION_FAILED")
"""Errors that waiting does not mend. All others are for patience: a broker that is down comes back."""
NO_LEADER_YET = ("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION")
"""Errors for a topic that was created a moment ago."""
TIMEOUT = 15
DESCRIBE_SECONDS = 5.0
"""How long a broker may take to describe a topic; one that is asked takes milliseconds."""


class KafkaError(Exception):
    """Something about Kafka that a person has to put right."""


REGISTRY = "schema.registry."
"""Properties of the schema registry's client begin so."""
REGISTRY_CREDENTIALS = ("basic.auth.", "bearer.auth.", "ssl.", "proxy")
"""What they may be about: all else is settled."""


def read_properties(path: str) -> dict[str, str]:
    """Properties of librdkafka from a file of `name=value` lines; `#` begins a comment line."""
    return {name: value for name, value in _read(path).items() if not name.startswith(REGISTRY)}


def registry_properties(path: str) -> dict[str, str]:
    """Properties of the schema registry's client from the same file, without what they begin with there."""
    found = {name.removeprefix(REGISTRY): value for name, value in _read(path).items() if name.startswith(REGISTRY)}
    for name in found:
        if not name.startswith(REGISTRY_CREDENTIALS):
            allowed = ", ".join(f"{REGISTRY}{part}…" for part in REGISTRY_CREDENTIALS)
            raise KafkaError(f"{path}: got {REGISTRY}{name}, allowed: {allowed}")
    return found


def _read(path: str) -> dict[str, str]:
    try:
        lines = read_text(path).split("\n")
    except OSError as error:
        raise KafkaError(f"{path}: cannot be read: {error}") from None
    properties = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise KafkaError(f"{path}, line {number}: allowed: name=value")
        if name in SETTLED:
            raise KafkaError(f"{path}, line {number}: {name} is settled, since counts would not be exact otherwise")
        properties[name] = value
    return properties


def consumer(properties: Mapping[str, str], properties_file: str | None = None, **more: Any) -> Any:
    """A consumer, which leaves offsets to the engine."""
    from confluent_kafka import Consumer

    return _client(Consumer, {"fetch.wait.max.ms": FETCH_WAIT, **properties}, properties_file, {**SETTLED, **more})


def producer(properties: Mapping[str, str], properties_file: str | None = None, **more: Any) -> Any:
    """A producer that neither reorders nor repeats messages when it tries again."""
    from confluent_kafka import Producer

    own = {"enable.idempotence": "true", "linger.ms": 20, "message.max.bytes": LARGEST_MESSAGE}
    return _client(Producer, _without_group(properties), properties_file, {**own, **more})


def admin(properties: Mapping[str, str], properties_file: str | None = None) -> Any:
    """A client that asks about topics."""
    from confluent_kafka.admin import AdminClient

    return _client(AdminClient, _without_group(properties), properties_file, {})


def _without_group(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != "group.id"}


def _client(kind: Any, properties: Mapping[str, str], properties_file: str | None, settled: Mapping[str, Any]) -> Any:
    """Secrets are in the file, which is read where the client runs, so that no job graph carries them."""
    from confluent_kafka import KafkaException

    from_file = read_properties(properties_file) if properties_file else {}
    # Failures to connect come back as errors of calls; librdkafka need not print them too.
    merged = {"reconnect.backoff.max.ms": 1000, "log_level": 2, **properties, **from_file, **settled}
    try:
        return kind(merged)
    except KafkaException as error:
        raise KafkaError(f"Kafka: {error.args[0].str()}") from None
    except (AttributeError, TypeError, ValueError) as error:  # of names that the client's Python half takes for its own
        raise KafkaError(f"Kafka: {error}") from None


def headers_of(messages: Iterable[Any]) -> list[list[Any] | None]:
    """The headers of messages, to be asked for once; one counts as without any if a name is not UTF-8.

    Kafka takes such names, and the client fails on them: what is left in the message then must not be looked at again.
    """
    found: list[list[Any] | None] = []
    rest = iter(messages)
    with uncollected():
        while True:
            try:
                for message in rest:
                    found.append(message.headers())
            except (SystemError, UnicodeDecodeError):
                found.append(None)
            else:
                return found


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's garbage collector, which thousands of new lists set off again and again, in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class TopicState:
    """A topic as a broker describes it now."""

    id: str
    """Another one for a topic that was deleted and created again; empty if the brokers, older than 2.8, have none."""
    partitions: int


def describe(client: Any, topic: str) -> TopicState:
    """Asks a broker, through an `admin` client, or raises its KafkaException."""
    from confluent_kafka import TopicCollection

    answers = client.describe_topics(TopicCollection([topic]), request_timeout=DESCRIBE_SECONDS)
    found = answers[topic].result(2 * DESCRIBE_SECONDS)
    uuid = found.topic_id
    known = uuid.get_most_significant_bits() or uuid.get_least_significant_bits()
    return TopicState(str(uuid) if known else "", len(found.partitions))


def topic_id(topic: str, properties: Mapping[str, str], properties_file: str | None) -> str:
    """The id of a topic, or what is wrong with broker, credentials or topic."""
    from confluent_kafka import KafkaException

    try:
        return describe(admin(properties, properties_file), topic).id
    except KafkaException as error:
        address = properties.get("bootstrap.servers", "")
        raise KafkaError(f"topic {topic!r} at {address}: {error.args[0].str()}") from None


def check_writable(topic: str, properties: Mapping[str, str], properties_file: str | None) -> None:
    """That we may write to a topic, as far as its brokers tell; those without rules, or older than 2.3, do not."""
    from confluent_kafka import KafkaException, TopicCollection

    at = f"topic {topic!r} at {properties.get('bootstrap.servers', '')}"
    client = admin(properties, properties_file)
    try:
        answers = client.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=TIMEOUT
        )
        allowed = answers[topic].result(2 * TIMEOUT).authorized_operations
    except KafkaException as error:
        raise KafkaError(f"{at}: {error.args[0].str()}") from None
    if allowed and "WRITE" not in {operation.name for operation in allowed}:
        raise KafkaError(f"{at}: may be read, not written to: allow the operation Write")


def check_keeps_all(topic: str, properties: Mapping[str, str], properties_file: str | None) -> None:
    """That a topic is not compacted, as far as its brokers tell: asking for its settings takes a right of its own."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # its documentation says so

    at = f"topic {topic!r} at {properties.get('bootstrap.servers', '')}"
    client, resource = admin(properties, properties_file), ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        answers = client.describe_configs([resource], request_timeout=TIMEOUT)
        settings = answers[resource].result(2 * TIMEOUT)
    except KafkaException as error:
        if error.args[0].name() in DENIED:
            return
        raise KafkaError(f"{at}: {error.args[0].str()}") from None
    if "compact" in (policy := settings["cleanup.policy"].value):
        reason = "messages of one key would replace each other, and those without a key are refused"
        raise KafkaError(f"{at}: cleanup.policy is {policy}: {reason}; set it to delete")


def first_offsets(
    topic: str, properties: Mapping[str, str], properties_file: str | None, latest: bool
) -> dict[int, int]:
    """Of each partition of a topic the offset to begin with; or what is wrong with broker, credentials or topic."""
    from confluent_kafka import KafkaException

    errors: list[str] = []
    client = consumer(properties, properties_file, error_cb=lambda error: errors.append(error.str()))
    address, end = properties.get("bootstrap.servers", ""), time.monotonic() + TIMEOUT
    try:
        while True:
            try:
                return _ask_offsets(client, topic, latest)
            except KafkaException as error:
                if error.args[0].name() not in NO_LEADER_YET or time.monotonic() > end:
                    client.poll(0.1)  # which is when the client reports why it has no connection
                    reasons = "; ".join(dict.fromkeys([*errors[-3:], error.args[0].str()]))
                    answered = not error.args[0].name().startswith("_")  # the client's own errors begin so
                    what = f"topic {topic!r} at" if answered else "no answer from Kafka at"
                    raise KafkaError(f"{what} {address}: {reasons}") from None
                time.sleep(0.2)
    finally:
        client.close()


def _ask_offsets(client: Any, topic: str, latest: bool) -> dict[int, int]:
    from confluent_kafka import KafkaException, TopicPartition

    found = client.list_topics(topic, timeout=TIMEOUT).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    offsets = {}
    for partition in sorted(found.partitions):
        low, high = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT)
        offsets[partition] = high if latest else low
    return offsets
