"""`--schema-registry`: where messages find their schema by its id, looked at before any work begins."""

from __future__ import annotations

import argparse
from typing import Any

from hushgram.pipelines.cli.console import UsageError
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH, Definition
from hushgram.schemas.framing import frame
from hushgram.schemas.messages import MARKER
from hushgram.transforms.schema_registry import (
    DeniedError,
    NotRegisteredError,
    RegistryAwayError,
    RegistryClient,
    RegistryError,
    SchemaRegistry,
    client_of,
)
from hushgram.transforms.sinks.patience import DEFAULT_SECONDS

URL = "the address of a schema registry with Confluent's interface, such as http://localhost:8081"
PROPERTIES = "properties of librdkafka, one name=value a line, and of the registry's client, as schema.registry.NAME"


def add_arguments(parser: Any, what: str) -> None:
    """To a command that sends `what` to Kafka."""
    parser.add_argument("--schema-registry", metavar="URL", help=f"with --kafka: {URL}")
    text = f"with --schema-registry: {what} name their schema by its id there (default: single-object encoding)"
    parser.add_argument("--framed", action="store_true", help=text)


def check_combination(options: argparse.Namespace) -> None:
    """Of the options, before anything is asked."""
    if options.schema_registry and not options.kafka:
        raise UsageError("--schema-registry: only with --kafka")
    if options.framed and not options.schema_registry:
        raise UsageError("--framed: needs --schema-registry, where the ids of schemas are")


def registry_in(url: str, properties_file: str | None, patience_seconds: float = DEFAULT_SECONDS) -> SchemaRegistry:
    """A registry that answers, or the line that says what is wrong with it."""
    try:
        registry = SchemaRegistry(url, properties_file, patience_seconds)
    except ValueError as error:
        raise UsageError(f"--schema-registry: {error}") from None
    try:
        connect(registry).check()
    except (RegistryError, RegistryAwayError, NotRegisteredError) as error:
        raise refusal(url, error) from None
    return registry


def refusal(url: str, error: Exception) -> UsageError:
    """The error of a registry as one line; if it refused credentials, with where they come from."""
    where = "credentials are schema.registry.basic.auth.user.info and the like in the file of --kafka-properties"
    advice = f"; {where}" if isinstance(error, DeniedError) else ""
    return UsageError(f"--schema-registry {url}: {error}{advice}")


def connect(registry: SchemaRegistry) -> RegistryClient:
    try:
        return client_of(registry)
    except ImportError:
        line = "--schema-registry: its client is not installed; pip install 'hushgram[kafka]'"
        raise UsageError(line) from None


def schema_id(registry: SchemaRegistry, definition: Definition, version: dict[str, Any] | None = None) -> int:
    """The id of one of our schemas, or the line that says how it gets one."""
    url = registry.url
    try:
        return connect(registry).id_of(definition, version)
    except NotRegisteredError:
        advice = f"run `hushgram schemas register --schema-registry {url}` once"
        raise UsageError(f"--framed: {url} does not have the schema of {definition.name}; {advice}") from None
    except (RegistryError, RegistryAwayError) as error:
        raise refusal(url, error) from None


def frames_in(options: argparse.Namespace, properties_file: str | None) -> dict[bytes, bytes] | None:
    """With `--framed`, what reports begin with, by the beginning that they have in the single-object encoding."""
    if not options.framed:
        return None
    registry = registry_in(options.schema_registry, properties_file)
    return {
        MARKER + fingerprint: frame(schema_id(registry, definition, version))
        for definition in (REPORT, REPORT_BATCH)
        for fingerprint, version in definition.versions.items()
    }
