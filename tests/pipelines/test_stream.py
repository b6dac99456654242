"""`hushgram stream` before anything runs: engines and their options, mistakes that end at once, what translates."""

import argparse

import pytest

from hushgram.pipelines import stream
from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.runners import DATAFLOW, FLINK, PRISM, for_stream

YAML = """
collections:
  commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1, groups: [DE, FR], windows: {size: 1h, max_delay: 1m}}
  age: {domain: {low: 0, high: 63}, buckets: 64, epsilon: 1, windows: {size: 2h, every: 1h, max_delay: 5m, early: null}}
"""


@pytest.fixture
def collections(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text(YAML)
    return str(path)


def test_what_flink_needs_for_exact_counts_is_set():
    engine, options = for_stream(["--runner=FlinkRunner", "--parallelism", "4"])
    assert engine is FLINK
    assert "--finish_bundle_before_checkpointing" in options
    assert "--checkpointing_interval=5000" in options
    assert "--streaming" in options
    assert options[:3] == ["--runner=FlinkRunner", "--parallelism", "4"]


def test_what_a_person_says_stays():
    _, options = for_stream(["--runner", "PortableRunner", "--checkpointing_interval", "20000", "--streaming"])
    assert not [option for option in options if option.startswith("--checkpointing_interval=")]
    assert options.count("--streaming") == 1
    assert for_stream([])[0] is PRISM


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["--runner=DirectRunner"], "PrismRunner for one machine"),
        (["--runner=FnApiRunner"], "cannot run a stream"),
        (["--runner=apache_beam.runners.direct.DirectRunner"], "cannot run a stream"),
        (["--runner=FlinkRunner", "--finish_bundle_before_checkpointing=false"], "exact"),
        (["--runner=FlinkRunner", "--checkpointing_mode", "AT_LEAST_ONCE"], "EXACTLY_ONCE"),
        (["--runner=FlinkRunner", "--checkpointing_interval=-1"], "milliseconds"),
        (["--runner=FlinkRunner", "--shutdown_sources_after_idle_ms=1"], "sources would end"),
    ],
)
def test_what_would_cost_exactness_is_refused(collections, tmp_path, capsys, given, word):
    with pytest.raises(UsageError, match=word):
        for_stream(given)
    arguments = ["--collections", collections, "--watch", str(tmp_path), "--output", str(tmp_path / "o")]
    assert command.main(["stream", *arguments, *given]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert word in line
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["--watch", "/no/such"], "no such directory"),
        (["--watch", "gs://bucket/*"], "none of"),
        (["--watch", ".", "--topic", "t"], "--topic: only with --kafka"),
        (["--kafka", "localhost:1"], "--topic: missing"),
        (["--watch", ".", "--generation", "-1"], "zero or more"),
        (["--pubsub", "projects/some-project/subscriptions/s"], "not with Prism"),
        (["--pubsub", "s", "--runner=DataflowRunner"], "got 's', allowed"),
        (["--kafka", "localhost:1", "--topic", "t", "--kafka-properties", "/no/such"], "cannot be read"),
    ],
)
def test_mistakes_end_at_once_with_a_line(collections, capsys, given, word):
    assert command.main(["stream", "--collections", collections, "--output", "never", *given]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert word in line


def test_the_watermark_waits_for_the_most_patient_collection(collections, tmp_path):
    assert job(collections, "--watch", str(tmp_path)).source.max_delay_ms == 300_000


def job(collections, *given):
    parser = argparse.ArgumentParser()
    stream.add_arguments(parser)
    options = parser.parse_args(["--collections", collections, "--output", "gs://bucket/results", *given])
    return stream.job_of(options, DATAFLOW)
