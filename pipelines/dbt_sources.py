"""The long tables as a source of dbt: names, meanings and tests of their columns, for `models/` of a dbt project."""

from __future__ import annotations

from typing import Any

import yaml

from hushgram.schemas.long_tables import LONG_TABLES, Column, LongTable

SQL_TYPES = {
    "text": "text",
    "whole": "bigint",
    "number": "double precision",
    "flag": "boolean",
    "time": "timestamp with time zone",
}


READERS = {"parquet": "read_parquet('{}')", "csv": "read_csv('{}', allow_quoted_nulls = false)"}
"""What DuckDB reads files with. In CSV a text in quotes is no null, although it may be empty, as units are."""


def dbt_sources(folder: str | None = None, kind: str = "parquet") -> str:
    """The text of a `sources.yml`: of files in a folder, as dbt-duckdb reads them, or else of PostgreSQL's views.

    >>> "identifier: hushgram_windows" in dbt_sources(), "/{name}.parquet" in dbt_sources("tables")
    (True, True)

    The name of the folder goes through Jinja, and then through `str.format`, so that no braces can be in it.

    >>> dbt_sources("{odd}")
    Traceback (most recent call last):
    ValueError: got '{odd}', allowed: a folder without braces, which dbt takes for a template
    """
    source: dict[str, Any] = {"name": "hushgram", "description": "Distributions under local differential privacy."}
    if folder is None:
        source["schema"] = "public"
    else:
        if set(folder) & set("{}"):
            raise ValueError(f"got {folder!r}, allowed: a folder without braces, which dbt takes for a template")
        quoted = folder.replace("'", "''")
        source["config"] = {"meta": {"external_location": READERS[kind].format(f"{quoted}/{{name}}.{kind}")}}
    source["tables"] = [_table(table, folder is None) for table in LONG_TABLES]
    return yaml.safe_dump({"version": 2, "sources": [source]}, sort_keys=False, allow_unicode=True, width=120)


def _table(table: LongTable, is_view: bool) -> dict[str, Any]:
    identifier = {"identifier": f"hushgram_{table.name}"} if is_view else {}
    columns = [_column(column, table.unique == (column.name,)) for column in table.columns]
    return {"name": table.name, **identifier, "description": table.meaning, "columns": columns}


def _column(column: Column, unique: bool) -> dict[str, Any]:
    tests = [*([] if column.nullable else ["not_null"]), *(["unique"] if unique else [])]
    own = {"name": column.name, "description": column.meaning, "data_type": SQL_TYPES[column.kind]}
    return {**own, **({"data_tests": tests} if tests else {})}
