"""Rows for BigQuery: they fit the table's schema, whatever a mechanism knows, and survive JSON."""

import json
import math
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from apache_beam.io.gcp.internal.clients import bigquery as client

from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.transforms.sinks.bigquery import CLUSTERED_BY, BigQueryError, refused, row, table_schema
from tests.helpers.tables import MEAN, WAVE, make_snapshot

NUMBERS = {"NaN", "Infinity", "-Infinity"}


def check(value, column, prefix=""):
    """BigQuery's own rules, written down independently: modes, types, and no field beyond the schema."""
    name = f"{prefix}{column['name']}"
    if column["mode"] == "REPEATED":
        assert isinstance(value, list), name
        for index, item in enumerate(value):
            check(item, {**column, "mode": "REQUIRED"}, f"{prefix}[{index}] ")
        return
    if value is None:
        assert column["mode"] == "NULLABLE", name
        return
    if column["type"] == "RECORD":
        check_row(value, column["fields"], f"{name}.")
    elif column["type"] == "TIMESTAMP":
        assert datetime.fromisoformat(value).tzinfo is not None, name
    elif column["type"] == "FLOAT":
        assert value in NUMBERS if isinstance(value, str) else type(value) in (int, float) and math.isfinite(value)
    else:
        assert type(value) is {"STRING": str, "INTEGER": int, "BOOLEAN": bool}[column["type"]], name


def check_row(values, columns, prefix=""):
    assert list(values) == [column["name"] for column in columns]
    for column in columns:
        check(values[column["name"]], column, prefix)


@pytest.mark.parametrize("reports", [0, 1, 1000])
@pytest.mark.parametrize(("collection", "group"), [(WAVE, None), (WAVE, "DE"), (MEAN, None)])
def test_every_bigquery_row_fits_the_schema(collection, group, reports):
    values = row(make_snapshot(collection, group, reports))
    check_row(values, table_schema()["fields"])
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_statistics_that_a_mechanism_lacks_are_null_or_an_empty_array():
    values = row(make_snapshot(MEAN))
    assert values["probabilities"] == values["quantiles"] == values["cdf_points"] == []
    assert values["variance"] is None
    assert values["group"] is None
    assert len(row(make_snapshot(WAVE))["quantiles"]) == 19


def test_numbers_and_times_of_a_bigquery_row_are_unchanged():
    original = make_snapshot(WAVE, "DE", generation=3)
    values = row(original)
    assert values["mean"] == original.mean
    assert values["probabilities"] == original.probabilities.tolist()
    assert values["quantiles"][9] == vars(original.quantiles[9])
    assert (values["generation"], values["reports"], values["group"]) == (3, 1000, "DE")
    assert values["window_start"] == "2026-01-01T00:00:00.000+00:00"
    early = row(make_snapshot(WAVE, start=-62_135_596_800_000 + 7))
    assert early["window_start"] == "0001-01-01T00:00:00.007+00:00"


def test_numbers_that_json_lacks_become_the_words_that_bigquery_reads():
    original = replace(make_snapshot(WAVE), mean=math.nan, mean_low=-math.inf, probabilities=np.array([math.inf, 0.5]))
    values = row(original)
    assert (values["mean"], values["mean_low"], values["probabilities"]) == ("NaN", "-Infinity", ["Infinity", 0.5])
    check_row(values, table_schema()["fields"])
    json.dumps(values, allow_nan=False)


def test_every_column_comes_from_the_avro_schema():
    columns = {column["name"]: column for column in table_schema()["fields"]}
    assert list(columns) == [field["name"] for field in SNAPSHOT.parsed["fields"]]
    times = {name for name, column in columns.items() if column["type"] == "TIMESTAMP"}
    assert times == {"window_start", "window_end", "first_event", "last_event"}
    assert columns["group"]["mode"] == "NULLABLE"
    assert columns["reports"] == {"name": "reports", "mode": "REQUIRED", "description": "", "type": "INTEGER"}
    assert columns["quantiles"]["mode"] == "REPEATED"
    assert [subfield["name"] for subfield in columns["quantiles"]["fields"]] == ["share", "value", "low", "high"]
    assert set(CLUSTERED_BY) <= set(columns)
    assert client.Table(clustering={"fields": CLUSTERED_BY}).clustering.fields == CLUSTERED_BY


def test_a_row_that_is_refused_for_good_raises():
    errors = [{"reason": "invalid", "message": "no such field: fit."}]
    with pytest.raises(BigQueryError, match=r"p:d\.t refuses a snapshot of commute.*no such field") as error:
        refused(("p:d.t", row(make_snapshot(WAVE)), errors))
    assert "\n" not in str(error.value)
