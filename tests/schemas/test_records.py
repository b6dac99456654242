"""Results as typed values: to Avro and back, readable by the tools people have, and by later versions."""

import io
from dataclasses import replace
from pathlib import Path

import fastavro
import numpy as np
import polars as pl
import pytest

from hushgram.pipelines.results import read_records
from hushgram.schemas.avro_schemas import DEAD_LETTER, HISTOGRAM, SNAPSHOT
from hushgram.schemas.records import (
    PAYLOAD_LIMIT,
    REASONS,
    DeadLetter,
    Events,
    Histogram,
    Key,
    Pane,
    Quantile,
    Snapshot,
)

KEY = Key("commute", "DE", 1_767_225_600_000, 1_767_229_200_000)
TALLIES = {"bee7fcbcb7cce993": (6, np.array([1, 2, 3])), "00" * 8: (0, np.zeros(2, int))}
HISTOGRAM_VALUE = Histogram(KEY, Pane(1, 2, "late"), TALLIES)
FULL = {
    "key": KEY,
    "pane": Pane(),
    "status": "ok",
    "reports": 5000,
    "revisions": ("bee7fcbcb7cce993",),
    "low": 0.0,
    "high": 180.0,
    "scale": "linear",
    "integer": False,
    "unit": "minutes",
    "probabilities": np.array([0.25, 0.75]),
    "mean": 90.0,
    "mean_low": 88.0,
    "mean_high": 92.0,
    "variance": 3.0,
    "variance_low": 2.0,
    "variance_high": 4.0,
    "quantiles": (Quantile(0.5, 91.0, 89.0, 93.0),),
    "cdf_points": np.array([0.0, 180.0]),
    "cdf_low": np.array([0.0, 1.0]),
    "cdf_high": np.array([0.0, 1.0]),
    "iterations": 17,
    "converged": True,
    "fit": 0.4,
    "estimator": "ems",
    "software": "0.1.0",
}
EVENTS = Events(KEY.window_start + 1, KEY.window_end - 1, 4000)
UNKNOWN = dict.fromkeys(("probabilities", "variance", "variance_low", "variance_high", "quantiles", "fit"))
UNKNOWN |= dict.fromkeys(("cdf_points", "cdf_low", "cdf_high"))
LETTER = DeadLetter("too_old", 12, "received 2 days late", "reports-1.avro", 4096, 1_767_225_600_123, b"\x00\xff")


def round_trip(definition, value):
    stream = io.BytesIO()
    fastavro.writer(stream, definition.parsed, [value.to_avro()], codec="deflate")
    stream.seek(0)
    [record] = fastavro.reader(stream)
    return type(value).from_avro(record), stream.getvalue()


def test_histograms_survive_a_round_trip():
    restored, data = round_trip(HISTOGRAM, HISTOGRAM_VALUE)
    assert (restored.key, restored.pane, restored.reports, restored.rank) == (KEY, HISTOGRAM_VALUE.pane, 6, (1, 6, 2))
    assert {r: (n, c.tolist()) for r, (n, c) in restored.tallies.items()} == {
        "bee7fcbcb7cce993": (6, [1, 2, 3]),
        "00" * 8: (0, [0, 0]),
    }
    assert pl.read_avro(io.BytesIO(data))["collection"].to_list() == ["commute"]
    assert restored.events is None
    with_events, _ = round_trip(HISTOGRAM, replace(HISTOGRAM_VALUE, events=EVENTS))
    assert with_events.events == EVENTS


MORE = {"events": EVENTS, "heavy_low_end": 0.97, "heavy_high_end": None, "time_zone": "Europe/Berlin"}
TRUST = {
    "density_edges": np.array([0.0, 90.0, 180.0]),
    "density_low": np.array([0.0, 0.004]),
    "density_high": np.array([0.005, 0.008]),
    "intervals": "smooth",
    "central_epsilon": 0.05,
    "lying_bound": 0.027,
    "epsilon": 1.0,
    "mechanism": "square_wave",
}


@pytest.mark.parametrize(
    "unknown",
    [{}, UNKNOWN, {"fit": None}, MORE, TRUST],
    ids=["all known", "a mean only", "no fit", "version 2", "version 3"],
)
def test_snapshots_survive_a_round_trip(unknown):
    value = Snapshot(**{**FULL, **unknown})
    restored, data = round_trip(SNAPSHOT, value)
    assert restored.to_avro() == value.to_avro()
    assert (restored.key, restored.events, restored.heavy_low_end) == (KEY, value.events, value.heavy_low_end)
    assert restored.time_zone == value.time_zone
    assert restored.rank == (0, 5000, 0)
    frame = pl.read_avro(io.BytesIO(data))
    assert frame["mean"].to_list() == [90.0]
    assert frame["window_start"].dt.epoch("ms").to_list() == [KEY.window_start]


def test_dead_letters_survive_a_round_trip_with_a_bounded_payload():
    restored, _ = round_trip(DEAD_LETTER, LETTER)
    assert restored == LETTER
    long = DeadLetter("undecodable", None, "", "x", None, 0, bytes(10_000))
    assert len(round_trip(DEAD_LETTER, long)[0].payload) == PAYLOAD_LIMIT
    assert "undecodable" in REASONS


GOLDEN = Path(__file__).parent / "golden" / "1"


@pytest.mark.parametrize(
    ("name", "kind", "definition"),
    [("histogram", Histogram, HISTOGRAM), ("snapshot", Snapshot, SNAPSHOT), ("dead_letter", DeadLetter, DEAD_LETTER)],
)
def test_files_of_version_1_are_read(name, kind, definition):
    with (GOLDEN / f"{name}.avro").open("rb") as stream:
        [record] = fastavro.reader(stream, definition.parsed)
    expected = {"histogram": HISTOGRAM_VALUE, "snapshot": Snapshot(**FULL), "dead_letter": LETTER}[name]
    assert kind.from_avro(record).to_avro() == expected.to_avro()
    # And so by readers that take a file as it was written.
    [as_written] = read_records(str(GOLDEN / f"{name}.avro"))
    assert kind.from_avro(as_written).to_avro() == expected.to_avro()
