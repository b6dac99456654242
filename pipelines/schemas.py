"""`hushgram schemas`: prints the schemas of reports and results, or puts them into a schema registry.

Each is registered under its own name, as hushgram.Report, since a topic of reports holds two kinds of messages
(Confluent's RecordNameStrategy): all versions, the first one first. A subject without a rule of its own is held to
FULL_TRANSITIVE: every version reads what every other one wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller

from hushgram.pipelines.cli.console import UsageError, command_parser, say
from hushgram.pipelines.cli.registry import PROPERTIES, URL, connect, refusal, registry_in
from hushgram.schemas.avro_schemas import DEAD_LETTER, HISTOGRAM, REPORT, REPORT_BATCH, SNAPSHOT, Definition
from hushgram.transforms.schema_registry import (
    IncompatibleError,
    NotRegisteredError,
    RegistryAwayError,
    RegistryClient,
    RegistryError,
)

EXAMPLE = "hushgram schemas register --schema-registry http://localhost:8081"
ALL = (REPORT, REPORT_BATCH, SNAPSHOT, HISTOGRAM, DEAD_LETTER)
COMPATIBILITY = "FULL_TRANSITIVE"


def run(argv: Sequence[str]) -> int:
    parser = command_parser("schemas", (__doc__ or "").partition("\n")[0], EXAMPLE)
    parser.add_argument(
        "action", choices=("show", "register"), help="print schemas, or put all of them into a registry"
    )
    names = ", ".join(definition.name.rpartition(".")[2] for definition in ALL)
    parser.add_argument("name", nargs="?", help=f"with show: one of {names} (default: a list of all)")
    parser.add_argument("--schema-registry", metavar="URL", help=f"with register: {URL}")
    parser.add_argument("--kafka-properties", metavar="FILE", help=f"with register: {PROPERTIES}")
    options = parser.parse_args(argv)
    if options.action == "show":
        if options.schema_registry or options.kafka_properties:
            raise UsageError("--schema-registry, --kafka-properties: only with register")
        show(options.name)
        return 0
    if options.name:
        raise UsageError(f"register: got {options.name!r}, allowed: no name, since all schemas are registered")
    if not options.schema_registry:
        raise UsageError("--schema-registry: missing; register needs it")
    client = connect(registry_in(options.schema_registry, options.kafka_properties))
    try:
        register_all(client)
    except (RegistryError, RegistryAwayError, NotRegisteredError) as error:
        raise refusal(options.schema_registry, error) from None
    return 0


def show(name: str | None) -> None:
    """The text of one schema, or all names, with the fingerprints of their versions."""
    if name is None:
        for definition in ALL:
            versions = ", ".join(fingerprint.hex() for fingerprint in definition.versions)
            say(f"{definition.name}: {versions}")
        return
    by_name = {definition.name.rpartition(".")[2]: definition for definition in ALL}
    if name not in by_name:
        raise UsageError(f"show: got {name!r}, allowed: {', '.join(by_name)}")
    say(by_name[name].text.rstrip("\n"))


def register_all(client: RegistryClient) -> None:
    """A line for each schema, with the ids of its versions. What is there already keeps its id."""
    for definition in ALL:
        ids = register(client, definition)
        say(f"{definition.name}: {', '.join(f'version {place} is {number}' for place, number in enumerate(ids, 1))}")


def register(client: RegistryClient, definition: Definition) -> list[int]:
    """The ids of all versions of one schema, the first one first."""
    from confluent_kafka.schema_registry import Schema

    subject, ids = definition.name, []
    # Who has set another rule has a reason. Some registries name a rule also for subjects that they do not have.
    without_rule = not (_has(client, "get_versions", subject) and _has(client, "get_compatibility", subject))
    for version in definition.versions.values():
        schema = Schema(definition.text_of(version), "AVRO")
        try:
            ids.append(int(client.ask(methodcaller("register_schema", subject, schema))))
        except IncompatibleError as error:
            raise RegistryError(f"subject {subject}: {error}; it holds another schema, or a stricter rule") from None
        if without_rule and len(ids) == 1:
            client.ask(methodcaller("set_compatibility", subject, COMPATIBILITY))
    return ids


def _has(client: RegistryClient, question: str, subject: str) -> bool:
    try:
        client.ask(methodcaller(question, subject))
    except NotRegisteredError:
        return False
    return True
