"""Arguments of transforms: a mistake ends in a line that says what is allowed, when the pipeline is constructed."""

import re
from datetime import UTC, datetime
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

import hushgram.beam as hg
from hushgram import Collection, CollectionError
from hushgram.transforms.collection_index import CollectionIndex

COMMUTE = Collection(name="commute", low=0, high=180, epsilon=1)
AGE = Collection(name="age", low=0, high=127, epsilon=1)


def names(collections):
    return [one.name for one in hg.AggregateReports(collections).index.collections]


def test_collections_come_alone_together_by_name_or_from_a_file(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text("collections: {commute: {domain: {low: 0, high: 180}, epsilon: 1}}")
    assert names(COMMUTE) == names(path) == names(str(path)) == ["commute"]
    assert names([COMMUTE, AGE]) == names(iter([COMMUTE, AGE])) == names({"commute": COMMUTE, "age": AGE})


ALLOWED = "allowed: a Collection, several of them in a list, or the path of a YAML file"


@pytest.mark.parametrize(
    ("collections", "line"),
    [
        ([], "collections: got none, allowed: at least one"),
        ({}, "collections: got none, allowed: at least one"),
        (7, f"collections: got 7, {ALLOWED}"),
        (None, f"collections: got None, {ALLOWED}"),
        (b"collections.yaml", f"collections: got b'collections.yaml', {ALLOWED}"),
        (["commute", "age"], "collections[0]: got 'commute', allowed: a Collection"),
        ([COMMUTE, None], "collections[1]: got None, allowed: a Collection"),
        ({"commute": "commute.yaml"}, "collections['commute']: got 'commute.yaml', allowed: a Collection"),
        ([COMMUTE, AGE, COMMUTE], "collections: got 'commute' twice, allowed: each name only once"),
    ],
)
def test_collections_that_are_none_are_refused(collections, line):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(line)}$"):
        hg.AggregateReports(collections)


def test_a_file_of_collections_that_cannot_be_used_is_named(tmp_path):
    path = tmp_path / "collections.yaml"
    with pytest.raises(OSError, match=rf"^{path}: cannot be read: .*No such file"):
        hg.AggregateReports(path)
    path.write_bytes(b"\xff")
    with pytest.raises(OSError, match=rf"^{path}: cannot be read: .*utf-8"):
        hg.AggregateReports(str(path))
    path.write_text("collections: {commute: {domain: {low: 0, high: 180}}}")
    with pytest.raises(CollectionError, match=rf"^{path}: collection 'commute': epsilon: missing"):
        hg.AggregateReports(path)


def test_an_index_takes_each_name_once():
    other = Collection(name="commute", low=0, high=90, epsilon=1)
    with pytest.raises(ValueError, match="collections: got 'commute' twice, allowed: each name only once"):
        CollectionIndex.of([COMMUTE, other])


MILLISECONDS = "allowed: milliseconds since 1970, such as 1767225600000 for 2026-01-01 00:00 UTC"
GENERATION = "allowed: a whole number from 0 to 2147483647"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("as_of", "2026-01-01", MILLISECONDS),
        ("as_of", datetime(2026, 1, 1, tzinfo=UTC), MILLISECONDS),
        ("as_of", 1_767_225_600, MILLISECONDS),  # of seconds, as time.time() has them
        ("as_of", 1_767_225_600.5, MILLISECONDS),
        ("as_of", 1_767_225_600_000_000, MILLISECONDS),
        ("as_of", True, MILLISECONDS),
        ("generation", -1, GENERATION),
        ("generation", 1.5, GENERATION),
        ("generation", True, GENERATION),
        ("generation", 2**31, GENERATION),
        ("fanout", -1, GENERATION),
        ("fanout", "4", GENERATION),
    ],
)
def test_numbers_that_are_none_are_refused(name, value, allowed):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: got .*, {re.escape(allowed)}$"):
        hg.AggregateReports(COMMUTE, **{name: value})


def test_numbers_of_numpy_are_taken():
    made = hg.AggregateReports(COMMUTE, as_of=np.int64(1_767_225_600_000), generation=np.uint8(3))
    assert (made.as_of, made.generation, type(made.as_of), type(made.generation)) == (1_767_225_600_000, 3, int, int)


def test_a_pipeline_is_no_input():
    line = r"^AggregateReports: got PBegin, allowed: a PCollection of reports, such as what pipeline \| ReadReports"
    with pytest.raises(TypeError, match=line):
        beam.Pipeline() | hg.AggregateReports(COMMUTE)


PATHS = {
    "ReadReports": "pattern",
    "WatchReports": "directory",
    "WriteSnapshots": "path",
    "WriteHistograms": "path",
    "WriteDeadLetters": "path",
    "ExposeToPrometheus": "path",
}


@pytest.mark.parametrize("transform", PATHS)
def test_a_path_that_has_lost_a_slash_of_its_address_is_refused(transform):
    line = f"^{PATHS[transform]}: got PosixPath\\('gs:/bucket/x'\\), allowed: an address with :// as text$"
    with pytest.raises(ValueError, match=line):
        getattr(hg, transform)(Path("gs://bucket/x"))
    with pytest.raises(TypeError, match=f"^{PATHS[transform]}: got 7, allowed: a path"):
        getattr(hg, transform)(7)
