"""AggregateReports in a Beam pipeline: any form of reports in, the same counts out."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

import hushgram.beam as hg
import hushgram.transforms
from hushgram import Collection, Windows
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.container import DamagedError
from hushgram.schemas.messages import FIRST_BATCH, decode_message, encode_message, encode_report
from tests.helpers.reports import DAY, HOUR, START, compute_tallies, encode_avro_file, make_batch_rows, make_report_rows

ROOT = Path(__file__).parents[2]
COMMUTE = Collection(name="commute", low=0, high=180, buckets=16, epsilon=1, groups=("DE", "FR"))
LATER = 4 * HOUR + START
RECORD = {"collection": "commute", "revision": COMMUTE.revision, "cell": 3, "event_time": START}


class Results:
    """The outputs, collected by a runner in this process."""

    snapshots: list = []  # noqa: RUF012
    histograms: list = []  # noqa: RUF012
    dead_letters: list = []  # noqa: RUF012


def collect(results):
    Results.snapshots, Results.histograms, Results.dead_letters = [], [], []
    results.snapshots | "Keep snapshots" >> beam.Map(lambda item: Results.snapshots.append(item))
    results.histograms | "Keep histograms" >> beam.Map(lambda item: Results.histograms.append(item))
    results.dead_letters | "Keep dead letters" >> beam.Map(lambda item: Results.dead_letters.append(item))


def run_aggregate(elements, *between, as_of=LATER):
    """Aggregates bounded elements; returns the tallies by collection, group, window and revision."""
    with Pipeline(runner="BundleBasedDirectRunner") as pipeline:
        reports = pipeline | beam.Create(elements)
        for step in between:
            reports |= step
        collect(reports | hg.AggregateReports([COMMUTE], as_of=as_of))
    return collected_tallies()


def collected_tallies():
    return {
        (item.key.collection, item.key.group, item.key.window_start, revision): counts.tolist()
        for item in Results.histograms
        for revision, (_, counts) in item.tallies.items()
    }


def to_json_dict(row):
    """A row as JSON would hold it: revision and id as hexadecimal text."""
    return {**row, "revision": row["revision"].hex(), "id": row["id"] and row["id"].hex()}


def test_files_messages_and_dicts_are_counted_the_same(tmp_path):
    rows = make_report_rows(COMMUTE, 300, 1, ids=True)
    expected = compute_tallies([COMMUTE], rows)
    assert run_aggregate([encode_message(REPORT, row) for row in rows]) == expected
    assert run_aggregate(rows) == expected
    assert run_aggregate([to_json_dict(row) for row in rows]) == expected
    assert run_aggregate([*rows, *(encode_message(REPORT, row) for row in rows)]) == expected  # ids count once
    assert sum(letter.reports for letter in Results.dead_letters if letter.reason == "duplicate") == len(rows)
    (tmp_path / "reports.avro").write_bytes(encode_avro_file(rows))
    with Pipeline(runner="BundleBasedDirectRunner") as pipeline:
        collect(pipeline | hg.ReadReports(tmp_path / "*.avro") | hg.AggregateReports({"commute": COMMUTE}))
    assert collected_tallies() == expected


def test_batches_are_counted_as_messages_and_as_dicts():
    rows = [{**row, "group": None} for row in make_report_rows(COMMUTE, 70, 2, hours=1)]
    packed = make_batch_rows(COMMUTE, [{**row, "event_time": START} for row in rows])
    expected = compute_tallies([COMMUTE], [{**row, "event_time": START} for row in rows])
    assert run_aggregate([encode_message(REPORT_BATCH, row) for row in packed]) == expected
    assert run_aggregate(packed) == expected


@pytest.mark.parametrize("windows", [FixedWindows(60), Sessions(60), SlidingWindows(60, 60)], ids=type)
def test_input_in_windows_of_its_own_is_aggregated_by_event_time(windows):
    rows = make_report_rows(COMMUTE, 50, 3)
    assert run_aggregate(rows, "Window" >> beam.WindowInto(windows)) == compute_tallies([COMMUTE], rows)


def test_input_in_windows_that_overlap_is_refused_since_it_would_count_several_times():
    sliding = beam.Pipeline() | beam.Create([RECORD]) | "Window" >> beam.WindowInto(SlidingWindows(60, 30))
    with pytest.raises(ValueError, match=r"windows of the input: got SlidingWindows.*allowed: windows that do not ove"):
        sliding | hg.AggregateReports([COMMUTE])


def test_numbers_of_numpy_are_numbers():
    cells = COMMUTE.simulate(np.linspace(0, 180, 30), seed=1)
    assert cells.dtype.kind == "u"
    records = [{**RECORD, "cell": cell, "event_time": np.int64(START)} for cell in cells]
    plain = [to_row({**RECORD, "cell": int(cell)}) for cell in cells]
    assert run_aggregate(records) == compute_tallies([COMMUTE], plain)


def test_bytes_and_texts_of_other_types_are_what_they_hold():
    batch = {**to_row(RECORD), "cells": b"\x01\x02"}
    del batch["cell"]
    message = encode_message(REPORT_BATCH, batch, FIRST_BATCH)
    for kind in (bytearray, memoryview, np.bytes_):
        assert encode_report({**batch, "cells": kind(batch["cells"]), "revision": kind(batch["revision"])}) == message
    assert encode_report({**batch, "collection": np.str_("commute"), "group": None}) == message
    with pytest.raises(DamagedError, match="cells: got a value of type ndarray, allowed: bytes"):
        encode_report({**batch, "cells": np.array([1, 2], dtype=np.uint16)})  # how wide a cell is, it does not say


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float32(3), "3", None, np.uint64(2**63), np.timedelta64(3)])
def test_what_is_no_integer_of_64_bits_is_damage(value):
    with pytest.raises(DamagedError, match=r"cell: got .*, allowed: an integer of 64 bits"):
        encode_report({**RECORD, "cell": value})
    with pytest.raises(DamagedError, match=r"event_time: got .*, allowed: a time with a zone, or milliseconds since"):
        encode_report({**RECORD, "event_time": value})


def test_hot_keys_are_combined_in_parts_with_the_coder_of_keys(caplog):
    rows = make_report_rows(COMMUTE, 300, 6)
    with beam.Pipeline("FnApiRunner") as pipeline:
        collect(pipeline | beam.Create(rows) | hg.AggregateReports([COMMUTE], as_of=LATER, fanout=4))
    assert collected_tallies() == compute_tallies([COMMUTE], rows)
    assert [record.getMessage() for record in caplog.records if "coder" in record.getMessage()] == []


HOSTILE = [
    {},
    {"collection": 3},
    {**RECORD, "cell": 37.5},
    {**RECORD, "cell": True},
    {**RECORD, "cell": 2**63},
    {**RECORD, "revision": "not hexadecimal"},
    {**RECORD, "revision": b"short"},
    {**RECORD, "event_time": datetime(2026, 1, 1)},
    {**RECORD, "group": ["DE"]},
    {**RECORD, "id": b"short"},
    {1: 2},
    "text",
    None,
    7,
]


def test_an_element_that_is_not_a_report_becomes_a_dead_letter_with_a_reason():
    assert run_aggregate([RECORD, *HOSTILE]) == compute_tallies([COMMUTE], [{**to_row(RECORD)}])
    assert [(letter.reason, letter.reports, letter.source) for letter in Results.dead_letters] == [
        ("undecodable", 1, "messages")
    ] * len(HOSTILE)
    details = [letter.detail for letter in Results.dead_letters]
    assert details.count("cell: got a value of type float, allowed: an integer of 64 bits") == 1
    assert not any("37.5" in detail for detail in details), "a value that is not privatised must not be stored"


def test_a_batch_that_is_none_stands_for_an_unknown_number_of_reports():
    batch = {**RECORD, "cells": b"\x00\x01"}
    del batch["cell"]
    run_aggregate([{**batch, "revision": b"short"}, {**batch, "cell": 3}])
    assert [(letter.reason, letter.reports) for letter in Results.dead_letters] == [("undecodable", None)] * 2


def to_row(record):
    return {"group": None, "id": None, **record, "revision": bytes.fromhex(record["revision"])}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=20) | st.datetimes(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=5,
)
FIELDS = ("collection", "revision", "cell", "cells", "event_time", "group", "id", "ids")


@given(st.dictionaries(st.sampled_from(FIELDS) | anything.filter(lambda key: isinstance(key, str | int)), anything))
def test_encoding_any_dict_raises_nothing_but_a_damaged_error(record):
    try:
        message = encode_report(record)
    except DamagedError as error:
        assert "\n" not in str(error)  # noqa: PT017 - one of two allowed outcomes
    else:
        definition, _ = decode_message(message)
        assert definition in (REPORT, REPORT_BATCH)


longs = st.integers(-(2**63), 2**63 - 1)
characters = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.fixed_dictionaries(
        {
            "collection": characters,
            "revision": st.binary(min_size=8, max_size=8),
            "cell": longs,
            "event_time": longs,
            "group": st.none() | characters,
            "id": st.none() | st.binary(min_size=16, max_size=16),
        }
    )
)
def test_a_dict_is_encoded_as_the_same_report(record):
    message = encode_message(REPORT, record)
    assert (
        encode_report(record) == encode_report(to_json_dict(record)) == encode_report({**record, "extra": 1}) == message
    )


def test_text_that_is_not_unicode_is_damage():
    with pytest.raises(DamagedError, match="cannot be encoded: UnicodeEncodeError"):
        encode_report({**RECORD, "collection": "\udcff"})


def test_a_time_with_a_zone_is_its_millisecond():
    event_time = datetime(2026, 1, 1, 0, 0, 0, 7999, tzinfo=UTC)
    assert encode_report({**RECORD, "event_time": event_time}) == encode_report({**RECORD, "event_time": START + 7})


def test_bounded_input_is_received_when_the_pipeline_is_constructed():
    now = time.time_ns() // 1_000_000
    years_ago, tomorrow = {**RECORD, "event_time": 0}, {**RECORD, "event_time": now + DAY}
    run_aggregate([years_ago, {**RECORD, "event_time": now}, tomorrow], as_of=None)
    assert sum(item.reports for item in Results.snapshots if item.key.group is None) == 2
    assert [letter.reason for letter in Results.dead_letters] == ["from_the_future"]


def to_timestamp(milliseconds):
    return Timestamp(micros=1000 * milliseconds)


def test_unbounded_messages_are_received_at_their_timestamp():
    """Any source will do: bytes and dicts, with panes, and too old by the time of receipt."""
    short = Collection(
        name="commute", low=0, high=180, buckets=16, epsilon=1, windows=Windows(max_age=HOUR, max_delay=0)
    )
    record = {**RECORD, "revision": short.revision}
    elements = [
        TimestampedValue(encode_report(record), to_timestamp(START + 1000)),
        TimestampedValue(record, to_timestamp(START + 2000)),
        TimestampedValue({"collection": 3}, to_timestamp(START + 3000)),
        TimestampedValue(record, to_timestamp(START + HOUR + 1)),
    ]
    stream = Stream().advance_watermark_to(to_timestamp(START)).add_elements(elements).advance_watermark_to_infinity()
    with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as pipeline:
        collect(pipeline | stream | hg.AggregateReports([short]))
    assert max(item.reports for item in Results.snapshots) == 2
    refused = {(letter.reason, letter.received_at) for letter in Results.dead_letters}
    assert refused == {("undecodable", START + 3000), ("too_old", START + HOUR + 1)}


def test_beam_sees_the_outputs_by_name():
    pipeline = beam.Pipeline()
    results = pipeline | beam.Create([RECORD]) | "Aggregate" >> hg.AggregateReports([COMMUTE])
    assert isinstance(results, hg.AggregatedReports)
    transforms = pipeline.to_runner_api().components.transforms.values()
    [composite] = [transform for transform in transforms if transform.unique_name == "Aggregate"]
    assert set(composite.outputs) == {"snapshots", "histograms", "dead_letters"}


def test_aggregate_reports_takes_collections_from_a_file(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text("collections: {commute: {domain: {low: 0, high: 180}, epsilon: 1}}")
    assert [item.name for item in hg.AggregateReports(str(path)).index.collections] == ["commute"]
    with pytest.raises(OSError, match="No such file"):
        hg.AggregateReports(str(tmp_path / "none.yaml"))


def test_results_are_written_and_the_best_of_each_window_is_read_back(tmp_path):
    results = tmp_path / "results"
    for count in (20, 50, 30):  # the last has fewer reports, and replaces nothing
        with Pipeline(runner="BundleBasedDirectRunner") as pipeline:
            rows = make_report_rows(COMMUTE, count, 4, hours=1)
            outputs = pipeline | beam.Create([*rows, {}]) | hg.AggregateReports([COMMUTE], as_of=LATER)
            outputs.snapshots | "Snapshots" >> hg.WriteSnapshots(results)
            outputs.histograms | "Histograms" >> hg.WriteHistograms(results, format="parquet")
            outputs.dead_letters | "Dead letters" >> hg.WriteDeadLetters(results, format="jsonl")
    by_group = {item.key.group: item.reports for item in hg.read_snapshots(results)}
    assert by_group[None] == 50 == sum(1 for _ in make_report_rows(COMMUTE, 50, 4, hours=1))
    assert {item.key.group: item.reports for item in hg.read_histograms(results)} == by_group
    assert [item.reports for item in hg.read_snapshots(f"{results}/snapshots")] == list(by_group.values())
    assert len(list((tmp_path / "results" / "dead_letters").glob("undecodable*.jsonl"))) == 1


def test_results_that_cannot_be_read_are_named_with_a_reason(tmp_path):
    with pytest.raises(hg.ResultsError, match=r"^\S+: no snapshots there"):
        hg.read_snapshots(str(tmp_path))
    folder = tmp_path / "snapshots" / "commute"
    folder.mkdir(parents=True)
    (folder / "damaged.avro").write_bytes(b"Obj\x01")
    with pytest.raises(hg.ResultsError, match=r"damaged\.avro: cannot be read: the file ends in the middle"):
        hg.read_snapshots(str(tmp_path))
    with (folder / "damaged.avro").open("wb") as file:
        fastavro.writer(file, REPORT.parsed, make_report_rows(COMMUTE, 1, 1))
    with pytest.raises(hg.ResultsError, match=r"damaged\.avro: a record without status, allowed: snapshots"):
        hg.read_snapshots(str(tmp_path))


def test_every_transform_declares_its_input_and_output_types():
    transforms = Counter()
    for module in pkgutil.walk_packages(hushgram.transforms.__path__, "hushgram.transforms."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, beam.PTransform) and kind.__module__ == module.name:
                [base] = [base for base in kind.__orig_bases__ if hasattr(base, "__args__")] or [None]
                transforms[name] += 1
                assert base is None or base.__args__[0] is not Any, f"{module.name}.{name}"
    assert len(transforms) >= 15
    assert set(transforms) >= {
        name for name in hg.__all__ if re.match("(Read|Watch|Write|Upsert|Aggregate)Reports?", name)
    }


def test_every_public_name_is_documented_with_an_example():
    for name in hg.__all__:
        assert ">>> " in inspect.getdoc(getattr(hg, name)), name
    with pytest.raises(AttributeError, match=r"module 'hushgram\.beam' has no attribute 'ReadReport'"):
        hg.ReadReport  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "code", "message"),
    [
        ("apache_beam", "import hushgram.beam", "hushgram.beam needs Apache Beam: pip install 'hushgram[beam]'"),
        ("psycopg", "import hushgram.beam as hg; hg.UpsertIntoPostgreSQL", "pip install 'hushgram[postgresql]'"),
        ("pyiceberg", "import hushgram.beam as hg; hg.UpsertIntoIceberg", "pip install 'hushgram[iceberg]'"),
        ("confluent_kafka", "import hushgram.beam as hg; hg.ReadReportsFromKafka", "pip install 'hushgram[kafka]'"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(hidden, code, message):
    hide = (
        "import importlib.abc, sys\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name.partition('.')[0] == {hidden!r}: raise ModuleNotFoundError(name=name)\n"
        "import importlib.util; real = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *more: None if name == {hidden!r} else real(name, *more)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    completed = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True, check=False)
    assert completed.returncode == 1
    assert message in completed.stderr.splitlines()[-1]


@pytest.mark.slow
def test_what_is_not_installed_is_left_out_of_the_names_and_of_help():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('psycopg', 'pyiceberg', 'confluent_kafka', 'google.cloud')))\n"
        "import inspect, pydoc, hushgram.beam as hg\n"
        "from hushgram.beam import *\n"
        "members = dict(inspect.getmembers(hg))\n"
        "assert set(hg.__all__) <= members.keys() & set(dir(hg)) & globals().keys()\n"
        "assert 'class AggregateReports' in pydoc.plain(pydoc.render_doc(hg))\n"
        "print(*sorted(set(hg._EXTRAS) & set(hg.__all__)))\n"
        "hg.InsertIntoBigQuery"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.stdout == "ExposeToPrometheus\n"
    line = "ImportError: hushgram.beam.InsertIntoBigQuery needs google.cloud.bigquery: pip install 'hushgram[gcp]'"
    assert ended.stderr.splitlines()[-1] == line


def run_python(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=True, timeout=300
    ).stdout


@pytest.mark.slow
def test_the_example_pipeline_runs(tmp_path):
    output = run_python(ROOT / "examples" / "beam_pipeline.py", "--runner=FnApiRunner", cwd=tmp_path)
    # The mean of 1,000 values at ε = 1 has a standard error of about 3 minutes, and the seed is fixed.
    assert re.fullmatch(r"1000 reports, mean (5|6)\d minutes\n", output)


@pytest.mark.slow
def test_the_example_in_beam_yaml_runs(tmp_path):
    rows = make_report_rows(COMMUTE, 40, 5, hours=1)
    (tmp_path / "reports.avro").write_bytes(encode_avro_file([*rows, {**rows[0], "cell": 10**6}]))
    (tmp_path / "collections.yaml").write_text(
        "collections: {commute: {domain: {low: 0, high: 180}, buckets: 16, epsilon: 1, groups: [DE, FR]}}"
    )
    variables = (
        f'{{"reports": "{tmp_path}/*.avro", "collections": "{tmp_path}/collections.yaml", "results": "{tmp_path}/out"}}'
    )
    pipeline = f"--yaml_pipeline_file={ROOT}/examples/beam_yaml/pipeline.yaml"
    run_python(
        "-m", "apache_beam.yaml.main", pipeline, f"--jinja_variables={variables}", "--runner=FnApiRunner", cwd=ROOT
    )
    assert max(item.reports for item in hg.read_snapshots(f"{tmp_path}/out")) == 40
    assert [path.name for path in (tmp_path / "out" / "dead_letters").iterdir()] == ["cell_out_of_range.avro"]
