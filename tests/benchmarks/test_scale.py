"""The benchmark of a whole machine in small: it counts every report, whatever the number of workers."""

import re

import numpy as np
import pytest

from benchmarks import scale
from benchmarks.batch import YAML
from benchmarks.stages import Stages, time_native_alone
from hushgram import load_collections
from hushgram.transforms.sources.avro_files import fingerprint
from tests.helpers.streams import read_tallies


@pytest.fixture
def collections(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text(YAML)
    return path


def test_the_steps_count_what_native_code_alone_counts(collections, tmp_path):
    [collection] = load_collections(collections).values()
    scale.write_single(tmp_path / "single", collection, 25_000)
    paths = sorted((tmp_path / "single").glob("*.avro"))
    stages = Stages([collection], paths)
    _, counts = time_native_alone(paths, collection.mechanism.cells)
    assert stages.reports == counts.sum() == 25_000
    assert np.array_equal(stages.counts, counts)
    assert {"inflate", "decode", "judge", "pack by shard", "spill", "unpack", "first of each id", "keep ids"} < set(
        stages.seconds
    )
    shares = stages.shares(2 * stages.total / stages.reports)
    assert shares["Beam and the start"] == pytest.approx(0.5)
    assert sum(shares.values()) == pytest.approx(1)


def test_copies_are_read_as_files_of_their_own(collections, tmp_path):
    [collection] = load_collections(collections).values()
    scale.write_many_packed(tmp_path / "packed", collection, 20_000)
    scale.copy_often(tmp_path / "packed" / "000.avro", tmp_path / "packed", 2)
    paths = sorted((tmp_path / "packed").glob("*.avro"))
    assert len({fingerprint(str(path)) for path in paths}) == len(paths) == 3
    assert Stages([collection], paths).reports == 60_000


@pytest.mark.slow
def test_one_worker_and_two_of_either_kind_count_the_same(collections, tmp_path, capsys):
    [collection] = load_collections(collections).values()
    scale.write_single(tmp_path / "single", collection, 5000)
    runs = scale.measure(collections, tmp_path / "single", 2)
    lines = [scale.line(name, result, 5000, runs["one"]) for name, result in runs.items()]
    names = [re.match(r"\| ([\w ]+) \| [\d.]+ M/s \| [\d.]+× \| [\d,]+ MB \|", line)[1] for line in lines]
    assert names == ["one", "2 threads", "2 processes"]
    one, *two = (read_tallies(tmp_path / "single" / f"results-{number}") for number in range(3))
    assert two == [one, one]
    assert one
