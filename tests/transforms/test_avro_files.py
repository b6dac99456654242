"""Report files: every block belongs to one range, and damage costs itself alone."""

import errno
import gzip
import io
import itertools
import tracemalloc
from dataclasses import replace
from functools import partial

import apache_beam as beam
import numpy as np
import pytest
import zstandard
from apache_beam.io.filesystems import FileSystems
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.util import assert_that, equal_to

from hushgram import Collection
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.container import Block, DamagedError, inflate, read_header
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.counting import ParseAndTally
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sources.avro_files import (
    BlockRun,
    Damage,
    ReadReportFiles,
    fingerprint,
    ranges,
    read_file,
    read_range,
)
from tests.helpers.reports import encode_avro_file, make_batch_rows, make_report_rows

COLLECTION = Collection(name="commute", low=0, high=180, buckets=16, epsilon=1, groups=["DE", "FR"])
PARSER = Parser(CollectionIndex.of([COLLECTION]), 1_800_000_000_000)
ROWS = make_report_rows(COLLECTION, 400, seed=1)


def read_all(data, name="file", start=0, end=10**9):
    return list(read_file(name, io.BytesIO(data), start, lambda position: position < end))


def count_outcomes(reads):
    """(accepted, refused with a known number, places of unknown number)"""
    accepted = refused = unknown = 0
    for block_run in reads:
        for outcome in PARSER.parse(block_run):
            if isinstance(outcome, DeadLetter):
                refused += outcome.reports or 0
                unknown += outcome.reports is None
            else:
                accepted += outcome.reports
    return accepted, refused, unknown


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_any_cut_into_ranges_reads_every_block_once(codec):
    data = encode_avro_file(ROWS, codec=codec, sync=600)
    whole = [block.offset for run in read_all(data) for block in run.blocks]
    assert len(whole) > 8
    rng = np.random.default_rng(1)
    for _ in range(60):
        cuts = [0, *sorted(rng.integers(1, len(data) + 40, rng.integers(0, 6)).tolist()), len(data)]
        offsets = []
        for start, end in itertools.pairwise(cuts):
            for run in read_all(data, start=start, end=end):
                assert isinstance(run, BlockRun)
                offsets += [block.offset for block in run.blocks]
        assert offsets == whole


def test_the_ranges_of_a_file_read_every_block_once(tmp_path, monkeypatch):
    path = tmp_path / "reports.avro"
    path.write_bytes(encode_avro_file(ROWS[:60], sync=500))
    monkeypatch.setattr("hushgram.transforms.sources.avro_files.RANGE_BYTES", 700)
    parts = list(ranges(str(path), path.stat().st_size))
    assert len(parts) > 1
    offsets = [block.offset for part in parts for run in read_range(*part) for block in run.blocks]
    assert offsets == [block.offset for run in read_all(path.read_bytes()) for block in run.blocks]


def test_blocks_appended_after_the_listing_are_left_for_later(tmp_path):
    path, whole = tmp_path / "reports.avro", encode_avro_file(ROWS, sync=600)
    size = read_all(whole)[0].blocks[3].offset
    path.write_bytes(whole)
    [run] = read_range(str(path), 0, size)
    assert count_outcomes([run])[0] == sum(block.count for block in read_all(whole)[0].blocks[:3])


def test_a_file_keeps_its_fingerprint_when_moved_or_compressed(tmp_path):
    whole = encode_avro_file(ROWS, sync=600)
    cut = read_all(whole)[0].blocks[2].offset
    files = {"a.avro": whole, "moved.avro": whole, "b.avro.gz": gzip.compress(whole), "half.avro": whole[:cut]}
    files |= {"same reports, another file.avro": encode_avro_file(ROWS, sync=600)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    marks = [fingerprint(str(tmp_path / name)) for name in files]
    assert None not in marks
    assert len(set(marks[:4])) == 1
    assert marks[4] != marks[0]
    (tmp_path / "none.avro").write_bytes(b"")
    assert fingerprint(str(tmp_path / "none.avro")) is None


def test_gzip_empty_files_and_mixed_kinds_in_one_run(tmp_path):
    (tmp_path / "a.avro").write_bytes(encode_avro_file(ROWS[:100]))
    (tmp_path / "b.avro.gz").write_bytes(gzip.compress(encode_avro_file(ROWS[100:250], codec="null")))
    (tmp_path / "c.avro").write_bytes(encode_avro_file(make_batch_rows(COLLECTION, ROWS[250:]), REPORT_BATCH, "snappy"))
    (tmp_path / "d.avro").write_bytes(b"")
    files = [(str(path), path.stat().st_size) for path in tmp_path.iterdir()]
    with Pipeline(runner="FnApiRunner") as pipeline:
        counts = pipeline | ReadReportFiles(files) | beam.Map(lambda block_run: count_outcomes([block_run]))
        assert_that(
            counts | beam.CombineGlobally(lambda parts: tuple(np.sum(list(parts), axis=0, initial=0).tolist())),
            equal_to([(400, 0, 1)]),
        )


@pytest.mark.slow
def test_every_flipped_byte_is_accounted_for():
    rows = ROWS[:60]
    data = encode_avro_file(rows, codec="null", sync=400)
    assert count_outcomes(read_all(data)) == (60, 0, 0)
    header = read_header(io.BytesIO(data)).size
    exact = 0
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        try:
            accepted, refused, unknown = count_outcomes(read_all(bytes(damaged)))
        except DamagedError as error:
            raise AssertionError(f"byte {position} raised") from error
        # All is accepted or refused, or a letter says that there is more than could be read.
        assert accepted + refused == 60 or unknown or position < header
        exact += accepted + refused == 60
    assert exact > 0.8 * (len(data) - header)


def test_every_truncation_is_accounted_for():
    """What is whole counts, all of it; if anything follows, a letter says that there is more than could be read."""
    data = encode_avro_file(ROWS[:40], sync=400)
    [whole] = read_all(data)
    starts = [block.offset for block in whole.blocks]
    totals = [0, *itertools.accumulate(block.count for block in whole.blocks)]
    count_until = dict(zip([*starts, len(data)], totals, strict=True))
    assert totals[-1] == 40
    assert len(totals) > 3
    for length in range(1, len(data) + 1):
        expected = max((count for end, count in count_until.items() if end <= length), default=0)
        assert count_outcomes(read_all(data[:length])) == (expected, 0, int(length not in count_until)), length


@pytest.mark.parametrize(
    "data", [b"\x00", b"not an avro file at all", b"Obj\x01", bytes(1000), gzip.compress(b"x")], ids=range(5)
)
def test_a_file_that_is_not_avro_is_one_letter(data):
    [damage] = read_all(data)
    assert isinstance(damage, Damage)
    [letter] = PARSER.parse(damage)
    assert (letter.reason, letter.reports, letter.source) == ("undecodable", None, "file")


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_gzip_file_is_reported_and_does_not_end_the_run(tmp_path, damage):
    data, path = gzip.compress(encode_avro_file(ROWS, codec="null", sync=600)), tmp_path / "a.avro.gz"
    for position in range(1, len(data), len(data) // 40):
        whole = bytearray(data)
        whole[position] ^= 0xFF
        path.write_bytes(whole if damage == "flipped" else data[:position])
        with FileSystems.open(str(path)) as stream:
            accepted, refused, unknown = count_outcomes(read_file("a", stream, 0, lambda _: True))
        assert accepted + refused <= 400
        assert unknown == 1 or accepted + refused == 400


def test_a_failing_disk_is_not_mistaken_for_damage():
    class FailingFile(io.BytesIO):
        def read(self, size=-1):
            raise OSError(errno.EIO, "the disk failed")

    with pytest.raises(OSError, match="the disk failed"):
        list(read_file("file", FailingFile(), 0, lambda _: True))


def test_damage_in_the_middle_costs_itself_alone():
    data = bytearray(encode_avro_file(ROWS, codec="deflate", sync=600))
    blocks = [block for run in read_all(bytes(data)) for block in run.blocks]
    victim = blocks[3]
    data[victim.offset + 10] ^= 0xFF
    accepted, refused, unknown = count_outcomes(read_all(bytes(data)))
    assert (accepted, refused, unknown) == (400 - victim.count, victim.count, 0)


def test_blocks_that_are_large_when_inflated_are_held_one_after_the_other_and_others_count(monkeypatch):
    monkeypatch.setattr("hushgram.transforms.parsing.LARGEST_BLOCK", 1 << 20)
    monkeypatch.setattr("hushgram.transforms.parsing.inflate", partial(inflate, limit=1 << 20))
    compress = zstandard.ZstdCompressor().compress
    [honest] = read_all(encode_avro_file(ROWS, codec="null", sync=1000))
    bomb = Block(1, compress(bytes(1 << 20)), 0)
    packed = [replace(block, data=compress(block.data)) for block in honest.blocks]
    blocks = [block for one in packed for block in (bomb, bomb, one, one)]
    tracemalloc.start()
    try:
        outcome = count_outcomes([replace(honest, codec="zstandard", blocks=tuple(blocks))])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(honest.blocks) > 8
    assert outcome == (2 * len(ROWS), 2 * len(honest.blocks), 0)
    assert most < 8 << 20


@pytest.mark.parametrize("identified", [False, True])
def test_batches_without_cells_wait_in_bounded_number(monkeypatch, identified):
    for bound in ("MAX_BUFFERED_CELLS", "MAX_UNCOUNTED_CELLS"):
        monkeypatch.setattr(f"hushgram.transforms.counting.{bound}", 100)
    rows = [
        {**{name: value for name, value in row.items() if name != "cell"}, "cells": b""}
        for row in make_report_rows(COLLECTION, 400, 3, ids=identified)
    ]
    data = encode_avro_file(rows, REPORT_BATCH)
    stage = ParseAndTally(PARSER)
    stage.start_bundle()
    for _ in range(5):
        for run in read_all(data):
            list(stage.process(run))
            waiting = [*stage.uncounted, *(part for parts in stage.identified.values() for part, _ in parts)]
            assert sum(map(len, waiting)) <= 100
            assert len(waiting) <= 1


def test_foreign_records_are_named():
    import fastavro

    schema = {"type": "record", "name": "Weather", "namespace": "other", "fields": [{"name": "t", "type": "double"}]}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [{"t": 1.0}] * 5)
    [letter] = PARSER.parse(read_all(stream.getvalue())[0])
    assert (letter.reason, letter.reports) == ("unknown_schema", 5)
    assert "other.Weather" in letter.detail
