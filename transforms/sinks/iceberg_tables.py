"""The Iceberg table of snapshots: its columns are those of the Avro schema, its partitions are days.

The catalogue is configured where pyiceberg looks for it, in the environment (`PYICEBERG_CATALOG__NAME__URI`) or in
`.pyiceberg.yaml`: so secrets are in no option and no job graph.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from pyiceberg.utils.config import Config
from sqlalchemy.exc import IntegrityError

from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.field_types import TIMESTAMP, Field, FieldType, fields_of
from hushgram.transforms.sinks.patience import one_line, patiently, within

LOG = logging.getLogger(__name__)

KEY, TIME = "key", "window_start"
"""The column that identifies a row, and the one whose days are the partitions."""
TYPES: dict[str, IcebergType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    TIMESTAMP: TimestamptzType(),
}
PROPERTIES = {
    "format-version": "2",
    # Every commit writes the table's metadata anew; without these the old ones would stay for ever.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # Each metadata lists all versions of the table, and each version has files: a day of them stays.
    TableProperties.MAX_SNAPSHOT_AGE_MS: str(24 * 60 * 60 * 1000),
}
START_SECONDS, CONFLICT_SECONDS = 60.0, 30.0
"""How long the catalogue may take to answer at the start, and how long others who change the table then are met."""


class IcebergError(Exception):
    """The catalogue or the table refuses something; the message is one line that a person can act on."""


@dataclass(frozen=True)
class TableName:
    """A table, and the name under which its catalogue is configured.

    >>> TableName.parse("lake/analytics.results.snapshots")
    TableName(catalog='lake', namespace=('analytics', 'results'), table='snapshots')
    >>> str(TableName("lake", ("results",), "snapshots"))
    'lake/results.snapshots'
    """

    catalog: str
    namespace: tuple[str, ...]
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        catalog, _, path = text.partition("/")
        *namespace, table = path.split(".")
        if not (catalog and namespace and all(namespace) and table) or "/" in path or not text.isprintable():
            raise ValueError(f"table: got {text!r}, allowed: CATALOG/NAMESPACE.TABLE")
        return cls(catalog, tuple(namespace), table)

    @property
    def identifier(self) -> tuple[str, ...]:
        return *self.namespace, self.table

    def __str__(self) -> str:
        return f"{self.catalog}/{'.'.join(self.identifier)}"


def open_catalog(name: str) -> Catalog:
    """The catalogue, by the configuration as it is now: a long-lived worker may be given new credentials."""
    settings = Config().get_catalog_config(name)
    if settings is None:
        raise IcebergError(f"no catalogue {name!r} is configured; {_how_to_configure(name)}")
    properties: dict[str, Any] = settings  # some hold others
    try:
        return load_catalog(name, **properties)
    except Exception as error:
        uri = str(properties.get("uri", ""))
        if uri in str(error) and set(uri) & set("@?"):  # what it is configured with may be quoted, and hold a password
            raise IcebergError(one_line(error).replace(uri, _without_credentials(uri))) from None
        raise


def _how_to_configure(name: str) -> str:
    """
    >>> _how_to_configure("data-lake")
    'set PYICEBERG_CATALOG__DATA_LAKE__URI, or add it to .pyiceberg.yaml'
    >>> _how_to_configure("data_lake")
    'add it to .pyiceberg.yaml, since a variable cannot name it: there, _ stands for -'
    """
    if "_" in name:
        return "add it to .pyiceberg.yaml, since a variable cannot name it: there, _ stands for -"
    return f"set PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__URI, or add it to .pyiceberg.yaml"


def _without_credentials(uri: str) -> str:
    """
    >>> _without_credentials("postgres://someone:secret@example.org/db?sslpassword=secret")
    'postgres://example.org'
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "its address"
    return f"{parts.scheme}://{parts.hostname or ''}"


def table_schema() -> Schema:
    """The columns of a snapshot, as Iceberg describes tables."""
    ids = count(1)
    columns = [_column(field, ids) for field in fields_of(SNAPSHOT)]
    [key] = [column.field_id for column in columns if column.name == KEY]
    return Schema(*columns, identifier_field_ids=[key])


def _column(field: Field, ids: Iterator[int]) -> NestedField:
    # Avro's field may be null in files of older versions; to Iceberg an identifier may not.
    required = field.name == KEY or not field.type.nullable
    return NestedField(next(ids), field.name, _type(field.type, ids), required=required, doc=field.doc or None)


def _type(kind: FieldType, ids: Iterator[int]) -> IcebergType:
    if kind.items is not None:
        return ListType(next(ids), _type(kind.items, ids), element_required=not kind.items.nullable)
    if kind.fields:
        return StructType(*(_column(part, ids) for part in kind.fields))
    return TYPES[kind.kind]


def by_day(schema: Schema) -> PartitionSpec:
    source = schema.find_field(TIME).field_id
    return PartitionSpec(PartitionField(source, 1000, DayTransform(), f"{TIME}_day"))


def prepare_table(name: TableName, schema: Schema | None = None) -> None:
    """Once, before any worker starts: makes the table, or adds the columns that one of an older version lacks; and
    writes to its storage, of which the catalogue alone says nothing.

    It is that of snapshots, unless another schema is given.
    """
    ours = table_schema() if schema is None else schema

    def prepare() -> None:
        with closing(open_catalog(name.catalog)) as catalog:
            table = _load_or_create(catalog, name, ours)
            missing = _missing_columns(ours, table.schema())
            _check_partitions(table)
            check_storage(table)
            if missing:
                with table.update_schema() as update:
                    for column in missing:
                        update.add_column(column.name, column.field_type, doc=column.doc)

    try:
        patiently(f"iceberg:{name}", lambda: within(START_SECONDS, prepare), _is_conflict, CONFLICT_SECONDS)
    except IcebergError:
        raise
    except Exception as error:  # of as many kinds as there are catalogues, without a common base
        raise IcebergError(f"catalogue {name.catalog!r}: {one_line(error)}") from error


def _load_or_create(catalog: Catalog, name: TableName, schema: Schema) -> Table:
    with suppress(NoSuchTableError):
        return catalog.load_table(name.identifier)
    with suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(name.namespace)
    try:
        return catalog.create_table(name.identifier, schema, partition_spec=by_day(schema), properties=PROPERTIES)
    except TableAlreadyExistsError:  # by another command that has just started
        return catalog.load_table(name.identifier)


def _check_partitions(table: Table) -> None:
    """A commit reads and rewrites the files of its windows' days: without partitions, those of all days."""
    source = table.schema().find_field(TIME).field_id
    if not any(part.source_id == source and isinstance(part.transform, DayTransform) for part in table.spec().fields):
        advice = f"add the partition field day({TIME}) to it, or give another name"
        raise IcebergError(f"the table's partitions are not the days of {TIME}; {advice}")


def check_storage(table: Table) -> None:
    """Writes a small file where data and where metadata go, and deletes it again."""
    places, file = table.location_provider(), f"hushgram-probe-{uuid4()}"
    for path in (places.new_data_location(file), places.new_metadata_location(file)):
        try:
            with table.io.new_output(path).create(overwrite=True) as stream:
                stream.write(b"It can be written.\n")
        except Exception as error:  # of as many kinds as there are stores
            raise IcebergError(f"cannot write to {path.rpartition('/')[0]}: {one_line(error)}") from error
        try:
            table.io.delete(path)
        except Exception as error:  # some stores take files of writers that may not delete any
            LOG.warning("iceberg: cannot delete %s: %s", path, one_line(error))


def without_own_attempts(table: Table) -> Table:
    """With commits that fail if others came before, and are not tried again.

    Here only: in the table's own properties, it would hold for maintenance by others, too.
    """
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _is_conflict(error: Exception) -> bool:
    """Another command that has just started was faster; a catalogue in a database has no word of its own for it."""
    return isinstance(error, CommitFailedException | IntegrityError)


def _missing_columns(ours: Schema, theirs: Schema) -> list[NestedField]:
    """The columns that the table lacks and can be given; raises if it is another table.

    Columns that we do not know are welcome, as those of a newer version, unless rows must have them.
    """
    known, present = ({field.name: field for field in schema.fields} for schema in (ours, theirs))
    if problems := list(_differences(known, present)):
        raise IcebergError(f"the table has another schema: {'; '.join(problems[:3])}; give another name")
    return [field for name, field in known.items() if name not in present]


def _differences(known: Mapping[str, NestedField], present: Mapping[str, NestedField]) -> Iterator[str]:
    for name, field in known.items():
        if name not in present:
            if field.required:
                yield f"no column {name}"
        elif _shape(present[name].field_type) != _shape(field.field_type):
            yield f"column {name} is {_shape(present[name].field_type)}, not {_shape(field.field_type)}"
        elif present[name].required and not field.required:
            yield f"column {name} may not be null"
    for name in present.keys() - known.keys():
        if present[name].required:
            yield f"column {name} may not be null, and is not one of ours"


def _shape(kind: IcebergType) -> str:
    """A type without the numbers of its fields, which differ from table to table."""
    if isinstance(kind, ListType):
        return f"list<{_shape(kind.element_type)}>"
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{part.name}: {_shape(part.field_type)}' for part in kind.fields)}>"
    return str(kind)
