"""Timers of a savepoint are found by ids of transforms, which do not depend on other collections."""

import argparse

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as api

from hushgram.pipelines import stream
from hushgram.pipelines.runners import FLINK
from hushgram.pipelines.stable_ids import NamedIds

COMMUTE = "  commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1, windows: {size: 1h, max_delay: 1m}}\n"
AGE = "  age: {domain: {low: 0, high: 63}, buckets: 64, epsilon: 1, windows: {size: 2h, every: 1h, max_delay: 1m}}\n"

WALK = (
    "  walk: {domain: {low: 0, high: 9}, buckets: 64, epsilon: 1, estimator: log_spline, "
    "windows: {size: 3h, max_delay: 1m}}\n"
)


@pytest.fixture
def translate_stream(tmp_path):
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


def _find_timers(transforms):
    """Ids of the transforms that have a timer, by their names."""
    timers = {}
    for identity, transform in transforms.items():
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload = api.ParDoPayload.FromString(transform.spec.payload)
            if payload.timer_family_specs:
                timers[transform.unique_name] = identity
    return timers


def test_timers_keep_their_transform_ids_when_collections_are_added(translate_stream):
    alone, first, last = translate_stream(COMMUTE), translate_stream(AGE, COMMUTE), translate_stream(COMMUTE, AGE)
    assert len(_find_timers(alone)) == 2
    assert _find_timers(alone).items() <= _find_timers(first).items()
    assert _find_timers(first) == _find_timers(last)


def test_warm_starts_have_a_timer_in_the_windows_of_their_collection_alone(translate_stream):
    alone, together = translate_stream(COMMUTE), translate_stream(COMMUTE, WALK)
    assert _find_timers(alone).items() <= _find_timers(together).items()
    more = [name for name in _find_timers(together) if name not in _find_timers(alone)]
    assert sorted(name.rpartition("/")[2] for name in more) == ["Accumulate", "Estimate"]
    assert all("windows of 3h" in name for name in more)


def test_every_transform_has_an_id_of_its_own(translate_stream):
    transforms = translate_stream(COMMUTE, AGE)
    assert len({transform.unique_name for transform in transforms.values()}) == len(transforms)
