"""The table of the PostgreSQL sink as the writer needs it: its columns, the statement that fills them, and whether the
table that is there has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.field_types import TIMESTAMP, FieldType, fields_of

Connection = psycopg.Connection[Any]

TABLE = "hushgram_snapshots"
GROUP_KEY = "group_key"
"""The column that the table makes by itself, for the key; all others are those of a snapshot."""
KEY = ("collection", "window_start", "window_end", GROUP_KEY)
TYPES = {
    "string": "text",
    "int": "integer",
    "long": "bigint",
    "double": "double precision",
    "boolean": "boolean",
    TIMESTAMP: "timestamp with time zone",
}
"""As the server itself writes them."""
ELSEWHERE = "name another database, or another schema by ?options=-csearch_path%3DSCHEMA"


class PostgreSQLError(Exception):
    """Something about the database that a person has to put right."""


def columns() -> dict[str, str]:
    """The columns of a snapshot and their types, from the Avro schema; arrays of records are JSON."""
    return {field.name: _type(field.type) for field in fields_of(SNAPSHOT)}


def _type(kind: FieldType) -> str:
    if kind.items is not None:
        return "jsonb" if kind.items.fields else f"{_type(kind.items)}[]"
    return TYPES[kind.kind]


def upsert() -> str:
    """The statement that writes a snapshot, unless one is there that is as good or better (`Snapshot.rank`)."""
    names = {name: f'"{name}"' for name in columns()}
    values = ", ".join(f"%({name})s::{kind}" for name, kind in columns().items())
    new = ", ".join(f"{quoted} = excluded.{quoted}" for quoted in names.values())
    ranks = [
        ", ".join(f"{row}.{name}" for name in ("generation", "reports", "pane_index")) for row in ("old", "excluded")
    ]
    return (
        f"INSERT INTO {TABLE} AS old ({', '.join(names.values())}) VALUES ({values}) "
        f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {new} WHERE ({ranks[0]}) < ({ranks[1]})"
    )


@dataclass(frozen=True)
class Column:
    """A column of the table that is there; `demanded` is one that each row must be given a value for."""

    type: str
    required: bool
    demanded: bool
    generated: bool


def check_table(connection: Connection) -> None:
    """The table can take snapshots, or the error that says why not.

    Columns that we do not know are welcome, unless rows must have them; so are indexes, views and triggers.
    """
    present = _columns_of_the_table(connection)
    if not present:
        advice = "restore it, or drop hushgram_migrations, and it is made anew"
        raise PostgreSQLError(f"table {TABLE} is gone, though hushgram_migrations is there: {advice}")
    problems = list(_differences(present))
    if not _has_key(connection):
        problems.append(f"no primary key or unique index ({', '.join(KEY)})")
    if problems:
        advice = f"put that right, or {ELSEWHERE}"
        raise PostgreSQLError(f"table {TABLE} has another schema: {'; '.join(problems[:3])}; {advice}")


def _columns_of_the_table(connection: Connection) -> dict[str, Column]:
    query = """SELECT attname, format_type(atttypid, atttypmod), attnotnull,
            attnotnull AND NOT atthasdef AND attidentity = '', attgenerated <> ''
        FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return {name: Column(*properties) for name, *properties in cursor.execute(query, [TABLE])}


def _differences(present: Mapping[str, Column]) -> Iterator[str]:
    may_be_null = {field.name for field in fields_of(SNAPSHOT) if field.type.nullable} - {"key"}
    known = {**columns(), GROUP_KEY: "text"}
    for name, kind in known.items():
        column = present.get(name)
        if column is None:
            yield f"no column {name}"
        elif column.type != kind:
            yield f"column {name} is {column.type}, not {kind}"
        elif column.generated != (name == GROUP_KEY):
            yield f"column {name} is {'' if column.generated else 'not '}generated"
        elif column.required and name in may_be_null:
            yield f"column {name} may not be null"
    for name, column in present.items():
        if column.demanded and name not in known:
            yield f"column {name} may not be null, and is not one of ours"


def _has_key(connection: Connection) -> bool:
    """Whether the upsert finds the row of a window: by a unique index of all rows, over these columns in any order."""
    query = """SELECT EXISTS (
        SELECT FROM pg_index WHERE indrelid = to_regclass(%s)
            AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL
            AND %s::text[] = (
                SELECT array_agg(attname::text ORDER BY attname::text COLLATE "C")
                FROM unnest(indkey[:indnkeyatts - 1]) AS part JOIN pg_attribute ON attrelid = indrelid AND attnum = part
            )
    )"""
    return ask(connection, query, TABLE, sorted(KEY)) == (True,)


def ask(connection: Connection, query: str, *values: object) -> tuple[Any, ...]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(query, values or None).fetchone()
        assert found is not None
        return found
