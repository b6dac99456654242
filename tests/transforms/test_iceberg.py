"""The Iceberg sink on a catalogue in a file: the best pane of each window, whatever order, repetition or rival."""

from dataclasses import replace
from itertools import count

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import CommitFailedException, ForbiddenError
from pyiceberg.types import ListType

from hushgram.pipelines.results import best
from hushgram.schemas.avro_schemas import SNAPSHOT
from hushgram.schemas.field_types import fields_of
from hushgram.transforms.sinks import iceberg
from hushgram.transforms.sinks.iceberg import UpsertIntoIceberg, is_transient, write_all
from hushgram.transforms.sinks.iceberg_tables import (
    KEY,
    IcebergError,
    TableName,
    open_catalog,
    prepare_table,
)
from hushgram.transforms.sinks.patience import OUTAGES
from tests.helpers.lake_laws import *  # noqa: F403 - laws that hold on every catalogue
from tests.helpers.lakes import NAME, load_table, read_table, sqlite_settings, to_records
from tests.helpers.reports import HOUR, START
from tests.helpers.tables import HOSTILE, MEAN, WAVE, make_snapshot

DAY = 24 * HOUR
numbers = count()


@pytest.fixture(autouse=True)
def lake(tmp_path, monkeypatch):
    for name, value in sqlite_settings(tmp_path).items():
        monkeypatch.setenv(name, value)


def write(*snapshots, name=NAME):
    return write_all(name, 5, snapshots)


# Laws ----------------------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_schema():
    prepare_table(NAME)
    table = load_table()
    columns = {column.name: column for column in table.schema().fields}
    assert list(columns) == [field.name for field in fields_of(SNAPSHOT)]
    for field in fields_of(SNAPSHOT):
        assert columns[field.name].required == (field.name == KEY or not field.type.nullable)
        assert (columns[field.name].doc or "") == field.doc
    assert isinstance(columns["quantiles"].field_type, ListType)
    assert columns["quantiles"].field_type.element_required
    assert table.schema().identifier_field_names() == {KEY}
    [partition] = table.spec().fields
    assert (str(partition.transform), partition.source_id) == ("day", columns["window_start"].field_id)


def test_what_is_written_is_read_again():
    """Also numbers that are not finite, the earliest time, and labels of every kind."""
    infinite = make_snapshot(reports=7)
    infinite = replace(
        infinite, mean=np.inf, variance=-np.inf, quantiles=(replace(infinite.quantiles[0], low=-np.inf),)
    )
    others = [make_snapshot(MEAN, start=-62_135_596_800_000), make_snapshot(reports=0, start=START + DAY)]
    snapshots = [infinite, *others, *(make_snapshot(group=label) for label in HOSTILE)]
    prepare_table(NAME)
    assert write(*snapshots) == len(snapshots)
    assert read_table() == to_records(snapshots)


panes = st.builds(
    make_snapshot,
    st.sampled_from([WAVE, MEAN]),
    st.sampled_from([None, "", HOSTILE[0]]),
    st.integers(0, 3),
    st.sampled_from([START, START + HOUR, START + DAY]),
    st.integers(0, 1),
    st.integers(0, 2),
)


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(panes, min_size=1, max_size=5), min_size=1, max_size=3), st.booleans(), st.sampled_from([0, 16])
)
def test_any_order_and_repetition_of_panes_ends_with_the_best_of_each(monkeypatch, bundles, again, many_files):
    monkeypatch.setattr(iceberg, "MANY_FILES", many_files)
    name = TableName("lake", ("results",), f"t{next(numbers)}")
    # The mean of each pane is its number, which shows which one of two panes of equal rank stayed.
    numbered = [[replace(pane, mean=i + j / 10) for j, pane in enumerate(bundle)] for i, bundle in enumerate(bundles)]
    numbered += numbered[: 2 * again]
    prepare_table(name)
    for index, bundle in enumerate(numbered):
        before = {pane.key: pane.rank for pane in best(pane for earlier in numbered[:index] for pane in earlier)}
        improved = {pane.key for pane in bundle if pane.key not in before or pane.rank > before[pane.key]}
        assert write(*bundle, name=name) == len(improved)
    assert read_table(name) == to_records(best(pane for bundle in numbered for pane in bundle))


# Behaviour -----------------------------------------------------------------------------------------------------------


def commits(name=NAME):
    """Every commit writes the metadata once."""
    return len(load_table(name).metadata.metadata_log)


def test_bounded_snapshots_are_one_commit_and_a_replay_is_none():
    snapshots = [make_snapshot(start=START + hour * HOUR) for hour in range(0, 72, 7)]
    for expected in (1, 1):
        with Pipeline() as pipeline:
            pipeline | beam.Create(snapshots) | UpsertIntoIceberg(str(NAME))
        assert commits() == expected
    assert read_table() == to_records(snapshots)


def test_a_streams_panes_are_collected_for_some_seconds_or_up_to_a_number(monkeypatch):
    monkeypatch.setattr(iceberg, "AT_ONCE_STREAM", 5)
    panes = [make_snapshot(reports=n, index=n, timing="early") for n in range(1, 13)]
    stream = Stream().add_elements(panes[:3])
    stream.advance_processing_time(iceberg.LONGEST_PAUSE + 1)
    for pane in panes[3:]:
        stream.add_elements([pane])
    stream.advance_watermark_to_infinity()
    options = beam.options.pipeline_options.PipelineOptions(["--streaming"])
    with Pipeline(options=options) as pipeline:
        pipeline | stream.with_output_types(type(panes[0])) | UpsertIntoIceberg(str(NAME))
    assert read_table() == to_records(panes[-1:])
    assert 2 <= commits() <= 5


def test_a_day_of_many_files_becomes_one(monkeypatch):
    monkeypatch.setattr(iceberg, "MANY_FILES", 3)
    prepare_table(NAME)
    write(make_snapshot(start=START + DAY))
    snapshots = [make_snapshot(start=START + hour * HOUR) for hour in range(6)]
    files = []
    for snapshot in snapshots:
        write(snapshot)
        files.append(len(list(load_table().scan().plan_files())))
    assert files == [2, 3, 4, 5, 2, 3], "one of them is of the other day"
    assert read_table() == to_records([*snapshots, make_snapshot(start=START + DAY)])


@pytest.mark.parametrize("limit", ["FOLDED_BYTES", "FOLDED_DAYS"])
def test_what_is_too_large_for_memory_is_left_to_others(monkeypatch, limit):
    monkeypatch.setattr(iceberg, "MANY_FILES", 1)
    monkeypatch.setattr(iceberg, limit, 0)
    prepare_table(NAME)
    for hour in range(4):
        write(make_snapshot(start=START + hour * HOUR))
    assert len(list(load_table().scan().plan_files())) == 4


# Faults --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "lake", "lake/", "lake/t", "/a.t", "lake/.t", "lake/a.", "lake/a..t", "l/a/b.t", "l/a\n.t"]
)
def test_a_name_that_cannot_be_is_refused(text):
    with pytest.raises(ValueError, match=r"allowed: CATALOG/NAMESPACE\.TABLE"):
        UpsertIntoIceberg(text)


def test_conflicts_and_outages_pass_and_refusals_do_not():
    assert all(is_transient(error) for error in (CommitFailedException(), ConnectionError(), TimeoutError()))
    assert not any(is_transient(error) for error in (ForbiddenError(), ValueError(), AssertionError()))


def test_a_table_that_stays_away_is_one_line_when_patience_is_over():
    prepare_table(NAME)
    open_catalog(NAME.catalog).drop_table(NAME.identifier)
    with pytest.raises(IcebergError) as raised:
        write_all(NAME, 0, [make_snapshot()])
    reason = "not there after 0ms (--sink-patience): Table does not exist: results.snapshots"
    assert str(raised.value) == f"--sink iceberg:lake/results.snapshots: {reason}"
    OUTAGES.end(f"iceberg:{NAME}")
