"""A schema registry: which schema an id stands for, looked up once in each process.

An id that the registry does not know makes dead letters; a registry that does not answer is waited for, so that reports
come later but are not lost.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from hushgram.schemas.avro_schemas import Definition
from hushgram.schemas.framing import parse_id
from hushgram.schemas.messages import Unusable
from hushgram.schemas.resolution import LARGEST_SCHEMA, UnusableSchemaError, Writer, parse_writer
from hushgram.transforms.bounded_answers import OversizedAnswerError, bound_answers
from hushgram.transforms.kafka_client import KafkaError, registry_properties
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS, OutOfPatienceError, one_line, patiently

Answer = TypeVar("Answer")

ANSWER_SECONDS = 10.0
"""How long the registry may take for an answer; then it counts as away."""
LARGEST_ANSWER = 4 * LARGEST_SCHEMA
"""Bytes. Within an answer a schema is a text of JSON, whose quotes are escaped."""
UNKNOWN_SECONDS, LONGEST_UNKNOWN_SECONDS = 2.0, 60.0
"""An id that was unknown is asked for again after the first, then after twice as long each time, up to the second:
somebody may have registered it."""
MOST_KEPT = 10_000
"""Ids. Were there more, they would be looked up anew."""
NOT_FOUND = (40401, 40402, 40403)
"""A registry's own codes for a subject, a version and a schema that it does not have."""
FORBIDDEN = 403
DENIED = (401, FORBIDDEN)


class RegistryError(Exception):
    """Something about the registry that a person has to put right."""


class DeniedError(RegistryError):
    """Credentials that are not taken, or not for this; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class IncompatibleError(RegistryError):
    """A schema that the rule of its subject does not allow beside those that are there."""


class RegistryAwayError(Exception):
    """No answer, or none of a schema registry: one that is waited for."""


class NothingThereError(RegistryAwayError):
    """A 404 that does not come from a registry: from its server, from a proxy, or from something else."""


class NotRegisteredError(Exception):
    """The registry answers that it does not have it."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry with Confluent's interface, and how long it is waited for when it is away.

    Credentials are in the file of Kafka's properties, as `schema.registry.basic.auth.user.info` and the like, which is
    read where clients run: never in the address, which job graphs carry.

    >>> SchemaRegistry("https://user:secret@registry.example.org")
    Traceback (most recent call last):
    ValueError: credentials: got some in the address, where lists of processes and job graphs show them, allowed: as \
schema.registry.basic.auth.user.info in the file of properties
    """

    url: str
    properties_file: str | None = None
    patience_seconds: float = DEFAULT_SECONDS

    def __post_init__(self) -> None:
        if "@" in self.url:  # first, since the other line quotes the address
            raise ValueError(
                "credentials: got some in the address, where lists of processes and job graphs show them,"
                " allowed: as schema.registry.basic.auth.user.info in the file of properties"
            )
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https") or set(self.url) & set(", \t\r\n"):
            raise ValueError(f"address: got {self.url[:200]!r}, allowed: such as http://localhost:8081")


class _Unknown(NamedTuple):
    """The answer for an id that the registry does not have, kept until the registry is asked again."""

    answer: Unusable
    pause: float
    until: float


class RegistryClient:
    """Confluent's own client, with bounds on what it takes in, and a memory of ids."""

    def __init__(self, registry: SchemaRegistry) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.registry = registry
        settled = {"url": registry.url, "timeout": ANSWER_SECONDS, "max.retries": 0}
        try:
            from_file = registry_properties(registry.properties_file) if registry.properties_file else {}
            self.client: Any = SchemaRegistryClient({**from_file, **settled})
        except (KafkaError, OSError, TypeError, ValueError) as error:
            raise RegistryError(one_line(error)) from None
        bound_answers(self.client._rest_client.session, LARGEST_ANSWER, ANSWER_SECONDS)
        self._lock = threading.Lock()
        self._known: dict[bytes, Writer | Unusable] = {}
        self._unknown: dict[bytes, _Unknown] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def schema(self, named: bytes) -> Writer | Unusable:
        """What an id stands for. Waits while the registry is away, and raises when its patience is over."""
        found = self._remembered(named)
        if found is not None:  # without the lock, which one who waits for the registry holds
            return found
        with self._lock:
            found = self._remembered(named)
            return self._find(named) if found is None else found

    def _remembered(self, named: bytes) -> Writer | Unusable | None:
        unknown = self._unknown.get(named)
        if unknown is not None and time.monotonic() < unknown.until:
            return unknown.answer
        return self._known.get(named)

    def _find(self, named: bytes) -> Writer | Unusable:
        before = self._unknown.get(named)
        for memory in (self._known, self._unknown):
            if len(memory) >= MOST_KEPT:
                memory.clear()
        schema_id = parse_id(named)
        if schema_id is None:
            return Unusable("undecodable", f"{named[:20].hex()} in the header of schema ids, which is not one")
        found = self._waiting(partial(self._fetch, schema_id))
        if isinstance(found, str):
            pause = UNKNOWN_SECONDS if before is None else min(2 * before.pause, LONGEST_UNKNOWN_SECONDS)
            answer = Unusable("unknown_schema", f"schema id {schema_id}{found}")
            self._unknown[named] = _Unknown(answer, pause, time.monotonic() + pause)
            return answer
        self._known[named] = found
        self._unknown.pop(named, None)
        return found

    def _waiting(self, attempt: Callable[[], Answer]) -> Answer:
        name, patience = f"--schema-registry {self.registry.url}", self.registry.patience_seconds
        try:
            return patiently(name, attempt, lambda error: isinstance(error, RegistryAwayError), patience)
        except (RegistryError, OutOfPatienceError) as error:
            raise RegistryError(f"{name}: {error}") from None

    def _fetch(self, schema_id: int | UUID) -> Writer | Unusable | str:
        """The schema, or why it is never used; a text says why the registry does not give it out now."""
        label = f"schema id {schema_id}"
        try:
            if isinstance(schema_id, UUID):
                found = self.ask(lambda client: client.get_schema_by_guid(str(schema_id)))
            else:
                found = self.ask(lambda client: client.get_schema(schema_id))
            if not isinstance(found.schema_str, str):
                raise RegistryAwayError("an answer without a schema")
            if found.schema_type not in (None, "AVRO"):
                raise UnusableSchemaError(f"no Avro schema, but {str(found.schema_type)[:80]!r}")
            if found.references:
                raise UnusableSchemaError("a schema that refers to others")
            return parse_writer(found.schema_str)
        except NotRegisteredError:
            return ", which the registry does not have"
        except DeniedError as error:  # at the start it was not: others change credentials and rights while we run
            if error.status == FORBIDDEN and self._answers_otherwise():
                return f": {error}"
            raise RegistryAwayError(str(error)) from None
        except (UnusableSchemaError, OversizedAnswerError) as error:
            return Unusable("unknown_schema", f"{label}: {error}")
        finally:
            self.client.clear_caches()  # they have no bound, and would keep a wrong answer

    def ask(self, question: Callable[[Any], Answer]) -> Answer:
        """The answer to a question that is put to Confluent's client; its errors, by what can be done about them."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return question(self.client)
        except SchemaRegistryError as error:
            status, text = error.http_status_code, f"{one_line(error)}"[:200]
            if status in DENIED:
                raise DeniedError(status, text) from None
            if status == 404 and (error.error_code in NOT_FOUND or self._answers_otherwise()):
                raise NotRegisteredError(text) from None
            if status == 409:
                raise IncompatibleError(text) from None
            if status == 422:
                raise RegistryError(text) from None
            raise (NothingThereError if status == 404 else RegistryAwayError)(text) from None
        except (KeyboardInterrupt, SystemExit, MemoryError, OversizedAnswerError):
            raise
        except Exception as error:  # of the transport; or the answer is not a registry's, as the page of a proxy
            raise RegistryAwayError(f"{type(error).__name__}: {one_line(error)}"[:200]) from None

    def _answers_otherwise(self) -> bool:
        """Whether the registry is there. An older one has no interface for GUIDs, and says so without a code of its
        own; a proxy in front of one that is down may say the same."""
        try:
            return isinstance(self.client.get_schema_types(), list)
        except Exception:
            return False

    def check(self) -> None:
        """That there is a schema registry, which lets us ask."""
        try:
            answer = self.ask(lambda client: client.get_schema_types())
        except (NothingThereError, NotRegisteredError) as error:
            hint = "is its path missing, such as /apis/ccompat/v7 for Apicurio?"
            raise NothingThereError(f"no schema registry at this address; {hint} The answer: {error}") from None
        if not isinstance(answer, list):
            raise RegistryAwayError("no answer of a schema registry")

    def id_of(self, definition: Definition, version: dict[str, Any] | None = None) -> int:
        """The id of one of our schemas, in one of its versions."""
        from confluent_kafka.schema_registry import Schema

        text = definition.text_of(version)
        return int(self.ask(lambda client: client.lookup_schema(definition.name, Schema(text, "AVRO")).schema_id))


@cache
def client_of(registry: SchemaRegistry) -> RegistryClient:
    """The one client of this process."""
    client = RegistryClient(registry)
    atexit.register(client.client.close)
    return client
