"""What a savepoint's timers are found by: ids of transforms that do not depend on what else there is."""

import argparse

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as api

from hushgram.pipelines import stream
from hushgram.pipelines.runners import FLINK
from hushgram.pipelines.stable_ids import NamedIds

COMMUTE = "  commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1, windows: {size: 1h, max_delay: 1m}}\n"
AGE = "  age: {domain: {low: 0, high: 63}, buckets: 64, epsilon: 1, windows: {size: 2h, every: 1h, max_delay: 1m}}\n"


@pytest.fixture
def translated(tmp_path):
    """A stream's transforms by id, for a file of these collections."""

    def translate(*collections):
        (tmp_path / "collections.yaml").write_text("collections:\n" + "".join(collections))
        parser = argparse.ArgumentParser()
        stream.add_arguments(parser)
        arguments = ["--collections", str(tmp_path / "collections.yaml"), "--watch", str(tmp_path), "--output", "out"]
        pipeline = beam.Pipeline()
        pipeline.component_id_map = NamedIds()
        stream.build(pipeline, stream.job_of(parser.parse_args(arguments), FLINK))
        return pipeline.to_runner_api().components.transforms

    return translate


def _timers(transforms):
    """Ids of the transforms that have a timer, by their names."""
    found = {}
    for identity, transform in transforms.items():
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload = api.ParDoPayload.FromString(transform.spec.payload)
            if payload.timer_family_specs:
                found[transform.unique_name] = identity
    return found


def test_timers_keep_their_transforms_whatever_comes_in_front(translated):
    alone, first, last = translated(COMMUTE), translated(AGE, COMMUTE), translated(COMMUTE, AGE)
    assert len(_timers(alone)) == 2
    assert _timers(alone).items() <= _timers(first).items()
    assert _timers(first) == _timers(last)


def test_every_transform_has_an_id_of_its_own(translated):
    transforms = translated(COMMUTE, AGE)
    assert len({transform.unique_name for transform in transforms.values()}) == len(transforms)
