"""The bytes of checkpoints and savepoints of earlier versions are read by this version.

Version 2 adds events, heavy ends and warm starts, version 3 how far snapshots can be trusted, version 4 keys as text
and distributions for Prometheus; everything else is written as before. A line that has to change here locks running
jobs out: give the new form a version of its own, and keep reading the old.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from apache_beam.coders import BytesCoder, typecoders
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from hushgram import Windows
from hushgram.estimators.log_spline.model import Hyperparameters
from hushgram.estimators.log_spline.warm_start import WarmStart
from hushgram.schemas.records import DeadLetter, Events, Histogram, Key, Pane, Quantile, Series, Snapshot
from hushgram.transforms.coders import DeadLetterCoder, HistogramCoder, KeyCoder, SeriesCoder, SnapshotCoder
from hushgram.transforms.deduplication import DeduplicateStream
from hushgram.transforms.estimation import EstimateStream
from hushgram.transforms.seen_ids import SeenIds
from hushgram.transforms.sinks.latest import Board
from hushgram.transforms.sinks.prometheus import KeepBoard
from hushgram.transforms.sources.directory_state import Directory
from hushgram.transforms.sources.kafka_positions import Partitions
from hushgram.transforms.sources.splittable import Watermarks
from hushgram.transforms.tallies import CombineTallies, Tallies
from hushgram.transforms.windowing import AccumulatePanes, PaneOfWindow

FOLDER = Path(__file__).parent / "golden"
GOLDEN = json.loads((FOLDER / "checkpoint-1.json").read_text())
GOLDEN_2 = json.loads((FOLDER / "checkpoint-2.json").read_text())
GOLDEN_3 = json.loads((FOLDER / "checkpoint-3.json").read_text())
GOLDEN_4 = json.loads((FOLDER / "checkpoint-4.json").read_text())

KEY = Key("commute", "DE", 1_767_225_600_000, 1_767_229_200_000)
PANE = Pane(generation=2, index=3, timing="late")
FIRST, SECOND = "bee7fcbcb7cce993", "0123456789abcdef"
SPARSE = np.zeros(100, dtype=np.int64)
SPARSE[42] = 300
TALLIES = {
    "no reports": Tallies(),
    "a dense tally": Tallies({FIRST: (6, np.array([0, 1, 2, 3, 0]))}),
    "a sparse tally": Tallies({FIRST: (300, SPARSE)}),
    "two revisions, large counts": Tallies({FIRST: (2**40, np.array([2**40, 0])), SECOND: (3, np.array([1, 2]))}),
}
SNAPSHOT = Snapshot(
    key=KEY, pane=PANE, status="ok", reports=6, revisions=(FIRST,), low=0.0, high=180.0, scale="linear", integer=False,
    unit="minutes", probabilities=np.array([0.25, 0.75]), mean=112.5, mean_low=100.0, mean_high=125.0, variance=2.0,
    variance_low=1.0, variance_high=3.0, quantiles=(Quantile(0.5, 120.0, 110.0, 130.0),),
    cdf_points=np.array([90.0]), cdf_low=np.array([0.2]), cdf_high=np.array([0.3]), iterations=9, converged=True,
    fit=0.5, estimator="ems", software="hushgram 0.1.0",
)  # fmt: skip
HISTOGRAM = Histogram(KEY, PANE, {FIRST: (6, np.array([0, 1, 2, 3, 0]))})
LETTER = DeadLetter("too_old", 3, "by a day", "reports[0]", 17, 1_767_225_600_123, b"\xc3\x01payload")
EVENTS = Events(1_767_225_600_001, 1_767_229_199_999, 5)
WARM_START = WarmStart(bytes(range(8)), 1024, Hyperparameters(4.5, 2.25), (0.5, -1.25, 0.0))
BOARD = Board.merge([Board.of_snapshot(replace(SNAPSHOT, probabilities=None)), Board.of_letter(LETTER)])

VALUES = {
    **{f"accumulator, {name}": (CombineTallies().get_accumulator_coder(), value) for name, value in TALLIES.items()},
    **{f"state of a window, {name}": (AccumulatePanes.TOTAL.coder, value) for name, value in TALLIES.items()},
    "key of partials": (SeriesCoder(), Series("commute", "DE")),
    "key of partials, all groups": (SeriesCoder(), Series("commute", None)),
    "key of a window": (KeyCoder(), KEY),
    "a pane on its way": (
        typecoders.registry.get_coder(convert_to_beam_type(PaneOfWindow)),
        (Key("commute", None, 0, 3_600_000), (3, "late", TALLIES["a dense tally"])),
    ),
    "mark of a shard's ids": (DeduplicateStream.MARK.coder, bytes(range(16))),
    "ids of a shard": (DeduplicateStream.IDS.coder, (1000).to_bytes(8, "little") + bytes(range(32))),
    "where a topic is read from": (
        Partitions().restriction_coder(),
        ("w9FysW8fSmyBZq+BzFmgxQ", ((0, 17, 1_767_225_600_000, 4), (3, 0, -(2**62), -1))),
    ),
    "where a directory is read from": (
        Directory().restriction_coder(), (("inbox/a.avro", "inbox/ü.avro"), "inbox/c.avro", 4096, 1_767_225_600_000),
    ),
    "where a directory is read from, with a file that fails": (
        Directory().restriction_coder(),
        (("inbox/a.avro",), "", 0, 1_767_225_600_000, (("inbox/b.avro", 512, 1_767_225_600_000, 1_767_225_602_000),)),
    ),
    "watermark of a source that has read nothing": (Watermarks().estimator_state_coder(), MIN_TIMESTAMP),
    "watermark of a source": (Watermarks().estimator_state_coder(), Timestamp(micros=1_767_225_600_000_000)),
    "board for Prometheus": (KeepBoard.BOARD.coder, BOARD),
    "a letter": (DeadLetterCoder(), LETTER),
    "a histogram": (HistogramCoder(), HISTOGRAM),
    "a snapshot": (SnapshotCoder(), SNAPSHOT),
}  # fmt: skip
SINCE_2 = {
    "accumulator, with events": (
        CombineTallies().get_accumulator_coder(), Tallies({FIRST: (6, np.array([0, 1, 2, 3, 0]))}, EVENTS),
    ),
    "a histogram": (HistogramCoder(), replace(HISTOGRAM, events=EVENTS)),
    "a histogram without events": (HistogramCoder(), HISTOGRAM),
    "a snapshot": (
        SnapshotCoder(), replace(SNAPSHOT, events=EVENTS, heavy_low_end=0.875, time_zone="Europe/Berlin"),
    ),
    "warm start of a window": (EstimateStream.START.coder, WARM_START.to_bytes()),
}  # fmt: skip
SINCE_3 = {
    "a snapshot": (
        SnapshotCoder(),
        replace(
            SNAPSHOT, density_edges=np.array([0.0, 90.0, 180.0]), density_low=np.array([0.0, 0.5]),
            density_high=np.array([0.25, 1.5]), intervals="smooth", central_epsilon=0.125, lying_bound=0.03125,
            epsilon=1.5, mechanism="square_wave",
        ),
    ),
    "board for Prometheus": (
        KeepBoard.BOARD.coder,
        Board.of_snapshot(replace(SNAPSHOT, probabilities=None, central_epsilon=0.125, lying_bound=0.03125)),
    ),
}  # fmt: skip
SINCE_4 = {
    "a histogram": SINCE_2["a histogram"],
    "a histogram without events": SINCE_2["a histogram without events"],
    "a snapshot": SINCE_3["a snapshot"],
    "board for Prometheus": (KeepBoard.BOARD.coder, Board.of_snapshot(SNAPSHOT)),
}


def to_comparable(value):
    """A value that can be compared, of arrays too."""
    if isinstance(value, Tallies):
        return value.events, {
            revision: (reports, counts.tolist()) for revision, (reports, counts) in value.parts.items()
        }
    if isinstance(value, tuple):
        return tuple(map(to_comparable, value))
    return value.to_avro() if hasattr(value, "to_avro") else value


def test_every_kind_of_state_has_golden_bytes():
    assert set(GOLDEN) == set(VALUES)
    assert set(GOLDEN_2) == set(SINCE_2)
    assert set(GOLDEN_3) == set(SINCE_3)
    assert set(GOLDEN_4) == set(SINCE_4)


@pytest.mark.parametrize("name", GOLDEN)
def test_no_state_is_pickled(name):
    """A pickle names modules and classes, which later versions may move; it begins with these bytes."""
    assert b"\x80\x04\x95" not in bytes.fromhex(GOLDEN[name])
    assert b"\x80\x05\x95" not in bytes.fromhex(GOLDEN[name])


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_of_version_1_are_read(name):
    coder, value = VALUES[name]
    golden = bytes.fromhex(GOLDEN[name])
    assert to_comparable(coder.decode(golden)) == to_comparable(value)
    if name not in SINCE_2 | SINCE_3 | SINCE_4:
        assert coder.encode(value) == golden


@pytest.mark.parametrize("name", GOLDEN_2)
def test_bytes_of_version_2_are_read(name):
    coder, value = SINCE_2[name]
    golden = bytes.fromhex(GOLDEN_2[name])
    assert to_comparable(coder.decode(golden)) == to_comparable(value)
    if name not in SINCE_3 | SINCE_4:
        assert coder.encode(value) == golden


@pytest.mark.parametrize("name", GOLDEN_3)
def test_bytes_of_version_3_are_read(name):
    coder, value = SINCE_3[name]
    golden = bytes.fromhex(GOLDEN_3[name])
    assert to_comparable(coder.decode(golden)) == to_comparable(value)
    if name not in SINCE_4:
        assert coder.encode(value) == golden


@pytest.mark.parametrize("name", GOLDEN_4)
def test_bytes_of_version_4_are_read_and_written(name):
    coder, value = SINCE_4[name]
    golden = bytes.fromhex(GOLDEN_4[name])
    assert to_comparable(coder.decode(golden)) == to_comparable(value)
    assert coder.encode(value) == golden


def test_ids_of_version_1_are_known():
    seen = SeenIds(1000, [BytesCoder().decode(bytes.fromhex(GOLDEN["ids of a shard"]))])
    ids = np.frombuffer(bytes(range(32)) + bytes(16), dtype="<u8").reshape(-1, 2)
    new, _ = seen.add(ids, np.array([1000, 1000, 1000]))
    assert new.tolist() == [False, False, True]


def test_a_warm_start_of_version_2_is_one():
    encoded = EstimateStream.START.coder.decode(bytes.fromhex(GOLDEN_2["warm start of a window"]))
    assert WarmStart.from_bytes(encoded) == WARM_START


def test_state_has_stable_names_that_describe_the_windows():
    """An engine finds state by the names of steps, of states and of timers."""
    assert str(Windows()) == "windows of 1h every 1h, delay 2m, age 1d, early 1m"
    specs = [
        AccumulatePanes.TOTAL,
        AccumulatePanes.EXPIRE,
        DeduplicateStream.MARK,
        DeduplicateStream.IDS,
        DeduplicateStream.FORGET,
        KeepBoard.BOARD,
        EstimateStream.START,
        EstimateStream.FORGET,
    ]
    names = ["total", "ts-expire", "mark", "ids", "ts-forget", "board", "warm_start", "ts-forget"]
    assert [spec.name for spec in specs] == names
